"""A surrogate of warped values: the evidence decides whether the outputs are bent before anything else is learned.

For every candidate map w a cheap Gaussian process is fitted to w(y), all fidelities with the same lengths and noise,
independent of one another. Its score is the logarithm of

    p(w(y) | theta) p(theta) product over the observations of dw/dy

in the user's units, so that maps can be compared. The identity is preferred by a few nats. A map that wins is followed
by a second round, on the values that it gave. All fidelities get the same kind of map: one and the same for all, or for
each one with the same shape relative to its own values.

The posterior of the warped values is reported in the user's units: its `scales` go through the map.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar, runtime_checkable

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
from fidelium.numerics.scaling import scale_rows, standardising
from fidelium.numerics.warping import IDENTITY, STRAIGHT, Bend, Warp, distance
from fidelium.randomness import Key
from fidelium.surrogates.base import Posterior, Surrogate
from fidelium.surrogates.learning import (
    HIGHEST,
    LENGTH,
    LENGTH_LOG_STD,
    LOWEST,
    Entries,
    Memory,
    Prior,
    ProcessParameters,
    milestone,
    ravel,
    require_data,
    subset,
    unravel,
    widening,
)
from fidelium.surrogates.stacked_dnn.linearised import Noise
from fidelium.surrogates.stacked_dnn.priors import (
    AMPLITUDE_LOG_STD,
    FLOOR,
    LARGEST_RIPPLE,
    NOISE_PART_LOG_STD,
    RIPPLE,
    NoiseParameters,
)

Values = NDArray[np.float64]

PREFERENCE = 4.0
"""Nats by which a bend must beat the identity."""

OWN = 8.0
"""Nats more, if every fidelity has a bend of its own."""

SHAPE, SHAPE_LOG_STD = 0.3, 3.0
"""Prior median of a bend's scale, relative to the median distance from its end, and standard deviation of its log."""

SHAPE_BOUNDS = (1e-8, 1e3)
"""Of that ratio: sharper bends would resolve values that differ by rounding, flatter ones are straight."""

ROOM = 0.25
"""The logarithm continues beyond the best value, until a quarter of the way to its pole is left."""

_LEAST_SCORE, _LEAST_SQUARE = -1e300, 1e-30

FEWEST = 5
"""Observations of a fidelity from which a map of its own is taken."""


@runtime_checkable
class ScaledPosterior(Posterior, Protocol):
    """A posterior that keeps its scales as rows of an array, in itself and in its members."""

    units: Float[Array, "m fields"]


P = TypeVar("P", bound=ScaledPosterior)


@dataclass(frozen=True)
class Warped(Generic[P]):
    """A surrogate whose values are warped as the evidence says.

    Where the identity is chosen, it is the surrogate itself.

    Args:
        surrogate: of the warped values.
        shares_units: whether all fidelities must have one and the same map.
        most_points: the map is chosen from this many observations per fidelity at most.
        learned_at: from how many of the observations, the first ones, it is chosen.
    """

    surrogate: Surrogate[P]
    shares_units: bool = False
    most_points: int = 64
    learned_at: Callable[[int], int] = milestone

    def fit(self, observations: Sequence[Observations], key: Key) -> P:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        require_data(observations)
        early = [seen.first(self.learned_at(len(seen))) for seen in observations]
        warps = choose_warps(early, key, shared=self.shares_units, most_points=self.most_points)
        if all(warp.is_identity for warp in warps):
            return self.surrogate.fit(observations, key)
        warped = [Observations(o.unit_x, w.inward(o.y)) for o, w in zip(observations, warps, strict=True)]
        return _in_user_units(self.surrogate.fit(warped, key), warps)


def _in_user_units(posterior: P, warps: Sequence[Warp]) -> P:
    """The posterior of warped values, and its members, with scales that go through the warps."""

    def each(posterior: ScaledPosterior) -> list[ScaledPosterior]:
        return [posterior, *(member for member in posterior.members() if member is not posterior)]

    rows = [
        jnp.asarray(scale_rows([replace(scale, warp=w) for scale, w in zip(part.scales(), warps, strict=True)]))
        for part in each(posterior)
    ]
    return eqx.tree_at(lambda p: [part.units for part in each(p)], posterior, rows)


