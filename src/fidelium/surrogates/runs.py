"""The posterior of everything a run gives: its value, its constrained outcomes, and whether it succeeds at all.

Value and outcomes have a surrogate each, of the same kind, learned from the same runs, and independent of each other.
They stand side by side in one pytree with a leading axis, so that one compiled function serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.history import History
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.base import Focus, Focusable, JointlyGaussian, Point, Posterior, Scalar, Success, Surrogate
from fidelium.surrogates.inputs import all_used
from fidelium.surrogates.success import SuccessModel, SuccessPosterior

_FARTHEST = 1e9
"""In the place of a limit that there is not, in the model's units."""

_LEAST, _MOST = -18.0, 38.0
"""Standard deviations beyond which a limit is as good as 18 or 38 away: probabilities of 1e-72, and of 1."""

LEAST_CHANCE, CHANCE_STEP, MOST_CHANCE, RECENT = 0.88, 0.02, 0.94, 5
"""Least probability of success of a query, but for random failures, how much it rises with every failure among the last
trials, up to which value, and how many of the last trials count. Queries lie at this bound, so
that it is the rate of failures that is accepted (docs/experiments-log.md)."""

LEAST_AFTER = 0.8
"""Least probability that a run of the target succeeds once the query has, as a share of the least one of the query.
Without it, low fidelities went on where their own runs succeed and those of the target are known not to."""

NEAR = 0.02
"""How far a better design must be from the one that is modelled closely to take its place, in units of the cube's side:
a part of the radius of the detail around it (0.08 in two dimensions)."""

_LEVELS = (0.05, 0.85)
"""Range of the levels of draws of success; 1 less the rate of failures that are random anywhere is above it."""

CAUTION = 40.0
"""Power of the probability relative to the least one that a worth is multiplied by: nearly a bound, but smooth. With 8,
queries beyond an edge went on where nothing else was worth a hundredth of them."""

MOST_SHARED = 1 - 1e-9
"""Largest squared correlation between an observation and the target."""


class Cautious(eqx.Module):
    """Beliefs about success, and how much risk is taken: what is unlikely to succeed is avoided, not only discounted.

    The best design often lies where runs begin to fail. A worth that is discounted by the probability of success is
    largest a little beyond the edge, and goes there again and again: of 30 queries 26 to 29 failed
    (docs/experiments-log.md). So there is a least probability, which rises with recent failures.

    Args:
        model: beliefs about success.
        least: the least probability of success that a query should have.
    """

    model: Success
    least: Scalar

    @staticmethod
    def of(model: Success, history: History) -> Cautious:
        """With the least probability after the recent failures; random ones cannot be avoided, and are left out."""
        least = min(LEAST_CHANCE + CHANCE_STEP * history.recent_failures(RECENT), MOST_CHANCE)
        return Cautious(model, least * (model.usual if isinstance(model, SuccessPosterior) else jnp.asarray(1.0)))

    def probabilities(self, x: Point) -> Float[Array, " m"]:
        """P(a run at (x, m) succeeds) for every fidelity."""
        return self.model.probabilities(x)

    def pair(self, x: Point, fidelity: Any) -> tuple[Scalar, Scalar, Scalar]:
        """As that of the model."""
        return self.model.pair(x, fidelity)

    def log_caution(self, x: Point, fidelity: Any) -> Scalar:
        """What a worth is multiplied by, as a logarithm: 0 where a run is likely enough to succeed, falling below.

        And where a run of the target would be likely enough to succeed once this one has.
        """
        here, then, _ = self.model.pair(x, fidelity)
        short = jnp.minimum(jnp.log(here) - jnp.log(self.least), 0.0)
        return CAUTION * (short + jnp.minimum(jnp.log(then) - jnp.log(LEAST_AFTER * self.least), 0.0))


