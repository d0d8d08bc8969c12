"""The non-linear autoregressive Gaussian process (Perdikaris et al. 2017): a chain of exact processes.

Layer m is a process of (x, f_{m-1}), trained at the posterior mean of the layer below, and propagated upwards by the
chain that the networks use:

    f_m = slope f_{m-1} + g_m(x, f_{m-1}),    slope 1 in a fidelity without data, else 0
    cov(g_m, g_m') = a^2 kappa([x, f], [x', f']) + b^2 f f' + c^2 kappa'(x, x') + BIAS

with kappa squared exponential (the product of one of x and one of f). The term b^2 f f' is ours: with it, a few
observations already show that two fidelities go together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import Observations, Used
from fidelium.numerics.kernels import Kernel, check_kernel, frequencies, normal_frequencies
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.chain import ChainPosterior
from fidelium.surrogates.gp.covariances import BIAS
from fidelium.surrogates.gp.exact import ExactGP, PathDraws, Rows, learn
from fidelium.surrogates.inputs import seen_by
from fidelium.surrogates.known_noise import NOT_KNOWN, known_vars, or_learned, typical_var, unit_of
from fidelium.surrogates.learning import (
    LENGTH,
    LENGTH_LOG_STD,
    NOISE_LOG_STD,
    NOISE_STD,
    Entries,
    Entry,
    Prior,
    ProcessParameters,
    require_data,
    subset,
    widening,
)

At = tuple[Point, Scalar]
"""A point of a layer's process: x and the value of the layer below, 0 in the lowest one."""


class RelationCovariance(eqx.Module):
    """How a layer depends on the one below: a process of both, a^2 kappa([x, f], [x', f']), and a line, b^2 f f'.

    Args:
        log_slope: log b.
        log_amplitude: log a.
        kernel: kappa.
    """

    log_slope: Scalar
    log_amplitude: Scalar
    kernel: Kernel

    def __call__(self, p: At, other: At) -> Scalar:
        process = jnp.exp(2 * self.log_amplitude) * self.kernel(_both(p), _both(other))
        return process + jnp.exp(2 * self.log_slope) * p[1] * other[1]

    def features(self, frequencies: Float[Array, "k d1"], p: At) -> Float[Array, " f"]:
        """phi with E[phi(p) . phi(p')] = k(p, p')."""
        process = jnp.exp(self.log_amplitude) * self.kernel.features(frequencies, _both(p))
        return jnp.concatenate([process, (jnp.exp(self.log_slope) * p[1])[None]])


class LayerCovariance(eqx.Module):
    """The covariance of one layer.

    Args:
        log_amplitude: log c, of the part of x alone.
        kernel: of x alone.
        relation: what the layer below adds; None in the lowest one.
    """

    log_amplitude: Scalar
    kernel: Kernel
    relation: RelationCovariance | None

    def __call__(self, p: At, other: At) -> Scalar:
        own = jnp.exp(2 * self.log_amplitude) * self.kernel(p[0], other[0]) + BIAS
        return own if self.relation is None else own + self.relation(p, other)

    def features(
        self, frequencies: tuple[Float[Array, "k d"], Float[Array, "k d1"] | None], p: At
    ) -> Float[Array, " f"]:
        of_x, of_both = frequencies
        own = jnp.exp(self.log_amplitude) * self.kernel.features(of_x, p[0])
        blocks = [own, jnp.full(1, math.sqrt(BIAS))]
        if self.relation is not None and of_both is not None:
            blocks.append(self.relation.features(of_both, p))
        return jnp.concatenate(blocks)


