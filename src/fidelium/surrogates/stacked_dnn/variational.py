"""The paper's way to learn the stack: stochastic variational learning (supplement, Sec. 3).

The bound -sum KL(q(w_m) || N(0, I)) + sum E_q[log N(y_nm | f_m(x_nm), sigma_m^2)] on the evidence of eq. (4) joint-prob
is estimated with one reparameterised sample of all weights, w_m = mu_m + L_m e, and climbed by Adam on the full batch.
L_m is lower triangular with a positive diagonal. What the text leaves open follows the authors' program
(docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float

from fidelium.errors import SettingError
from fidelium.history import Observations, Used
from fidelium.numerics import linalg
from fidelium.numerics.backend import jax_key
from fidelium.numerics.padding import PaddedData, pad
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.base import VARIANCE_FLOOR, Point, Scalar
from fidelium.surrogates.chain import ChainPosterior
from fidelium.surrogates.inputs import seen_by
from fidelium.surrogates.known_noise import NOT_KNOWN, known_vars, or_learned, typical_var, unit_of
from fidelium.surrogates.learning import require_data
from fidelium.surrogates.stacked_dnn.architecture import Architecture, DenseFeatures, StackArchitecture
from fidelium.surrogates.stacked_dnn.features import Features, SeenFeatures, all_of

FIRST_NOISE_STD = 0.1
"""Start of the learning of the noise, in units of the values' spread."""


LEAST_STD = 1e-2
"""Least known noise, in units of the values' spread: with less, Adam in single precision does not find its way."""


class NetworkLayer(eqx.Module):
    """One fidelity, eq. (3) mf-dnn: f_m = w . phi(x, f_{m-1}), with q(w) = N(mu, R R^T).

    Args:
        features: the network below the last layer.
        weight_mean: mu_m.
        weight_root: R_m with covariance R_m R_m^T (the paper's L_m).
        noise_var: sigma_m^2.
    """

    features: Features
    weight_mean: Float[Array, " f"]
    weight_root: Float[Array, "f f"]
    noise_var: Scalar

    def conditional(self, x: Point, below: Scalar | None) -> tuple[Scalar, Scalar]:
        """u(f_{m-1}, x) and gamma(f_{m-1}, x): mean and variance of f_m given the layer below, eq. (6) cond-m."""
        of_x, of_both = self.features.of_x(x), self.features.of_both(x, below)
        split = of_x.shape[0]
        # u = mu . phi,   gamma = |R^T phi|^2, the features of x alone first
        mean = self.weight_mean[:split] @ of_x + self.weight_mean[split:] @ of_both
        spread = self.weight_root[:split].T @ of_x + self.weight_root[split:].T @ of_both
        return mean, spread @ spread + VARIANCE_FLOOR

    def value(self, draw: Float[Array, " f"], x: Point, below: Scalar | None) -> Scalar:
        """f_m for given weights of the last layer."""
        of_x, of_both = self.features.of_x(x), self.features.of_both(x, below)
        split = of_x.shape[0]
        return draw[:split] @ of_x + draw[split:] @ of_both

    def draw(self, key: jax.Array, count: int) -> Float[Array, "draws f"]:
        """`count` draws of the weights, w = mu + R e."""
        noise = jr.normal(key, (count, self.weight_mean.shape[0]))
        return self.weight_mean[None, :] + noise @ self.weight_root.T

    def given(
        self, x: Float[Array, "n d"], below: Float[Array, " n"] | None, weight: Float[Array, " n"]
    ) -> NetworkLayer:
        """Condition on fantasy observations y_m at the rows of x, equal to the predictive mean; weight 0 is padding."""
        phi = jax.vmap(partial(all_of, self.features), (0, None if below is None else 0))(x, below)
        root = linalg.condition_root_rows(self.weight_root, phi, jnp.full(len(x), self.noise_var), weight)
        return eqx.tree_at(lambda layer: layer.weight_root, self, root)


StackPosterior = ChainPosterior[NetworkLayer]
"""The posterior of the paper's stack."""


