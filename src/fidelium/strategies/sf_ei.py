"""SF-EI: log expected improvement (Ament et al. 2023) at the target alone. See docs/strategies/sf-ei.md."""

from __future__ import annotations

from fidelium.acquisition.improvement import ImprovementSearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Independent
from fidelium.surrogates.gp.joint import GaussianProcess

NOISE_STD = 5e-4
"""Improvement is on the best observation, as if it were exact: the process believes that, too."""


def sf_ei() -> SurrogateStrategy:
    """A Gaussian process of the target (the other fidelities have theirs, for predictions) x log EI."""
    surrogate = GaussianProcess(Independent(), noise_std=NOISE_STD)
    return SurrogateStrategy(surrogate, ImprovementSearch(), target_only=True)
