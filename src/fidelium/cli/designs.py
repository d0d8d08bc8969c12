"""Designs as text: from `name=value` on the command line, and from the cells of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fidelium.errors import SettingError, SpaceError
from fidelium.space import Categorical, Integer, Parameter, Params, SearchSpace


def parse_design(space: SearchSpace, texts: Sequence[str]) -> Params:
    """A design from texts like "angle=0.5".

    Raises:
        SettingError: if a text is not like that, or names a parameter twice.
        SpaceError: if the design is not valid.
    """
    cells: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name.strip() in cells:
            raise SettingError(f"a parameter must look like name=value, each name once, got {text!r}")
        cells[name.strip()] = value
    if unknown := [name for name in cells if name not in space.parameters]:
        raise SpaceError(f"unknown parameter {', '.join(map(repr, unknown))}; this space has {list(space.names)}")
    return space.validate({name: parse_value(space.parameters[name], text) for name, text in cells.items()})


def parse_value(parameter: Parameter, text: str) -> Any:
    """The value that a text stands for.

    Raises:
        SpaceError: if it stands for none that the parameter may have.
    """
    if isinstance(parameter, Categorical):
        return _choice(parameter, text)
    try:
        value = float(text)
    except ValueError:
        what = "a whole number" if isinstance(parameter, Integer) else "a number"
        raise SpaceError(f"expected {what}, got {text!r}") from None
    return parameter.validate(value)


def _choice(parameter: Categorical, text: str) -> Any:
    """The choice that prints like this; blanks around it mean nothing unless a choice has them."""
    for candidate in (text, text.strip()):
        alike = [choice for choice in parameter.choices if str(choice) == candidate]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise SpaceError(f"{', '.join(map(repr, alike))} all look like {text!r}; use choices that look different")
    raise SpaceError(f"expected one of {', '.join(map(repr, map(str, parameter.choices)))}, got {text!r}")
