"""The multi-task network of Perrone et al. (2018): features shared by all fidelities, a Bayesian last layer for each.

    f_m(x) = w_m . phi(x),    k((x, m), (x', m')) = B[m, m'] (a^2 phi(x) . phi(x') / F + BIAS)

Perrone's last layers are independent, B = I: the fidelities share only the network. Then, once the network is learned,
observations of a lower fidelity are not informative about the target, and the gain below the target is 0. Our
deviation: the last layers' weights have a correlation r in (0, 1), which is learned,

    B = (1 - r) I + r 1 1^T,    r -> 0: Perrone's

In this form of a covariance, posterior, draws and conditionals are those of any Gaussian process (gp/joint.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Float

from fidelium.errors import SettingError
from fidelium.numerics.backend import jax_key
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.gp.covariances import MixedProcesses, Roles
from fidelium.surrogates.learning import HIGHEST, LOWEST, Entry, Prior
from fidelium.surrogates.stacked_dnn.architecture import Architecture, DenseFeatures

CORRELATION, CORRELATION_LOGIT_STD = 2.0, 1.5
"""Prior of logit r: a correlation of 0.88 between the fidelities, 0.62 to 0.97 within one standard deviation. Chosen,
not tuned."""

AMPLITUDE, AMPLITUDE_LOG_STD = 0.7, 0.7
"""Prior of log a: twice the spread, give or take a factor 2. Chosen, not tuned."""

FARTHEST_WEIGHT = 20.0
"""Bound of the search for the network's weights, either side of 0."""


class NetworkKernel(eqx.Module):
    """kappa(x, x') = a^2 phi(x) . phi(x') / F of the network's F features.

    Args:
        log_amplitude: log a.
        network: phi, with a bias at its end that is left to the covariance.
    """

    log_amplitude: Scalar
    network: DenseFeatures

    def __call__(self, x: Point, other: Point) -> Scalar:
        return self._phi(x) @ self._phi(other)

    def features(self, frequencies: Float[Array, "k d"], x: Point) -> Float[Array, " f"]:
        """The network's features: they are exact, and no frequency is needed."""
        return self._phi(x)

    def _phi(self, x: Point) -> Float[Array, " f"]:
        phi = self.network.of_both(x, None)[:-1]
        return jnp.exp(self.log_amplitude) / math.sqrt(phi.shape[0]) * phi


class SharedParameters(eqx.Module):
    """theta: logit r, log a, and the network's weights and biases."""

    logit_correlation: Entry
    log_amplitude: Entry
    network: DenseFeatures


@dataclass(frozen=True)
class SharedFeatures:
    """Last layers on shared features.

    Args:
        architecture: the network's shape, the features last.
        spread: how far a weight may move from its random start, as the standard deviation of its prior.

    Raises:
        SettingError: if the spread is not positive.
    """

    roles: ClassVar[Roles] = Roles.FREE
    architecture: Architecture = Architecture((32, 32), "tanh")
    spread: float = 0.3
    shares_units: bool = False

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise SettingError(f"spread must be above 0, got {self.spread!r}")

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior[SharedParameters]:
        network = jax.tree.map(np.asarray, self._network(dimension, key))

        def alike(correlation: float, amplitude: float, weight: float) -> SharedParameters:
            weights = jax.tree.map(lambda leaf: np.full(leaf.shape, weight), network)
            return SharedParameters(np.asarray(correlation), np.asarray(amplitude), weights)

        mean = SharedParameters(np.asarray(CORRELATION), np.asarray(AMPLITUDE), network)
        std = alike(CORRELATION_LOGIT_STD, AMPLITUDE_LOG_STD, self.spread)
        return Prior(mean, std, alike(LOWEST, LOWEST, -FARTHEST_WEIGHT), alike(HIGHEST, HIGHEST, FARTHEST_WEIGHT))

    def covariance(self, theta: SharedParameters, fidelities: int) -> MixedProcesses:
        r = sigmoid(theta.logit_correlation)
        root = jnp.concatenate([jnp.full((fidelities, 1), jnp.sqrt(r)), jnp.sqrt(1 - r) * jnp.eye(fidelities)], axis=1)
        return MixedProcesses(root[None], (NetworkKernel(jnp.asarray(theta.log_amplitude), theta.network),))

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return np.zeros((1, 0, dimension))

    def _network(self, dimension: int, key: Key) -> DenseFeatures:
        return self.architecture.draw(dimension, jax_key(key))
