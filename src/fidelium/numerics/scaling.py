"""Units of the outputs: models see values of order one, whatever the units of the objective.

z = ((w(y) - centre) / spread - shift) / scale,     w the identity, or a monotone map of long tails (`warping.py`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fidelium.numerics.warping import IDENTITY, Warp

Values = NDArray[np.float64]

_LARGEST, _SMALLEST = float(np.finfo(float).max), float(np.finfo(float).tiny)
_HUGE = _LARGEST / 4


@dataclass(frozen=True)
class Scale:
    """The increasing map between the values of one fidelity and the model's units: affine, after the warp.

    Args:
        centre: mean of the warped values.
        spread: standard deviation of the warped values, above 0.
        shift: standardised value that the model calls 0.
        scale: standardised distance that the model calls 1, above 0.
        warp: the map of the values before that, usually the identity.
    """

    centre: float = 0.0
    spread: float = 1.0
    shift: float = 0.0
    scale: float = 1.0
    warp: Warp = IDENTITY

    def inward(self, y: Values) -> Values:
        """Values in the model's units."""
        y = self.warp.inward(y)
        # halved where a difference could be too large for a float; exact, so that other values keep every bit
        half = 0.5 if max(abs(self.centre), float(np.max(np.abs(y), initial=0.0))) > _HUGE else 1.0
        return ((half * y - half * self.centre) / (half * self.spread) - self.shift) / self.scale

    def inward_std(self, y: Values, std: Values) -> Values:
        """Standard errors of values y in the model's units: by the map's slope at y. NaN stays."""
        with np.errstate(over="ignore"):
            slope = 1.0 if self.warp.is_identity else np.exp(self.warp.log_slope(y))
            return std / self.spread * slope / self.scale

    def outward(self, z: Values) -> Values:
        """Values in the objective's units, the largest floats in the place of what is beyond them."""
        with np.errstate(over="ignore"):
            return self.warp.outward(_finite(self.centre + self.spread * (self.shift + self.scale * z)))

    def outward_moments(self, mean: Values, variance: Values) -> tuple[Values, Values]:
        """Mean and standard deviation in the objective's units, from mean and variance in the model's units.

        With a warp, the median, and half of the width of the interval of 68 % about it: both go through any map.
        """
        if not self.warp.is_identity:
            low, high = (self.outward(mean + sign * np.sqrt(variance)) for sign in (-1.0, 1.0))
            return self.outward(mean), high / 2 - low / 2
        with np.errstate(over="ignore"):
            return self.outward(mean), _finite(np.float64(self.spread) * self.scale * np.sqrt(variance))

    def ratio_to(self, other: Scale) -> tuple[float, float]:
        """Where this scale's 0 is in the other's units, and how long its distance of 1 is there; both after a warp."""
        # in units of the other's spread, to the next power of two: exact, and never too large or small for a float
        exponent = -math.frexp(other.spread)[1]
        centre, spread = math.ldexp(self.centre, exponent), math.ldexp(self.spread, exponent)
        other_centre, other_spread = math.ldexp(other.centre, exponent), math.ldexp(other.spread, exponent)
        shift = ((centre - other_centre + spread * self.shift) / other_spread - other.shift) / other.scale
        return shift, spread * self.scale / (other_spread * other.scale)


def scale_rows(scales: Sequence[Scale]) -> Values:
    """The numbers of every scale as a row, for a posterior to keep."""
    return np.array([(s.centre, s.spread, s.shift, s.scale, *s.warp.numbers) for s in scales])


def scales_of(rows: Any) -> tuple[Scale, ...]:
    """The scales of such rows, an array of NumPy or JAX."""
    return tuple(Scale(*fields[:4], warp=Warp.of_numbers(fields[4:])) for fields in np.asarray(rows).tolist())


def _finite(values: Values) -> Values:
    return np.clip(values, -_LARGEST, _LARGEST)


def standardising(y: Values, errors: Values | None = None) -> Scale:
    """The scale that gives `y` mean 0 and standard deviation 1.

    Constant, single or missing values get mean 0 and are divided by their magnitude only; values that differ only by
    rounding count as constant. With standard errors, values count the less, the larger theirs is.

    Args:
        y: values.
        errors: the standard error of each, None: they are all the same.
    """
    largest = float(np.max(np.abs(y), initial=0.0))
    if largest == 0.0:
        return Scale()
    if errors is None or not np.any(errors > np.min(errors)):
        mean, std = float(np.mean(y / largest)), float(np.std(y / largest))
    else:
        share = precision_shares(y / largest, errors / largest)
        mean = float(share @ (y / largest))
        std = math.sqrt(float(share @ (y / largest - mean) ** 2))
    return Scale(centre=mean * largest, spread=max((std if std > 1e-13 else 1.0) * largest, _SMALLEST))


def precision_shares(y: Values, errors: Values) -> Values:
    """How much each value counts, 1 / (spread^2 + error^2), as shares; the spread is that of the less noisy half."""
    half = np.sort(errors)[(len(errors) - 1) // 2]
    spread = max(float(np.std(y[errors <= half])), float(np.min(errors)), 1e-150)
    weight = 1 / (1 + (np.minimum(errors / spread, 1e150)) ** 2)
    return weight / np.sum(weight)
