"""SF-EI: log expected improvement (Ament et al. 2023) at the target alone. See docs/strategies/sf-ei.md."""

from __future__ import annotations

from fidelium.acquisition.improvement import ImprovementSearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Independent
from fidelium.surrogates.gp.joint import GaussianProcess


def sf_ei() -> SurrogateStrategy:
    """A Gaussian process of the target (the other fidelities have theirs, for predictions) x log EI."""
    return SurrogateStrategy(GaussianProcess(Independent()), ImprovementSearch(), target_only=True)
