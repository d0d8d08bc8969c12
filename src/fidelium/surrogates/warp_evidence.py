"""The evidence for a map of the outputs, by a cheap Gaussian process of the mapped values.

    log p(w(y) | theta) + log p(theta) + sum over the observations of log dw/dy

in the user's units, so that maps can be compared; theta and the scale of the map are the likeliest. The fidelities are
independent processes with the same lengths and noise. All candidates are fitted side by side by one compiled function.
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
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import Observations
from fidelium.numerics import linalg
from fidelium.numerics.kernels import Kernel
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.warping import STRAIGHT, Bend, distance
from fidelium.surrogates.known_noise import LEAST_STD, MOST_STD, NOT_KNOWN, or_learned
from fidelium.surrogates.learning import (
    LENGTH,
    LENGTH_LOG_STD,
    Entries,
    Prior,
    ProcessParameters,
    ravel,
    unravel,
    widening,
)
from fidelium.surrogates.stacked_dnn.linearised import Noise
from fidelium.surrogates.stacked_dnn.priors import (
    AMPLITUDE,
    AMPLITUDE_LOG_STD,
    FLOOR,
    LARGEST_RIPPLE,
    NOISE_PART_LOG_STD,
    RIPPLE,
    NoiseParameters,
)

Values = NDArray[np.float64]

RATIO, RATIO_LOG_STD = 0.3, 3.0
"""Prior median of a bend's scale, relative to the median distance from its end, and the standard deviation of its log:
weak, but where the observations cannot tell it is not the sharpest bend that wins."""

RATIO_BOUNDS = (1e-8, 1e3)
"""Of that ratio: sharper bends would resolve values that differ by rounding, flatter ones are straight."""

ROOM = 0.25
"""A logarithm that ends at the best value continues beyond it, until this share of the way to its pole is left."""

STEP = 4.0
"""Factor between the scales that bends may have: the evidence hardly tells finer ones apart."""

STEPS = 16
"""Evaluations of the evidence at most, twice."""

_LEAST_SCORE, _LEAST_SQUARE, _LEAST_SCALE, _LARGEST_ERROR = -1e300, 1e-30, 1e-290, 1e150


@dataclass(frozen=True)
class Candidate:
    """A bend of every fidelity's values whose scale is to be learned.

    Scales are rounded to powers of `STEP` times the gap, poles to a share of the scale, so that a few more observations
    give the same bend, and what was learned from the values that it gave can be kept.

    Args:
        ends: of every fidelity, where it bends below and above.
        gaps: a distance of every fidelity that the scale is relative to, above 0.
        anchors: a value of every fidelity that poles are rounded relative to.
        below: whether it bends below.
        above: whether it bends above.
        start: first guess of the ratio of scale and gap.
        shared: whether all fidelities have the same scale.
        outermost: whether the ends are the best or worst values, so that others may come to lie beyond them.
        penalty: nats by which it must be better than the others.
    """

    ends: tuple[tuple[float, float], ...]
    gaps: tuple[float, ...]
    anchors: tuple[float, ...]
    below: bool = False
    above: bool = False
    start: float = 1.0
    shared: bool = True
    outermost: bool = False
    penalty: float = 0.0

    def bend(self, fidelity: int, ratio: float) -> Bend:
        """The bend of a fidelity's values, with the scale's ratio to the gap."""
        if not (self.below or self.above):
            return STRAIGHT
        (low, high), anchor = self.ends[fidelity], self.anchors[fidelity]
        scale = max(self.gaps[fidelity] * STEP ** round(math.log(ratio, STEP)), _LEAST_SCALE)
        if self.outermost:  # the same logarithm from a later beginning, nearer to its pole
            room, sign = ROOM * scale, 1.0 if self.below else -1.0
            steps = math.ceil(sign * float(distance(np.array([low]), anchor, room)[0]))
            pole = anchor + sign * room * steps + sign * scale
            return Bend(below=pole - room, scale=room) if self.below else Bend(above=pole + room, scale=room)
        if self.below and self.above:
            return Bend(low, high, scale)
        return Bend(below=low, scale=scale) if self.below else Bend(above=high, scale=scale)


@dataclass(frozen=True)
class Scored:
    """A candidate with the likeliest ratio of scale and gap of each fidelity, and its score in nats."""

    candidate: Candidate
    ratios: tuple[float, ...]
    score: float

    @property
    def bends(self) -> tuple[Bend, ...]:
        """The bend of every fidelity."""
        return tuple(self.candidate.bend(m, ratio) for m, ratio in enumerate(self.ratios))


def scored(observations: Sequence[Observations], candidates: Sequence[Candidate]) -> list[Scored]:
    """Every candidate with its likeliest scale and its score, the penalty subtracted.

    Args:
        observations: of each fidelity.
        candidates: at least one.
    """
    inputs, values = [seen.seen_x for seen in observations], [seen.y for seen in observations]
    size, fidelities = bucket(max(len(y) for y in values)), len(values)
    mask = np.stack([pad_rows(_counting(y), size) for y in values])
    between, beyond = (np.stack(part) for part in zip(*(_parts(c, values, size) for c in candidates), strict=True))
    data = _Data(
        np.stack([pad_rows(each, size) for each in inputs]),
        mask,
        between,
        beyond,
        np.array([[c.below, c.above, c.shared] for c in candidates], dtype=float),
        _errors(candidates, observations, size),
    )
    prior = _prior(inputs[0].shape[1], fidelities)
    climb = partial(
        maximise_rows,
        lambda vectors: _log_densities(vectors, prior.mean, prior.std, data),
        lower=ravel(prior.lower),
        upper=ravel(prior.upper),
        steps=STEPS,
        tolerance=1e-3,
    )
    start = np.tile(ravel(prior.mean), (len(candidates), 1))
    start[:, :fidelities] = [[math.log(c.start)] for c in candidates]
    first = climb(start)
    # once more, each with its own bend, and with the process and noise of the likeliest: no row must stay behind
    rest = np.tile(first.x[first.best, fidelities:], (len(start), 1))
    second = climb(np.concatenate([first.x[:, :fidelities], rest], axis=1))
    better = second.value > first.value
    ratios = np.exp(np.where(better[:, None], second.x, first.x)[:, :fidelities])
    # the density of y is that of the distance over the gap, for every observation
    gaps = np.log([candidate.gaps for candidate in candidates]) @ np.sum(mask, axis=1)
    found = np.maximum(np.where(better, second.value, first.value) - gaps, _LEAST_SCORE)
    return [
        Scored(c, tuple([row[0]] * fidelities if c.shared else row), value - c.penalty)
        for c, row, value in zip(candidates, ratios.tolist(), found.tolist(), strict=True)
    ]


def _parts(candidate: Candidate, values: Sequence[Values], size: int) -> tuple[Values, Values]:
    """The values in units of the gap, between the ends and beyond them, a row per fidelity, padded."""
    between: list[Values] = []
    beyond: list[Values] = []
    for y, (low, high), gap in zip(values, candidate.ends, candidate.gaps, strict=True):
        inside = np.clip(y, low, high)
        between.append(pad_rows(distance(inside, low, gap), size))
        beyond.append(pad_rows(distance(y, inside, gap), size))
    return np.stack(between), np.stack(beyond)


def _errors(candidates: Sequence[Candidate], observations: Sequence[Observations], size: int) -> Values | None:
    """The standard errors in units of each candidate's gaps, padded, negative where not known; None if none is."""
    if all(seen.std is None for seen in observations):
        return None
    rows = [
        [
            np.pad(_error(seen, gap), (0, size - len(seen)), constant_values=NOT_KNOWN)
            for seen, gap in zip(observations, candidate.gaps, strict=True)
        ]
        for candidate in candidates
    ]
    return np.array(rows)


