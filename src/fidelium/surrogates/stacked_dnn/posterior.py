"""What the stack knows once every last layer has q(w_m) = N(mu_m, R_m R_m^T): Sec. 4.1, eq. (cond-m) to (cond-post).

Going up the chain, the distribution of f_{m-1} is represented by Gauss-Hermite nodes, each is passed through layer m,
and the mixture is replaced by the Gaussian with its mean and variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from fidelium.numerics import linalg
from fidelium.numerics.quadrature import gauss_hermite, match_moments
from fidelium.numerics.scaling import Scale
from fidelium.surrogates.stacked_dnn.features import Features

Point = Float[Array, " d"]
Scalar = Float[Array, ""]

VARIANCE_FLOOR = 1e-12
"""Added to every conditional variance (the units are of order one), so that no standard deviation is zero."""


class Layer(eqx.Module):
    """One fidelity: f_m = slope f_{m-1} + w . phi(x, f_{m-1}), with q(w) Gaussian.

    Args:
        features: the network below the last layer.
        slope: prior mean of df_m / df_{m-1}: 1 in a residual layer, 0 otherwise (always 0 in the paper).
        weight_mean: mu_m.
        weight_root: R_m with covariance R_m R_m^T (the paper's L_m).
        noise_var: sigma_m^2.
    """

    features: Features
    slope: Scalar
    weight_mean: Float[Array, " f"]
    weight_root: Float[Array, "f f"]
    noise_var: Scalar

    def conditional(self, x: Point, below: Scalar | None) -> tuple[Scalar, Scalar]:
        """u(f_{m-1}, x) and gamma(f_{m-1}, x): mean and variance of f_m given the layer below, eq. (cond-m)."""
        of_x, of_both = self.features.of_x(x), self.features.of_both(x, below)
        split = of_x.shape[0]
        # u = slope f + mu . phi,   gamma = |R^T phi|^2, the part of x alone first
        mean = self.weight_mean[:split] @ of_x + self.weight_mean[split:] @ of_both + self._from_below(below)
        spread = self.weight_root[:split].T @ of_x + self.weight_root[split:].T @ of_both
        return mean, spread @ spread + VARIANCE_FLOOR

    def slope_at(self, x: Point, below: Scalar) -> Scalar:
        """du / df_{m-1}: how the mean of this layer changes with the one below."""
        return jax.grad(lambda f: self.value(self.weight_mean, x, f))(below)

    def value(self, weights: Float[Array, " f"], x: Point, below: Scalar | None) -> Scalar:
        """f_m for given weights of the last layer."""
        of_x, of_both = self.features.of_x(x), self.features.of_both(x, below)
        split = of_x.shape[0]
        return weights[:split] @ of_x + weights[split:] @ of_both + self._from_below(below)

    def given(self, x: Point, below: Scalar | None) -> Layer:
        """This layer once y_m has been observed at x to be just what was expected: a rank-one update."""
        root = linalg.condition_root(self.weight_root, self._all_features(x, below), self.noise_var)
        return eqx.tree_at(lambda layer: layer.weight_root, self, root)

    def given_rows(
        self, x: Float[Array, "n d"], below: Float[Array, " n"] | None, noise_var: Float[Array, " n"]
    ) -> Layer:
        """This layer once f_m is known at every row of x, to these variances, to be just what was expected."""
        phi = jax.vmap(self._all_features, (0, None if below is None else 0))(x, below)
        root = linalg.condition_root_rows(self.weight_root, phi, noise_var)
        return eqx.tree_at(lambda layer: layer.weight_root, self, root)

    def _all_features(self, x: Point, below: Scalar | None) -> Float[Array, " f"]:
        return jnp.concatenate([self.features.of_x(x), self.features.of_both(x, below)])

    def _from_below(self, below: Scalar | None) -> Scalar | float:
        return 0.0 if below is None else self.slope * below


class StackPosterior(eqx.Module):
    """The posterior of the whole stack.

    Args:
        layers: one per fidelity, low to high.
        units: the fields of each fidelity's `Scale`.
        nodes: Gauss-Hermite nodes per layer.
    """

    layers: tuple[Layer, ...]
    units: Float[Array, "m 5"]
    nodes: int = eqx.field(static=True)

    @staticmethod
    def of(layers: Sequence[Layer], scales: Sequence[Scale], nodes: int) -> StackPosterior:
        """The posterior of these layers, whose values are in these units."""
        return StackPosterior(tuple(layers), jnp.asarray([astuple(scale) for scale in scales]), nodes)

    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values."""
        return tuple(Scale(*fields) for fields in np.asarray(self.units).tolist())

    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """alpha_m(x) and eta_m(x) for every m, eq. (quad)."""
        moments = [self.layers[0].conditional(x, None)]
        for layer in self.layers[1:]:
            moments.append(self._step(layer, x, *moments[-1]))
        means, variances = zip(*moments, strict=True)
        return jnp.stack(means), jnp.stack(variances)

    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_M(x) given f_m(x), eq. (cond-post): the same steps, started from a sure value."""
        mean, variance = self.layers[fidelity + 1].conditional(x, value)
        for layer in self.layers[fidelity + 2 :]:
            mean, variance = self._step(layer, x, mean, variance)
        return mean, variance

    def draw_paths(self, key: jax.Array, count: int) -> StackPaths:
        """`count` draws of f_M as functions: one draw of the weights of every layer each."""
        keys = jr.split(key, len(self.layers))
        weights = tuple(_draw(layer, k, count) for layer, k in zip(self.layers, keys, strict=True))
        return StackPaths(self.layers, weights)

    def noise_var(self, fidelity: int) -> Scalar:
        """sigma_m^2."""
        return self.layers[fidelity].noise_var

    def given(self, x: Point, fidelity: int) -> StackPosterior:
        """The posterior once y_m(x) has been observed to be just what was expected: for queries still pending."""
        below = self.marginals(x)[0][fidelity - 1] if fidelity else None
        layers = list(self.pinned_below(x[None], fidelity, jnp.ones(1)).layers)
        layers[fidelity] = layers[fidelity].given(x, below)
        return StackPosterior(tuple(layers), self.units, self.nodes)

    def pinned_below(self, x: Float[Array, "n d"], fidelity: int, weight: Float[Array, " n"]) -> StackPosterior:
        """The layers below m once y_m is known at the rows of x.

        There f_{m-1} must not make f_m more uncertain than the noise of y_m does: with the layer above linearised,
        f_m ~ u + u' (f_{m-1} - alpha_{m-1}), it is known to the variance sigma_m^2 / u'^2, and so on downwards. The
        means stay: layer m is trained at them.

        Args:
            x: where f_m was observed.
            fidelity: m.
            weight: 1 for an observation, 0 for padding.
        """
        means, _ = jax.vmap(self.marginals)(x)
        layers = list(self.layers)
        noise_var = jnp.full(len(x), layers[fidelity].noise_var)
        for m in range(fidelity, 0, -1):
            slope = jax.vmap(layers[m].slope_at)(x, means[:, m - 1])
            noise_var = noise_var / jnp.maximum(weight * slope**2, 1e-9)
            layers[m - 1] = layers[m - 1].given_rows(x, means[:, m - 2] if m > 1 else None, noise_var)
        return StackPosterior(tuple(layers), self.units, self.nodes)

    def _step(self, layer: Layer, x: Point, mean: Scalar, variance: Scalar) -> tuple[Scalar, Scalar]:
        """From the Gaussian of f_{m-1} to that of f_m."""
        z, g = gauss_hermite(self.nodes)
        t = mean + jnp.sqrt(variance) * z
        return match_moments(g, *jax.vmap(layer.conditional, (None, 0))(x, t))


class StackPaths(eqx.Module):
    """Draws of f_M as functions: for each draw, weights of every layer."""

    layers: tuple[Layer, ...]
    weights: tuple[Float[Array, "draws _"], ...]

    def __call__(self, x: Point) -> Float[Array, " draws"]:
        """Every draw at x."""
        return jax.vmap(lambda draw: self._path(draw, x))(self.weights)

    def at(self, draw: Array, x: Point) -> Scalar:
        """One draw at x."""
        return self._path(tuple(w[draw] for w in self.weights), x)

    def _path(self, weights: tuple[Float[Array, " _"], ...], x: Point) -> Scalar:
        value = self.layers[0].value(weights[0], x, None)
        for layer, w in zip(self.layers[1:], weights[1:], strict=True):
            value = layer.value(w, x, value)
        return value


def _draw(layer: Layer, key: jax.Array, count: int) -> Float[Array, "draws f"]:
    # w = mu + R e
    noise = jr.normal(key, (count, layer.weight_mean.shape[0]))
    return layer.weight_mean + noise @ layer.weight_root.T