class Links(eqx.Module):
    """How the value and the outcomes of a run at (x, m) are related to those of the target at x.

    Args:
        mean: of each at the target.
        std: of each at the target.
        shared: squared correlation between what the run would show and the target.
    """

    mean: Float[Array, " r"]
    std: Float[Array, " r"]
    shared: Float[Array, " r"]


class RunMember(eqx.Module):
    """One member's beliefs about the results of a run.

    Args:
        results: posteriors of the value, then of the outcomes, as one, every array with a leading axis.
        limits: lower and upper limit of each outcome at the target, in the model's units.
        success: whether runs succeed; None if no failure is to be learned from.
    """

    results: Posterior
    limits: Float[Array, "k 2"]
    success: Cautious | None

    def scales(self) -> tuple[Scale, ...]:
        """The units of the value at each fidelity; not to be traced."""
        value: Posterior = jax.tree.map(lambda leaf: leaf[0], self.results)
        return value.scales()

    def at_target(self, x: Point) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
        """Mean and standard deviation of the value and of each outcome at the target."""
        means, variances = jax.vmap(lambda result: result.marginals(x))(self.results)
        return means[:, -1], jnp.sqrt(variances[:, -1])

    def links(self, x: Point, fidelity: Any) -> Links:
        """How a run at a fidelity, which may be traced if the posteriors are jointly Gaussian, informs the target."""
        if isinstance(self.results, JointlyGaussian):
            mean, covariance = jax.vmap(lambda result: result.joint(x))(self.results)
            noise = jax.vmap(lambda result, mean: result.noise_vars(mean))(self.results, mean)[:, fidelity]
            variance, target_var = covariance[:, fidelity, fidelity], covariance[:, -1, -1]
            shared = covariance[:, fidelity, -1] ** 2 / ((variance + noise) * target_var)
            return Links(mean[:, -1], jnp.sqrt(target_var), jnp.clip(shared, 0.0, MOST_SHARED))
        return Links(*jax.vmap(lambda result: _link(result, x, fidelity))(self.results))

    def log_feasible(self, x: Point) -> Scalar:
        """log P(a run of the target at x succeeds and meets all constraints)."""
        mean, std = self.at_target(x)
        total = jnp.sum(jax.vmap(log_within)(*margins(self.limits, mean[1:], std[1:])))
        return total if self.success is None else total + jnp.log(self.success.probabilities(x)[-1])

    def draw_paths(self, key: jax.Array, count: int) -> RunPaths:
        """`count` joint draws of the value, the outcomes and success at the target, as functions."""
        keys = jr.split(key, self.limits.shape[0] + 1)
        paths = jax.vmap(lambda result, key: result.draw_paths(key, count))(self.results, keys)
        low, high = _LEVELS
        levels = jnp.asarray(low + (high - low) * (np.arange(count) + 0.5) / count)
        return RunPaths(paths, self.limits, self.success, levels)


class RunPaths(eqx.Module):
    """Draws of the value, the outcomes and success at the target as functions.

    A draw of success is the set of designs that succeed with more than a probability, its level: a design is in it with
    its own probability, and what is more likely to succeed is never left out before what is less.

    Args:
        paths: of the value and each outcome, as one, every array with a leading axis.
        limits: lower and upper limit of each outcome.
        success: beliefs about success, None if all runs succeed.
        levels: of each draw.
    """

    paths: Any
    limits: Float[Array, "k 2"]
    success: Success | None
    levels: Float[Array, " draws"]

    @property
    def all_limits(self) -> Float[Array, "r 2"]:
        """The limits of each outcome, and of the margin of success, if there is one."""
        if self.success is None:
            return self.limits
        return jnp.concatenate([self.limits, jnp.array([[0.0, _FARTHEST]])])

    def __call__(self, x: Point) -> tuple[Float[Array, " draws"], Float[Array, "r draws"]]:
        """The value of every draw at x, and how far each outcome is beyond its limits, 0 if it is within."""
        values = jax.vmap(lambda path: path(x))(self.paths)
        if self.success is not None:
            values = jnp.concatenate([values, jax.vmap(lambda level: self._margin(level, x))(self.levels)[None]])
        return values[0], jax.vmap(beyond)(self.all_limits, values[1:])

    def results_and_gradients(self, draw: Array, x: Point) -> tuple[Float[Array, " r"], Float[Array, "r d"]]:
        """Value, outcomes and margin of success of one draw at x, and their gradients."""
        values, gradients = jax.vmap(lambda path: jax.value_and_grad(lambda x: path.at(draw, x))(x))(self.paths)
        if self.success is None:
            return values, gradients
        margin, slope = jax.value_and_grad(lambda x: self._margin(self.levels[draw], x))(x)
        return jnp.concatenate([values, margin[None]]), jnp.concatenate([gradients, slope[None]])

    def _margin(self, level: Scalar, x: Point) -> Scalar:
        """Log odds of success less those of the level: at least 0 in the draw's set."""
        assert self.success is not None
        return jax.scipy.special.logit(self.success.probabilities(x)[-1]) - jax.scipy.special.logit(level)


