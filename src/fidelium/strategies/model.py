"""A posterior as the study sees it: predictions, feasibility and the recommended design, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.acquisition.base import BLOCK, MOST_WHOLE, in_blocks, incumbents, rough, unasked
from fidelium.acquisition.feasible import climb_feasible
from fidelium.acquisition.safe_optima import safe_optima
from fidelium.errors import SettingError
from fidelium.history import History, Observations
from fidelium.numerics.backend import jax_session
from fidelium.numerics.normal import log_improvement
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation
from fidelium.strategies.expected_improvement import expected_improvement
from fidelium.strategies.recommendation import Expected, observed_designs, recommended
from fidelium.surrogates.base import Point, Posterior, Scalar
from fidelium.surrogates.runs import Cautious, RunMember, RunPosterior

REPEATS = 0.05
"""Noise up to this share of the values' spread counts as ripples of a deterministic simulator, which repeat."""

LIKELY = 0.9
"""Probability of being feasible that a new design must have to be recommended."""

_PENALTY = 3.0
"""What log P(feasible) below that of `LIKELY` costs a design, in spreads of the value."""

_NEAR_BEST = 0.02
"""Values that differ by this share of their spread are told apart softly in the search for the last query."""

_MARGINS, _SAFE_STARTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0), 2
"""Distances from the limits, in standard deviations, of designs for the last query, and how many climbs lead there."""

_SOFT, _LEAST_SOFT = 0.1, 1e-9
"""How softly values are told apart there: this share of what there is to gain, and at least so much of the spread."""

_POOL = 512
_STARTS = 8
_TABLE_TOPS = 64
_NEAR = 12
_TOPS = 12  # the best designs of all fidelities, four of each on ladders of up to three

Criterion = Callable[[Any, Any, Point], Scalar]
"""What is maximised over designs, from a posterior, or a member of a run's, the best value known, and the design."""