@dataclass(frozen=True)
class Shape:
    """A candidate: where the ends of the bend are, and how its scale is first guessed.

    Args:
        name: of the kind.
        below: whether it bends below its end.
        above: whether it bends above its end.
        end: the quantile of the values where the ends are: 1 the best, 0 the worst.
        start: first guess of its scale, relative to the median distance from the end.
    """

    name: str
    below: bool
    above: bool
    end: float
    start: float


SHAPES = (
    Shape("below the best", True, False, 1.0, 1.0),
    Shape("below the best", True, False, 1.0, 0.03),
    Shape("above the worst", False, True, 0.0, 1.0),
    Shape("above the worst", False, True, 0.0, 0.03),
    Shape("below the median", True, False, 0.5, 0.5),
    Shape("both tails", True, True, 0.5, 0.5),
)


@dataclass(frozen=True)
class Candidate:
    """A bend of every fidelity whose scale is to be learned.

    Args:
        shape: None: straight.
        ends: of every fidelity.
        gaps: the distance of every fidelity that the scale is relative to.
        shared: whether all fidelities have the same.
    """

    shape: Shape | None
    ends: tuple[tuple[float, float], ...]
    gaps: tuple[float, ...]
    shared: bool = True

    @property
    def flags(self) -> tuple[float, float, float]:
        """Whether it bends below and above its end, and whether all fidelities have the same."""
        return float(bool(self.shape and self.shape.below)), float(bool(self.shape and self.shape.above)), self.shared

    @property
    def penalty(self) -> float:
        """Nats by which it must be better than the identity."""
        return 0.0 if self.shape is None else PREFERENCE if self.shared else PREFERENCE + OWN

    def distances(self, values: Sequence[Values]) -> list[Values]:
        """The values of every fidelity relative to the end, in units of the gap."""
        parts = zip(values, self.ends, self.gaps, strict=True)
        return [np.asarray(distance(y, low, gap)) for y, (low, _), gap in parts]

    def bends(self, ratios: Sequence[float]) -> tuple[Bend, ...]:
        """The bend of every fidelity, with the scale's ratio to the gap."""
        if self.shape is None:
            return (STRAIGHT,) * len(self.ends)
        parts = zip(self.ends, self.gaps, ratios, strict=True)
        return tuple(_bend(self.shape, ends, gap * ratio) for ends, gap, ratio in parts)


def _bend(shape: Shape, ends: tuple[float, float], scale: float) -> Bend:
    low, high = ends
    scale = max(scale, 1e-290)
    if shape.end == 1.0:  # the same logarithm, from a later beginning: values better than the best one so far fit in
        return Bend(below=low + (1 - ROOM) * scale, scale=ROOM * scale)
    if shape.end == 0.0:
        return Bend(above=high - (1 - ROOM) * scale, scale=ROOM * scale)
    return Bend(below=low, scale=scale) if not shape.above else Bend(below=low, above=high, scale=scale)


@dataclass(frozen=True)
class Chosen:
    """A candidate with its learned scale and its score, the logarithm of the evidence in the values' units."""

    candidate: Candidate
    ratios: tuple[float, ...]
    score: float

    @property
    def bends(self) -> tuple[Bend, ...]:
        """The bend of every fidelity."""
        return self.candidate.bends(self.ratios)


def choose_warps(
    observations: Sequence[Observations], key: Key, *, shared: bool = False, most_points: int = 64
) -> tuple[Warp, ...]:
    """The map of every fidelity's values that the evidence prefers.

    Args:
        observations: of each fidelity, to be maximised.
        key: of the choice of observations, where there are many.
        shared: whether all fidelities must have one and the same map.
        most_points: observations of each fidelity that are used at most.
    """
    question = hashlib.sha256(repr((key, shared, most_points)).encode())
    for seen in observations:
        question.update(repr(len(seen)).encode() + seen.unit_x.tobytes() + seen.y.tobytes())
    fewer = [
        Observations(seen.unit_x[chosen], seen.y[chosen])
        for seen, part in zip(observations, key.split(len(observations)), strict=True)
        for chosen in [subset(len(seen), most_points, part)]
    ]
    return _memory.get(question.hexdigest(), partial(_choose, fewer, shared))


_memory = Memory[tuple[Warp, ...]](16)