@dataclass(frozen=True)
class VariationalStack:
    """The stack of dense networks learned by Adam on the bound.

    Args:
        architecture: the network of every fidelity, or a tuple with one for each, low to high.
        epochs: steps of Adam.
        learning_rate: Adam's.
        nodes: Gauss-Hermite nodes per layer.

    Raises:
        SettingError: if there is no epoch or the learning rate is not positive.
    """

    architecture: Architecture | tuple[Architecture, ...] = Architecture()
    epochs: int = 5000
    learning_rate: float = 1e-3
    nodes: int = 5

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise SettingError(f"epochs must be at least 1, got {self.epochs!r}")
        if not self.learning_rate > 0:
            raise SettingError(f"learning_rate must be above 0, got {self.learning_rate!r}")

    @staticmethod
    def of(architecture: StackArchitecture) -> VariationalStack:
        """The stack of these networks, learned at their rate."""
        return VariationalStack(architecture.networks, learning_rate=architecture.learning_rate)

    def fit(self, observations: Sequence[Observations], key: Key) -> StackPosterior:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
            SettingError: if there are networks for another number of fidelities.
        """
        require_data(observations)
        networks = self._networks(len(observations))
        units = standard_units(observations)
        data = tuple(_padded(seen, unit) for seen, unit in zip(observations, units, strict=True))
        start_key, train_key = jr.split(jax_key(key))
        keys = jr.split(start_key, len(data))
        dimension = observations[0].unit_x.shape[1]
        start = tuple(
            VariationalLayer.at_prior(network.draw(dimension + (m > 0), k), observations[m].used)
            for m, (network, k) in enumerate(zip(networks, keys, strict=True))
        )
        learned = _train(start, data, train_key, self.epochs, self.learning_rate)
        typical = [typical_var(seen, unit, LEAST_STD) for seen, unit in zip(observations, units, strict=True)]
        layers = [layer.posterior(var) for layer, var in zip(learned, typical, strict=True)]
        return StackPosterior.of(layers, units, self.nodes)

    def _networks(self, fidelities: int) -> tuple[Architecture, ...]:
        if isinstance(self.architecture, Architecture):
            return (self.architecture,) * fidelities
        if len(self.architecture) != fidelities:
            raise SettingError(f"expected a network for each of {fidelities} fidelities, got {self.architecture!r}")
        return self.architecture


def standard_units(observations: Sequence[Observations]) -> list[Scale]:
    """The units of each fidelity, in which its values have mean 0 and spread 1; those of all values if it has none."""
    everything = unit_of(*observations)
    return [unit_of(seen) if len(seen) else everything for seen in observations]


def _padded(seen: Observations, unit: Scale) -> PaddedData:
    """The observations of a fidelity in its units; with their noise, if any of it is known."""
    data = pad(seen.unit_x, unit.inward(seen.y))
    if seen.std is None:
        return data
    known = np.pad(known_vars(seen, unit, LEAST_STD), (0, len(data.y) - len(seen)), constant_values=NOT_KNOWN)
    return PaddedData(data.x, data.y, data.mask, jnp.asarray(known))


class VariationalLayer(eqx.Module):
    """What is learned of one fidelity: the network, q(w), and the noise."""

    network: DenseFeatures
    weight_mean: Float[Array, " f"]
    raw_root: Float[Array, "f f"]
    log_noise_std: Float[Array, ""]
    used: Used | None = eqx.field(static=True, default=None)

    @staticmethod
    def at_prior(network: DenseFeatures, used: Used | None = None) -> VariationalLayer:
        """The layer before learning: q(w) = N(0, I); its fidelity uses these columns of x, None for all."""
        count = network.weights[-1].shape[1] + 1
        return VariationalLayer(network, jnp.zeros(count), jnp.zeros((count, count)), jnp.log(FIRST_NOISE_STD), used)

    @property
    def root(self) -> Float[Array, "f f"]:
        """L_m: lower triangular, its diagonal the exponential of the learned one."""
        return jnp.tril(self.raw_root, -1) + jnp.diag(jnp.exp(jnp.diag(self.raw_root)))

    def kl(self) -> Float[Array, ""]:
        """KL(q(w) || N(0, I)) = (|L|^2 + |mu|^2 - F) / 2 - sum log diag L, against the prior of eq. (4) joint-prob."""
        log_diagonal = jnp.diag(self.raw_root)
        norms = jnp.sum(self.root**2) + jnp.sum(self.weight_mean**2)
        return 0.5 * (norms - log_diagonal.shape[0]) - jnp.sum(log_diagonal)

    def log_likelihood(self, f: Float[Array, " n"], data: PaddedData) -> Float[Array, ""]:
        """sum_n log N(y_n | f_n, sigma^2), the likelihood of eq. (4) joint-prob; sigma_n^2 where it is known."""
        if data.noise_var is not None:
            var = or_learned(data.noise_var, jnp.broadcast_to(jnp.exp(2 * self.log_noise_std), data.y.shape))
            return jnp.sum(data.mask * -0.5 * ((data.y - f) ** 2 / var + jnp.log(2 * jnp.pi * var)))
        z = (data.y - f) / jnp.exp(self.log_noise_std)
        return jnp.sum(data.mask * (-0.5 * z**2 - self.log_noise_std - 0.5 * jnp.log(2 * jnp.pi)))

    def posterior(self, typical_var: float = NOT_KNOWN) -> NetworkLayer:
        """The layer in double precision, as the chain uses it; with this noise of future observations, if known."""
        wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), self)
        noise_var = or_learned(jnp.asarray(typical_var), jnp.exp(2 * wide.log_noise_std))
        features = wide.network if self.used is None else SeenFeatures(wide.network, self.used)
        return NetworkLayer(features, wide.weight_mean, wide.root, noise_var)


def bound(
    layers: Sequence[VariationalLayer], data: Sequence[PaddedData], noise: Sequence[Float[Array, " _"]]
) -> Float[Array, ""]:
    """The evidence lower bound for one standard normal sample per layer, eq. elbo of the supplement (Sec. 3).

    The inputs of all fidelities go up the stack together: layer m sees those of fidelity m and above, and the first of
    them are the ones that go on.
    """
    total = jnp.zeros((), dtype=layers[0].weight_mean.dtype)
    x = jnp.concatenate([d.x for d in reversed(data)])  # highest fidelity first
    below = None
    for m, (layer, e) in enumerate(zip(layers, noise, strict=True)):
        weights = layer.weight_mean + layer.root @ e
        seen = x if layer.used is None else jax.vmap(partial(seen_by, layer.used))(x)
        phi = jax.vmap(layer.network.of_both, (0, None if below is None else 0))(seen, below)
        f = phi @ weights
        own = data[m].x.shape[0]
        total = total + layer.log_likelihood(f[-own:], data[m]) - layer.kl()
        x, below = x[:-own], f[:-own]
    return total


Carry = tuple[tuple[VariationalLayer, ...], optax.OptState]
"""State of the learning: the layers, and the optimiser's state."""


def climb(optimiser: optax.GradientTransformation, carry: Carry, data: Sequence[PaddedData], keys: jax.Array) -> Carry:
    """Steps of the optimiser on the bound, one for each key."""

    def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        layers, state = carry
        keys = jr.split(key, len(layers))
        noise = [jr.normal(k, layer.weight_mean.shape, jnp.float32) for k, layer in zip(keys, layers, strict=True)]
        gradient = jax.grad(lambda layers: -bound(layers, data, noise))(layers)
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in whole numbers
            updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(layers, updates), state), None

    return jax.lax.scan(step, carry, keys)[0]


@partial(jax.jit, static_argnums=(3, 4))
def _train(
    layers: tuple[VariationalLayer, ...],
    data: tuple[PaddedData, ...],
    key: jax.Array,
    epochs: int,
    learning_rate: float,
) -> tuple[VariationalLayer, ...]:
    """Adam on the bound. In single precision: the sampling noise of the gradient is far above its rounding."""
    layers, data = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (layers, data))
    optimiser = optax.adam(learning_rate)
    start: Any = layers  # a pytree, which optax's types do not know
    return climb(optimiser, (layers, optimiser.init(start)), data, jr.split(key, epochs))[0]
