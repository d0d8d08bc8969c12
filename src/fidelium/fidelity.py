"""Fidelities: named ways to evaluate the objective, each with a cost, ordered from the cheapest to the target."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, overload

from fidelium.costs.declared import DesignCost, StoredCost
from fidelium.errors import FidelityError
from fidelium.numbers import parse_decimal
from fidelium.space import SearchSpace


@dataclass(frozen=True)
class Fidelity:
    """One way to evaluate the objective.

    Args:
        name: for example "coarse" or "fine".
        cost: cost of one evaluation, in the user's unit (seconds, core hours, money): a number, or, if it depends on
            the design, an expression of the parameters ("1 + 0.01 * cells") or a function of the parameters (a dict).
        inputs: names of the parameters that its values depend on, where it ignores others; None: of all.
        design_cost: that expression or function in the study's search space; set by `FidelityLadder.priced`.

    Raises:
        FidelityError: if the name is empty, the cost is not a finite number above zero, or inputs is not a list of
            different names, at least one.
    """

    name: str
    cost: Any  # a number wherever a run sees it; for a study also a text, a `CostFunction` or a `StoredCost`
    inputs: Sequence[str] | None = None
    design_cost: DesignCost | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise FidelityError(f"a fidelity's name must be a non-empty string, got {self.name!r}")
        if self.inputs is not None:
            object.__setattr__(self, "inputs", _checked_inputs(self.name, self.inputs))
        quoted = isinstance(self.cost, str) and parse_decimal(self.cost) is not None
        if self.depends_on_design and not quoted:
            return
        if isinstance(self.cost, bool) or not isinstance(self.cost, (int, float)):
            raise FidelityError(f"the cost of fidelity {self.name!r} must be a number, got {self.cost!r}")
        if not 0 < self.cost <= sys.float_info.max:
            raise FidelityError(f"the cost of fidelity {self.name!r} must be finite and above 0, got {self.cost!r}")

    def ignores(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the parameters that its values do not depend on."""
        return () if self.inputs is None else tuple(name for name in names if name not in self.inputs)

    @property
    def depends_on_design(self) -> bool:
        """Whether the declared cost is an expression or a function of the parameters."""
        return isinstance(self.cost, (str, StoredCost)) or (callable(self.cost) and not isinstance(self.cost, type))

    @property
    def typical_cost(self) -> float:
        """The declared cost; where it depends on the design, its median over the search space.

        Raises:
            FidelityError: if it depends on the design, and the fidelity does not belong to a study.
        """
        if isinstance(self.cost, (int, float)):
            return float(self.cost)
        return self._of_design().typical

    def cost_of(self, params: Mapping[str, Any]) -> float:
        """The declared cost of a design.

        Raises:
            FidelityError: if it is not finite and above 0 there, or it depends on the design, and the fidelity does not
                belong to a study.
        """
        if isinstance(self.cost, (int, float)):
            return float(self.cost)
        return self._of_design().of(params)

    def of_design(self, params: Mapping[str, Any]) -> Fidelity:
        """This fidelity as a run of one design sees it, with a number for its cost; itself if it has one already."""
        return replace(self, cost=self.cost_of(params), design_cost=None) if self.depends_on_design else self

    def _of_design(self) -> DesignCost:
        if self.design_cost is None:
            raise FidelityError(f"the cost of fidelity {self.name!r} depends on the design, so it needs a search space")
        return self.design_cost


def _checked_inputs(name: str, inputs: object) -> tuple[str, ...]:
    """The inputs of a fidelity, a list of different names.

    Raises:
        FidelityError: if they are something else.
    """
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise FidelityError(f"inputs of fidelity {name!r} must be a list of names of parameters, got {inputs!r}")
    names = tuple(inputs)
    if not all(isinstance(each, str) for each in names):
        raise FidelityError(f"inputs of fidelity {name!r} must be a list of names of parameters, got {list(names)!r}")
    if not names:
        raise FidelityError(f"fidelity {name!r} needs at least one input, got an empty list; leave inputs out for all")
    if len(set(names)) < len(names):
        raise FidelityError(f"the inputs of fidelity {name!r} must differ, got {list(names)}")
    return names


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
        for low, high in pairwise([rung for rung in rungs if not rung.depends_on_design or rung.design_cost]):
            if high.typical_cost <= low.typical_cost:
                typically = " typically" if low.depends_on_design or high.depends_on_design else ""
                raise FidelityError(
                    f"costs must increase from low to high fidelity (the last is the target), but {low.name!r} costs"
                    f"{typically} {low.typical_cost:g} and the next, {high.name!r}, {high.typical_cost:g}"
                )

    def check_inputs(self, names: Sequence[str]) -> None:
        """Check the inputs of the fidelities against the parameters.

        The target uses all of them, and every fidelity uses those of the ones below: what a fidelity passes up to the
        next must not depend on something that the next ignores.

        Args:
            names: of all parameters.

        Raises:
            FidelityError: if one names an unknown parameter, or leaves out what it must use.
        """
        below: Fidelity | None = None
        for rung in self.fidelities:
            if unknown := [name for name in rung.inputs or () if name not in names]:
                raise FidelityError(
                    f"fidelity {rung.name!r} has an unknown input {', '.join(map(repr, unknown))}; the parameters are "
                    f"{', '.join(map(repr, names))}"
                )
            missing = rung.ignores(names)
            if missing and rung is self.target:
                raise FidelityError(
                    f"the target {rung.name!r} must use all parameters, but its inputs leave out "
                    f"{', '.join(map(repr, missing))}; add them, or take these parameters out of the study"
                )
            lost = [] if below is None else [name for name in missing if name not in below.ignores(names)]
            if below is not None and lost:
                raise FidelityError(
                    f"fidelity {rung.name!r} must use all inputs of {below.name!r} below it, but leaves out "
                    f"{', '.join(map(repr, lost))}; add them to its inputs"
                )
            below = rung

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
        """The declared costs, low to high; typical ones where they depend on the design."""
        return tuple(rung.typical_cost for rung in self.fidelities)

    @property
    def depends_on_design(self) -> bool:
        """Whether the declared cost of a fidelity depends on the design."""
        return any(rung.depends_on_design for rung in self.fidelities)

    def priced(self, space: SearchSpace) -> FidelityLadder:
        """The ladder with its costs in a search space; itself if all costs are numbers.

        Raises:
            FidelityError: if an expression is not valid, a cost is not positive everywhere, or typical costs do not
                increase from low to high.
        """
        if not self.depends_on_design:
            return self
        return FidelityLadder(tuple(_priced(rung, space) for rung in self.fidelities))

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


def _priced(rung: Fidelity, space: SearchSpace) -> Fidelity:
    if isinstance(rung.cost, (int, float)):
        return rung
    priced = replace(rung, design_cost=DesignCost(rung.name, rung.cost, space))
    _ = priced.typical_cost  # checks that it is positive everywhere
    return priced
