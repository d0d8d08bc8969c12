"""The learned parameters of one layer of the closed-form stack, by name, and their prior, every constant with a reason.

Lengths are in units of the unit cube, amplitudes in those of the scaled values (spread 1). Where a reason says "chosen,
not tuned", the number was set when its part was written and no experiment compared others.
"""

from __future__ import annotations

import math
from enum import StrEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.history import Used
from fidelium.surrogates.learning import (
    LENGTH,
    LENGTH_LOG_STD,
    Entries,
    Entry,
    Prior,
    ProcessParameters,
    widening,
)


class Kind(StrEnum):
    """How a layer may relate to the one below; the lowest stands alone."""

    ALONE = "alone"  # not at all: what is below may be useless
    FREE = "free"  # any slope, any bend
    RESIDUAL = "residual"  # nearly equal, in units aligned with those below

    @property
    def slope(self) -> float:
        """Prior mean of df_m / df_{m-1}."""
        return 1.0 if self is Kind.RESIDUAL else 0.0

    @property
    def first_slope(self) -> float:
        """Where the iteration for rho = du / df_{m-1} starts, when the weights of a layer are computed."""
        return {Kind.ALONE: 0.0, Kind.FREE: 0.5, Kind.RESIDUAL: 1.0}[self]


class NoiseParameters(eqx.Module):
    """The noise of an observation: a floor, plus a share (the ripple) of the distance below the best value."""

    log_floor: Entry
    log_ripple: Entry


class DetailParameters(eqx.Module):
    """The process of short lengths around the best design."""

    log_amplitude: Entry
    log_radius: Entry
    log_lengths: Entries


class RelationParameters(eqx.Module):
    """How f_m depends on f_{m-1}: a line, and a smooth process of [x, f_{m-1}]."""

    log_slope: Entry
    log_amplitude: Entry
    log_below_length: Entry
    log_lengths: Entries


class LayerParameters(eqx.Module):
    """theta of one layer: all that is learned by the evidence.

    Args:
        noise: of an observation.
        process: of x.
        detail: near the best design.
        relation: to the layer below; None in the lowest layer.
    """

    noise: NoiseParameters
    process: ProcessParameters
    detail: DetailParameters
    relation: RelationParameters | None


# noise

FLOOR = 2e-3
"""Prior median of the noise floor, as a share of the values' spread: the belief of the first form of the stack, kept
when the ripple was added (docs/experiments-log.md, fourth round)."""

FOCUSED_FLOOR = 1e-6
"""Lower bound of the floor where limits are met or missed: simulators repeat to many digits, and at a corner of active
limits the last of them decide. The bound of all other parameters, 1e-4, was reached on every outcome of g04; its corner
was then predicted 1000 times better than the model believed (docs/experiments-log.md, "Constraints and failures")."""

EXACT_FLOOR = 1e-7
"""The floor in the place of one that was learned at its bound: then there is no noise. The evidence, by a Cholesky
factor, cannot be computed with less than the bound; the weights, by singular values, can."""

RIPPLE = 2e-2
"""Prior median of the ripple, as a share of the distance below the best value: the share of the spread that was best
for a noise that is the same everywhere (`learning.NOISE_STD`, docs/experiments-log.md, third round)."""

LARGEST_RIPPLE = 0.3
"""Upper bound of the ripple. Without it the evidence has a second maximum at 0.6, where everything but the very top is
noise (docs/experiments-log.md, fifth round)."""

NOISE_PART_LOG_STD = 2.0
"""Prior standard deviation of both logarithms: weak, so that a few values of a smooth function bring them down."""

# process of x

AMPLITUDE = 0.0
"""Log amplitude of a layer that stands alone: its values are scaled to spread 1."""

FREE_AMPLITUDE, RESIDUAL_AMPLITUDE = -0.3, -1.5
"""Log amplitude of what x adds to the layer below: most of the spread where the relation is open, a fifth of it where
the layers are nearly equal. Chosen, not tuned."""

AMPLITUDE_LOG_STD = 1.0
"""Prior standard deviation of log amplitudes, log slopes and the relation's log lengths: a factor e. Chosen, not
tuned."""

ALIKE = 0.3
"""Prior standard deviation of log lengths about those learned in the layer below: fidelities vary over similar lengths,
and the one below has more observations. Predictions of branin's target were 2.6 standard deviations off with lengths of
its own, 1.7 with these (docs/experiments-log.md, second round)."""

# detail near the best design

