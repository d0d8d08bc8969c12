"""Parameters and the search space, and their encoding as points of the unit cube.

A categorical parameter takes one column of the cube per choice, the others take one column. `snap` maps any point of
the cube to the nearest one that encodes a valid design, `decode(snap(u))` is that design, and `encode` gives back the
same point, bit for bit. So every suggestion is valid, and two suggestions of the same design are the same point.

Bounds may change during a study. Designs outside of the present ones are encoded outside of the cube, and nothing
suggests them; `SearchSpace.place` says which of them a model may use.

Constraints say which combinations of values are valid (`expressions.py`). They are checked on decoded values, so a
point that `meets` them is a design that `validate` accepts, and the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fidelium.catalogue import Catalogue
from fidelium.errors import SpaceError
from fidelium.parameter_constraints.expressions import Arithmetic, Columns, Constraint, Variable, number_of
from fidelium.parameter_constraints.feasible_set import FeasibleSet
from fidelium.parameter_constraints.parser import parse, parse_arithmetic
from fidelium.parameter_constraints.region import Region, owners
from fidelium.parameters import Categorical, Integer, Parameter, Real

Params = dict[str, Any]
"""Values of all parameters by name, in the user's units."""

MARGIN = 0.5
"""How far outside of the unit cube a design may be for a model to use it."""

MOST_CONSTRAINTS = 100
"""Constraints of a search space at most."""

MOST_LISTED = 20_000
"""Designs at most of a space with a catalogue for which a search compares all of them."""

MOST_COLUMNS = 10_000
"""Columns of a unit cube at most; a Sobol sequence has no more than 21,201."""


