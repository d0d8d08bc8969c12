"""MF-SKO (Huang et al. 2006): an additive process x augmented improvement per cost. See docs/strategies/mf-sko.md."""

from __future__ import annotations

from fidelium.acquisition.improvement import AugmentedImprovementSearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Additive
from fidelium.surrogates.gp.joint import GaussianProcess


def mf_sko() -> SurrogateStrategy:
    """f_m = f_{m-1} + delta_m, independent processes x log AEI on the effective best."""
    return SurrogateStrategy(GaussianProcess(Additive(rho=1.0)), AugmentedImprovementSearch())