DETAIL_AMPLITUDE, DETAIL_LENGTH = 5e-3, 0.01
"""Prior medians of the detail's amplitude, as a share of the values' spread, and of its lengths, in units of the cube's
side, in two dimensions. With 0.02 for both, queries on branin stayed around a bad design (docs/experiments-log.md,
fifth round)."""

DETAIL_RADIUS = 0.08
"""Prior median of the radius within which there is detail, in units of the cube's side, in two dimensions: a few of its
lengths. Chosen, not tuned."""

DETAIL_RADIUS_LOG_STD = 0.5
"""Prior standard deviation of the log radius: a factor of 1.6. Chosen, not tuned."""

FREE_DETAIL, RESIDUAL_DETAIL = -0.5, -1.0
"""Added to the log amplitude of the detail learned below: the same ripples are seen below with more observations, and
the relation passes most of them up. Chosen, not tuned."""

# relation to the layer below

UNRELATED = -6.0
"""Log slope and log amplitude of the relation in a layer that stands alone: 0.25 % of the spread, practically none."""

UNRELATED_LOG_STD = 0.1
"""Prior standard deviation of the relation's entries in such a layer: it must not become a free one by learning."""

FREE_SLOPE, FREE_RELATION_AMPLITUDE = 0.0, -1.0
"""Log slope and log amplitude of a free relation: a slope of order one, and bends of a third of it. Chosen, not
tuned."""

RESIDUAL_SLOPE, RESIDUAL_RELATION_AMPLITUDE = -1.5, -2.0
"""Log of how far the slope is from 1, and log amplitude, in a residual layer: about a fifth and a seventh. Chosen, not
tuned."""

BELOW_LENGTH = 0.7
"""Log length of the relation in f_{m-1}: two spreads of its values. Chosen, not tuned."""

BELOW_LENGTH_LOG_STD = 0.7
"""Prior standard deviation of that logarithm: a factor 2. Chosen, not tuned."""

RELATION_LENGTH = 0.0
"""Log lengths of the relation in x, in two dimensions: the side of the cube. Chosen, not tuned."""


def layer_prior(dimension: int, kind: Kind, below: LayerParameters | None) -> Prior[LayerParameters]:
    """The prior of a layer's parameters.

    Args:
        dimension: of x.
        kind: how the layer relates to the one below.
        below: the parameters learned in the layer below; None in the lowest.
    """
    relation = (None, None) if below is None else _relation(dimension, kind)
    parts = (_noise(), _process(dimension, kind, below), _detail(dimension, kind, below), relation)
    mean, std = (LayerParameters(*part) for part in zip(*parts, strict=True))
    prior = Prior.of(mean, std)
    upper = eqx.tree_at(lambda p: p.noise.log_ripple, prior.upper, np.asarray(math.log(LARGEST_RIPPLE)))
    # noise and detail are not doubted: all members of an ensemble have the same prior of them
    zero_noise, zero_detail = jax.tree.map(np.zeros_like, (std.noise, std.detail))
    doubt = LayerParameters(zero_noise, std.process, zero_detail, std.relation)
    return Prior(mean, std, prior.lower, upper, doubt)


def with_least_floor(prior: Prior[LayerParameters], least: float) -> Prior[LayerParameters]:
    """The prior with another lower bound of the noise floor."""
    lower = eqx.tree_at(lambda p: p.noise.log_floor, prior.lower, np.asarray(math.log(least)))
    return Prior(prior.mean, prior.std, lower, prior.upper, prior.doubt)


def with_new_inputs(prior: Prior[LayerParameters], kind: Kind, below: Used | None) -> Prior[LayerParameters]:
    """The prior of a layer above one that does not use all columns of x: lengths along the others are not known.

    Args:
        prior: about the lengths learned in the layer below.
        kind: of the layer; one that stands alone knows no lengths in any case.
        below: the columns that the layer below uses, None for all.
    """
    if below is None or kind is Kind.ALONE:
        return prior
    new, dimension = ~np.array(below), len(below)
    lengths = np.where(new, math.log(LENGTH) + widening(dimension), prior.mean.process.log_lengths)
    mean = eqx.tree_at(lambda p: p.process.log_lengths, prior.mean, lengths)
    details = np.where(new, math.log(DETAIL_LENGTH) + widening(dimension), prior.mean.detail.log_lengths)
    mean = eqx.tree_at(lambda p: p.detail.log_lengths, mean, details)

    def wider(part: LayerParameters) -> LayerParameters:
        spread = np.where(new, LENGTH_LOG_STD, part.process.log_lengths)
        return eqx.tree_at(lambda p: p.process.log_lengths, part, spread)

    details_std = np.where(new, LENGTH_LOG_STD, prior.std.detail.log_lengths)
    std = eqx.tree_at(lambda p: p.detail.log_lengths, wider(prior.std), details_std)
    doubt = None if prior.doubt is None else wider(prior.doubt)
    return Prior(mean, std, prior.lower, prior.upper, doubt)


