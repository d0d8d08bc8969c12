"""What the stack knows once every last layer has q(w_m) = N(mu_m, R_m R_m^T): the layers of its chain."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from fidelium.numerics import linalg
from fidelium.surrogates.base import VARIANCE_FLOOR, Point, Scalar
from fidelium.surrogates.chain import ChainPosterior
from fidelium.surrogates.stacked_dnn.features import Features, all_of


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

    def value(self, draw: Float[Array, " f"], x: Point, below: Scalar | None) -> Scalar:
        """f_m for given weights of the last layer."""
        of_x, of_both = self.features.of_x(x), self.features.of_both(x, below)
        split = of_x.shape[0]
        return draw[:split] @ of_x + draw[split:] @ of_both + self._from_below(below)

    def draw(self, key: jax.Array, count: int) -> Float[Array, "draws f"]:
        """`count` draws of the weights, w = mu + R e."""
        noise = jr.normal(key, (count, self.weight_mean.shape[0]))
        return self.weight_mean[None, :] + noise @ self.weight_root.T

    def given(self, x: Float[Array, "n d"], below: Float[Array, " n"] | None, weight: Float[Array, " n"]) -> Layer:
        """This layer once y_m has been observed at the rows of x to be just what was expected; weight 0 is padding."""
        phi = jax.vmap(partial(all_of, self.features), (0, None if below is None else 0))(x, below)
        root = linalg.condition_root_rows(self.weight_root, phi, jnp.full(len(x), self.noise_var), weight)
        return eqx.tree_at(lambda layer: layer.weight_root, self, root)

    def _from_below(self, below: Scalar | None) -> Scalar | float:
        return 0.0 if below is None else self.slope * below


StackPosterior = ChainPosterior[Layer]
"""The posterior of the whole stack."""