def _error(seen: Observations, gap: float) -> Values:
    if seen.std is None:
        return np.full(len(seen), NOT_KNOWN)
    with np.errstate(over="ignore"):
        return np.where(np.isnan(seen.std), NOT_KNOWN, np.minimum(seen.std / gap, _LARGEST_ERROR))


def _counting(y: Values) -> Values:
    """1 for the values that count: not for the best and the worst one, and for none if the others are the same.

    With the end of a bend at the best value, its scale could go to 0 and the density of that value to infinity.
    """
    counts = np.ones(len(y))
    if len(y):
        counts[[np.argmin(y), np.argmax(y)]] = 0.0
    return counts if len(np.unique(y[counts > 0])) > 1 else np.zeros(len(y))


class _Parameters(eqx.Module):
    """theta of the cheap process: log ratios of the bend's scale and its gap, a process of x, and the noise."""

    log_ratios: Entries
    process: ProcessParameters
    noise: NoiseParameters


class _Data(eqx.Module):
    """The observations of every fidelity m, and how the candidates r see them."""

    x: Float[Array | np.ndarray, "m n d"]
    mask: Float[Array | np.ndarray, "m n"]
    between: Float[Array | np.ndarray, "r m n"]
    beyond: Float[Array | np.ndarray, "r m n"]
    flags: Float[Array | np.ndarray, "r 3"]
    errors: Float[Array | np.ndarray, "r m n"] | None