class GPLayer(eqx.Module):
    """One fidelity of the chain: f_m = slope f_{m-1} + g_m(x, f_{m-1}).

    Args:
        process: g_m given the observations; its points are (x, f_{m-1}).
        slope: prior mean of df_m / df_{m-1}.
        noise_var: sigma_m^2.
        used: the columns of x that the fidelity uses, None for all.
    """

    process: ExactGP
    slope: Scalar
    noise_var: Scalar
    used: Used | None = eqx.field(static=True, default=None)

    def conditional(self, x: Point, below: Scalar | None) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_m given the layer below, eq. (6) cond-m."""
        at = _at(seen_by(self.used, x), below)
        mean, variance = self.process.moments(at)
        return mean + self.slope * at[1], variance

    def draw(self, key: jax.Array, count: int) -> PathDraws:
        """`count` draws of g_m as a function."""
        return self.process.draw(key, count)

    def value(self, draw: PathDraws, x: Point, below: Scalar | None) -> Scalar:
        """f_m according to one draw."""
        at = _at(seen_by(self.used, x), below)
        return self.process.value(draw, at) + self.slope * at[1]

    def given(self, x: Float[Array, "n d"], below: Float[Array, " n"] | None, weight: Float[Array, " n"]) -> GPLayer:
        """Condition on fantasy observations y_m at the rows of x, equal to the predictive mean; not to be traced."""
        seen = x if self.used is None else jax.vmap(partial(seen_by, self.used))(x)
        at = (seen, jnp.zeros(len(x)) if below is None else below)
        process = self.process.given(at, jnp.full(len(x), self.noise_var), weight)
        return GPLayer(process, self.slope, self.noise_var, self.used)


@dataclass(frozen=True)
class NonlinearAutoregressive:
    """The chain of processes, each learned by the evidence given the one below.

    Args:
        kernel: of the part of x alone.
        starts: starting points of the search for the parameters, per layer.
        steps: evaluations of the evidence at most, per layer.
        most_points: parameters are learned from this many observations per fidelity at most, the posterior uses all.
        frequencies: sine-cosine pairs that draws are made of, for each of the two processes of a layer.
        nodes: Gauss-Hermite nodes per layer.
    """

    kernel: str = "rbf"
    starts: int = 3
    steps: int = 60
    most_points: int = 128
    frequencies: int = 128
    nodes: int = 5

    def __post_init__(self) -> None:
        check_kernel(self.kernel)

    def fit(self, observations: Sequence[Observations], key: Key) -> ChainPosterior[GPLayer]:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        require_data(observations)
        units = [unit_of(*observations)]  # of an empty lowest fidelity
        layers: list[GPLayer] = []
        for m, seen in enumerate(observations):
            units.append(unit_of(seen) if len(seen) else units[-1])
            layers.append(self._fit_layer(layers, units[-1], seen, key.fold(m)))
        return ChainPosterior[GPLayer].of(layers, units[1:], self.nodes)

    def _fit_layer(self, layers: Sequence[GPLayer], unit: Scale, seen: Observations, key: Key) -> GPLayer:
        frequency_key, start_key, subset_key = key.split(3)
        dimension, has_below = seen.unit_x.shape[1], bool(layers)
        slope = 1.0 if has_below and not len(seen) else 0.0
        below = _means_below(layers, seen.unit_x, self.nodes)
        z, known = unit.inward(seen.y) - slope * below, known_vars(seen, unit)
        prior = _prior(dimension, has_below, slope)
        chosen = subset(len(seen), self.most_points, subset_key)
        model, theta = _LayerModel(self.kernel), jax.tree.map(jnp.asarray, prior.mean)
        if len(seen):
            fewer = _rows(seen.seen_x[chosen], below[chosen], z[chosen], known[chosen])
            theta = learn(model, prior, fewer, self.starts, self.steps, start_key)
        rows = model.noisy(_rows(seen.seen_x, below, z, known), theta)
        waves = self._frequencies(dimension, has_below, frequency_key)
        process = ExactGP.of(model.covariance(theta), waves, rows)
        future_var = or_learned(jnp.asarray(typical_var(seen, unit)), model.noise_var(theta))
        return GPLayer(process, jnp.asarray(slope), future_var, seen.used)

    def _frequencies(self, dimension: int, has_below: bool, key: Key) -> tuple[Array, Array | None]:
        x_key, both_key = key.split(2)
        of_both = jnp.asarray(normal_frequencies(self.frequencies, dimension + 1, both_key)) if has_below else None
        return jnp.asarray(frequencies(self.kernel, self.frequencies, dimension, x_key)), of_both


def _at(x: Point, below: Scalar | None) -> At:
    return x, jnp.zeros(()) if below is None else below


def _both(p: At) -> Float[Array, " d1"]:
    return jnp.concatenate([p[0], p[1][None]])


class BelowParameters(eqx.Module):
    """How a layer depends on the one below: slope b, amplitude a, and lengths of [x, f_{m-1}], that of f_{m-1} last."""

    log_slope: Entry
    log_amplitude: Entry
    log_lengths: Entries


class GPLayerParameters(eqx.Module):
    """theta of one layer.

    Args:
        log_noise_std: log sigma_m.
        process: of x alone, its amplitude c.
        below: the relation to the layer below; None in the lowest one.
    """

    log_noise_std: Entry
    process: ProcessParameters
    below: BelowParameters | None


LAYER_AMPLITUDE = -1.0
"""Log amplitude of what x adds to the layer below; in the lowest layer it is 0, for the values have spread 1."""

BELOW_AMPLITUDE = -1.0
"""Log amplitude of the bends of the relation; the log slope is 0: a slope of order one, and bends of a third of it."""

LESS_OF_X, LESS_OF_SLOPE, LESS_OF_BENDS = -1.5, -1.5, -1.0
"""Added to these three where the prior slope is 1: a layer without data differs little from the one below."""

BELOW_LENGTH, BELOW_LENGTH_LOG_STD = 0.7, 0.7
"""Prior of the log length in f_{m-1}: two spreads of its values, give or take a factor 2."""

FACTOR_LOG_STD = 1.0
"""Prior standard deviation of log amplitudes, of the log slope and of the relation's log lengths in x: a factor e."""

