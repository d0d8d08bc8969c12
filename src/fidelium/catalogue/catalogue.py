"""Catalogues: a choice among items with numeric descriptors, such as standard profiles or materials.

The columns of an item in the unit cube come from its descriptors (`columns.py`), so a model knows which
items are alike. Only items are valid designs: `snap` leads to the nearest one, and `encode` and `decode` are exact
inverses. The value of the parameter is the item's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fidelium.catalogue.columns import DescriptorColumns
from fidelium.errors import SpaceError

MOST_ITEMS = 100_000
MOST_DESCRIPTORS = 1_000

_MOST_COMPARED = 1_000
"""Items at most among which a name similar to an unknown one is looked for."""


@dataclass(frozen=True, repr=False, eq=False)
class Catalogue:
    """One of many items, each with the same numeric descriptors.

    Args:
        items: name -> descriptor -> number; at least two items. A whole number as a name is taken as text.
        log: the descriptors whose logarithms count, all positive; by default those that are positive, span a factor of
            ten or more, and are less skewed on a logarithmic scale.

    Raises:
        SpaceError: if there are fewer than two items, a name is not text or is there twice, a descriptor is missing,
            unknown, not a finite number, or not positive on a log scale, or no descriptor differs between the items.
    """

    items: Mapping[Any, Mapping[str, float]]
    log: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.items, Mapping):
            raise SpaceError(f"a catalogue must be a dict of item -> descriptors, got {_short(self.items)}")
        if not 2 <= len(self.items) <= MOST_ITEMS:
            raise SpaceError(f"a catalogue needs 2 to {MOST_ITEMS} items, got {len(self.items)}")
        if isinstance(self.log, str) or not isinstance(self.log, Sequence | None):
            raise SpaceError(f"log must be a list of descriptors, got {self.log!r}")
        if len(self.table) < len(self.items):
            raise SpaceError("two items of the catalogue have the same name, one as text and one as a number")
        for name in self.log or ():
            if name not in self.descriptors:
                raise SpaceError(f"log names the descriptor {name!r}; the catalogue has {', '.join(self.descriptors)}")
        self._encoding  # noqa: B018  its errors are found here

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        item: str | None = None,
        descriptors: Sequence[str] | None = None,
        log: Sequence[str] | None = None,
    ) -> Catalogue:
        """The catalogue in a CSV file with a header.

        Args:
            path: of the file.
            item: the column of the names; the first one by default.
            descriptors: the columns of the descriptors; by default all others that hold any number.
            log: as in `Catalogue`.

        Raises:
            SpaceError: if the file cannot be read or is not a catalogue, with the line.
        """
        from fidelium.catalogue.tables import items_of_csv

        return cls(items_of_csv(path, item, descriptors), log)

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        item: str | None = None,
        descriptors: Sequence[str] | None = None,
        log: Sequence[str] | None = None,
    ) -> Catalogue:
        """The catalogue in a pandas DataFrame; as `from_csv`, but the index has the names by default.

        Raises:
            SpaceError: if it is not a catalogue.
        """
        from fidelium.catalogue.tables import items_of_dataframe

        return cls(items_of_dataframe(frame, item, descriptors), log)

    @cached_property
    def table(self) -> dict[str, dict[str, float]]:
        """The items with names as text and descriptors as plain numbers, all in the same order."""
        named = {_name(name): descriptors for name, descriptors in self.items.items()}
        return {name: _descriptors(name, named) for name in named}

    def __getitem__(self, item: object) -> dict[str, float]:
        """The descriptors of an item."""
        return self.table[self.validate(item)]

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The names of the items, in their order."""
        return tuple(self.table)

    @cached_property
    def descriptors(self) -> tuple[str, ...]:
        """The names of the descriptors."""
        return tuple(next(iter(self.table.values())))

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The descriptors of all items, `(items, descriptors)`."""
        return np.array([list(each.values()) for each in self.table.values()], dtype=float)

    @property
    def rows(self) -> NDArray[np.float64]:
        """The columns of all items in the unit cube, `(items, width)`, all different."""
        return self._encoding.rows

    @property
    def logarithmic(self) -> frozenset[str]:
        """The descriptors on a log scale."""
        return frozenset(self._encoding.logarithmic)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the encoding: descriptors that are left out, logarithms, items that are equal."""
        return self._encoding.notes(self.choices)

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    @property
    def size(self) -> float:
        return float(len(self.items))

    def validate(self, value: Any) -> str:
        return self.choices[self.position(value)]

    def encode(self, value: Any) -> NDArray[np.float64]:
        return self.rows[self.position(value)].copy()

    def decode(self, columns: NDArray[np.float64]) -> str:
        return self.choices[int(self.nearest(np.asarray(columns, dtype=float)[None, :])[0])]

    def snap(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.rows[self.nearest(columns)]

    def nearest(self, columns: NDArray[np.float64]) -> NDArray[np.int64]:
        """Positions of the items nearest to columns `(n, width)`."""
        return self._encoding.nearest(columns)

    def nearest_of(self, positions: NDArray[np.int64], columns: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `nearest`, among the items at these positions only."""
        return self._encoding.nearest_of(positions, columns)

    def neighbours(self, columns: NDArray[np.float64], count: int) -> NDArray[np.int64]:
        """Positions of the `count` items nearest to each row of `(n, width)`, the nearest first, `(n, count)`."""
        return self._encoding.neighbours(columns, count)

    def position(self, value: Any) -> int:
        """The position of an item by its name.

        Raises:
            SpaceError: if there is no such item.
        """
        name = str(value) if _is_whole(value) else value
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            near = get_close_matches(str(name), self.choices, 1) if len(self.choices) <= _MOST_COMPARED else []
            advice = f"did you mean {near[0]!r}?" if near else f"the first are {', '.join(map(repr, self.choices[:3]))}"
            raise SpaceError(
                f"expected one of the {len(self.choices)} items of the catalogue, got {_short(value)}; {advice}"
            ) from None

    def spread(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Positions of items that represent all of them, in random order; different ones as far as there are enough."""
        return self._encoding.spread(count, generator)

    @property
    def intrinsic_dimension(self) -> int:
        """In how many directions the items differ, about: what the size of an initial design should follow."""
        return self._encoding.intrinsic_dimension

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.choices)}

    @cached_property
    def _encoding(self) -> DescriptorColumns:
        return DescriptorColumns(self.values, self.descriptors, None if self.log is None else tuple(self.log))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalogue):
            return False
        mine, theirs = ((each.choices, each.descriptors, _logs(each.log)) for each in (self, other))
        return mine == theirs and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.choices, self.descriptors, _logs(self.log)))

    def __repr__(self) -> str:
        return f"Catalogue({len(self.table)} items, {len(self.descriptors)} descriptors)"


