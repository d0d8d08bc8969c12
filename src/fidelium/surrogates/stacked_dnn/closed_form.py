"""Our way to learn the stack: layer by layer, all last-layer weights in closed form, the rest by the evidence.

Layer m is trained at the posterior mean of the layer below. What the data leave open about f_{m-1} enters as a function
with its own covariance (`linearised.py`). The paper's bound charges for the spread of f_{m-1} as if it were noise of
the objective, and then prefers a layer that ignores f_{m-1}. Each layer comes in two forms, and the evidence in the
user's units decides:

    independent   own scale, no belief about the slope
    residual      f_m = f_{m-1} + a little, in units aligned with those of the layer below
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import Observations
from fidelium.numerics import linalg
from fidelium.numerics.compiling import QUICK_TO_COMPILE
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.padding import PaddedData, bucket, pad, pad_rows
from fidelium.numerics.scaling import Scale, standardising
from fidelium.randomness import Key
from fidelium.surrogates.base import Scalar
from fidelium.surrogates.learning import Prior, require_data, subset
from fidelium.surrogates.stacked_dnn.families import CosineFamily, Family
from fidelium.surrogates.stacked_dnn.features import all_of
from fidelium.surrogates.stacked_dnn.linearised import LinearisedLayer, LinearisedPosterior

FIRST_SLOPE = 0.5
"""rho of an independent layer while its features are learned; a residual one uses 1."""


@dataclass(frozen=True)
class ClosedFormStack:
    """The stack of networks with one closed-form posterior over all last layers.

    Args:
        family: the kind of network.
        starts: starting points of the search for theta, per form.
        steps: evaluations of the evidence at most, per layer.
        most_points: theta is learned from this many observations per fidelity at most; the weights see all of them.
    """

    family: Family = field(default_factory=CosineFamily)
    starts: int = 2
    steps: int = 60
    most_points: int = 256

    def fit(self, observations: Sequence[Observations], key: Key) -> LinearisedPosterior:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        require_data(observations)
        units = [standardising(np.concatenate([seen.y for seen in observations]))]  # of an empty lowest fidelity
        layers: list[LinearisedLayer] = []
        theta = None
        for m, seen in enumerate(observations):
            layer, unit, theta = self._fit_layer(tuple(layers), units[-1], theta, seen, key.fold(m))
            layers.append(layer)
            units.append(unit)
        return LinearisedPosterior.of(layers, units[1:])

    def _fit_layer(
        self,
        below: tuple[LinearisedLayer, ...],
        below_unit: Scale,
        below_theta: NDArray[np.float64] | None,
        seen: Observations,
        key: Key,
    ) -> tuple[LinearisedLayer, Scale, NDArray[np.float64]]:
        draw_key, start_key, subset_key = key.split(3)
        dimension = seen.unit_x.shape[1]
        drawn = self.family.draw(dimension, bool(below), draw_key)
        inputs = None
        if below:
            posterior = LinearisedPosterior.of(below, [Scale()] * len(below))
            inputs = _inputs(posterior, pad_rows(seen.unit_x, bucket(len(seen))))
        forms = _forms(seen.y, inputs, below_unit)
        priors = [self.family.prior(dimension, form.slope, drawn, below_theta) for form in forms]
        chosen = subset(len(seen), self.most_points, subset_key)
        rows = [
            (form, prior, start)
            for form, prior in zip(forms, priors, strict=True)
            for start in prior.starts(self.starts, start_key)
        ]
        theta, scores = self._learn(drawn, rows, seen, inputs, chosen)
        # evidence in the user's units: the density of y is that of z over the scale, for every observation
        odds = [-len(chosen) * math.log(form.unit.scale) for form, _, _ in rows]
        best = int(np.argmax(scores + np.array(odds)))
        form = rows[best][0]
        data = pad(seen.unit_x, form.unit.inward(seen.y))
        layer = _learned(self.family, drawn, theta[best], jnp.asarray(form.slope), data, inputs)
        return layer, form.unit, theta[best]

    def _learn(
        self,
        drawn: eqx.Module,
        rows: Sequence[tuple[Form, Prior, NDArray[np.float64]]],
        seen: Observations,
        inputs: Inputs | None,
        chosen: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Theta of highest posterior density for every row (form and start), and its log density."""
        size = bucket(len(chosen))
        data = [pad(seen.unit_x[chosen], form.unit.inward(seen.y[chosen])) for form, _, _ in rows]
        y = jnp.stack([d.y for d in data])
        slopes = jnp.asarray([form.slope for form, _, _ in rows])
        mean, std = (jnp.stack([getattr(prior, part) for _, prior, _ in rows]) for part in ("mean", "std"))
        picked = None if inputs is None else jax.tree.map(lambda part: pad_rows(np.asarray(part)[chosen], size), inputs)
        spread = None if picked is None else jnp.asarray(picked.rows @ picked.rows.T)
        alpha = None if picked is None else picked.mean

        def objective(theta: NDArray[np.float64]) -> tuple[Array, Array]:
            shared = (data[0].x, y, data[0].mask, alpha, spread)
            return _log_density_rows(self.family, drawn, theta, slopes, mean, std, *shared)

        lower, upper = rows[0][1].lower, rows[0][1].upper
        starts = np.stack([start for _, _, start in rows])
        found = maximise_rows(objective, starts, lower, upper, steps=self.steps, tolerance=1e-3)
        return found.x, found.value


