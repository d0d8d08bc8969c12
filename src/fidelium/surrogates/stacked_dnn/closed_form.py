"""Our way to learn the stack: layer by layer, all last-layer weights in closed form, the rest by the evidence.

Layer m is trained at the posterior mean of the layer below. What the data leave open about f_{m-1} enters as a function
with its own covariance (`linearised.py`). The paper's bound charges for the spread of f_{m-1} as if it were noise of
the objective, and then prefers a layer that ignores f_{m-1}. Each layer comes in three forms, and one of them is drawn
with the probability that the evidence, in the user's units, gives it:

    alone      own scale, no relation to the layer below
    free       own scale, any relation
    residual   f_m = f_{m-1} + a little, in units aligned with those of the layer below

A few observations often leave two forms open. Taking always the likeliest, a strategy would ask for what that one
believes until it is proved wrong, each time for the price of a target query.
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
from fidelium.surrogates.learning import Prior, require_data, subset
from fidelium.surrogates.stacked_dnn.families import CosineFamily, Family, Kind
from fidelium.surrogates.stacked_dnn.features import all_of
from fidelium.surrogates.stacked_dnn.linearised import LinearisedLayer, LinearisedPosterior
from fidelium.surrogates.stacked_dnn.noise import Noise


@dataclass(frozen=True)
class ClosedFormStack:
    """The stack of networks with one closed-form posterior over all last layers.

    Args:
        family: the kind of network.
        starts: starting points of the search for theta, per form; twice that in the lowest layer, which has one.
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
        theta, centre = None, _best_design(observations)
        for m, seen in enumerate(observations):
            layer, unit, theta = self._fit_layer(tuple(layers), units[-1], theta, seen, centre, key.fold(m))
            layers.append(layer)
            units.append(unit)
        return LinearisedPosterior.of(layers, units[1:])

    def _fit_layer(
        self,
        below: tuple[LinearisedLayer, ...],
        below_unit: Scale,
        below_theta: NDArray[np.float64] | None,
        seen: Observations,
        centre: NDArray[np.float64],
        key: Key,
    ) -> tuple[LinearisedLayer, Scale, NDArray[np.float64]]:
        draw_key, start_key, subset_key, form_key = key.split(4)
        drawn = self.family.draw(centre, bool(below), draw_key)
        inputs = None
        if below:
            posterior = LinearisedPosterior.of(below, [Scale()] * len(below))
            inputs = _inputs(posterior, pad_rows(seen.unit_x, bucket(len(seen))))
        forms = _forms(self.family.kinds, seen.y, inputs, below_unit)
        priors = [self.family.prior(len(centre), form.kind, drawn, below_theta) for form in forms]
        chosen = subset(len(seen), self.most_points, subset_key)
        count = self.starts if below else 2 * self.starts
        rows = [
            (form, prior, start)
            for form, prior in zip(forms, priors, strict=True)
            for start in prior.starts(count, start_key)
        ]
        theta, scores = self._learn(drawn, rows, seen, inputs, chosen)
        # evidence in the user's units: the density of y is that of z over the scale, for every observation
        odds = [form.kind.log_odds - len(chosen) * math.log(form.unit.scale) for form, _, _ in rows]
        # the largest of log p + Gumbel noise is a draw with probabilities p; another one with every observation
        luck = np.repeat(form_key.fold(len(seen)).generator().gumbel(size=len(forms)), count)
        best = int(np.argmax(scores + np.array(odds) + luck))
        form = rows[best][0]
        data = pad(seen.unit_x, form.unit.inward(seen.y))
        slopes = jnp.asarray([form.kind.slope, form.kind.first_slope])
        layer = _learned(self.family, drawn, theta[best], slopes, data, inputs)
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
        slopes = jnp.asarray([[form.kind.slope, form.kind.first_slope] for form, _, _ in rows])
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
    """How a layer relates to the one below, and the units of its values."""

    kind: Kind
    unit: Scale


class Inputs(eqx.Module):
    """The layer below at the training inputs: its mean, and how it depends on the weights."""

    mean: Float[Array, " n"]
    rows: Float[Array, "n f"]


def _best_design(observations: Sequence[Observations]) -> NDArray[np.float64]:
    """The best design observed at the highest fidelity that was observed at all, `(d,)`."""
    highest = [seen for seen in observations if len(seen)][-1]
    return highest.unit_x[np.argmax(highest.y)]


