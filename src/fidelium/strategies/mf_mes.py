"""MF-MES (Takeno et al. 2020): a coregionalised process x the gain per cost. See docs/strategies/mf-mes.md."""

from __future__ import annotations

from fidelium.acquisition.entropy import gaussian_gain
from fidelium.acquisition.entropy_search import EntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Coregionalised
from fidelium.surrogates.gp.joint import GaussianProcess


def mf_mes() -> SurrogateStrategy:
    """Linear coregionalisation with two latent kernels x gain about the observation."""
    return SurrogateStrategy(GaussianProcess(Coregionalised()), EntropySearch(gaussian_gain))