@dataclass(frozen=True)
class Form:
    """How a layer relates to the one below: the prior slope, and the units of its values."""

    slope: float
    unit: Scale


class Inputs(eqx.Module):
    """The layer below at the training inputs: its mean, and how it depends on the weights."""

    mean: Float[Array, " n"]
    rows: Float[Array, "n f"]


def _forms(y: NDArray[np.float64], inputs: Inputs | None, below_unit: Scale) -> tuple[Form, ...]:
    """The forms a layer may take, with the units each would use."""
    if not len(y):
        return (Form(0.0 if inputs is None else 1.0, below_unit),)
    own = standardising(y)
    if inputs is None:
        return (Form(0.0, own),)
    # units in which y has the mean and spread of the layer below at the same inputs, held to the layer's own spread (1)
    # by one pseudo-observation
    z, b = own.inward(y), np.asarray(inputs.mean)[: len(y)]
    ratio = math.sqrt((len(y) + 1) * max(float(np.var(z)), 1e-4) / (len(y) * float(np.var(b)) + 1.0))
    aligned = own.aligned(
        own.shift + own.scale * float(np.mean(z) - ratio * np.mean(b)),
        own.scale * ratio,
    )
    return Form(0.0, own), Form(1.0, aligned)


@partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
def _inputs(posterior: LinearisedPosterior, x: Float[Array, "n d"]) -> Inputs:
    linear = jax.vmap(posterior.linear)(x)
    return Inputs(linear.means[:, -1], linear.rows[:, -1])


@partial(jax.jit, static_argnums=0, compiler_options=QUICK_TO_COMPILE)
def _learned(
    family: Family,
    drawn: eqx.Module,
    theta: Float[Array, " p"],
    slope: Scalar,
    data: PaddedData,
    inputs: Inputs | None,
) -> LinearisedLayer:
    """The layer with its weights, and what its data say about those below, in closed form."""
    features, noise_var = family.features(drawn, theta), jnp.exp(2 * theta[0])
    noise = jnp.full(len(data.y), noise_var)
    if inputs is None:
        phi = jax.vmap(lambda x: all_of(features, x, None))(data.x)
        mean, root = linalg.weight_posterior(phi, data.y, noise, data.mask)
        return LinearisedLayer(features, slope, jnp.zeros_like(mean), mean, root, noise_var)
    phi = jax.vmap(partial(all_of, features))(data.x, inputs.mean)

    def weights(rho: Float[Array, " n"]) -> tuple[Array, Array]:
        full = jnp.concatenate([rho[:, None] * inputs.rows, phi], axis=1)
        return linalg.weight_posterior(full, data.y - slope * inputs.mean, noise, data.mask)

    # once with a guess of rho, for the slope of the link, and again with the slope that was found
    guess, root = weights(jnp.full(len(data.y), jnp.maximum(slope, FIRST_SLOPE)))
    layer = LinearisedLayer(features, slope, guess[inputs.rows.shape[1] :], guess, root, noise_var)
    mean, root = weights(jax.vmap(layer.rho)(data.x, inputs.mean))
    return LinearisedLayer(features, slope, layer.link, mean, root, noise_var)


@partial(jax.jit, static_argnums=0)
def _log_density_rows(
    family: Family,
    drawn: eqx.Module,
    theta: Float[Array, "r p"],
    slopes: Float[Array, " r"],
    prior_mean: Float[Array, "r p"],
    prior_std: Float[Array, "r p"],
    x: Float[Array, "n d"],
    y: Float[Array, "r n"],
    mask: Float[Array, " n"],
    alpha: Float[Array, " n"] | None,
    spread: Float[Array, "n n"] | None,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(y, theta) of every row, and its gradient."""

    def one(theta: Array, slope: Array, mean: Array, std: Array, y: Array) -> Array:
        features = family.features(drawn, theta)
        log_prior = -0.5 * jnp.sum(((theta - mean) / std) ** 2)
        noise = jnp.exp(2 * theta[0])
        if alpha is None or spread is None:
            phi = jax.vmap(lambda x: all_of(features, x, None))(x)
            return linalg.log_evidence(phi, y, jnp.full(len(x), noise), mask) + log_prior
        phi = jax.vmap(partial(all_of, features))(x, alpha)
        covariance = phi @ phi.T + jnp.maximum(slope, FIRST_SLOPE) ** 2 * spread + noise * jnp.eye(len(x))
        return linalg.log_normal(y - slope * alpha, covariance, mask) + log_prior

    return jax.vmap(jax.value_and_grad(one))(theta, slopes, prior_mean, prior_std, y)
