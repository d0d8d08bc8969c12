"""The multi-task network of Perrone et al. (2018): features shared by all fidelities, a Bayesian last layer for each.

    f_m(x) = w_m . phi(x),    k((x, m), (x', m')) = B[m, m'] (a^2 phi(x) . phi(x') / F + BIAS)

Perrone's last layers are independent, B = I: the fidelities share the network and nothing else. Then, once the network
is learned, no observation of a lower fidelity says anything about the target, and no gain about the target's maximum is
to be had below it. Our deviation: the last layers' weights have a correlation r in (0, 1), which is learned,

    B = (1 - r) I + r 1 1^T,    r -> 0: Perrone's

In this form of a covariance, posterior, draws and conditionals are those of any Gaussian process (gp/joint.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.nn import sigmoid
from jaxtyping import Array, Float

from fidelium.errors import SettingError
from fidelium.numerics.backend import jax_key
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.gp.covariances import MixedProcesses
from fidelium.surrogates.learning import HIGHEST, LOWEST, Prior
from fidelium.surrogates.stacked_dnn.features import Architecture, DenseFeatures

FARTHEST_WEIGHT = 20.0
"""Where the network's weights are looked for, either side of 0."""


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


@dataclass(frozen=True)
class SharedFeatures:
    """Last layers on shared features: theta = [logit r, log a, weights and biases of the network].

    Args:
        architecture: the network's shape, the features last.
        spread: how far a weight may move from its random start, as the standard deviation of its prior.

    Raises:
        SettingError: if the spread is not positive.
    """

    architecture: Architecture = Architecture((32, 32), "tanh")
    spread: float = 0.3
    shares_units: bool = False

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise SettingError(f"spread must be above 0, got {self.spread!r}")

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior:
        weights = np.asarray(ravel_pytree(self._network(dimension, key))[0])
        farthest = np.full(len(weights), FARTHEST_WEIGHT)
        return Prior(
            np.concatenate([[2.0, 0.7], weights]),
            np.concatenate([[1.5, 0.7], np.full(len(weights), self.spread)]),
            np.concatenate([[LOWEST, LOWEST], -farthest]),
            np.concatenate([[HIGHEST, HIGHEST], farthest]),
        )

    def covariance(self, theta: Float[Array, " p"], dimension: int, fidelities: int) -> MixedProcesses:
        network = ravel_pytree(self._network(dimension, Key((0,))))[1](theta[2:])  # of the first, its shape alone
        r = sigmoid(theta[0])
        root = jnp.concatenate([jnp.full((fidelities, 1), jnp.sqrt(r)), jnp.sqrt(1 - r) * jnp.eye(fidelities)], axis=1)
        return MixedProcesses(root[None], (NetworkKernel(theta[1], network),))

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return np.zeros((1, 0, dimension))

    def _network(self, dimension: int, key: Key) -> DenseFeatures:
        return self.architecture.draw(dimension, jax_key(key))