def without_noise(learned: NoiseParameters) -> NoiseParameters:
    """The noise that was learned, next to none if its floor is at the bound."""
    at_bound = learned.log_floor <= math.log(FOCUSED_FLOOR) + _AT_BOUND
    return NoiseParameters(jnp.where(at_bound, math.log(EXACT_FLOOR), learned.log_floor), learned.log_ripple)


_AT_BOUND = 0.2
"""How near to its bound a logarithm is at it: a search ends a little before it."""


def slope_var(relation: RelationParameters) -> Float[Array, ""]:
    """The variance of d(w . phi) / df_{m-1} before the data, w ~ N(0, I): exp(log_slope)^2 + (amplitude / length)^2."""
    return jnp.exp(2 * relation.log_slope) + jnp.exp(2 * (relation.log_amplitude - relation.log_below_length))


def _noise() -> tuple[NoiseParameters, NoiseParameters]:
    """Prior mean and standard deviation; the same for the functions below."""
    mean = NoiseParameters(_one(math.log(FLOOR)), _one(math.log(RIPPLE)))
    return mean, NoiseParameters(_one(NOISE_PART_LOG_STD), _one(NOISE_PART_LOG_STD))


def _process(dimension: int, kind: Kind, below: LayerParameters | None) -> tuple[ProcessParameters, ProcessParameters]:
    if below is None or kind is Kind.ALONE:
        lengths = _all(dimension, math.log(LENGTH) + widening(dimension))
        std = ProcessParameters(_one(AMPLITUDE_LOG_STD), _all(dimension, LENGTH_LOG_STD))
        return ProcessParameters(_one(AMPLITUDE), lengths), std
    amplitude = RESIDUAL_AMPLITUDE if kind is Kind.RESIDUAL else FREE_AMPLITUDE
    std = ProcessParameters(_one(AMPLITUDE_LOG_STD), _all(dimension, ALIKE))
    return ProcessParameters(_one(amplitude), below.process.log_lengths), std


def _detail(dimension: int, kind: Kind, below: LayerParameters | None) -> tuple[DetailParameters, DetailParameters]:
    if below is None:
        wider = widening(dimension)
        lengths = _all(dimension, math.log(DETAIL_LENGTH) + wider)
        mean = DetailParameters(_one(math.log(DETAIL_AMPLITUDE)), _one(math.log(DETAIL_RADIUS) + wider), lengths)
        spreads = _one(AMPLITUDE_LOG_STD), _one(DETAIL_RADIUS_LOG_STD), _all(dimension, LENGTH_LOG_STD)
        return mean, DetailParameters(*spreads)
    passed_up = {Kind.ALONE: 0.0, Kind.FREE: FREE_DETAIL, Kind.RESIDUAL: RESIDUAL_DETAIL}[kind]
    learned = below.detail
    mean = DetailParameters(np.asarray(learned.log_amplitude + passed_up), learned.log_radius, learned.log_lengths)
    return mean, DetailParameters(_one(AMPLITUDE_LOG_STD), _one(ALIKE), _all(dimension, ALIKE))


def _relation(dimension: int, kind: Kind) -> tuple[RelationParameters, RelationParameters]:
    slope, amplitude = {
        Kind.ALONE: (UNRELATED, UNRELATED),
        Kind.FREE: (FREE_SLOPE, FREE_RELATION_AMPLITUDE),
        Kind.RESIDUAL: (RESIDUAL_SLOPE, RESIDUAL_RELATION_AMPLITUDE),
    }[kind]
    lengths = _all(dimension, RELATION_LENGTH + widening(dimension))
    mean = RelationParameters(_one(slope), _one(amplitude), _one(BELOW_LENGTH), lengths)
    if kind is Kind.ALONE:
        sure = _one(UNRELATED_LOG_STD)
        return mean, RelationParameters(sure, sure, sure, _all(dimension, UNRELATED_LOG_STD))
    wide = _one(AMPLITUDE_LOG_STD)
    return mean, RelationParameters(wide, wide, _one(BELOW_LENGTH_LOG_STD), _all(dimension, AMPLITUDE_LOG_STD))


def _one(value: float) -> Entry:
    return np.asarray(value)


def _all(dimension: int, value: float) -> Entries:
    return np.full(dimension, value)
