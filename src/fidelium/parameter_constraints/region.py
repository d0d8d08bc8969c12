"""The parameters that constraints are about, as rows of numbers: drawing, snapping, margins and their gradients.

A row holds the columns of these parameters alone, in the unit cube. Integers are relaxed to any number in between where
margins are differentiated; choices have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fidelium.catalogue import Catalogue
from fidelium.parameter_constraints.expressions import Columns, Comparison, Constraint, number_of
from fidelium.parameters import Categorical, Integer, Real

Rows = NDArray[np.float64]

MOST_OPTIONS = 4096
"""Values of an integer parameter at most for which each is tried on its own."""

_FLAT = 1e-300
_STEEPEST = 1e150  # its square is finite


@dataclass(frozen=True)
class Options:
    """The values of a discrete parameter that the constraints on it alone allow.

    Args:
        parameter: an `Integer`, a `Categorical` or a `Catalogue`.
        codes: the numbers, or positions among the choices or items.
        shares: the probability of each.
    """

    parameter: Integer | Categorical | Catalogue
    codes: NDArray[np.int64]
    shares: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.codes)

    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        """Columns of random ones."""
        ends = np.cumsum(self.shares)
        found = np.searchsorted(ends, generator.random(count) * ends[-1], side="right")
        return encoded(self.parameter, self.codes[np.minimum(found, len(self) - 1)])

    def nearest(self, columns: Rows) -> Rows:
        """Columns of the nearest one to each row; the same where all are allowed."""
        if len(self) == self.parameter.size:
            return columns
        if isinstance(self.parameter, Categorical):
            return encoded(self.parameter, self.codes[np.argmax(columns[:, self.codes], axis=1)])
        if isinstance(self.parameter, Catalogue):
            return self.parameter.rows[self.parameter.nearest_of(self.codes, columns)]
        units = encoded(self.parameter, self.codes)[:, 0]
        return encoded(self.parameter, self.codes[np.argmin(np.abs(columns - units[None, :]), axis=1)])


def encoded(parameter: Integer | Categorical | Catalogue, codes: NDArray[np.int64]) -> Rows:
    """The columns of whole numbers, or of positions among choices or items, `(n, width)`."""
    if isinstance(parameter, Catalogue):
        return parameter.rows[codes]
    if isinstance(parameter, Integer):
        return parameter.units(codes.astype(float))[:, None]
    columns = np.zeros((len(codes), parameter.width))
    columns[np.arange(len(codes)), codes] = 1.0
    return columns


@dataclass(frozen=True)
class Region:
    """The designs that meet constraints, as a function on rows of the unit cube.

    Args:
        parameters: those that the constraints are about.
        constraints: all must hold.
    """

    parameters: Mapping[str, Real | Integer | Categorical | Catalogue]
    constraints: tuple[Constraint, ...]

    @cached_property
    def places(self) -> dict[str, slice]:
        """The columns of each parameter."""
        places: dict[str, slice] = {}
        start = 0
        for name, parameter in self.parameters.items():
            places[name] = slice(start, start + parameter.width)
            start += parameter.width
        return places

    @cached_property
    def width(self) -> int:
        """Columns of a row."""
        return sum(parameter.width for parameter in self.parameters.values())

    @cached_property
    def reals(self) -> NDArray[np.int64]:
        """Columns of real parameters."""
        return self._columns_of(Real)

    @cached_property
    def moving(self) -> NDArray[np.int64]:
        """Columns that a gradient moves: of real parameters and of integers, in the order of the parameters."""
        return self._columns_of((Real, Integer))

    @cached_property
    def discrete(self) -> tuple[str, ...]:
        """Parameters that are not real."""
        return tuple(name for name, parameter in self.parameters.items() if not isinstance(parameter, Real))

    @cached_property
    def resolution(self) -> NDArray[np.float64]:
        """Distance of neighbouring values of each moving column; 0 for integers, which are not moved by so little."""
        moving = [p for p in self.parameters.values() if isinstance(p, Real | Integer)]
        return np.array([1 / p.steps if isinstance(p, Real) else 0.0 for p in moving])

    @cached_property
    def _steps(self) -> NDArray[np.float64]:
        """Steps of the grid of real parameters, by column; 1 for others."""
        steps = np.ones(self.width)
        for name, parameter in self.parameters.items():
            if isinstance(parameter, Real):
                steps[self.places[name]] = parameter.steps
        return steps

    @cached_property
    def _linear(self) -> tuple[Comparison, ...]:
        """The comparisons that are linear in all columns of real parameters."""
        linear = [name for name, p in self.parameters.items() if isinstance(p, Real) and not p.log]
        curved = [name for name, p in self.parameters.items() if isinstance(p, Real) and p.log]
        return tuple(c for c in self.comparisons if c.is_linear(linear) and not c.contains(curved))

    @property
    def is_polytope(self) -> bool:
        """Whether all parameters are real and all edges are flat."""
        return not self.discrete and len(self._linear) == len(self.comparisons)

    @cached_property
    def options(self) -> dict[str, Options]:
        """The values of each discrete parameter that its own constraints allow; not those of large integers."""
        found: dict[str, Options] = {}
        for name in self.discrete:
            parameter = self.parameters[name]
            if isinstance(parameter, Integer) and parameter.size <= MOST_OPTIONS:
                codes = np.arange(parameter.low, parameter.high + 1)
                columns, shares = Columns({name: codes.astype(float)}, {}), parameter.shares(codes.astype(float))
            elif isinstance(parameter, Categorical | Catalogue):
                count = len(parameter.choices)
                codes, shares = np.arange(count), np.full(count, 1 / count)
                columns = Columns(_as_numbers(name, parameter, codes), {name: codes})
            else:
                continue
            own = [each.holds(columns) for each in self.constraints if owners(self.parameters, each) == {name}]
            allowed = np.logical_and.reduce(own) if own else np.ones(len(codes), dtype=bool)
            found[name] = Options(parameter, codes[allowed], shares[allowed])
        return found

    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        """Uniformly random rows that meet the constraints on single discrete parameters, and perhaps the others."""
        rows = self.snap(generator.random((count, self.width)))
        for name, options in self.options.items():
            rows[:, self.places[name]] = options.draw(generator, count)
        return rows

    def snap(self, rows: Rows) -> Rows:
        """Each row replaced by the nearest that encodes valid values."""
        snapped = np.round(np.clip(rows, 0.0, 1.0) * self._steps) / self._steps + 0.0  # right for real parameters
        for name in self.discrete:
            snapped[:, self.places[name]] = self.parameters[name].snap(rows[:, self.places[name]])
        return snapped

    def columns(self, rows: Rows) -> Columns:
        """The values of snapped rows, exactly as they are decoded."""
        numbers: dict[str, NDArray[np.float64]] = {}
        positions: dict[str, NDArray[np.int64]] = {}
        for name, place in self.places.items():
            parameter, columns = self.parameters[name], rows[:, place]
            if isinstance(parameter, Categorical | Catalogue):
                positions[name] = _positions(parameter, columns)
                numbers |= _as_numbers(name, parameter, positions[name])
            else:
                numbers[name] = parameter.values(columns[:, 0])
        return Columns(numbers, positions)

    def met(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each snapped row meets all constraints."""
        met = np.ones(len(rows), dtype=bool)
        if len(rows):
            columns = self.columns(rows)
            for constraint in self.constraints:
                met &= constraint.holds(columns)
        return met

    @cached_property
    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of a polytope: its margins, and those of the box, are offsets `(e,)` + normals `(e, width)` . row."""
        margins, gradients = self.margins(np.zeros((1, self.width)))
        unit = np.eye(self.width)
        offsets = np.concatenate([np.zeros(self.width), np.ones(self.width), margins[0]])
        return offsets, np.concatenate([unit, -unit, gradients[0]])

    def interval(
        self, rows: Rows, direction: NDArray[np.float64], *, linear: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Between which t the points row + t direction are in the box and meet the linear comparisons.

        Args:
            rows: designs that meet them.
            direction: of the real columns, `(n, reals)`.
            linear: whether the linear comparisons count; else the box alone does.
        """
        edges = self._linear if linear else ()
        x = rows[:, self.reals]
        moved = rows.copy()
        moved[:, self.reals] += direction
        here, there = self._relaxed(rows)[0], self._relaxed(moved)[0]
        # every edge as a margin that changes linearly: start + t rise >= 0
        starts = [x, 1 - x, *(c.margin(here)[:, None] for c in edges)]
        ends = [*(c.margin(there)[:, None] for c in edges)]
        start = np.maximum(np.concatenate(starts, axis=1), 0.0)
        rise = np.concatenate([direction, -direction, *(e - s for e, s in zip(ends, starts[2:], strict=True))], axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cut = np.where(rise == 0, 0.0, -start / rise)
            low = np.max(np.where(rise > 0, cut, -np.inf), axis=1)
            high = np.min(np.where(rise < 0, cut, np.inf), axis=1)
        return low, high

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Those of numbers, which have a gradient."""
        every = (comparison for constraint in self.constraints for comparison in constraint.comparisons)
        return tuple(comparison for comparison in every if comparison.choice is None)

    def margins(self, rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
        """Margins of the comparisons of numbers `(n, k)` and gradients by the moving columns `(n, k, moving)`."""
        known, slopes = self._relaxed(rows)
        names = list(slopes)
        factors = np.stack([slopes[name] for name in names], axis=1) if names else np.empty((len(rows), 0))
        margins = np.empty((len(rows), len(self.comparisons)))
        gradients = np.empty((len(rows), len(self.comparisons), len(names)))
        for k, comparison in enumerate(self.comparisons):
            margins[:, k], gradient = comparison.margin_and_gradient(known, names)
            with np.errstate(over="ignore", invalid="ignore"):
                products = gradient * factors
            gradients[:, k] = np.clip(np.nan_to_num(products), -_STEEPEST, _STEEPEST)
        return margins, gradients

    def distances(self, rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
        """Margins divided by the norm of their gradient: about the distance to the edge, negative beyond it.

        Returns:
            The distances `(n, k)`, -1 where a violated margin has no gradient, and unit gradients `(n, k, moving)`.
        """
        margins, gradients = self.margins(rows)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            largest = np.max(np.abs(gradients), axis=2, keepdims=True, initial=0.0)
            scaled = np.where(largest > _FLAT, gradients / np.where(largest > _FLAT, largest, 1.0), 0.0)
            norms = largest[:, :, 0] * np.sqrt(np.sum(scaled**2, axis=2))
            flat = ~(norms > _FLAT) | ~np.isfinite(margins)
            distances = np.where(flat, np.where(margins < 0, -1.0, 1.0), margins / np.where(flat, 1.0, norms))
            units = np.where(flat[:, :, None], 0.0, gradients / np.where(flat, 1.0, norms)[:, :, None])
        return np.clip(distances, -1e6, 1e6), units

    def violation(self, rows: Rows) -> NDArray[np.float64]:
        """How far each row is from meeting the constraints: the sum of distances, one for a wrong choice."""
        distances, _ = self.distances(rows)
        total = np.sum(np.maximum(-distances, 0.0), axis=1)
        columns = self.columns(self.snap(rows))
        for constraint in self.constraints:
            for comparison in constraint.comparisons:
                if comparison.choice is not None:
                    total += ~comparison.holds(columns)
        return total

    def rough_violation(self, rows: Rows) -> Callable[[Rows], NDArray[np.float64]]:
        """As `violation` of snapped rows, but quick: with the median of the gradients' norms at these rows as units."""
        _, gradients = self.margins(rows)
        with np.errstate(over="ignore"):
            norms = np.median(np.sqrt(np.sum(gradients**2, axis=2)), axis=0)
        units = np.where(np.isfinite(norms) & (norms > _FLAT), norms, 1.0)
        choices = [c for constraint in self.constraints for c in constraint.comparisons if c.choice is not None]

        def violation(rows: Rows) -> NDArray[np.float64]:
            columns, total = self.columns(rows), np.zeros(len(rows))
            for comparison, unit in zip(self.comparisons, units.tolist(), strict=True):
                total += np.maximum(-comparison.margin(columns), 0.0) / unit
            for comparison in choices:
                total += ~comparison.holds(columns)
            return total

        return violation

    def _relaxed(self, rows: Rows) -> tuple[Columns, dict[str, NDArray[np.float64]]]:
        """The values at any points of the cube, and the derivatives of numbers by their columns."""
        numbers: dict[str, NDArray[np.float64]] = {}
        slopes: dict[str, NDArray[np.float64]] = {}
        positions: dict[str, NDArray[np.int64]] = {}
        for name, place in self.places.items():
            parameter, columns = self.parameters[name], rows[:, place]
            if isinstance(parameter, Categorical | Catalogue):
                positions[name] = _positions(parameter, columns)
                numbers |= _as_numbers(name, parameter, positions[name])
            else:
                with np.errstate(over="ignore"):
                    numbers[name], slopes[name] = parameter.relaxed(columns[:, 0])
        return Columns(numbers, positions), slopes

    def _columns_of(self, kinds: type | tuple[type, ...]) -> NDArray[np.int64]:
        starts = [self.places[name].start for name, p in self.parameters.items() if isinstance(p, kinds)]
        return np.array(starts, dtype=np.int64)


def owners(parameters: Mapping[str, object], constraint: Constraint) -> set[str]:
    """The parameters that a constraint is about; that of the descriptor `profile.area` is `profile`."""
    catalogues = {f"{p}.{each}": p for p, c in parameters.items() if isinstance(c, Catalogue) for each in c.descriptors}
    return {name if name in parameters else catalogues[name] for name in constraint.names}


def _positions(parameter: Categorical | Catalogue, columns: Rows) -> NDArray[np.int64]:
    """Positions among the choices or items."""
    return parameter.nearest(columns) if isinstance(parameter, Catalogue) else np.argmax(columns, axis=1)


def _as_numbers(
    name: str, parameter: Categorical | Catalogue, positions: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """The values of a categorical parameter, if they are numbers; of a catalogue the descriptors."""
    if isinstance(parameter, Catalogue):
        chosen = parameter.values[positions]
        return {f"{name}.{each}": chosen[:, k] for k, each in enumerate(parameter.descriptors)}
    numbers = [number_of(choice) for choice in parameter.choices]
    return {} if None in numbers else {name: np.array(numbers, dtype=float)[positions]}