def _prior(dimension: int, fidelities: int) -> Prior[_Parameters]:
    """That of the lowest layer of the stack, without its detail."""
    one, each, all_of = np.asarray, partial(np.full, dimension), partial(np.full, fidelities)
    mean = _Parameters(
        all_of(math.log(RATIO)),
        ProcessParameters(one(AMPLITUDE), each(math.log(LENGTH) + widening(dimension))),
        NoiseParameters(one(math.log(FLOOR)), one(math.log(RIPPLE))),
    )
    std = _Parameters(
        all_of(RATIO_LOG_STD),
        ProcessParameters(one(AMPLITUDE_LOG_STD), each(LENGTH_LOG_STD)),
        NoiseParameters(one(NOISE_PART_LOG_STD), one(NOISE_PART_LOG_STD)),
    )
    prior = Prior.of(mean, std)
    low, high = (all_of(math.log(bound)) for bound in RATIO_BOUNDS)
    lower = eqx.tree_at(lambda p: p.log_ratios, prior.lower, low)
    largest = high, one(math.log(LARGEST_RIPPLE))
    upper = eqx.tree_at(lambda p: (p.log_ratios, p.noise.log_ripple), prior.upper, largest)
    return Prior(mean, std, lower, upper)


_NO_END = 1e100
"""Beyond all values."""


@jax.jit
def _log_densities(
    vectors: Float[Array | np.ndarray, "r p"], prior_mean: _Parameters, prior_std: _Parameters, data: _Data
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(u, theta) of every row, u the values in units of its gaps, and its gradient."""

    def one(vector: Array, between: Array, beyond: Array, flags: Array, errors: Array | None) -> Array:
        theta = unravel(prior_mean, vector)
        log_prior = -0.5 * jnp.sum(((vector - ravel_pytree(prior_mean)[0]) / ravel_pytree(prior_std)[0]) ** 2)
        kernel = Kernel(jnp.asarray(theta.process.log_lengths))
        variance = jnp.exp(2 * theta.process.log_amplitude)
        ratios = jnp.exp(jnp.where(flags[2] > 0, theta.log_ratios[0], theta.log_ratios))

        def fidelity(x: Array, mask: Array, between: Array, beyond: Array, ratio: Array, errors: Array | None) -> Array:
            bends = jnp.where(beyond < 0, flags[0], flags[1]) > 0
            far = jnp.log1p(jnp.abs(beyond) / ratio)
            z = between + jnp.where(bends, jnp.sign(beyond) * ratio * far, beyond)
            count = jnp.maximum(jnp.sum(mask), 1.0)
            z = z - jnp.sum(mask * z) / count
            std = jnp.sqrt(jnp.sum(mask * z**2) / count + _LEAST_SQUARE)
            best = jnp.max(jnp.where(mask > 0, z / std, -_NO_END))
            noise_var = Noise.of(theta.noise, jnp.stack([best, jnp.asarray(_NO_END)])).var(z / std)
            if errors is not None:
                bent = errors * jnp.where(bends, ratio / (ratio + jnp.abs(beyond)), 1.0) / std
                noise_var = or_learned(jnp.where(errors < 0, NOT_KNOWN, _clipped(bent) ** 2), noise_var)
            k = jax.vmap(lambda p: jax.vmap(lambda q: kernel(p, q))(x))(x)
            density = linalg.log_normal(z / std, variance * k + jnp.diag(noise_var), mask)
            # the slope of z is that of a logarithm, ratio / (ratio + |beyond|), over the standard deviation
            return density - jnp.sum(mask * (jnp.where(bends, far, 0.0) + jnp.log(std)))

        fidelities = jax.vmap(fidelity)(jnp.asarray(data.x), jnp.asarray(data.mask), between, beyond, ratios, errors)
        return jnp.sum(fidelities) + log_prior

    return jax.vmap(jax.value_and_grad(one))(vectors, data.between, data.beyond, data.flags, data.errors)


def _clipped(std: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.clip(std, LEAST_STD, MOST_STD)
