"""Our way to learn the stack: layer by layer, with q(w_m) in closed form and everything else by the evidence.

Layer m is trained at the posterior mean of the layer below, whose variance is added to the noise (an
errors-in-variables likelihood): the paper's bound charges for the spread of f_{m-1} as if it were noise of the
objective, and then prefers a layer that ignores f_{m-1}. Each layer comes in two forms, and the evidence in the user's
units decides:

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

from fidelium.errors import NoDataError
from fidelium.history import Observations
from fidelium.numerics import linalg
from fidelium.numerics.backend import QUICK_TO_COMPILE
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.padding import PaddedData, bucket, pad, pad_rows
from fidelium.numerics.scaling import Scale, standardising, warping
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.families import CosineFamily, Family, Prior
from fidelium.surrogates.stacked_dnn.features import Features
from fidelium.surrogates.stacked_dnn.posterior import Layer, StackPosterior

RESIDUAL_BONUS = 2.0
"""Log odds given to the residual form: two observations cannot show that the fidelities belong together."""

INPUT_NOISE_SLOPE = 0.5
"""Slope at which an independent layer counts the variance of the layer below as noise; a residual one uses 1."""


@dataclass(frozen=True)
class ClosedFormStack:
    """The stack of networks with closed-form last layers.

    Args:
        family: the kind of network.
        nodes: Gauss-Hermite nodes per layer.
        starts: starting points of the search for theta, per form.
        steps: evaluations of the evidence at most, per layer.
        most_points: theta is learned from this many observations per fidelity at most; q(w) always sees all of them.
        warp: whether a long lower tail of the values is drawn in.
        reconciled: probability that the stack is made to go through its data. Smooth objectives want that; where the
            layers differ by ripples that look like noise, it spoils them. Nobody knows beforehand: the key decides.
    """

    family: Family = field(default_factory=CosineFamily)
    nodes: int = 5
    starts: int = 2
    steps: int = 60
    most_points: int = 256
    warp: bool = False
    reconciled: float = 0.5

    def fit(self, observations: Sequence[Observations], key: Key) -> StackPosterior:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        if not any(len(seen) for seen in observations):
            raise NoDataError("a surrogate needs at least one observation, got none")
        everything = np.concatenate([seen.y for seen in observations])
        units = [standardising(everything)]  # of an empty lowest fidelity
        layers: list[Layer] = []
        for m, seen in enumerate(observations):
            layer, unit = self._fit_layer(tuple(layers), units[-1], seen, key.fold(m))
            layers.append(layer)
            units.append(unit)
        data = [pad(seen.unit_x, unit.inward(seen.y)) for seen, unit in zip(observations, units[1:], strict=True)]
        posterior = StackPosterior.of(layers, units[1:], self.nodes)
        return _reconciled(posterior, data) if key.generator().random() < self.reconciled else posterior

    def _fit_layer(
        self, below: tuple[Layer, ...], below_unit: Scale, seen: Observations, key: Key
    ) -> tuple[Layer, Scale]:
        draw_key, start_key, subset_key = key.split(3)
        dimension = seen.unit_x.shape[1]
        drawn = self.family.draw(dimension, bool(below), draw_key)
        inputs = _inputs_from_below(below, jnp.asarray(pad_rows(seen.unit_x, bucket(len(seen)))), self.nodes)
        forms = _forms(seen.y, inputs, below_unit, self.warp)
        priors = [self.family.prior(dimension, bool(below), form.slope, drawn) for form in forms]
        chosen = _subset(len(seen), self.most_points, subset_key)
        rows = [
            (form, prior, start)
            for form, prior in zip(forms, priors, strict=True)
            for start in _starts(prior, self.starts, start_key)
        ]
        theta, scores = self._learn(drawn, rows, seen, inputs, chosen)
        # evidence in the user's units: the density of y is that of z over the scale, for every observation
        odds = [form.log_odds - len(chosen) * math.log(form.unit.scale) for form, _, _ in rows]
        best = int(np.argmax(scores + np.array(odds)))
        form = rows[best][0]
        data = pad(seen.unit_x, form.unit.inward(seen.y))
        features, noise_var = _network(self.family, drawn, theta[best])
        return _learned(features, jnp.asarray(form.slope), noise_var, data, inputs), form.unit

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

        def objective(theta: NDArray[np.float64]) -> tuple[Array, Array]:
            return _log_density_rows(self.family, drawn, theta, slopes, mean, std, data[0].x, y, data[0].mask, picked)

        lower, upper = rows[0][1].lower, rows[0][1].upper
        starts = np.stack([start for _, _, start in rows])
        found = maximise_rows(objective, starts, lower, upper, steps=self.steps, tolerance=1e-3)
        return found.x, found.value


@dataclass(frozen=True)
class Form:
    """How a layer relates to the one below: prior slope, units of its values, and log odds before the data."""

    slope: float
    unit: Scale
    log_odds: float


class Inputs(eqx.Module):
    """Posterior mean and variance of the layer below at the training inputs."""

    mean: Float[Array, " n"]
    var: Float[Array, " n"]


def _inputs_from_below(below: tuple[Layer, ...], x: Float[Array, "n d"], nodes: int) -> Inputs | None:
    if not below:
        return None
    return Inputs(*_last_marginals(StackPosterior.of(below, [Scale()] * len(below), nodes), x))


def _forms(y: NDArray[np.float64], inputs: Inputs | None, below_unit: Scale, warp: bool) -> tuple[Form, ...]:
    """The forms a layer may take, with the units each would use."""
    if not len(y):
        return (Form(0.0 if inputs is None else 1.0, below_unit, 0.0),)
    own = warping(y, None if inputs is None else below_unit) if warp else standardising(y)
    if inputs is None:
        return (Form(0.0, own, 0.0),)
    # units in which y has the mean and spread of the layer below at the same inputs, held to the layer's own spread (1)
    # by one pseudo-observation
    z, b = own.inward(y), np.asarray(inputs.mean)[: len(y)]
    ratio = math.sqrt((len(y) + 1) * max(float(np.var(z)), 1e-4) / (len(y) * float(np.var(b)) + 1.0))
    aligned = own.aligned(
        own.shift + own.scale * float(np.mean(z) - ratio * np.mean(b)),
        own.scale * ratio,
    )
    return Form(0.0, own, 0.0), Form(1.0, aligned, RESIDUAL_BONUS)


def _starts(prior: Prior, count: int, key: Key) -> NDArray[np.float64]:
    """The prior's mean, and random points half a prior deviation around it."""
    noise = key.generator().normal(size=(count - 1, len(prior.mean)))
    around = prior.mean + 0.5 * prior.std * noise
    return np.clip(np.concatenate([prior.mean[None], around]), prior.lower, prior.upper)