def _logs(log: Sequence[str] | None) -> frozenset[str] | None:
    return None if log is None else frozenset(log)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def _name(name: Any) -> str:
    """An item's name as text."""
    if _is_whole(name):
        return str(name)
    if not isinstance(name, str) or not name.strip():
        raise SpaceError(f"the name of an item must be a text that is not blank, got {_short(name)}")
    return str(name)


def _descriptors(name: str, items: Mapping[str, Any]) -> dict[str, float]:
    """The descriptors of an item as plain numbers, in the order of the first item."""
    first, own = next(iter(items.values())), items[name]
    for each in (first, own):
        if not isinstance(each, Mapping):
            raise SpaceError(f"item {name!r} must be a dict of descriptor -> number, got {_short(each)}")
    if not 1 <= len(first) <= MOST_DESCRIPTORS:
        raise SpaceError(f"the items of a catalogue need 1 to {MOST_DESCRIPTORS} descriptors, got {len(first)}")
    if unknown := [each for each in own if each not in first]:
        raise SpaceError(f"item {name!r} has the descriptor {unknown[0]!r}, which the first item does not have")
    numbers: dict[str, float] = {}
    for descriptor in first:
        if not isinstance(descriptor, str) or not descriptor.strip():
            raise SpaceError(f"the name of a descriptor must be a text that is not blank, got {_short(descriptor)}")
        if descriptor not in own or own[descriptor] is None:
            raise SpaceError(f"the descriptor {descriptor!r} of item {name!r} is missing; every item needs all of them")
        numbers[descriptor] = _number(name, descriptor, own[descriptor])
    return numbers


def _number(name: str, descriptor: str, value: Any) -> float:
    """A descriptor as a plain number, with its type, as templates write it."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise SpaceError(f"the descriptor {descriptor!r} of item {name!r} must be a number, got {_short(value)}")
    try:
        finite = math.isfinite(plain)
    except OverflowError:
        finite = False
    if not finite:
        raise SpaceError(f"the descriptor {descriptor!r} of item {name!r} must be finite, got {_short(value)}")
    return plain


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
