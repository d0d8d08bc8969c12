"""Declared costs that depend on the design: an expression of the parameters, or a Python function of them.

An expression ("1 + 0.01 * cells") is arithmetic as in constraints of the search space, parsed and never run as Python.
A function takes the parameters as a dict. A database keeps only its name: who resumes the study passes it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import FidelityError, SpaceError
from fidelium.numbers import as_number
from fidelium.parameter_constraints.expressions import Arithmetic, Columns, number_of
from fidelium.space import Params, SearchSpace

Values = NDArray[np.float64]

CostFunction = Callable[[Params], float]
"""A cost as a function of the parameters, a dict."""

SAMPLE = 512
"""Random designs on which a cost is checked and its typical value is computed."""

_MOST_CORNERS = 64


@dataclass(frozen=True)
class StoredCost:
    """A cost function of which a storage knows only its name and its typical value: it can be shown, but not used.

    Args:
        text: its name.
        typical: its typical value.
    """

    text: str
    typical: float

    def __repr__(self) -> str:
        return self.text


Formula = str | CostFunction | StoredCost
"""What a cost that depends on the design is declared as."""


def formula_text(formula: object, form: str = "g") -> str:
    """A declared cost as text: a number in this form, the expression, or the function's name."""
    if isinstance(formula, str):
        return formula
    if isinstance(formula, StoredCost):
        return formula.text
    if isinstance(formula, (int, float)):
        return f"{formula:{form}}"
    name = getattr(formula, "__qualname__", None) or type(formula).__name__
    return f"function {getattr(formula, '__module__', '')}.{name}"


@dataclass(frozen=True)
class DesignCost:
    """The cost of a fidelity as a function of the design, in a search space.

    Args:
        fidelity: the fidelity's name, for messages.
        formula: the expression or the function.
        space: the parameters.

    Raises:
        FidelityError: if the expression is not valid.
    """

    fidelity: str
    formula: Formula
    space: SearchSpace

    def __post_init__(self) -> None:
        if isinstance(self.formula, str):
            try:
                _ = self._parsed
            except SpaceError as error:
                raise FidelityError(f"the cost of fidelity {self.fidelity!r}: {error}") from None

    def of(self, params: Mapping[str, Any]) -> float:
        """The cost of a design; the typical one where only the function's name is known.

        Raises:
            FidelityError: if it is not a finite number above 0.
        """
        return float(self._costs([dict(params)])[0])

    def at(self, unit_x: Values) -> Values:
        """The costs of designs, rows of the unit cube `(n, dimension)`.

        Raises:
            FidelityError: as `of`.
        """
        return self._costs([self.space.decode(row) for row in unit_x])

    @cached_property
    def typical(self) -> float:
        """The median over the search space.

        Raises:
            FidelityError: if the cost is not a finite number above 0 at one of many designs, corners among them.
        """
        if isinstance(self.formula, StoredCost):
            return self.formula.typical
        self.at(_corners(self.space))
        return float(np.median(self.at(sample_designs(self.space, SAMPLE))))

    @cached_property
    def _parsed(self) -> Arithmetic:
        assert isinstance(self.formula, str)
        return self.space.parse_arithmetic(self.formula)

    def _costs(self, designs: Sequence[Params]) -> Values:
        if isinstance(self.formula, StoredCost):
            return np.full(len(designs), self.formula.typical)
        costs = self._evaluated(designs) if isinstance(self.formula, str) else self._called(designs)
        for design, cost in zip(designs, costs.tolist(), strict=True):
            if not 0 < cost < math.inf:
                shown = "not a number" if math.isnan(cost) else f"{cost:g}"
                raise FidelityError(
                    f"the cost of fidelity {self.fidelity!r}, {formula_text(self.formula)!r}, must be finite and above "
                    f"0 for every design, but it is {shown} at {design}"
                )
        return costs

    def _evaluated(self, designs: Sequence[Params]) -> Values:
        columns = {
            name: np.array([self._number(design, name) for design in designs], dtype=float)
            for name in self._parsed.names
        }
        return self._parsed.values(Columns(columns, {})) if designs else np.empty(0)

    def _number(self, design: Params, name: str) -> float | None:
        """The value of a parameter, or the descriptor of an item, as in "profile.area"."""
        if name in design:
            return number_of(design[name])
        owned = ((each, f"{each}.") for each in self.space.catalogues if name.startswith(f"{each}."))
        return next(
            described[name.removeprefix(dotted)]
            for each, dotted in owned
            if name.removeprefix(dotted) in (described := self.space.catalogues[each][design[each]])
        )

    def _called(self, designs: Sequence[Params]) -> Values:
        assert callable(self.formula)
        found: list[float] = []
        for design in designs:
            try:
                cost = self.formula(dict(design))
            except Exception as error:  # noqa: BLE001  a user's function may raise anything
                raise FidelityError(
                    f"the cost of fidelity {self.fidelity!r}, {formula_text(self.formula)}, raised "
                    f"{type(error).__name__}: {error} at {design}"
                ) from None
            number = as_number(cost)
            if number is None:
                raise FidelityError(
                    f"the cost of fidelity {self.fidelity!r}, {formula_text(self.formula)}, must return a number, got "
                    f"{cost!r} at {design}"
                )
            found.append(number)
        return np.array(found, dtype=float)


def sample_designs(space: SearchSpace, count: int) -> Values:
    """Random designs that are the same in every process, rows of the unit cube."""
    return space.sample(np.random.default_rng(0), count)


def _corners(space: SearchSpace) -> Values:
    """Designs with every parameter at an end of its range, as far as there are few, that meet the constraints."""
    free = space.dimension
    if 2**free <= _MOST_CORNERS:
        corners = np.array(list(product((0.0, 1.0), repeat=free)))
    else:
        corners = np.random.default_rng(1).integers(0, 2, (_MOST_CORNERS, free)).astype(float)
    points = space.snap(corners)
    return points[space.meets(points)]