# All of these were chosen to be like the closed-form stack's (stacked_dnn/priors.py), and not tuned.


def _prior(dimension: int, has_below: bool, slope: float) -> Prior[GPLayerParameters]:
    """The prior of a layer; one with a prior slope of 1 differs little from the layer below."""
    wider, wide = widening(dimension), np.asarray(FACTOR_LOG_STD)
    amplitude = (LAYER_AMPLITUDE if has_below else 0.0) + LESS_OF_X * slope
    process = ProcessParameters(np.asarray(amplitude), np.full(dimension, math.log(LENGTH) + wider))
    process_std = ProcessParameters(wide, np.full(dimension, LENGTH_LOG_STD))
    below = below_std = None
    if has_below:
        lengths = np.array([*[wider] * dimension, BELOW_LENGTH])
        below = BelowParameters(
            np.asarray(LESS_OF_SLOPE * slope), np.asarray(BELOW_AMPLITUDE + LESS_OF_BENDS * slope), lengths
        )
        below_std = BelowParameters(wide, wide, np.array([*[FACTOR_LOG_STD] * dimension, BELOW_LENGTH_LOG_STD]))
    mean = GPLayerParameters(np.asarray(math.log(NOISE_STD)), process, below)
    return Prior.of(mean, GPLayerParameters(np.asarray(NOISE_LOG_STD), process_std, below_std))


@dataclass(frozen=True)
class _LayerModel:
    kernel: str

    def covariance(self, theta: GPLayerParameters) -> LayerCovariance:
        below = jax.tree.map(jnp.asarray, theta.below)
        relation = None
        if below is not None:
            relation = RelationCovariance(below.log_slope, below.log_amplitude, Kernel(below.log_lengths))
        process = jax.tree.map(jnp.asarray, theta.process)
        return LayerCovariance(process.log_amplitude, Kernel(process.log_lengths, self.kernel), relation)

    def noise_var(self, theta: GPLayerParameters) -> Scalar:
        return jnp.exp(2 * theta.log_noise_std)

    def noisy(self, rows: Rows, theta: GPLayerParameters) -> Rows:
        learned = jnp.full(len(rows.y), self.noise_var(theta))
        return eqx.tree_at(lambda r: r.noise_var, rows, or_learned(rows.noise_var, learned))


def _rows(
    x: NDArray[np.float64], below: NDArray[np.float64], z: NDArray[np.float64], known: NDArray[np.float64]
) -> Rows:
    """Observations of one layer, without the noise that is to be learned."""
    size = bucket(len(z))
    noise_var = jnp.asarray(np.pad(known, (0, size - len(z)), constant_values=NOT_KNOWN))
    at_x, at_below, y, mask = (jnp.asarray(pad_rows(part, size)) for part in (x, below, z, np.ones(len(z))))
    return Rows((at_x, at_below), y, noise_var, mask)


def _means_below(layers: Sequence[GPLayer], x: NDArray[np.float64], nodes: int) -> NDArray[np.float64]:
    """Posterior means of the last of the layers at the rows of x; zeros if there is none."""
    if not layers:
        return np.zeros(len(x))
    chain = ChainPosterior[GPLayer].of(layers, [Scale()] * len(layers), nodes)
    return np.asarray(_last_means(chain, jnp.asarray(pad_rows(x, bucket(len(x))))))[: len(x)]


@jax.jit
def _last_means(chain: ChainPosterior[GPLayer], x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(lambda x: chain.marginals(x)[0][-1])(x)
