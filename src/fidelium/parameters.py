"""Parameters of a design, and their encoding as columns of the unit cube.

A categorical parameter takes one column per choice, the others take one column. `snap` maps any columns to the nearest
ones that encode a valid value, `decode(snap(u))` is that value, and `encode` gives back the same columns, bit for bit.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import SpaceError

_FINEST_BITS = 40
"""Resolution of a real parameter, 2**-40 of its range: finer than simulators need, coarser than rounding errors."""

_BEYOND_FLOATS = 2**1024
"""The smallest power of two that is too large for a float."""


@runtime_checkable
class Parameter(Protocol):
    """The interface of a parameter, implemented by `Real`, `Integer` and `Categorical`."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of columns of the unit cube this parameter takes."""
        ...

    @property
    @abstractmethod
    def size(self) -> float:
        """Number of different values, `inf` for a real parameter."""
        ...

    @abstractmethod
    def validate(self, value: Any) -> Any:
        """The value as a plain Python object; raises `SpaceError` if it is not valid."""
        ...

    @abstractmethod
    def encode(self, value: Any) -> NDArray[np.float64]:
        """The value's columns in the unit cube, shape `(width,)`; outside of it for a number outside of the bounds.

        Raises:
            SpaceError: if the value has no place: a choice that there is not, a number <= 0 on a log scale.
        """
        ...

    @abstractmethod
    def decode(self, columns: NDArray[np.float64]) -> Any:
        """The value nearest to these columns, shape `(width,)`."""
        ...

    @abstractmethod
    def snap(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """The columns `(n, width)`, each row replaced by the nearest one that encodes a value."""
        ...


@dataclass(frozen=True)
class Real:
    """A real number in [low, high], on a linear or a logarithmic scale.

    Args:
        low: lower bound.
        high: upper bound, above `low`.
        log: use a logarithmic scale; needs `low > 0`.

    Raises:
        SpaceError: if the bounds are not finite, are reversed, are closer together than doubles can resolve, or are not
            positive for a log scale.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_bounds("Real", self.low, self.high, self.log)
        if not math.isfinite(self._ends[1] - self._ends[0]):
            raise SpaceError(f"the range of Real({self.low!r}, {self.high!r}) is too wide for a float; rescale it")
        if self._bits < 8:
            raise SpaceError(
                f"the bounds of Real({self.low!r}, {self.high!r}{', log=True' if self.log else ''}) are too close, "
                "floats cannot tell enough values between them apart; widen them or rescale"
            )

    @property
    def width(self) -> int:
        return 1

    @property
    def size(self) -> float:
        return math.inf

    def validate(self, value: Any) -> float:
        number = _plain_number(value)
        if number is None or not math.isfinite(number) or not self.low <= number <= self.high:
            raise SpaceError(f"expected a number in [{self.low:g}, {self.high:g}], got {value!r}")
        return float(number)

    def encode(self, value: Any) -> NDArray[np.float64]:
        start, end = self._ends
        position = (_log(value) if self.log else value) - start
        columns = np.array([[position / (end - start)]])
        return (self.snap(columns) if self.low <= value <= self.high else columns)[0]

    def decode(self, columns: NDArray[np.float64]) -> float:
        (unit,) = self.snap(columns[None, :])[0].tolist()
        if unit == 1.0:
            return float(self.high)
        start, end = self._ends
        position = start + unit * (end - start)
        value = math.exp(position) if self.log and unit > 0 else (self.low if unit == 0 else position)
        return float(min(max(value, self.low), self.high))

    def snap(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        steps = 2.0**self._bits
        return np.round(np.clip(columns, 0.0, 1.0) * steps) / steps + 0.0  # -0.0 is the same point as 0.0

    @property
    def steps(self) -> float:
        """Steps of the grid of values between the bounds."""
        return 2.0**self._bits

    def values(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """`decode` of many snapped columns `(n,)` at once, with the same bits."""
        start, end = self._ends
        positions = start + units * (end - start)
        if self.log:  # Python's own exponential, as in `decode`: NumPy's may differ in the last bit
            positions = np.array([math.exp(position) for position in positions.tolist()])
        ends = np.where(units == 0, float(self.low), np.where(units == 1, float(self.high), positions))
        return np.clip(ends, self.low, self.high)

    def relaxed(self, units: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values at any points of the unit interval `(n,)`, and their derivatives."""
        start, end = self._ends
        positions = start + units * (end - start)
        values = np.exp(positions) if self.log else positions
        return values, (end - start) * (values if self.log else np.ones_like(values))

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (float(self.low), float(self.high))

    @cached_property
    def _bits(self) -> int:
        """Bits of the grid: four less than survive the rounding in `decode` and `encode`, at most 40."""
        start, end = self._ends
        if not end > start:  # the logarithms of bounds next to each other
            return 0
        # on a log scale exp() amplifies rounding by |log value|; one more unit covers the value's own rounding
        magnitude = max(abs(start), abs(end)) + (1.0 if self.log else 0.0)
        bits = 48 - math.ceil(math.log2(max(magnitude / (end - start), 1.0)))
        # below 2**-1022 doubles are 2**-1074 apart: one step at the lower bound must be longer
        step = math.log2(end - start) + (math.log2(self.low) if self.log else 0.0)
        bits = min(bits, 1070 + math.floor(step))
        return min(_FINEST_BITS, bits)


@dataclass(frozen=True)
class Integer:
    """A whole number in [low, high], both included, on a linear or a logarithmic scale.

    Each value is encoded inside its own cell of the unit interval, so rounding is unambiguous.

    Args:
        low: smallest value.
        high: largest value, above `low`.
        log: use a logarithmic scale; needs `low >= 1`.

    Raises:
        SpaceError: if the bounds are not whole numbers, are reversed, or are below 1 for a log scale.
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_bounds("Integer", self.low, self.high, self.log)
        for bound in (self.low, self.high):
            if not isinstance(bound, (int, np.integer)):
                raise SpaceError(f"the bounds of Integer must be whole numbers, got {bound!r}")
        if max(abs(self.low), abs(self.high)) > 2**40:
            raise SpaceError(f"Integer({self.low!r}, {self.high!r}) has too many values; use Real and round")

    @property
    def width(self) -> int:
        return 1

    @property
    def size(self) -> float:
        return float(self.high - self.low + 1)

    def validate(self, value: Any) -> int:
        number = _plain_number(value)
        if number is None or not self.low <= number <= self.high or number != int(number):
            raise SpaceError(f"expected a whole number in [{self.low}, {self.high}], got {value!r}")
        return int(number)

    def encode(self, value: Any) -> NDArray[np.float64]:
        if self.log:
            _log(value)
        return self.units(np.array([float(value)]))

    def decode(self, columns: NDArray[np.float64]) -> int:
        return int(self.values(columns)[0])

    def snap(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.units(self.values(columns))

    def relaxed(self, units: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values at any points of the unit interval `(n,)` before they are rounded, and their derivatives."""
        start, end = self._ends
        positions = start + units * (end - start)
        values = np.exp(positions) if self.log else positions
        inside = (values >= self.low) & (values <= self.high)
        slopes = (end - start) * (values if self.log else np.ones_like(values))
        return np.clip(values, self.low, self.high), np.where(inside, slopes, 0.0)

    def shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of the unit interval that belongs to each value."""
        start, end = self._ends
        below, above = values - 0.5, values + 0.5
        return (np.log(above / below) if self.log else above - below) / (end - start)

    def values(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """`decode` of many columns at once, as floats."""
        start, end = self._ends
        positions = start + np.clip(units, 0.0, 1.0) * (end - start)
        return np.clip(np.round(np.exp(positions) if self.log else positions), self.low, self.high)

    def units(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where whole numbers are in the unit interval."""
        start, end = self._ends
        return ((np.log(values) if self.log else values) - start) / (end - start)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The bounds, extended by half a cell so that every value has a full cell."""
        low, high = self.low - 0.5, self.high + 0.5
        return (math.log(low), math.log(high)) if self.log else (low, high)


@dataclass(frozen=True)
class Categorical:
    """One of a few choices without an order, encoded with one column per choice.

    Args:
        choices: the values, at least two, hashable and all different.

    Raises:
        SpaceError: if there are fewer than two choices, two are equal, or one is not hashable or not equal to itself.
    """

    choices: Sequence[Hashable]

    def __post_init__(self) -> None:
        if isinstance(self.choices, (str, bytes)) or not isinstance(self.choices, Sequence):
            raise SpaceError(f"the choices of Categorical must be a list or tuple, got {self.choices!r}")
        if len(self.choices) < 2:
            raise SpaceError(f"Categorical needs at least two choices, got {list(self.choices)!r}")
        seen: set[tuple[bool, Hashable]] = set()
        for choice in self.choices:
            if not isinstance(choice, Hashable):
                raise SpaceError(f"the choices of Categorical must be hashable, got {choice!r}")
            if not _same(choice, choice):
                raise SpaceError(f"a choice of Categorical must be equal to itself (NaN is not), got {choice!r}")
            if (isinstance(choice, bool), choice) in seen:  # the equality of `_same`
                raise SpaceError(f"the choices of Categorical must differ, got {choice!r} twice")
            seen.add((isinstance(choice, bool), choice))

    @property
    def width(self) -> int:
        return len(self.choices)

    @property
    def size(self) -> float:
        return float(len(self.choices))

    def validate(self, value: Any) -> Any:
        return self.choices[self._position(value)]

    def encode(self, value: Any) -> NDArray[np.float64]:
        columns = np.zeros(self.width)
        columns[self._position(value)] = 1.0
        return columns

    def decode(self, columns: NDArray[np.float64]) -> Any:
        return self.choices[int(np.argmax(columns))]

    def snap(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.eye(self.width)[np.argmax(columns, axis=1)]

    def _position(self, value: Any) -> int:
        for position, choice in enumerate(self.choices):
            if _same(choice, value):
                return position
        raise SpaceError(f"expected one of {', '.join(map(repr, self.choices))}, got {value!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Categorical) or len(self.choices) != len(other.choices):
            return False
        return all(_same(mine, theirs) for mine, theirs in zip(self.choices, other.choices, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self.choices))


def _plain_number(value: Any) -> float | int | None:
    """`value` as a plain number, None if it is not one (or a boolean) or too large for a float."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, float):
            return None if math.isnan(number) else number
        return number if abs(number) < _BEYOND_FLOATS else None
    return None


def _log(value: float) -> float:
    if value <= 0:
        raise SpaceError(f"expected a number above 0 on a log scale, got {value!r}")
    return math.log(value)


def _same(choice: Any, value: Any) -> bool:
    """Whether two choices are equal; True and 1 are different, 1 and 1.0 are equal."""
    if isinstance(choice, bool) != isinstance(value, bool) or not isinstance(value, Hashable):
        return False  # comparing an unhashable value, such as an array, may not give a boolean
    return choice == value


def _check_bounds(kind: str, low: Any, high: Any, log: Any) -> None:
    if not isinstance(log, (bool, np.bool_)):  # log="no" would be a logarithmic scale
        raise SpaceError(f"{kind} takes log=True or log=False, got {log!r}")
    for bound in (low, high):
        number = _plain_number(bound)
        if number is None or not math.isfinite(number):
            raise SpaceError(f"the bounds of {kind} must be finite numbers, got {bound!r}")
    if low >= high:
        raise SpaceError(f"{kind} needs low < high, got low={low!r} and high={high!r}")
    if log and low <= 0:
        raise SpaceError(f"{kind} with log=True needs low > 0, got low={low!r}")
