"""Scales of the outputs: the networks see values of order one, whatever the units, with a long lower tail drawn in.

    z = (warp((y - centre) / spread) - shift) / scale

The warp is that of Yeo and Johnson (2000) with a power from 1 (none) to 2 (the lower tail becomes logarithmic). Only
the lower tail is drawn in: the optimum of a maximisation is at the top, and a few terrible designs must not hide it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fidelium.numerics.quadrature import gauss_hermite

Values = NDArray[np.float64]

_POWERS = np.linspace(1.0, 2.0, 21)
_POWER_STD = 0.3
_MOMENT_NODES = 20
_FARTHEST = 300.0


@dataclass(frozen=True)
class Scale:
    """How the values of one fidelity and the model's units belong together; monotonically increasing.

    Args:
        centre: value that the warp leaves in place.
        spread: unit of the warp, above 0.
        power: of the warp, from 1 (none) to 2.
        shift: warped value that the model calls 0.
        scale: warped distance that the model calls 1, above 0.
    """

    centre: float = 0.0
    spread: float = 1.0
    power: float = 1.0
    shift: float = 0.0
    scale: float = 1.0

    def warp(self, y: Values) -> Values:
        """Values drawn in at the lower end, before shift and scale."""
        return _yeo_johnson((y - self.centre) / self.spread, self.power)

    def inward(self, y: Values) -> Values:
        """Values in the model's units."""
        return (self.warp(y) - self.shift) / self.scale

    def outward(self, z: Values) -> Values:
        """Values in the objective's units."""
        return self.centre + self.spread * _yeo_johnson_inverse(self.shift + self.scale * z, self.power)

    def outward_moments(self, mean: Values, variance: Values) -> tuple[Values, Values]:
        """Mean and standard deviation in the objective's units of normal variables in the model's units."""
        if self.power == 1.0:
            unit = self.spread * self.scale
            return self.outward(mean), unit * np.sqrt(variance)
        nodes, weights = gauss_hermite(_MOMENT_NODES)
        values = self.outward(mean[..., None] + np.sqrt(variance)[..., None] * nodes)
        centre = values @ weights
        return centre, np.sqrt(((values - centre[..., None]) ** 2) @ weights)

    def aligned(self, shift: float, scale: float) -> Scale:
        """The same warp with another shift and scale."""
        return replace(self, shift=shift, scale=scale)


def standardising(y: Values) -> Scale:
    """The scale without a warp that gives `y` mean 0 and standard deviation 1.

    Constant, single or missing values get mean 0 and no change of spread but for their magnitude; values that differ
    only by rounding count as constant, for their spread says nothing.
    """
    largest = float(np.max(np.abs(y), initial=0.0))
    if largest == 0.0:
        return Scale()
    mean, std = float(np.mean(y / largest)), float(np.std(y / largest))
    return Scale(centre=mean * largest, spread=(std if std > 1e-13 else 1.0) * largest)


def warping(y: Values, below: Scale | None) -> Scale:
    """The scale whose warp makes `y` most normal, standardised afterwards.

    The power is the one of highest likelihood under a normal belief about the power of the fidelity below (or none at
    all), so that it takes more than a few values to say that a tail is long.

    Args:
        y: values of one fidelity.
        below: scale of the fidelity below, if there is one.
    """
    plain = standardising(y)
    z = plain.inward(y)
    if len(y) < 2 or np.ptp(z) < 1e-6:  # constant but for rounding: standardised values spread over more than 1
        return plain
    middle, (low, high) = float(np.median(z)), np.quantile(z, [0.25, 0.75])
    width = float(high - low) / 1.349  # the standard deviation, were it normal
    width = width if width > 1e-6 else 1.0
    z = (z - middle) / width
    expected = 1.0 if below is None else below.power
    scores = [_log_likelihood(z, power) - 0.5 * ((power - expected) / _POWER_STD) ** 2 for power in _POWERS]
    power = float(_POWERS[int(np.argmax(scores))])
    warped = Scale(plain.centre + plain.spread * middle, plain.spread * width, power)
    after = warped.warp(y)
    return warped.aligned(float(np.mean(after)), float(np.std(after)))


def _log_likelihood(z: Values, power: float) -> float:
    """Of values that are normal after the warp, their mean and variance at the best; comparable between powers."""
    warped = _yeo_johnson(z, power)
    jacobian = (power - 1) * np.sum(np.sign(z) * np.log1p(np.abs(z)))
    return -0.5 * len(z) * math.log(float(np.var(warped))) + float(jacobian)


def _yeo_johnson(z: Values, power: float) -> Values:
    """((z + 1)^p - 1) / p above 0, -((1 - z)^(2 - p) - 1) / (2 - p) below, its limit -log(1 - z) at p = 2."""
    if power == 1.0:
        return z
    above, below = np.log1p(np.maximum(z, 0.0)), np.log1p(np.maximum(-z, 0.0))
    drawn_in = below if power == 2.0 else np.expm1((2 - power) * below) / (2 - power)
    return np.where(z >= 0, np.expm1(np.minimum(power * above, _FARTHEST)) / power, -drawn_in)


def _yeo_johnson_inverse(z: Values, power: float) -> Values:
    if power == 1.0:
        return z
    above = np.log1p(power * np.maximum(z, 0.0)) / power
    depth = np.maximum(-z, 0.0)
    below = depth if power == 2.0 else np.log1p((2 - power) * depth) / (2 - power)
    return np.where(z >= 0, np.expm1(above), -np.expm1(np.minimum(below, _FARTHEST)))
