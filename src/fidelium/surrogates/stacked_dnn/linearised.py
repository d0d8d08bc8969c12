"""The stack with one posterior over the last-layer weights of all fidelities, linearised about the layer below.

With alpha_{m-1}(x) the mean of f_{m-1} given the data of fidelities up to m - 1, and u the mean of layer m,

    f_m(x) = slope alpha + w_m . phi_m(x, alpha) + rho (f_{m-1}(x) - alpha),     alpha = alpha_{m-1}(x), rho = du / df

is linear in all weights: their posterior is one Gaussian, in closed form. The uncertainty about f_{m-1} enters layer m
as a function, not as independent noise of each observation: y_m is informative about f_{m-1} too, and the target is
known where it was observed. The relation between fidelities is non-linear in x and alpha, but linear within the
uncertainty about f_{m-1}.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from fidelium.numerics.linalg import Root
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale, scale_rows, scales_of
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.stacked_dnn.features import Features, all_of
from fidelium.surrogates.stacked_dnn.priors import NoiseParameters

Weights = tuple[Float[Array, "... _"], ...]
"""Weights of the last layer of every network, low to high; many of them along a leading axis."""


VARIANCE_FLOOR = 1e-16
"""Added to variances, so that no standard deviation is zero. They are sums of squares here, which keep their digits: at
the corner of limits of g04, 1e-12 would make up nine tenths of them."""


class Noise(eqx.Module):
    """The noise of one fidelity, in the model's units: a floor, plus a share of the distance from what matters.

        sigma^2(f) = floor^2 + ripple^2 d^2,    d = low - f below low, f - high above high, 0 between

    Of an objective, what matters is the best value, low, and all above it; of a constrained outcome, its limits.

    Simulators repeat, but they ripple, and to a model of few observations that is noise. Bad designs often ripple more.
    With the same noise everywhere, either good designs could not be told apart, or the model would follow every ripple
    of bad ones (docs/experiments-log.md, fourth round).

    Args:
        floor: standard deviation where it matters.
        ripple: its increase per unit of distance from there.
        precise: low and high.
    """

    floor: Scalar
    ripple: Scalar
    precise: Float[Array, " 2"]

    @staticmethod
    def of(learned: NoiseParameters, precise: Float[Array, " 2"]) -> Noise:
        """The noise for given parameters."""
        return Noise(jnp.exp(learned.log_floor), jnp.exp(learned.log_ripple), precise)

    def var(self, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The variance of observations where f_m has these values."""
        return self.floor**2 + self._ripple_var(value)

    def var_given(self, value: Float[Array, "*n"], known: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The same with the variance that a run reports in the place of the floor, where `known` is not negative."""
        return jnp.where(known >= 0, known, self.floor**2) + self._ripple_var(value)

    def _ripple_var(self, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        low, high = self.precise
        away = jnp.maximum(low - value, 0.0) + jnp.maximum(value - high, 0.0)
        return (self.ripple * away) ** 2

    def with_floor(self, known: Scalar) -> Noise:
        """The noise of future observations: with this variance as the floor, unless it is negative."""
        floor = jnp.where(known >= 0, jnp.sqrt(jnp.maximum(known, 0.0)), self.floor)
        return Noise(floor, self.ripple, self.precise)


class LinearisedLayer(eqx.Module):
    """One fidelity: how f_m depends on the weights.

    Args:
        features: the network below the last layer.
        slope: prior mean of df_m / df_{m-1}: 1 in a residual layer, 0 otherwise.
        link: weights that determine rho, a first estimate of w_m.
        weight_mean: mean of [v, w_m], v the weights of all layers below, in the coordinates in which they were N(0, I).
        weight_root: R with covariance R R^T.
        noise: of an observation.
    """

    features: Features
    slope: Scalar
    link: Float[Array, " own"]
    weight_mean: Float[Array, " f"]
    weight_root: Root
    noise: Noise

    def rho(self, x: Point, below: Scalar) -> Scalar:
        """du / df_{m-1}."""
        return slope_of(self.features, self.slope, self.link, x, below)


def slope_of(features: Features, slope: Scalar, link: Float[Array, " own"], x: Point, below: Scalar) -> Scalar:
    """du / df_{m-1} of u = slope f_{m-1} + link . phi(x, f_{m-1})."""
    return slope + jax.grad(lambda f: link @ all_of(features, x, f))(below)


class Linear(eqx.Module):
    """All fidelities at one point, linear in the weights: f_m = means[m] + rows[m] . w with w ~ N(0, I)."""

    means: Float[Array, " m"]
    rows: Float[Array, "m f"]


class LinearisedPosterior(eqx.Module):
    """The posterior of the whole stack.

    Args:
        layers: one per fidelity, low to high.
        units: each fidelity's `Scale` as a row of numbers.
    """

    layers: tuple[LinearisedLayer, ...]
    units: Float[Array, "m fields"]

    @staticmethod
    def of(layers: Sequence[LinearisedLayer], scales: Sequence[Scale]) -> LinearisedPosterior:
        """The posterior of these layers, whose values are in these units."""
        return LinearisedPosterior(tuple(layers), jnp.asarray(scale_rows(scales)))

    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values."""
        return scales_of(self.units)

    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Mean and variance of f_m(x) for every fidelity."""
        linear = linear_at(self.layers, x)
        return linear.means, jnp.sum(linear.rows**2, axis=1) + VARIANCE_FLOOR

    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_M(x) given f_m(x) = value, by conditioning the Gaussian of the two."""
        linear = linear_at(self.layers, x)
        own, target = linear.rows[fidelity], linear.rows[-1]
        slope = (own @ target) / (own @ own + VARIANCE_FLOOR)
        left = target - slope * own
        return linear.means[-1] + slope * (value - linear.means[fidelity]), left @ left + VARIANCE_FLOOR

    def joint(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance of all f_m(x)."""
        linear = linear_at(self.layers, x)
        return linear.means, linear.rows @ linear.rows.T + VARIANCE_FLOOR * jnp.eye(len(self.layers))

    def draw_paths(self, key: jax.Array, count: int) -> LinearisedPaths:
        """`count` draws of f_M as functions: one draw of all weights each."""
        last = self.layers[-1]
        noise = jr.normal(key, (count, last.weight_mean.shape[0]))
        weights = last.weight_mean[None, :] + jax.vmap(last.weight_root.times)(noise)
        drawn = jax.vmap(lambda each: _unfolded(self.layers, each))(weights)
        means = tuple(_unfolded(self.layers[: m + 1], layer.weight_mean) for m, layer in enumerate(self.layers[:-1]))
        return LinearisedPaths(self.layers, means, drawn)

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """sigma_m^2 where f_m has this value."""
        return self.layers[fidelity].noise.var(value)

    def noise_vars(self, values: Float[Array, " m"]) -> Float[Array, " m"]:
        """sigma_m^2 of every fidelity where f_m has its value."""
        return jnp.stack([layer.noise.var(value) for layer, value in zip(self.layers, values, strict=True)])

    def members(self) -> tuple[LinearisedPosterior]:
        """This posterior alone."""
        return (self,)

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> LinearisedPosterior:
        """Condition on fantasy observations equal to the predictive mean."""
        size, which = bucket(len(x)), np.asarray(fidelities, dtype=int)
        rows, weight = pad_rows(x, size), pad_rows(np.ones(len(x)), size)
        root = _given(self, rows, np.pad(which, (0, size - len(which))), weight).compact()
        return eqx.tree_at(lambda p: p.layers[-1].weight_root, self, root, is_leaf=lambda part: isinstance(part, Root))


class LinearisedPaths(eqx.Module):
    """Draws of f_M as functions.

    Args:
        layers: those of the posterior.
        means: for every fidelity below the target, the weights of each layer that make its mean alpha_m.
        draws: for every draw, the weights of each layer.
    """

    layers: tuple[LinearisedLayer, ...]
    means: tuple[Weights, ...]
    draws: Weights

    def __call__(self, x: Point) -> Float[Array, " draws"]:
        """Every draw at x."""
        return jax.vmap(lambda draw: self._value(draw, x))(self.draws)

    def at(self, draw: Array, x: Point) -> Scalar:
        """One draw at x."""
        return self._value(jax.tree.map(lambda leaf: leaf[draw], self.draws), x)

    def _value(self, draw: Weights, x: Point) -> Scalar:
        phis: list[Array] = []
        rhos: list[Array] = []
        alpha, value = None, jnp.zeros(())
        for layer, weights in zip(self.layers, (*self.means, draw), strict=True):
            phis.append(all_of(layer.features, x, alpha))
            rhos.append(jnp.zeros(()) if alpha is None else layer.rho(x, alpha))
            value = jnp.zeros(()) if alpha is None else layer.slope * alpha
            change = jnp.zeros(())  # of the fidelity below about its mean
            for phi, rho, w in zip(phis, rhos, weights, strict=True):
                change = w @ phi + rho * change
            alpha = value = value + change
        return value


def linear_at(layers: Sequence[LinearisedLayer], x: Point) -> Linear:
    """All fidelities at x."""
    first = layers[0]
    phi = all_of(first.features, x, None)
    linear = Linear((first.weight_mean @ phi)[None], first.weight_root.after(phi[None]))
    for layer in layers[1:]:
        linear = _above(layer, x, linear)
    return linear


def _unfolded(layers: Sequence[LinearisedLayer], weights: Float[Array, " f"]) -> Weights:
    """A value of [v, w_m] as the weights of each layer, in which f_m is w_1 . phi_1 times all slopes and so on."""
    own: list[Array] = []
    for below in reversed(layers[:-1]):
        count = below.weight_mean.shape[0]
        own.append(weights[count:])
        weights = below.weight_root.times(weights[:count])
    return (weights, *reversed(own))


def _above(layer: LinearisedLayer, x: Point, linear: Linear) -> Linear:
    """The fidelities up to m, from those below, conditioned on the data of fidelity m."""
    alpha, below = linear.means[-1], linear.rows.shape[1]
    full = jnp.concatenate([layer.rho(x, alpha) * linear.rows[-1], all_of(layer.features, x, alpha)])
    mean = layer.slope * alpha + layer.weight_mean @ full
    means = linear.means + linear.rows @ layer.weight_mean[:below]
    rows = layer.weight_root.after(
        jnp.concatenate([jnp.pad(linear.rows, ((0, 0), (0, len(full) - below))), full[None]])
    )
    return Linear(jnp.concatenate([means, mean[None]]), rows)


@jax.jit
def _given(
    posterior: LinearisedPosterior, x: Float[Array, "n d"], fidelity: Int[Array, " n"], weight: Float[Array, " n"]
) -> Root:
    """The root of the weights' covariance after fantasy observations y_m at the rows of x."""
    linear, each = jax.vmap(lambda x: linear_at(posterior.layers, x))(x), jnp.arange(len(x))
    noise_vars = jnp.stack([posterior.noise_var(m, linear.means[:, m]) for m in range(len(posterior.layers))])
    root_precision = weight / jnp.sqrt(noise_vars[fidelity, each])
    return posterior.layers[-1].weight_root.conditioned(linear.rows[each, fidelity] * root_precision[:, None])
