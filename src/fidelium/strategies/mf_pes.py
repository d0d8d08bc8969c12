"""MF-PES (Zhang et al. 2017): a convolved process x predictive entropy per cost. See docs/strategies/mf-pes.md."""

from __future__ import annotations

from fidelium.acquisition.predictive_entropy import PredictiveEntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Convolved
from fidelium.surrogates.gp.joint import GaussianProcess


def mf_pes() -> SurrogateStrategy:
    """A convolved process x gain about the target's maximiser."""
    return SurrogateStrategy(GaussianProcess(Convolved()), PredictiveEntropySearch())