def _forms(kinds: Sequence[Kind], y: NDArray[np.float64], inputs: Inputs | None, below_unit: Scale) -> tuple[Form, ...]:
    """The forms a layer may take, with the units each would use."""
    if not len(y):
        return (Form(Kind.ALONE if inputs is None else Kind.RESIDUAL, below_unit),)
    own = standardising(y)
    if inputs is None:
        return (Form(Kind.ALONE, own),)
    # units in which y has the mean and spread of the layer below at the same inputs, held to the layer's own spread (1)
    # by one pseudo-observation
    z, b = own.inward(y), np.asarray(inputs.mean)[: len(y)]
    ratio = math.sqrt((len(y) + 1) * max(float(np.var(z)), 1e-4) / (len(y) * float(np.var(b)) + 1.0))
    aligned = own.aligned(
        own.shift + own.scale * float(np.mean(z) - ratio * np.mean(b)),
        own.scale * ratio,
    )
    return tuple(Form(kind, aligned if kind is Kind.RESIDUAL else own) for kind in kinds)


@partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
def _inputs(posterior: LinearisedPosterior, x: Float[Array, "n d"]) -> Inputs:
    linear = jax.vmap(posterior.linear)(x)
    return Inputs(linear.means[:, -1], linear.rows[:, -1])


@partial(jax.jit, static_argnums=0, compiler_options=QUICK_TO_COMPILE)
def _learned(
    family: Family,
    drawn: eqx.Module,
    theta: Float[Array, " p"],
    slopes: Float[Array, "2"],
    data: PaddedData,
    inputs: Inputs | None,
) -> LinearisedLayer:
    """The layer with its weights, and what its data say about those below, in closed form."""
    features, (slope, first_slope) = family.features(drawn, theta), slopes
    noise = Noise.of(theta, data.y, data.mask)
    noise_var = noise.var(data.y)
    if inputs is None:
        phi = jax.vmap(lambda x: all_of(features, x, None))(data.x)
        mean, root = linalg.weight_posterior(phi, data.y, noise_var, data.mask)
        return LinearisedLayer(features, slope, jnp.zeros_like(mean), mean, root, noise)
    phi = jax.vmap(partial(all_of, features))(data.x, inputs.mean)

    def weights(rho: Float[Array, " n"]) -> tuple[Array, Array]:
        full = jnp.concatenate([rho[:, None] * inputs.rows, phi], axis=1)
        return linalg.weight_posterior(full, data.y - slope * inputs.mean, noise_var, data.mask)

    # once with a guess of rho, for the slope of the link, and again with the slope that was found
    guess, root = weights(jnp.full(len(data.y), first_slope))
    layer = LinearisedLayer(features, slope, guess[inputs.rows.shape[1] :], guess, root, noise)
    mean, root = weights(jax.vmap(layer.rho)(data.x, inputs.mean))
    return LinearisedLayer(features, slope, layer.link, mean, root, noise)


@partial(jax.jit, static_argnums=0)
def _log_density_rows(
    family: Family,
    drawn: eqx.Module,
    theta: Float[Array, "r p"],
    slopes: Float[Array, "r 2"],
    prior_mean: Float[Array, "r p"],
    prior_std: Float[Array, "r p"],
    x: Float[Array, "n d"],
    y: Float[Array, "r n"],
    mask: Float[Array, " n"],
    alpha: Float[Array, " n"] | None,
    spread: Float[Array, "n n"] | None,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(y, theta) of every row, and its gradient."""

    def one(theta: Array, slopes: Array, mean: Array, std: Array, y: Array) -> Array:
        features, (slope, first_slope) = family.features(drawn, theta), slopes
        log_prior = -0.5 * jnp.sum(((theta - mean) / std) ** 2)
        noise_var = Noise.of(theta, y, mask).var(y)
        if alpha is None or spread is None:
            phi = jax.vmap(lambda x: all_of(features, x, None))(x)
            return linalg.log_evidence(phi, y, noise_var, mask) + log_prior
        phi = jax.vmap(partial(all_of, features))(x, alpha)
        covariance = phi @ phi.T + first_slope**2 * spread + jnp.diag(noise_var)
        return linalg.log_normal(y - slope * alpha, covariance, mask) + log_prior

    return jax.vmap(jax.value_and_grad(one))(theta, slopes, prior_mean, prior_std, y)