@dataclass(frozen=True)
class PosteriorModel:
    """Predictions of a posterior.

    The recommended design is the best one observed at the target, unless another one is expected to be better by more
    than its uncertainty (`recommendation.py`). The maximum of the plain mean is often in an unexplored region.

    With constraints or failures, a design must also be feasible: observed to be, or with good probability.

    Args:
        posterior: of the surrogate fitted to the history; of all results of a run, with constraints or failures.
        history: the observations.
        key: of the search for the recommended design.
    """

    posterior: Posterior | RunPosterior
    history: History
    key: Key

    @property
    def _value(self) -> Posterior:
        """The posterior of the value."""
        return self.posterior.value if isinstance(self.posterior, RunPosterior) else self.posterior

    @cached_property
    def _known(self) -> tuple[Posterior | RunMember, ...]:
        """What a criterion is averaged over."""
        return self.posterior.members() if isinstance(self.posterior, RunPosterior) else (self.posterior,)

    @cached_property
    def scales(self) -> tuple[Scale, ...]:
        """The units of the posterior's values."""
        return self.posterior.scales()

    @jax_session()
    def predict(self, unit_x: NDArray[np.float64], fidelity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and standard deviation of the objective at points `(n, d)`, in the objective's units.

        Where the values were warped: the median, and half of the width of the interval of 68 %, through the map.
        """
        return _predicted(self._value, unit_x, fidelity)

    @jax_session()
    def predict_outcome(
        self, unit_x: NDArray[np.float64], fidelity: int, outcome: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same for the outcome of the constraint at this position.

        Raises:
            SettingError: if the strategy does not model outcomes.
        """
        if not isinstance(self.posterior, RunPosterior):
            raise SettingError("this strategy has no model of outcomes")
        return _predicted(self.posterior.outcomes[outcome], unit_x, fidelity)

    @jax_session()
    def feasibility(self, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that a run of the target succeeds and meets all constraints, at points `(n, d)`."""
        if not isinstance(self.posterior, RunPosterior):
            return np.ones(len(unit_x))
        padded = pad_rows(np.asarray(unit_x, dtype=float), bucket(len(unit_x)))
        each = [np.exp(np.asarray(_log_feasible(member, padded))) for member in self.posterior.members()]
        return np.mean(each, axis=0)[: len(unit_x)]

    @jax_session()
    def success(self, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that a run of the target succeeds, at points `(n, d)`; 1 while nothing has failed."""
        if not isinstance(self.posterior, RunPosterior) or self.posterior.success is None:
            return np.ones(len(unit_x))
        padded = pad_rows(np.asarray(unit_x, dtype=float), bucket(len(unit_x)))
        return np.asarray(_success(self.posterior.success, padded))[: len(unit_x), -1]

    @jax_session()
    def correlations(self) -> NDArray[np.float64]:
        """The correlation between each fidelity and the target over random designs: of posterior means.

        Of several members, the mean of their correlations: one that takes the fidelities for unrelated counts, too.
        """
        unit_x = self.history.space.sample(self.key.generator(), _POOL)
        each: list[NDArray[np.float64]] = []
        for member in self._value.members():
            means = np.asarray(_moments(member, unit_x)[0]).T
            centred = means - np.mean(means, axis=1, keepdims=True)
            unit = centred / (np.sqrt(np.sum(centred**2, axis=1, keepdims=True)) + np.finfo(float).tiny)
            each.append(unit @ unit[-1])  # 0 where a fidelity is constant
        return np.append(np.mean(each, axis=0)[:-1], 1.0)

    @jax_session()
    def recommend(self) -> Recommendation:
        """The best design observed at the target, or one that is better with good probability.

        A design that was observed is reported with its value, if the model finds that runs repeat, else with the
        posterior's mean and standard deviation.
        """
        target, scale, feasible = len(self.history.ladder) - 1, self.scales[-1], self.history.feasible[-1]
        seen = self.history.inside[-1].rows(feasible)
        designs = self._new_designs()
        repeats = REPEATS / scale.scale
        # what a run of a new design would give: its ripples are not known
        expected, noise_std = self._expected(designs)
        ripples = np.minimum(noise_std, repeats)
        new = Expected(designs, expected.mean, np.sqrt(expected.std**2 + ripples**2))
        choice, was_run = recommended(new, self._observed(seen))
        unit_x = choice.unit_x[0]
        if was_run and choice.std[0] == 0.0:
            value = seen.y[np.flatnonzero(np.all(seen.unit_x == unit_x, axis=1))[0]]
            return Recommendation(unit_x, float(value), 0.0, 1.0)
        mean, std = self.predict(choice.unit_x, target)
        return Recommendation(unit_x, float(mean[0]), float(std[0]), float(self.feasibility(choice.unit_x)[0]))

    def _observed(self, seen: Observations) -> Expected:
        """What designs that were observed at the target give: the value where runs repeat, else the posterior's."""
        scale = self.scales[-1]
        here = replace(seen, y=scale.inward(seen.y))  # of the errors only matters whether they are 0
        posterior, _ = self._expected(seen.unit_x)
        return observed_designs(here, posterior, self._noise_std(here.y), REPEATS / scale.scale)

    def _new_designs(self) -> NDArray[np.float64]:
        """Designs that have not been run at the target, and may be better than those that have.

        With constraints, those that are feasible with good probability; the likeliest one if there is none, and no
        feasible design is known.
        """
        designs, _ = self._maximise(_sure_value if self._is_plain else _sure_and_feasible)
        taken = {x.tobytes() for x in self.history.inside[-1].unit_x}
        designs = np.array([x for x in designs if x.tobytes() not in taken]).reshape(-1, designs.shape[1])
        if self._is_plain or not len(designs):
            return designs
        probability = self.feasibility(designs)
        likely = probability >= LIKELY
        if likely.any() or self.history.feasible[-1].any():
            return designs[likely]
        return designs[[int(np.argmax(probability))]]

    @property
    def _is_plain(self) -> bool:
        """Whether every design is feasible."""
        return not isinstance(self.posterior, RunPosterior)

    @jax_session()
    def improvements(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Designs with the largest expected improvement over the best feasible one, and what it is.

        In the objective's units, times the probability of being feasible; None while no feasible value is known. What
        is best is the observed value where runs repeat, else the posterior mean: a lucky draw is no level to beat.
        """
        target = self.history.inside[-1].rows(self.history.feasible[-1])
        if not len(target):
            return None
        observed = self._observed(target)
        designs, _ = self._maximise(_value_rise if self._is_plain else _feasible_rise)
        there, _ = self._expected(designs)
        gain = expected_improvement(there.mean, there.std, float(np.max(observed.mean)), self.scales[-1])
        return designs, gain * self.feasibility(designs)

    @jax_session()
    def promising(self) -> NDArray[np.float64]:
        """Designs by their posterior mean at the target, the highest first.

        The right order for a last query: its information cannot be used later. Expected improvement would prefer
        unexplored designs (docs/experiments-log.md, second round). With constraints, by how far the mean is above the
        best feasible value, times the probability of being feasible; by that probability alone while none is known.
        """
        if self._is_plain:
            designs, score = self._maximise(_mean_value)
        else:
            known = self.history.feasible[-1].any() or not self.history.constraints
            designs, score = self._maximise(_likely_improvement if known else _feasible_at_all)
            if self.history.feasible[-1].any():
                designs, score = self._improvements(designs)
        return designs[np.argsort(-score)]

    def _improvements(self, designs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """These designs and those that are best by some margin, and the logarithm of what each may be expected to gain.

        That is how far its mean is above the best value, times the probability of being feasible. How softly values are
        told apart follows from what there is to gain: near a corner of active limits the last digits matter.
        """
        assert isinstance(self.posterior, RunPosterior)
        space, target = self.history.space, self.history.inside[-1]
        tops = space.repair(target.unit_x[self.history.order[-1][:_SAFE_STARTS]])
        designs = np.concatenate([designs, safe_optima(self.posterior.members(), space, tops, _MARGINS)])
        best = np.max(self.scales[-1].inward(target.sure_y[self.history.feasible[-1]]))
        rise = self._expected(designs)[0].mean - best
        probability = self.feasibility(designs)
        soft = np.clip(_SOFT * np.max(rise[probability >= 0.5], initial=0.0), _LEAST_SOFT, _NEAR_BEST)
        score = np.asarray(jax.vmap(log_improvement)(jnp.asarray(rise / soft))) + np.log(probability + 1e-300)
        if self.posterior.success is not None:
            padded = pad_rows(designs, bucket(len(designs)))
            score += np.asarray(_log_caution(self.posterior.success, padded))[: len(designs)]
        return designs, score

    def _maximise(self, criterion: Criterion) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Designs where a criterion is high, and its values: ends and starts of a few L-BFGS climbs."""
        space, generator = self.history.space, self.key.generator()
        if space.table is not None:
            return self._best_of_table(criterion)
        count = max(1, _TOPS // max(3, len(self.history.ladder)))
        ordered = zip(self.history.inside, self.history.order, strict=True)
        tops = np.concatenate([seen.unit_x[order[:count]] for seen, order in ordered])
        if space.held and not len(tops):
            tops = incumbents(self.history)
        near = np.repeat(tops, _NEAR, axis=0)
        near = space.repair(near + 10 ** generator.uniform(-3, -1, (len(near), 1)) * generator.normal(size=near.shape))
        pool = np.concatenate([space.sample(generator, _POOL), space.repair(tops), near])
        start = pool[np.argsort(-self._values(criterion, pool))[:_STARTS]]
        climb = partial(self._values_and_gradients, criterion)
        designs = np.concatenate([space.snap(climb_feasible(space, climb, start).x), start])
        return designs, self._values(criterion, designs)

    def _best_of_table(self, criterion: Criterion) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The best designs of a space that are all listed, of those not run at the target while there are any."""
        table = self.history.space.table
        assert table is not None
        new = table[unasked(self.history, len(self.history.ladder) - 1)]
        rows = new if len(new) else table
        if len(rows) > MOST_WHOLE:  # the best by one member of an ensemble
            first, best_value = self._contexts[0]
            guess = in_blocks(partial(_values, criterion, rough(first), best_value), rows)
            rows = rows[np.argsort(-guess, kind="stable")[:BLOCK]]
        each = [in_blocks(partial(_values, criterion, *known), rows) for known in self._contexts]
        values = np.mean(each, axis=0)
        best = np.argsort(-values, kind="stable")[:_TABLE_TOPS]
        return rows[best], values[best]

    def _expected(self, unit_x: NDArray[np.float64]) -> tuple[Expected, NDArray[np.float64]]:
        """Mean and standard deviation of the target at designs, and of the noise there, in the model's units."""
        padded = pad_rows(unit_x, bucket(len(unit_x)))
        mean, variance = (np.asarray(part)[: len(unit_x), -1] for part in _moments(self._value, padded))
        return Expected(unit_x, mean, np.sqrt(variance)), self._noise_std(mean)

    def _noise_std(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation of the noise where the target has these values."""
        padded = pad_rows(values, bucket(len(values)))
        return np.sqrt(np.asarray(_noise_var(self._value, len(self.history.ladder) - 1, padded))[: len(values)])

    def _values(self, criterion: Criterion, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        padded = pad_rows(unit_x, bucket(len(unit_x)))
        each = [np.asarray(_values(criterion, *known, padded)) for known in self._contexts]
        return np.mean(each, axis=0)[: len(unit_x)]

    def _values_and_gradients(
        self, criterion: Criterion, unit_x: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        each = [_values_and_gradients(criterion, *known, unit_x) for known in self._contexts]
        return np.mean([value for value, _ in each], axis=0), np.mean([gradient for _, gradient in each], axis=0)

    @cached_property
    def _contexts(self) -> tuple[tuple[Posterior | RunMember, Array], ...]:
        """Each posterior, and the best feasible value in its units; the worst observed one if there is none."""
        y, feasible = self.history.inside[-1].sure_y, self.history.feasible[-1]
        best = float(np.max(y[feasible])) if feasible.any() else float(np.min(y, initial=0.0))
        return tuple((each, jnp.asarray(each.scales()[-1].inward(np.array([best]))[0])) for each in self._known)


def _predicted(
    posterior: Posterior, unit_x: NDArray[np.float64], fidelity: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation at points `(n, d)`, in the user's units."""
    padded = pad_rows(np.asarray(unit_x, dtype=float), bucket(len(unit_x)))
    mean, variance = (np.asarray(part)[: len(unit_x), fidelity] for part in _moments(posterior, padded))
    return posterior.scales()[fidelity].outward_moments(mean, variance)


@jax.jit
def _moments(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    return jax.vmap(posterior.marginals)(x)


@jax.jit
def _log_feasible(member: RunMember, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(member.log_feasible)(x)


@jax.jit
def _success(posterior: Cautious, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    return jax.vmap(posterior.probabilities)(x)


@jax.jit
def _log_caution(success: Cautious, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(lambda x: success.log_caution(x, -1))(x)


@partial(jax.jit, static_argnums=1)
def _noise_var(posterior: Posterior, fidelity: int, values: Float[Array, " n"]) -> Float[Array, " n"]:
    return posterior.noise_var(fidelity, values)


def _sure_value(posterior: Posterior, best: Scalar, x: Point) -> Scalar:
    """Mean minus one standard deviation at the target, in the model's units."""
    means, variances = posterior.marginals(x)
    return means[-1] - jnp.sqrt(variances[-1])


def _mean_value(posterior: Posterior, best: Scalar, x: Point) -> Scalar:
    """Mean at the target, in the model's units."""
    return posterior.marginals(x)[0][-1]


def _sure_and_feasible(member: RunMember, best: Scalar, x: Point) -> Scalar:
    """Mean minus one standard deviation, less a penalty where being feasible is not likely."""
    mean, std = member.at_target(x)
    return mean[0] - std[0] + _PENALTY * jnp.minimum(member.log_feasible(x) - math.log(LIKELY), 0.0)


def _value_rise(posterior: Posterior, best: Scalar, x: Point) -> Scalar:
    """log of the expected improvement over the best value, in the model's units."""
    means, variances = posterior.marginals(x)
    std = jnp.sqrt(variances[-1])
    return jnp.log(std) + log_improvement((means[-1] - best) / std)


def _feasible_rise(member: RunMember, best: Scalar, x: Point) -> Scalar:
    """log of the expected improvement over the best value, times the probability of being feasible."""
    mean, std = member.at_target(x)
    return jnp.log(std[0]) + log_improvement((mean[0] - best) / std[0]) + member.log_feasible(x)


def _likely_improvement(member: RunMember, best: Scalar, x: Point) -> Scalar:
    """log of how far the mean is above the best value, softly at least 0, times the probability of being feasible."""
    mean, _ = member.at_target(x)
    score = log_improvement((mean[0] - best) / _NEAR_BEST) + member.log_feasible(x)
    return score if member.success is None else score + member.success.log_caution(x, -1)


def _feasible_at_all(member: RunMember, best: Scalar, x: Point) -> Scalar:
    """log of the probability of being feasible."""
    return member.log_feasible(x)


@partial(jax.jit, static_argnums=0)
def _values(criterion: Criterion, posterior: Any, best: Scalar, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(lambda x: criterion(posterior, best, x))(x)


@partial(jax.jit, static_argnums=0)
def _values_and_gradients(
    criterion: Criterion, posterior: Any, best: Scalar, x: Float[Array, "n d"]
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    return jax.vmap(jax.value_and_grad(lambda x: criterion(posterior, best, x)))(x)