def _choose(observations: Sequence[Observations], shared: bool) -> tuple[Warp, ...]:
    values = [seen.y for seen in observations]
    firsts = _best_bends(observations, values, shared)
    if all(bend.is_straight for bend in firsts):
        return (IDENTITY,) * len(values)
    bent = [bend.inward(y) for bend, y in zip(firsts, values, strict=True)]
    seconds = _best_bends(observations, bent, shared)
    return tuple(Warp(first, second) for first, second in zip(firsts, seconds, strict=True))


def _best_bends(observations: Sequence[Observations], values: Sequence[Values], shared: bool) -> tuple[Bend, ...]:
    candidates = [straight(values), *tail_candidates(values, shared)]
    if len(candidates) == 1:
        return (STRAIGHT,) * len(values)
    found = scored([seen.unit_x for seen in observations], values, candidates)
    return max(found, key=lambda each: each.score - each.candidate.penalty).bends


def straight(values: Sequence[Values]) -> Candidate:
    """The identity."""
    scales = [standardising(y) for y in values]
    return Candidate(None, tuple((scale.centre,) * 2 for scale in scales), tuple(scale.spread for scale in scales))


def tail_candidates(values: Sequence[Values], shared: bool) -> list[Candidate]:
    """Bends of the tails, one and the same for all fidelities, and for each its own."""
    everything = np.concatenate(list(values))
    groups = [[everything] * len(values)]
    if not shared and sum(len(y) > 0 for y in values) > 1:
        groups.append([y if len(y) >= FEWEST else everything for y in values])
    candidates: list[Candidate] = []
    for i, group in enumerate(groups):
        for shape in SHAPES:
            ends = [float(np.quantile(y / 2, shape.end)) * 2 for y in group]
            gaps = [_gap(y, end) for y, end in zip(group, ends, strict=True)]
            if all(gap > 0 for gap in gaps):
                candidates.append(Candidate(shape, tuple((end, end) for end in ends), tuple(gaps), shared=i == 0))
    return candidates


def _gap(y: Values, end: float) -> float:
    """The median distance from the end, of those that are not at it; 0 if all are."""
    apart = np.abs(y / 2 - end / 2)
    apart = apart[apart > 0]
    return min(2 * float(np.median(apart)), 1e300) if len(apart) > 1 else 0.0


class WarpParameters(eqx.Module):
    """theta of the cheap process: the bend's scale at every fidelity, a process of x, and the noise."""

    log_ratios: Entries
    process: ProcessParameters
    noise: NoiseParameters


def scored(inputs: Sequence[Values], values: Sequence[Values], candidates: Sequence[Candidate]) -> list[Chosen]:
    """Every candidate with its likeliest scale and its score.

    Args:
        inputs: designs of each fidelity.
        values: of each fidelity.
        candidates: bends, and how they are scored.
    """
    size = bucket(max(len(y) for y in values))
    x = np.stack([pad_rows(each, size) for each in inputs])
    mask = np.stack([pad_rows(_between(y), size) for y in values])
    apart = [candidate.distances(values) for candidate in candidates]
    u = np.stack([np.stack([pad_rows(y, size) for y in rows]) for rows in apart])
    flags = np.array([candidate.flags for candidate in candidates])
    fidelities = len(values)
    prior = _prior(x.shape[-1], fidelities)
    lower, upper = ravel(prior.lower), ravel(prior.upper)
    starts = np.tile(ravel(prior.mean), (len(candidates), 1))
    starts[:, :fidelities] = [[math.log(c.shape.start) if c.shape else 0.0] for c in candidates]

    def density(vectors: Values) -> tuple[Array, Array]:
        return _log_densities(vectors, prior.mean, prior.std, x, u, mask, flags)

    first = maximise_rows(density, starts, lower, upper, steps=STEPS, tolerance=1e-3)
    # once more, each with its own bend, and with the process and noise of the likeliest: no row must stay behind
    rest = np.tile(first.x[first.best, fidelities:], (len(starts), 1))
    again = np.concatenate([first.x[:, :fidelities], rest], axis=1)
    second = maximise_rows(density, again, lower, upper, steps=STEPS, tolerance=1e-3)
    better = second.value > first.value
    found = np.where(better[:, None], second.x, first.x)
    # the density of y is that of u over the gap, for every observation
    gaps = np.log([candidate.gaps for candidate in candidates]) @ np.sum(mask, axis=1)
    scores = np.maximum(np.where(better, second.value, first.value) - gaps, _LEAST_SCORE)
    ratios = np.exp(found[:, :fidelities])
    return [
        Chosen(c, tuple([row[0]] * fidelities if c.shared else row), score)
        for c, row, score in zip(candidates, ratios.tolist(), scores.tolist(), strict=True)
    ]


