"""MTNN-BO (Perrone et al. 2018): a network shared by the fidelities x gain per cost. See docs/strategies/mtnn-bo.md."""

from __future__ import annotations

from fidelium.acquisition.entropy import gaussian_gain
from fidelium.acquisition.entropy_search import EntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.multitask_nn import SharedFeatures


def mtnn_bo() -> SurrogateStrategy:
    """Shared features with a Bayesian last layer per fidelity x gain about the observation."""
    return SurrogateStrategy(GaussianProcess(SharedFeatures(), starts=2, steps=80), EntropySearch(gaussian_gain))
