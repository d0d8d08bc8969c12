"""The methods the paper compares with, each a surrogate x an acquisition. docs/strategies has a page for each.

Values with long tails are warped before any of them (`Warped`).
"""

from __future__ import annotations

from fidelium.acquisition.confidence import ConfidenceSearch
from fidelium.acquisition.entropy import EntropySearch, gaussian_gain
from fidelium.acquisition.improvement import AugmentedImprovementSearch, ImprovementSearch
from fidelium.acquisition.predictive_entropy import PredictiveEntropySearch
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Additive, Convolved, Coregionalised, Independent
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.gp.nonlinear import NonlinearAutoregressive
from fidelium.surrogates.multitask_nn import SharedFeatures
from fidelium.surrogates.warped import Warped


def mf_gp_ucb() -> SurrogateStrategy:
    """Independent processes in common units x the lowest of all upper confidence bounds."""
    return SurrogateStrategy(
        Warped(GaussianProcess(Independent(shares_units=True)), shares_units=True), ConfidenceSearch()
    )


def mf_mes() -> SurrogateStrategy:
    """Linear coregionalisation with two latent kernels x gain about the observation."""
    return SurrogateStrategy(Warped(GaussianProcess(Coregionalised())), EntropySearch(gaussian_gain))


def mf_pes() -> SurrogateStrategy:
    """A convolved process x gain about the target's maximiser."""
    return SurrogateStrategy(Warped(GaussianProcess(Convolved())), PredictiveEntropySearch())


def mf_sko() -> SurrogateStrategy:
    """f_m = f_{m-1} + delta_m, independent processes x log AEI on the effective best."""
    return SurrogateStrategy(Warped(GaussianProcess(Additive()), shares_units=True), AugmentedImprovementSearch())


def mtnn_bo() -> SurrogateStrategy:
    """Shared features with a Bayesian last layer per fidelity x gain about the observation."""
    return SurrogateStrategy(
        Warped(GaussianProcess(SharedFeatures(), starts=2, steps=80)), EntropySearch(gaussian_gain)
    )


def nargp_mes() -> SurrogateStrategy:
    """A chain of Gaussian processes, each fed with the one below, x gain about the observation."""
    return SurrogateStrategy(Warped(NonlinearAutoregressive()), EntropySearch())


NOISE_STD = 5e-4
"""Prior median of the noise: improvement is over the best observation, as if it were exact."""


def sf_ei() -> SurrogateStrategy:
    """A Gaussian process of the target (the other fidelities have theirs, for predictions) x log EI."""
    surrogate = GaussianProcess(Independent(), noise_std=NOISE_STD)
    return SurrogateStrategy(Warped(surrogate), ImprovementSearch(), target_only=True)


def sf_mes() -> SurrogateStrategy:
    """A Gaussian process of the target (the other fidelities have theirs, for predictions) x gain at the target."""
    return SurrogateStrategy(Warped(GaussianProcess(Independent())), EntropySearch(gaussian_gain), target_only=True)