def _between(y: Values) -> Values:
    """1 for the values that count: not for the best and the worst one, and for none if all are the same.

    With the end of a bend at the best value, its scale could go to 0 and the density of that value to infinity.
    """
    counts = np.ones(len(y))
    if len(y):
        counts[[np.argmin(y), np.argmax(y)]] = 0.0
    return counts if len(np.unique(y[counts > 0])) > 1 else np.zeros(len(y))


STEPS = 16
"""Evaluations of the evidence at most."""


def _prior(dimension: int, fidelities: int) -> Prior[WarpParameters]:
    """As that of the lowest layer of the stack, without its detail."""
    one, each, all_of = np.asarray, partial(np.full, dimension), partial(np.full, fidelities)
    mean = WarpParameters(
        all_of(math.log(SHAPE)),
        ProcessParameters(one(0.0), each(math.log(LENGTH) + widening(dimension))),
        NoiseParameters(one(math.log(FLOOR)), one(math.log(RIPPLE))),
    )
    std = WarpParameters(
        all_of(SHAPE_LOG_STD),
        ProcessParameters(one(AMPLITUDE_LOG_STD), each(LENGTH_LOG_STD)),
        NoiseParameters(one(NOISE_PART_LOG_STD), one(NOISE_PART_LOG_STD)),
    )
    prior = Prior.of(mean, std, LOWEST, HIGHEST)
    low, high = (all_of(math.log(bound)) for bound in SHAPE_BOUNDS)
    lower = eqx.tree_at(lambda p: p.log_ratios, prior.lower, low)
    largest = high, one(math.log(LARGEST_RIPPLE))
    upper = eqx.tree_at(lambda p: (p.log_ratios, p.noise.log_ripple), prior.upper, largest)
    return Prior(mean, std, lower, upper)


@jax.jit
def _log_densities(
    vectors: Float[np.ndarray, "r p"],
    prior_mean: WarpParameters,
    prior_std: WarpParameters,
    x: Float[np.ndarray, "m n d"],
    u: Float[np.ndarray, "r m n"],
    mask: Float[np.ndarray, "m n"],
    flags: Float[np.ndarray, "r 3"],
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(u, theta) of every row, u the values in units of its gaps, and its gradient."""

    def one(vector: Array, u: Array, flags: Array) -> Array:
        theta = unravel(prior_mean, vector)
        log_prior = -0.5 * jnp.sum(((vector - ravel_pytree(prior_mean)[0]) / ravel_pytree(prior_std)[0]) ** 2)
        kernel = Kernel(theta.process.log_lengths)
        variance = jnp.exp(2 * theta.process.log_amplitude)
        ratios = jnp.exp(jnp.where(flags[2] > 0, theta.log_ratios[0], theta.log_ratios))

        def fidelity(x: Array, u: Array, mask: Array, ratio: Array) -> Array:
            z, log_slope = _bent(u, ratio, flags)
            count = jnp.maximum(jnp.sum(mask), 1.0)
            z = z - jnp.sum(mask * z) / count
            std = jnp.sqrt(jnp.sum(mask * z**2) / count + _LEAST_SQUARE)
            noise_var = Noise.of(theta.noise, z / std, mask).var(z / std)
            k = jax.vmap(lambda p: jax.vmap(lambda q: kernel(p, q))(x))(x)
            density = linalg.log_normal(z / std, variance * k + jnp.diag(noise_var), mask)
            return density + jnp.sum(mask * log_slope) - jnp.sum(mask) * jnp.log(std)

        return jnp.sum(jax.vmap(fidelity)(x, u, mask, ratios)) + log_prior

    return jax.vmap(jax.value_and_grad(one))(vectors, u, flags)


def _bent(
    u: Float[Array, " n"], ratio: Float[Array, ""], flags: Float[Array, " 3"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """z = ratio log(1 + |u| / ratio) sign(u) on the sides that bend, u on the others, and the log of its slope."""
    bends = jnp.where(u < 0, flags[0], flags[1]) > 0
    far = jnp.log1p(jnp.abs(u) / ratio)
    return jnp.where(bends, jnp.sign(u) * ratio * far, u), jnp.where(bends, -far, 0.0)