def _subset(count: int, most: int, key: Key) -> NDArray[np.int64]:
    """Positions of at most `most` of `count` observations: the newest half, and a random half of the rest."""
    if count <= most:
        return np.arange(count)
    newest = np.arange(count - most // 2, count)
    older = key.generator().choice(count - most // 2, size=most - most // 2, replace=False)
    return np.sort(np.concatenate([older, newest]))


def _reconciled(posterior: StackPosterior, data: Sequence[PaddedData]) -> StackPosterior:
    """The stack with what every observation says about the layers below it, and layers that agree with it.

    Where y_m is known, f_{m-1} matters for f_m no more than the noise does: it is pinned there, and layer m is learned
    once more with the variance that is left as the noise of its input, so that the stack goes through its data.
    """
    for m in range(1, len(data)):
        below = _pinned(posterior, data).layers[:m]
        layer = posterior.layers[m]
        inputs = _inputs_from_below(below, data[m].x, posterior.nodes)
        learned = _learned(layer.features, layer.slope, layer.noise_var, data[m], inputs)
        layers = (*posterior.layers[:m], learned, *posterior.layers[m + 1 :])
        posterior = StackPosterior(layers, posterior.units, posterior.nodes)
    return _pinned(posterior, data)


def _pinned(posterior: StackPosterior, data: Sequence[PaddedData]) -> StackPosterior:
    for m in range(len(data) - 1, 0, -1):
        posterior = _pinned_below(posterior, m, data[m].x, data[m].mask)
    return posterior


@partial(jax.jit, static_argnums=1, compiler_options=QUICK_TO_COMPILE)
def _pinned_below(
    posterior: StackPosterior, fidelity: int, x: Float[Array, "n d"], weight: Float[Array, " n"]
) -> StackPosterior:
    return posterior.pinned_below(x, fidelity, weight)


@partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
def _last_marginals(posterior: StackPosterior, x: Float[Array, "n d"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    means, variances = jax.vmap(posterior.marginals)(x)
    return means[:, -1], variances[:, -1]


def _design(
    features: Features, slope: Array, noise_var: Array, x: Array, inputs: Inputs | None
) -> tuple[Array, Array, Array]:
    """Features at the mean of the layer below, what the prior slope predicts, and each observation's noise variance."""

    def phi(x: Array, below: Array | None) -> Array:
        return jnp.concatenate([features.of_x(x), features.of_both(x, below)])

    noise = jnp.full(len(x), noise_var)
    if inputs is None:
        return jax.vmap(lambda x: phi(x, None))(x), jnp.zeros(len(x)), noise
    noise = noise + jnp.maximum(slope, INPUT_NOISE_SLOPE) ** 2 * inputs.var
    return jax.vmap(phi)(x, inputs.mean), slope * inputs.mean, noise


@partial(jax.jit, static_argnums=0)
def _network(family: Family, drawn: eqx.Module, theta: Float[Array, " p"]) -> tuple[Features, Array]:
    """The network below the last layer, and the noise variance."""
    return family.features(drawn, theta), jnp.exp(2 * theta[0])


@partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
def _learned(features: Features, slope: Array, noise_var: Array, data: PaddedData, inputs: Inputs | None) -> Layer:
    """The layer with q(w) in closed form."""
    phi, offset, noise = _design(features, slope, noise_var, data.x, inputs)
    mean, root = linalg.weight_posterior(phi, data.y - offset, noise, data.mask)
    return Layer(features, slope, mean, root, noise_var)


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
    inputs: Inputs | None,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(y, theta) of every row, and its gradient."""

    def one(theta: Array, slope: Array, mean: Array, std: Array, y: Array) -> Array:
        features = family.features(drawn, theta)
        phi, offset, noise = _design(features, slope, jnp.exp(2 * theta[0]), x, inputs)
        log_prior = -0.5 * jnp.sum(((theta - mean) / std) ** 2)
        return linalg.log_evidence(phi, y - offset, noise, mask) + log_prior

    return jax.vmap(jax.value_and_grad(one))(theta, slopes, prior_mean, prior_std, y)
