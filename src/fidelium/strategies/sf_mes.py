"""SF-MES (Wang and Jegelka 2017): max-value entropy search at the target alone. See docs/strategies/sf-mes.md."""

from __future__ import annotations

from fidelium.acquisition.entropy import gaussian_gain
from fidelium.acquisition.entropy_search import EntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Independent
from fidelium.surrogates.gp.joint import GaussianProcess


def sf_mes() -> SurrogateStrategy:
    """A Gaussian process of the target (the other fidelities have theirs, for predictions) x gain at the target."""
    return SurrogateStrategy(GaussianProcess(Independent()), EntropySearch(gaussian_gain), target_only=True)
