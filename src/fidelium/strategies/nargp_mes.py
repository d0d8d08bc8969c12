"""NARGP-MES: the non-linear autoregressive process of Perdikaris et al. (2017) x the gain per cost, a pair of our own.

See docs/strategies/nargp-mes.md.
"""

from __future__ import annotations

from fidelium.acquisition.entropy_search import EntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.nonlinear import NonlinearAutoregressive


def nargp_mes() -> SurrogateStrategy:
    """A chain of Gaussian processes, each fed with the one below, x gain about the observation."""
    return SurrogateStrategy(NonlinearAutoregressive(), EntropySearch())
