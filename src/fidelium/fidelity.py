"""Fidelities: named ways to evaluate the objective, each with a cost, ordered from the cheapest to the target."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

from fidelium.errors import FidelityError


@dataclass(frozen=True)
class Fidelity:
    """One way to evaluate the objective.

    Args:
        name: for example "coarse" or "fine".
        cost: cost of one evaluation, in the user's unit (seconds, core hours, money).

    Raises:
        FidelityError: if the name is empty or the cost is not a finite number above zero.
    """

    name: str
    cost: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise FidelityError(f"a fidelity's name must be a non-empty string, got {self.name!r}")
        if isinstance(self.cost, bool) or not isinstance(self.cost, (int, float)):
            raise FidelityError(f"the cost of fidelity {self.name!r} must be a number, got {self.cost!r}")
        if not 0 < self.cost <= sys.float_info.max:
            raise FidelityError(f"the cost of fidelity {self.name!r} must be finite and above 0, got {self.cost!r}")


@dataclass(frozen=True)
class FidelityLadder(Sequence[Fidelity]):
    """Fidelities from low to high; the last one is the target, whose best design is searched.

    Args:
        fidelities: the rungs, in order of increasing cost.

    Raises:
        FidelityError: if the ladder is empty, two names are equal, or the costs do not increase.
    """

    fidelities: tuple[Fidelity, ...]

    def __post_init__(self) -> None:
        rungs = self.fidelities
        if not isinstance(rungs, tuple):
            raise FidelityError(f"fidelities must be a tuple, got {rungs!r}; use FidelityLadder.of")
        if not rungs:
            raise FidelityError("a ladder needs at least one fidelity, got none")
        for rung in rungs:
            if not isinstance(rung, Fidelity):
                raise FidelityError(f"a ladder must contain Fidelity objects only, got {rung!r}")
        if len(set(self.names)) < len(rungs):
            raise FidelityError(f"the names of the fidelities must differ, got {list(self.names)}")
        for low, high in pairwise(rungs):
            if high.cost <= low.cost:
                raise FidelityError(
                    f"costs must increase from low to high fidelity (the last is the target), but {low.name!r} costs "
                    f"{low.cost:g} and the next, {high.name!r}, {high.cost:g}"
                )

    @classmethod
    def of(cls, fidelities: Iterable[Fidelity]) -> FidelityLadder:
        """A ladder from any iterable of fidelities, or the ladder itself.

        Raises:
            FidelityError: if it is not an iterable of fidelities, or they do not form a valid ladder.
        """
        if isinstance(fidelities, cls):
            return fidelities
        if not isinstance(fidelities, Iterable):
            raise FidelityError(f"expected a list of fidelities from low to high, got {fidelities!r}")
        return cls(tuple(fidelities))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, low to high."""
        return tuple(rung.name for rung in self.fidelities)

    @property
    def costs(self) -> tuple[float, ...]:
        """The costs, low to high."""
        return tuple(float(rung.cost) for rung in self.fidelities)

    @property
    def target(self) -> Fidelity:
        """The highest fidelity, whose best design is searched."""
        return self.fidelities[-1]

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """The position of a fidelity, given as a name or as the object itself.

        Raises:
            FidelityError: if the ladder has no such fidelity.
        """
        for position, rung in enumerate(self.fidelities[start:stop], start):
            if value == rung.name or value == rung:
                return position
        raise FidelityError(f"unknown fidelity {value!r}; this ladder has {', '.join(map(repr, self.names))}")

    @overload
    def __getitem__(self, index: int) -> Fidelity: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Fidelity]: ...
    def __getitem__(self, index: int | slice) -> Fidelity | Sequence[Fidelity]:
        return self.fidelities[index]

    def __len__(self) -> int:
        return len(self.fidelities)

    def __iter__(self) -> Iterator[Fidelity]:
        return iter(self.fidelities)
