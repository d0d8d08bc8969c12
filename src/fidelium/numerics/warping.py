"""Monotone maps of the outputs, for objectives with long tails: a model need not care whether y or exp(y) is given.

A bend is straight between two ends and logarithmic beyond them, with a continuous slope. With u = (y - origin) / scale,

    z = -log(1 + (below - y) / scale)                       y < below
    z = u                                                   below <= y <= above
    z = u(above) + log(1 + (y - above) / scale)             y > above

Its inverse is exact. The logarithm of an exponential with any offset is such a map: a + exp(k m) below or above.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

LARGEST = float(np.finfo(float).max)
_SMALLEST = 1e-300
_HUGE = LARGEST / 4


@dataclass(frozen=True)
class Bend:
    """A continuous, strictly increasing map, logarithmic beyond one or two ends.

    Args:
        below: where the lower logarithm begins; the lowest float: there is none.
        above: where the upper one begins, not less than `below`; the largest float: there is none.
        scale: distance over which a logarithm is about straight, above 0.
    """

    below: float = -LARGEST
    above: float = LARGEST
    scale: float = 1.0

    @property
    def is_straight(self) -> bool:
        """Whether it bends nowhere: then it is the identity."""
        return bool(self.below == -LARGEST and self.above == LARGEST)

    @property
    def origin(self) -> float:
        """The value that is mapped to 0."""
        return self.above if self.below == -LARGEST else self.below

    def inward(self, y: Values) -> Values:
        """Bent values."""
        if self.is_straight:
            return y
        low, high = self._beyond(y)
        middle = np.clip(y, self.below, self.above)
        return distance(middle, self.origin, self.scale) - np.log1p(low) + np.log1p(high)

    def outward(self, z: Values) -> Values:
        """The values whose map is `z`, the largest floats in the place of what is beyond them."""
        if self.is_straight:
            return z
        last = LARGEST if self.above == LARGEST else float(distance(self._ends, self.origin, self.scale)[1])
        first = -LARGEST if self.below == -LARGEST else 0.0
        with np.errstate(over="ignore"):
            low, high = np.expm1(np.maximum(first - z, 0.0)), np.expm1(np.maximum(z - last, 0.0))
            beyond = np.where(z > last, high, np.where(z < first, -low, 0.0))
            return _finite(self.origin + self.scale * _finite(np.clip(z, first, last) + beyond))

    def log_slope(self, y: Values) -> Values:
        """The logarithm of the map's derivative."""
        if self.is_straight:
            return np.zeros_like(y)
        low, high = self._beyond(y)
        return -np.log1p(low) - np.log1p(high) - np.log(self.scale)

    def _beyond(self, y: Values) -> tuple[Values, Values]:
        """How far the values are below and above the straight part, in units of the scale; 0 within."""
        low, high = self._ends
        return distance(low, np.minimum(y, low), self.scale), distance(np.maximum(y, high), high, self.scale)

    @property
    def _ends(self) -> Values:
        return np.array([self.below, self.above])


STRAIGHT = Bend()


@dataclass(frozen=True)
class Warp:
    """Two bends, one after the other: a strictly increasing map of all numbers. By default the identity.

    The second one is for the logarithm of a logarithm: the exponential of an objective that has a long tail itself.
    """

    first: Bend = STRAIGHT
    second: Bend = STRAIGHT

    @staticmethod
    def of_numbers(numbers: list[float]) -> Warp:
        """The warp with these `numbers`."""
        return Warp(Bend(*numbers[:3]), Bend(*numbers[3:]))

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers of the map, to be kept in an array."""
        return (*astuple(self.first), *astuple(self.second))

    @property
    def is_identity(self) -> bool:
        """Whether the map changes nothing."""
        return self.first.is_straight and self.second.is_straight

    def inward(self, y: Values) -> Values:
        """Warped values."""
        return reduce(lambda values, bend: bend.inward(values), (self.first, self.second), y)

    def outward(self, z: Values) -> Values:
        """The values whose map is `z`."""
        return self.first.outward(self.second.outward(z))

    def log_slope(self, y: Values) -> Values:
        """The logarithm of the map's derivative, the Jacobian of each value."""
        return self.first.log_slope(y) + self.second.log_slope(self.first.inward(y))


IDENTITY = Warp()


def distance(y: Values | float, other: Values | float, scale: float) -> Values:
    """(y - other) / scale, of at least one array, finite also where the difference is too large for a float."""
    largest = max(float(np.max(np.abs(part), initial=0.0)) for part in (y, other))
    half = 0.5 if largest > _HUGE else 1.0
    with np.errstate(over="ignore"):
        return _finite(np.asarray((half * y - half * other) / max(half * scale, _SMALLEST)))


def _finite(values: Values) -> Values:
    return np.clip(values, -LARGEST, LARGEST)
