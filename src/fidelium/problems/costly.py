"""Problems whose runs cost what depends on the design: up to ten times as much at one end of the space as at the other.

The declared costs of the fidelities are the same for all designs; what a run really cost is reported. On average over
the space, geometrically, it is what is declared. `costs-equal` varies by chance alone, by some percent.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fidelium.problems.base import Problem
from fidelium.problems.robustness import hartmann6, peaks, rosenbrock4
from fidelium.problems.synthetic import branin
from fidelium.space import Params, SearchSpace

RANGE = 10.0
"""Cost of the dearest design in units of the cheapest."""

_CHANCE = 0.1


def costs_branin() -> Problem:
    """Branin, dear at large x1: one of its three optima is cheap, one is dear."""
    return _costly(branin(), "costs-branin", x1=1)


def costs_peaks() -> Problem:
    """Peaks, dear at large y, where the summit is: a quarter of the range from the dearest."""
    return _costly(peaks(), "costs-peaks", y=1)


def costs_peaks_cheap() -> Problem:
    """Peaks, dear at small y: the summit is cheap."""
    return _costly(peaks(), "costs-peaks-cheap", y=-1)


def costs_rosenbrock4() -> Problem:
    """Rosenbrock's valley in four dimensions, dear at large x1."""
    return _costly(rosenbrock4(), "costs-rosenbrock4", x1=1)


def costs_hartmann6() -> Problem:
    """Hartmann in six dimensions, dear at large x6; the optimum is on the dear side."""
    return _costly(hartmann6(), "costs-hartmann6", x6=1)


def costs_hartmann6_cheap() -> Problem:
    """Hartmann in six dimensions, dear at large x2; the optimum is on the cheap side."""
    return _costly(hartmann6(), "costs-hartmann6-cheap", x2=1)


def costs_equal() -> Problem:
    """Peaks with costs that do not depend on the design, but vary by chance."""
    return replace(peaks(), name="costs-equal", cost_factor=_by_chance, reference="ours")


def costs_equal_hartmann6() -> Problem:
    """Hartmann in six dimensions with costs that do not depend on the design, but vary by chance."""
    return replace(hartmann6(), name="costs-equal-hartmann6", cost_factor=_by_chance, reference="ours")


@dataclass(frozen=True)
class _Rise:
    """A factor that rises tenfold with a share from 0 to 1 of the parameters' ranges.

    Args:
        space: the parameters.
        weights: of the parameters, adding up to 1 or -1; with negative ones costs fall.
    """

    space: SearchSpace
    weights: Mapping[str, float]

    def __call__(self, params: Params) -> float:
        unit = dict(zip(self.space.names, self.space.encode(params).tolist(), strict=True))
        share = sum(weight * unit[name] for name, weight in self.weights.items())
        return RANGE ** (share - 0.5 * sum(self.weights.values()))


def _costly(problem: Problem, name: str, **weights: float) -> Problem:
    rise = _Rise(problem.space, weights)
    return replace(problem, name=name, cost_factor=rise, reference=f"{problem.reference}; costs: ours")


def _by_chance(params: Params) -> float:
    """A factor of about 1, the same each time a design is run."""
    generator = np.random.default_rng(zlib.crc32(repr(sorted(params.items())).encode()))
    return float(np.exp(_CHANCE * generator.normal()))
