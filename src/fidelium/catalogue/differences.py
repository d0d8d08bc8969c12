"""What differs between two catalogues, in words."""

from __future__ import annotations

from collections.abc import Sequence

from fidelium.catalogue.catalogue import Catalogue

_SHOWN = 5
"""Names at most in a sentence."""


def catalogue_differences(name: str, old: Catalogue, new: Catalogue) -> list[str]:
    """What differs between two versions of a parameter, a sentence each; nothing if only the order does."""
    before, now = old.table, new.table
    found: list[str] = []
    items = [
        f"{what} {_listed(some)}"
        for what, some in (
            ("added", [item for item in now if item not in before]),
            ("removed", [item for item in before if item not in now]),
        )
        if some
    ]
    if items:
        found.append(f"items of {name}: {' and '.join(items)}")
    if set(old.descriptors) != set(new.descriptors):
        found.append(f"descriptors of {name}: {', '.join(old.descriptors)} -> {', '.join(new.descriptors)}")
    elif changed := [item for item in now if item in before and now[item] != before[item]]:
        found.append(f"descriptors of {name}: changed for {_listed(changed)}")
    if old.logarithmic != new.logarithmic:
        found.append(f"log scale of {name}: {_scales(old)} -> {_scales(new)}")
    return found


def _scales(catalogue: Catalogue) -> str:
    return ", ".join(sorted(catalogue.logarithmic)) or "none"


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(map(repr, names[:_SHOWN]))
    return text if len(names) <= _SHOWN else f"{text} and {len(names) - _SHOWN} more"