class RunPosterior(eqx.Module):
    """Beliefs about all results of a run, of all members.

    Args:
        value: the posterior of the value.
        outcomes: the posteriors of the constrained outcomes.
        limits: lower and upper limit of each outcome, in the user's units.
        success: whether runs succeed; None if no failure is to be learned from.
    """

    value: Posterior
    outcomes: tuple[Posterior, ...]
    limits: tuple[tuple[float, float], ...] = eqx.field(static=True)
    success: Cautious | None

    def scales(self) -> tuple[Scale, ...]:
        """The units of the value at each fidelity."""
        return self.value.scales()

    def members(self) -> tuple[RunMember, ...]:
        """A member of the value's ensemble with one of each outcome's: the first with the first, and so on."""
        each = zip(self.value.members(), *(outcome.members() for outcome in self.outcomes), strict=True)
        return tuple(self._member(posteriors) for posteriors in each)

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> RunPosterior:
        """Condition on fantasy observations equal to the predictive mean."""
        value, *outcomes = (each.given(x, fidelities) for each in (self.value, *self.outcomes))
        return RunPosterior(value, tuple(outcomes), self.limits, self.success)

    def _member(self, posteriors: Sequence[Posterior]) -> RunMember:
        # stacked by NumPy: JAX would compile a function for every shape
        results: Posterior = jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *posteriors))
        rows = zip(posteriors[1:], self.limits, strict=True)
        limits = [np.clip(each.scales()[-1].inward(np.array(pair)), -_FARTHEST, _FARTHEST) for each, pair in rows]
        return RunMember(results, jnp.asarray(np.array(limits).reshape(-1, 2)), self.success)


def fit_runs(
    surrogate: Surrogate[Posterior], history: History, key: Key, success: SuccessModel | None = None
) -> Posterior | RunPosterior:
    """What is known of the results of a run: of its value alone, if nothing is constrained and nothing has failed.

    Args:
        surrogate: of the value, and of each outcome.
        history: the observations.
        key: of the surrogate's random parts.
        success: the model of success, None for the default one.
    """
    value = _focused(surrogate, _best_ranges(history), history).fit(history.observations, key)
    if not history.constraints and not history.learns_success:
        return value
    outcomes = []
    for each, seen in zip(history.constraints, history.outcomes, strict=True):
        low = each.upper if np.isinf(each.lower) else each.lower
        high = each.lower if np.isinf(each.upper) else each.upper
        outcomes.append(_focused(surrogate, ((low, high),) * len(seen), history).fit(seen, key))
    taught = None
    if history.learns_success:
        succeeded, failed = zip(*history.successes, strict=True)
        model = replace(success or SuccessModel(), used=all_used(history.used))
        taught = Cautious.of(model.fit(succeeded, failed, key), history)
    limits = tuple((each.lower, each.upper) for each in history.constraints)
    return RunPosterior(value, tuple(outcomes), limits, taught)


