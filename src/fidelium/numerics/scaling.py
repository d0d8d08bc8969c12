"""Units of the outputs: models see values of order one, whatever the units of the objective.

z = ((y - centre) / spread - shift) / scale
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """The affine, increasing map between the values of one fidelity and the model's units.

    Args:
        centre: mean of the values.
        spread: standard deviation of the values, above 0.
        shift: standardised value that the model calls 0.
        scale: standardised distance that the model calls 1, above 0.
    """

    centre: float = 0.0
    spread: float = 1.0
    shift: float = 0.0
    scale: float = 1.0

    def inward(self, y: Values) -> Values:
        """Values in the model's units."""
        return ((y - self.centre) / self.spread - self.shift) / self.scale

    def outward(self, z: Values) -> Values:
        """Values in the objective's units."""
        return self.centre + self.spread * (self.shift + self.scale * z)

    def outward_moments(self, mean: Values, variance: Values) -> tuple[Values, Values]:
        """Mean and standard deviation in the objective's units, from mean and variance in the model's units."""
        unit = self.spread * self.scale
        return self.outward(mean), unit * np.sqrt(variance)


def standardising(y: Values) -> Scale:
    """The scale that gives `y` mean 0 and standard deviation 1.

    Constant, single or missing values get mean 0 and are divided by their magnitude only; values that differ only by
    rounding count as constant.
    """
    largest = float(np.max(np.abs(y), initial=0.0))
    if largest == 0.0:
        return Scale()
    mean, std = float(np.mean(y / largest)), float(np.std(y / largest))
    return Scale(centre=mean * largest, spread=(std if std > 1e-13 else 1.0) * largest)