@dataclass(frozen=True)
class SearchSpace:
    """The parameters of a design, by name, and the constraints on them that are known before any run.

    A constraint is a comparison (`<=`, `>=`, `<`, `>`, also in a chain) of arithmetic in parameter names (`+ - * / **`,
    parentheses, `abs min max sqrt exp log sin cos`), such as "inner < outer" or "0.1 <= width * height <= 0.2". A
    categorical parameter is compared by `==` and `!=` with one of its choices, as in `core != "balsa"`; so are whole
    numbers and the items of a catalogue, whose descriptors are numbers, as in "profile.area <= 20". A name that is not
    a word is put in backquotes: "`wall thickness` <= 3". Where a constraint cannot be computed (a division by zero, a
    logarithm of a negative number, an overflow), it is not met.

    Args:
        parameters: name -> `Real`, `Integer`, `Categorical` or `Catalogue`.
        constraints: texts; every design must meet all of them.
        held: parameters at one value, in a slice of a space (`holding`): every design that is suggested has these.
        slice_of: the space of which this is a slice, None if it is none.

    Raises:
        SpaceError: if there is no parameter, a name is not a non-empty string, a value is not a parameter, the unit
            cube would have too many columns, a constraint is not valid, or no design that meets them is found.
    """

    parameters: Mapping[str, Parameter]
    constraints: Sequence[str] = ()
    held: Mapping[str, Any] = field(default_factory=dict, repr=False)
    slice_of: SearchSpace | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.parameters, Mapping):
            raise SpaceError(f"a search space must be a dict of name -> parameter, got {self.parameters!r}")
        if not self.parameters:
            raise SpaceError("a search space needs at least one parameter, got none")
        for name, parameter in self.parameters.items():
            if not isinstance(name, str) or not name.strip():
                raise SpaceError(f"a parameter's name must be a non-empty string, got {name!r}")
            if not isinstance(parameter, Parameter) or isinstance(parameter, type):
                raise SpaceError(
                    f"parameter {name!r} must be Real, Integer, Categorical or Catalogue, got {parameter!r}"
                )
        if self.dimension > MOST_COLUMNS:
            raise SpaceError(f"a search space has at most {MOST_COLUMNS} columns, one per choice, got {self.dimension}")
        if isinstance(self.constraints, (str, bytes)) or not isinstance(self.constraints, Sequence):
            raise SpaceError(f"constraints must be a list of texts such as 'inner < outer', got {self.constraints!r}")
        if len(self.constraints) > MOST_CONSTRAINTS:
            raise SpaceError(f"a search space has at most {MOST_CONSTRAINTS} constraints, got {len(self.constraints)}")
        if self._feasible is not None and self._feasible.is_empty:
            raise SpaceError(_clash(self._feasible.region))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SearchSpace):
            return NotImplemented
        same = self.parameters == other.parameters and tuple(self.constraints) == tuple(other.constraints)
        return same and _typed(self.held) == _typed(other.held)

    def holding(self, fixed: Mapping[str, Any]) -> SearchSpace:
        """The slice in which some parameters have these values: it is sampled, snapped and climbed in alone.

        Points have the same columns as those of the whole space, and all designs can be encoded. Only designs of the
        slice are valid in it.

        Args:
            fixed: values of some parameters; without any, this is the space itself.

        Raises:
            SpaceError: if a parameter is unknown, a value is not valid, or no design of the slice meets the
                constraints.
        """
        if not isinstance(fixed, Mapping):
            raise SpaceError(f"fixed must be a dict of parameter -> value, got {fixed!r}")
        if unknown := [name for name in fixed if name not in self.parameters]:
            raise SpaceError(
                f"fixed: unknown parameter {', '.join(map(repr, unknown))}; this space has {list(self.names)}"
            )
        values = {name: self._validated(name, fixed[name]) for name in self.names if name in fixed}
        if not values:
            return self
        shown = ", ".join(f"{name} = {value!r}" for name, value in values.items())
        columns, kept = _columns(self.parameters, values), list[str]()
        for text in self.constraints:
            rest = self.parse(text).given(columns)
            if rest is None:
                raise SpaceError(f"no design with {shown} meets the constraint {text!r}")
            if rest.comparisons:
                kept.append(text)
        try:
            return SearchSpace(self.parameters, tuple(kept), values, self)
        except SpaceError as error:
            raise SpaceError(f"with {shown}: {error}") from None

    @property
    def whole(self) -> SearchSpace:
        """The space of which this is a slice, or the space itself."""
        return self if self.slice_of is None else self.slice_of

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names, in the order given."""
        return tuple(self.parameters)

    @cached_property
    def dimension(self) -> int:
        """Number of columns of the unit cube."""
        return sum(parameter.width for parameter in self.parameters.values())

    @property
    def size(self) -> float:
        """Number of different designs, `inf` if a parameter is real."""
        return math.prod(parameter.size for name, parameter in self.parameters.items() if name not in self.held)

    def columns_of(self, names: Collection[str] | None) -> tuple[bool, ...] | None:
        """Whether each column of the unit cube belongs to one of these parameters; None if all do, or for None."""
        if names is None or set(names) >= set(self.parameters):
            return None
        return tuple(name in names for name, each in self.parameters.items() for _ in range(each.width))

    def validate(self, params: Mapping[str, Any]) -> Params:
        """The parameter values as plain Python objects, in the space's order.

        Raises:
            SpaceError: if a parameter is missing, unknown, or outside its range, or a constraint is violated.
        """
        values = self.within_bounds(params)
        for name, value in self.held.items():
            if _typed({name: value}) != _typed({name: values[name]}):
                raise SpaceError(f"parameter {name!r} is held at {value!r}, got {values[name]!r}")
        if self._feasible is not None:
            columns = _columns(self._feasible.region.parameters, values)
            for constraint in self._feasible.region.constraints:
                if not constraint.holds(columns)[0]:
                    chosen = (repr(values[name]) for name in constraint.names if name in values)
                    numbers = constraint.sides(columns) or f"{', '.join(chosen)}"
                    raise SpaceError(f"the design violates {constraint.text!r}: {numbers}")
        return values

    def within_bounds(self, params: Mapping[str, Any]) -> Params:
        """As `validate`, but whether or not the constraints are met.

        Raises:
            SpaceError: if a parameter is missing, unknown, or outside its range.
        """
        if not isinstance(params, Mapping):
            raise SpaceError(f"params must be a dict with {', '.join(map(repr, self.names))}, got {params!r}")
        if missing := [name for name in self.names if name not in params]:
            raise SpaceError(f"missing parameter {', '.join(map(repr, missing))}; got {list(params)}")
        if unknown := [name for name in params if name not in self.parameters]:
            raise SpaceError(f"unknown parameter {', '.join(map(repr, unknown))}; this space has {list(self.names)}")
        return {name: self._validated(name, params[name]) for name in self.parameters}

    def _validated(self, name: str, value: Any) -> Any:
        try:
            return self.parameters[name].validate(value)
        except SpaceError as error:
            raise SpaceError(f"parameter {name!r}: {error}") from None

    def contains(self, params: Mapping[str, Any]) -> bool:
        """Whether these are valid values of all parameters."""
        try:
            self.validate(params)
        except SpaceError:
            return False
        return True

    def place(self, params: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """The point that encodes `params`, which may be outside of the unit cube after the bounds were narrowed.

        Returns:
            The point; None if a value has no place in this space, or is outside of the present bounds by more than
            half of their distance: too far to say something about the designs inside.
        """
        try:
            point = self.encode(params)
        except SpaceError:
            return None
        return point if np.all((point >= -MARGIN) & (point <= 1 + MARGIN)) else None

    def encode(self, params: Mapping[str, Any]) -> NDArray[np.float64]:
        """The point that encodes `params`, shape `(dimension,)`: of the unit cube if they are valid.

        Raises:
            SpaceError: if a value has no place in this space.
        """
        return np.concatenate([parameter.encode(params[name]) for name, parameter in self.parameters.items()])

    def decode(self, unit_x: NDArray[np.float64]) -> Params:
        """The valid parameter values nearest to a point of the unit cube, shape `(dimension,)`."""
        return {
            name: self.held[name] if name in self.held else self.parameters[name].decode(np.asarray(unit_x)[columns])
            for name, columns in self._columns.items()
        }

    def snap(self, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each row of `(n, dimension)` replaced by the nearest point that encodes a valid design."""
        unit_x = np.asarray(unit_x, dtype=float)
        parts = [self.parameters[name].snap(unit_x[:, columns]) for name, columns in self._columns.items()]
        points = np.concatenate(parts, axis=1)
        if self.held:
            points[:, self.held_columns] = self._held_units
        return points

    def sample(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        """`count` uniformly random designs that meet the constraints, as points of the unit cube `(count, dimension)`.

        On thin sets, uniform as far as a random walk gets (`feasible_set.py`).
        """
        draws = generator.random((count, self.dimension))
        points = self.snap(draws)
        for name, catalogue in self.catalogues.items():  # every item is as likely as any other, crowded or not
            place = self._columns[name]
            points[:, place] = catalogue.rows[(draws[:, place.start] * len(catalogue.rows)).astype(np.int64)]
        if self._feasible is not None:
            points[:, self._constrained] = self._feasible.sample(generator, count)
        return points

    def meets(self, unit_x: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each row of `(n, dimension)`, snapped, meets the constraints: exactly where `validate` accepts it."""
        if self._feasible is None:
            return np.ones(len(unit_x), dtype=bool)
        region = self._feasible.region
        return region.met(region.snap(np.asarray(unit_x, dtype=float)[:, self._constrained]))

    def repair(self, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """As `snap`, with each row that violates a constraint moved to a design nearby that meets them all."""
        points = self.snap(unit_x)
        if self._feasible is None or not len(points):
            return points
        points[:, self._constrained] = self._feasible.repair(np.asarray(unit_x, dtype=float)[:, self._constrained])
        return points

    def margins(self, unit_x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """By how much each comparison of numbers in the constraints is met, negative where it is not.

        Integers may be anything in between here, and choices are those of the snapped point.

        Returns:
            The margins `(n, k)` and their gradients `(n, k, dimension)`, 0 for the columns of choices.
        """
        if self._feasible is None:
            return np.empty((len(unit_x), 0)), np.empty((len(unit_x), 0, self.dimension))
        region = self._feasible.region
        margins, gradients = region.margins(np.asarray(unit_x, dtype=float)[:, self._constrained])
        everywhere = np.zeros((*margins.shape, self.dimension))
        everywhere[:, :, self._constrained[region.moving]] = gradients
        return margins, everywhere

    @cached_property
    def discrete(self) -> NDArray[np.int64]:
        """The columns of integers and choices, without those that are held."""
        names = [name for name, each in self.parameters.items() if not isinstance(each, Real) and name not in self.held]
        return self._positions(names)

    @cached_property
    def held_columns(self) -> NDArray[np.int64]:
        """The columns of the parameters that are held: a climb leaves them as they are."""
        return self._positions([name for name in self.parameters if name in self.held])

    @cached_property
    def _held_units(self) -> NDArray[np.float64]:
        parts = [each.encode(self.held[name]) for name, each in self.parameters.items() if name in self.held]
        return np.concatenate(parts) if parts else np.empty(0)

    def _positions(self, names: Sequence[str]) -> NDArray[np.int64]:
        places = [self._columns[name] for name in names]
        return np.array([column for place in places for column in range(place.start, place.stop)], dtype=np.int64)

    @cached_property
    def catalogues(self) -> dict[str, Catalogue]:
        """The parameters that are catalogues, without those that are held."""
        return {n: each for n, each in self.parameters.items() if isinstance(each, Catalogue) and n not in self.held}

    @property
    def places(self) -> Mapping[str, slice]:
        """The columns of each parameter."""
        return self._columns

    @cached_property
    def table(self) -> NDArray[np.float64] | None:
        """All designs `(n, dimension)`, if the space is a catalogue, perhaps with a few other choices; None if not.

        A search then compares all of them, instead of climbing between the items.
        """
        if not self.catalogues or self.size > MOST_LISTED:
            return None
        parts = [
            each.encode(self.held[name])[None] if name in self.held else _every(each)
            for name, each in self.parameters.items()
        ]
        combined = np.meshgrid(*[np.arange(len(part)) for part in parts], indexing="ij")
        designs = np.concatenate([part[which.ravel()] for part, which in zip(parts, combined, strict=True)], axis=1)
        return designs[self.meets(designs)]

    @cached_property
    def constrained_choices(self) -> NDArray[np.int64]:
        """The columns of categorical parameters that are in constraints: a climb leaves them as they are."""
        if self._feasible is None:
            return np.empty(0, dtype=np.int64)
        return np.delete(self._constrained, self._feasible.region.moving)

    def parse(self, text: object) -> Constraint:
        """The constraint that a text says about these parameters.

        Raises:
            SpaceError: if it is not one.
        """
        return parse(text, self._variables)

    def parse_arithmetic(self, text: str) -> Arithmetic:
        """The number that a text computes from these parameters, such as "1 + 0.01 * cells".

        Raises:
            SpaceError: if it is not arithmetic of parameters that are numbers.
        """
        return parse_arithmetic(text, self._variables)

    @property
    def _variables(self) -> dict[str, Variable]:
        variables: dict[str, Variable | None] = {
            f"{name}.{each}": Variable("integer")
            for name, own in self.parameters.items()
            if isinstance(own, Catalogue)
            for each in own.descriptors
        }
        variables |= {name: _variable(parameter) for name, parameter in self.parameters.items()}
        return {name: variable for name, variable in variables.items() if variable is not None}

    @property
    def feasible_share(self) -> float:
        """Share of uniformly random designs that meet the constraints, to about a thousandth; 1 without constraints."""
        return 1.0 if self._feasible is None else self._feasible.share

    @cached_property
    def _feasible(self) -> FeasibleSet | None:
        """The parameters in constraints, and their values that meet these; None without constraints."""
        if not self.constraints:
            return None
        parsed = [self.parse(text) for text in self.constraints]
        if self.held:
            columns = _columns(self.parameters, self.held)
            parsed = [rest for rest in (each.given(columns) for each in parsed) if rest is not None]
        return FeasibleSet(_region(self.parameters, tuple(parsed)))

    @cached_property
    def _constrained(self) -> NDArray[np.int64]:
        """The columns of the parameters in constraints."""
        if self._feasible is None:
            return np.empty(0, dtype=np.int64)
        places = [self._columns[name] for name in self._feasible.region.parameters]
        return np.concatenate([np.arange(place.start, place.stop) for place in places])

    @cached_property
    def _columns(self) -> dict[str, slice]:
        columns: dict[str, slice] = {}
        start = 0
        for name, parameter in self.parameters.items():
            columns[name] = slice(start, start + parameter.width)
            start += parameter.width
        return columns


def _variable(parameter: Parameter) -> Variable | None:
    """What a constraint may know of a parameter; None if it is of a kind that cannot be in one."""
    if isinstance(parameter, Categorical | Catalogue):
        return Variable("choice", tuple(parameter.choices))
    return (
        Variable("real")
        if isinstance(parameter, Real)
        else Variable("integer")
        if isinstance(parameter, Integer)
        else None
    )


def _every(parameter: Parameter) -> NDArray[np.float64]:
    """The columns of all values of a discrete parameter, `(n, width)`."""
    if isinstance(parameter, Catalogue):
        return parameter.rows
    if isinstance(parameter, Categorical):
        return np.eye(parameter.width)
    assert isinstance(parameter, Integer)
    return parameter.units(np.arange(parameter.low, parameter.high + 1, dtype=float))[:, None]


def _region(parameters: Mapping[str, Parameter], constraints: tuple[Constraint, ...]) -> Region:
    """The parameters that are in the constraints, in the space's order."""
    used = {name for constraint in constraints for name in owners(parameters, constraint)}
    kept = {
        n: p for n, p in parameters.items() if n in used and isinstance(p, Real | Integer | Categorical | Catalogue)
    }
    return Region(kept, constraints)


def _columns(parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> Columns:
    """One design, or a part of one, as columns, with its own values, which may be between those of the grid."""
    numbers: dict[str, NDArray[np.float64]] = {}
    positions: dict[str, NDArray[np.int64]] = {}
    for name, parameter in parameters.items():
        if name not in values:
            continue
        if isinstance(parameter, Catalogue):
            positions[name] = np.array([parameter.position(values[name])])
            numbers |= {f"{name}.{each}": np.array([number]) for each, number in parameter[values[name]].items()}
            continue
        if isinstance(parameter, Categorical):
            positions[name] = np.array([int(np.argmax(parameter.encode(values[name])))])
        if (number := number_of(values[name])) is not None:
            numbers[name] = np.array([number])
    return Columns(numbers, positions)


def _typed(values: Mapping[str, Any]) -> dict[str, tuple[type, Any]]:
    """Values with their types: the choices True and 1 are equal in Python."""
    return {name: (type(value), value) for name, value in values.items()}


def _clash(region: Region) -> str:
    """Which constraints no design was found for: none of them can be left out."""
    kept = region.constraints
    for constraint in region.constraints:
        fewer = tuple(other for other in kept if other is not constraint)
        if fewer and FeasibleSet(_region(region.parameters, fewer)).is_empty:
            kept = fewer
    texts = " and ".join(repr(constraint.text) for constraint in kept)
    if len(kept) == 1:
        return f"cannot find a design within the bounds that meets the constraint {texts}; correct it or the bounds"
    return f"cannot find a design within the bounds that meets {texts} together; correct one of them or the bounds"


def column_names(space: SearchSpace, others: Collection[str]) -> dict[str, str]:
    """Each parameter's column in a table that has other columns, too.

    A parameter named like another column gets the prefix `params_`, once more while a parameter has that name.
    """
    columns = {name: name for name in space.names}
    for name in columns:
        while columns[name] in others or (columns[name] != name and columns[name] in space.names):
            columns[name] = f"params_{columns[name]}"
    return columns