def value_and_success(posterior: Posterior | RunPosterior) -> tuple[Posterior, Cautious | None]:
    """The posterior of the value alone, and of success: for acquisitions that take no constraints.

    Raises:
        SettingError: if outcomes are constrained.
    """
    if not isinstance(posterior, RunPosterior):
        return posterior, None
    if posterior.outcomes:
        raise SettingError("this acquisition takes no constraints on outcomes")
    return posterior.value, posterior.success


def _focused(
    surrogate: Surrogate[Posterior], precise: tuple[tuple[float, float], ...], history: History
) -> Surrogate[Posterior]:
    """The surrogate for one result of a study with constraints, precise where it matters."""
    if not history.constraints or not isinstance(surrogate, Focusable):
        return surrogate
    return surrogate.focused(Focus(_centre(history), precise))


def _best_ranges(history: History) -> tuple[tuple[float, float], ...]:
    """Of every fidelity, the values from that of the best feasible design on, or of the one nearest to feasible."""
    history = _with_data(history)
    both = zip(history.inside, history.order, strict=True)
    return tuple((float(seen.sure_y[order[0]]) if len(seen) else 0.0, np.inf) for seen, order in both)


def _with_data(history: History) -> History:
    """The history of a slice of the space if something was observed there, else that of the whole."""
    return history if any(len(seen) for seen in history.inside) else history.whole


def _centre(history: History) -> tuple[float, ...]:
    """The design around which results are modelled closely: the best feasible one, or the one nearest to feasible.

    It stays where it was as long as better ones are near: with another one, everything is learned again.
    """
    history = _with_data(history)
    for seen, order in zip(reversed(history.inside), reversed(history.order), strict=True):
        if len(seen):
            rank = np.argsort(order)
            betters = np.flatnonzero(rank == np.minimum.accumulate(rank))  # in the order in which they were found
            centre = seen.unit_x[betters[0]]
            for x in seen.unit_x[betters[1:]]:
                centre = x if np.max(np.abs(x - centre)) > NEAR else centre
            return tuple(centre.tolist())
    return (0.5,) * history.space.dimension


def _link(posterior: Posterior, x: Point, fidelity: int) -> tuple[Scalar, Scalar, Scalar]:
    """The fields of `Links` for one result."""
    means, variances = posterior.marginals(x)
    own, noise = variances[fidelity], posterior.noise_var(fidelity, means[fidelity])
    signal = own / (own + noise)
    if fidelity < means.shape[0] - 1:
        std = jnp.sqrt(own)
        ends = jax.vmap(lambda value: posterior.target_given(x, fidelity, value)[0])(
            means[fidelity] + jnp.stack([-std, std])
        )
        signal = signal * jnp.minimum(((ends[1] - ends[0]) / 2) ** 2 / variances[-1], 1.0)
    return means[-1], jnp.sqrt(variances[-1]), jnp.clip(signal, 0.0, MOST_SHARED)


def beyond(limits: Float[Array, " 2"], value: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """How far values are beyond their limits, 0 within."""
    return jnp.maximum(limits[0] - value, 0.0) + jnp.maximum(value - limits[1], 0.0)


def margins(
    limits: Float[Array, "k 2"], mean: Float[Array, " k"], std: Float[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """How far each mean is within its nearer limit, and within its farther one, in standard deviations."""
    within = jnp.stack([mean - limits[:, 0], limits[:, 1] - mean]) / std[None, :]
    return clipped(jnp.min(within, axis=0)), clipped(jnp.max(within, axis=0))


def log_within(near: Scalar, far: Scalar) -> Scalar:
    """log P(both limits are met) = log(Phi(near) - Phi(-far)), of margins in standard deviations."""
    cdf = jax.scipy.stats.norm.cdf
    return jnp.log(jnp.maximum(cdf(near) - cdf(-far), 1e-300))


def clipped(margins: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Margins in standard deviations, within what the functions here take."""
    return jnp.clip(margins, _LEAST, _MOST)
