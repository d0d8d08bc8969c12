"""MF-GP-UCB (Kandasamy et al. 2016): independent processes x confidence bounds. See docs/strategies/mf-gp-ucb.md."""

from __future__ import annotations

from fidelium.acquisition.confidence import ConfidenceSearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Independent
from fidelium.surrogates.gp.joint import GaussianProcess


def mf_gp_ucb() -> SurrogateStrategy:
    """Independent processes in common units x the lowest of all upper confidence bounds."""
    return SurrogateStrategy(GaussianProcess(Independent(shares_units=True)), ConfidenceSearch())
