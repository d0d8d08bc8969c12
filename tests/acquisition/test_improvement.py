"""Expected improvement: its closed form, its far tail, and the augmented one by correlation, noise and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from fidelium.acquisition.base import Acquisition, Designs
from fidelium.acquisition.improvement import (
    AugmentedImprovementSearch,
    ImprovementSearch,
    augmented_improvement,
    effective_best,
    log_expected_improvement,
    target_improvement,
)
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.randomness import Key, trial_key
from fidelium.space import Real, SearchSpace
from fidelium.strategies.recipes import mf_sko, sf_ei
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Additive, Independent
from fidelium.surrogates.gp.joint import GaussianProcess

X = jnp.array([0.3, 0.6])
PLANE = SearchSpace({"a": Real(-1, 1), "b": Real(0, 2)})
RUNGS = (Fidelity("low", 1), Fidelity("middle", 4), Fidelity("high", 10))
FEW = Designs(pool=64, local=16, starts=4)


def log_ei(mean: float, std: float, best: float) -> float:
    return float(log_expected_improvement(*(jnp.asarray(float(part)) for part in (mean, std, best))))


def straight(slope: float, variance: float):
    return lambda f: (slope * f, jnp.full_like(f, variance))


def history_of(told: Sequence[tuple[tuple[float, float], int, float]], rungs: int = 2) -> History:
    """Done trials at points of the unit square, the first rungs and the target being the ladder."""
    ladder = FidelityLadder((*RUNGS[: rungs - 1], RUNGS[-1]))
    trials = tuple(
        Trial(number, PLANE.decode(np.array(x)), ladder[m], TrialState.DONE, value)
        for number, (x, m, value) in enumerate(told)
    )
    return History(PLANE, ladder, Direction.MAXIMIZE, trials)


# --- the improvement


def test_the_known_value():
    assert math.exp(log_ei(-0.5, 1.0, 0.0)) == pytest.approx(0.19780, abs=5e-6)


@pytest.mark.parametrize(
    ("mean", "std", "best"), [(0.3, 0.7, 1.1), (-2.0, 0.4, 0.0), (5.0, 2.0, 1.0), (0.0, 1e-3, 2e-3)]
)
def test_the_improvement_is_the_integral(mean, std, best):
    top = max(best, mean) + 12 * std
    known, _ = integrate.quad(
        lambda f: (f - best) * norm.pdf(f, mean, std), best, top, points=[np.clip(mean, best, top)], epsabs=0
    )
    assert math.exp(log_ei(mean, std, best)) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("z", [-1e6, -1e3, -40.0, -5.0, 0.0, 5.0, 1e6])
@pytest.mark.parametrize("std", [1e-6, 1.0, 1e3])
def test_value_and_gradient_are_finite_and_right_far_out(z, std):
    at = (jnp.asarray(z * std), jnp.asarray(std), jnp.asarray(0.0))
    value, gradient = jax.value_and_grad(log_expected_improvement, argnums=(0, 1, 2))(*at)
    # log EI depends on z and log std alone: moving mean and best together changes nothing, all three scale as EI does
    assert np.all(np.isfinite([value, *gradient]))
    assert gradient[0] > 0
    assert float(gradient[2]) == pytest.approx(-float(gradient[0]), rel=1e-12)
    size = abs(float(at[0] * gradient[0])) + 1
    assert float(at[0] * gradient[0] + at[1] * gradient[1]) == pytest.approx(1.0, abs=1e-12 * size)


@pytest.mark.parametrize("mean", [-300.0, -21.0, -19.0, -3.0, 0.0, 2.0, 30.0])
def test_gradients_match_finite_differences(mean):
    at, step = (jnp.asarray(mean), jnp.asarray(0.9), jnp.asarray(0.1)), 1e-5
    for which in range(3):
        slope = jax.grad(log_expected_improvement, argnums=which)(*at)
        ahead, behind = (
            log_expected_improvement(*(part + (sign * step if i == which else 0.0) for i, part in enumerate(at)))
            for sign in (1, -1)
        )
        assert float(slope) == pytest.approx(float(ahead - behind) / (2 * step), rel=1e-6, abs=1e-8)


def test_it_rises_with_the_mean_and_with_the_standard_deviation():
    of_means = jax.vmap(lambda mean: log_expected_improvement(mean, jnp.asarray(0.3), jnp.asarray(0.0)))
    assert np.all(np.diff(of_means(jnp.linspace(-30, 30, 500))) > 0)
    for mean in (-5.0, 0.0, 0.5):
        of_stds = jax.vmap(lambda std, mean=mean: log_expected_improvement(jnp.asarray(mean), std, jnp.asarray(0.0)))
        assert np.all(np.diff(of_stds(jnp.logspace(-0.7, 2, 200))) > 0)


# --- the augmented improvement


@partial(jax.jit, static_argnums=1)
def augmented(posterior, fidelity: int, best: float = 0.4):
    return augmented_improvement(posterior, jnp.asarray(best), X, fidelity)


def test_at_the_target_without_noise_it_is_the_improvement(linked):
    posterior = linked([0.0, 0.1], [1.0, 0.8], [0.1, 0.0], straight(0.5, 0.3))
    plain = float(target_improvement(posterior, jnp.asarray(0.4), X, 1))
    assert float(augmented(posterior, 1)) == pytest.approx(plain, rel=1e-14)
    assert plain == pytest.approx(log_ei(0.1, math.sqrt(0.8), 0.4), rel=1e-14)


@pytest.mark.parametrize("noise", [1e-8, 0.01, 0.5, 4.0, 1e6])
def test_the_noise_factor(linked, noise):
    quiet, noisy = (linked([0.0, 0.1], [1.0, 0.8], [0.1, n], straight(0.5, 0.3)) for n in (0.0, noise))
    factor = math.exp(float(augmented(noisy, 1) - augmented(quiet, 1)))
    assert factor == pytest.approx(1 - math.sqrt(noise / (0.8 + noise)), rel=1e-9)


@pytest.mark.parametrize(("cov", "corr"), [(0.6, 0.75), (0.04, 0.05), (0.8, 1.0), (1.2, 1.0)])
def test_the_correlation_of_a_joint_gaussian(linked, cov, corr):
    # variances 1 and 0.64, so that the slope is cov / 1 and the correlation cov / 0.8, never above 1
    posterior = linked([0.2, 0.1], [1.0, 0.64], [0.0, 0.0], straight(cov, 0.1))
    assert math.exp(float(augmented(posterior, 0) - augmented(posterior, 1))) == pytest.approx(corr, rel=1e-9)


@pytest.mark.parametrize("slope", [0.0, -0.7])
def test_a_fidelity_unrelated_to_the_target_or_against_it_is_worth_next_to_nothing(linked, slope):
    posterior = linked([0.2, 0.1], [1.0, 0.64], [0.0, 0.0], straight(slope, 0.1))
    assert -30 < float(augmented(posterior, 0) - augmented(posterior, 1)) < -20


def test_the_correlation_of_a_fitted_process_is_that_of_its_joint_covariance():
    told = [((0.1, 0.2), 0, 0.3), ((0.8, 0.4), 0, 1.0), ((0.5, 0.9), 0, -0.4), ((0.7, 0.2), 1, 0.8)]
    posterior = GaussianProcess(Additive(), starts=2, steps=10, frequencies=8).fit(
        history_of(told).observations, Key((0,))
    )
    best = jnp.asarray(0.5)
    _, cov = posterior.process.joint((X, jnp.asarray(0)), (X, jnp.asarray(1)))
    noise = float(posterior.noise_var(0, jnp.zeros(())))
    log_rest = float(augmented_improvement(posterior, best, X, 0) - target_improvement(posterior, best, X, 0))
    known = cov[0, 1] / jnp.sqrt(cov[0, 0] * cov[1, 1]) * (1 - jnp.sqrt(noise / (cov[0, 0] + noise)))
    assert 0 < float(known) < 1
    assert math.exp(log_rest) == pytest.approx(float(known), rel=1e-8)


@pytest.mark.parametrize("fidelity", [0, 1])
def test_its_gradient_matches_finite_differences(random_stack, fidelity):
    posterior = random_stack(2)
    best, direction = posterior.marginals(X)[0][1] + 0.5, jnp.array([0.6, -0.8])

    @jax.jit
    @jax.value_and_grad
    def along(step):
        return augmented_improvement(posterior, best, X + step * direction, fidelity)

    (behind, _), (_, slope), (ahead, _) = (along(step) for step in (-1e-5, 0.0, 1e-5))
    assert float(slope) == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(("slope", "fidelity"), [(1.0, 0), (0.11, 0), (0.09, 1), (0.0, 1), (-1.0, 1)])
def test_the_cost_ratio_decides_between_equals_and_is_weighed_against_the_correlation(linked, slope, fidelity):
    # the low fidelity costs a tenth: asked as long as its correlation is above 0.1
    posterior = linked([0.0, 0.0], [1.0, 1.0], [0.01, 0.01], straight(slope, 0.1), 1.0)
    history = history_of([((0.1, 0.2), 0, 0.3), ((0.8, 0.4), 1, 1.0)])
    ranked = AugmentedImprovementSearch(FEW).rank(posterior, history, (0, 1), Key((0,)))
    assert ranked[0].fidelity == fidelity
    assert {candidate.fidelity for candidate in ranked} == {0, 1}
    lowest = AugmentedImprovementSearch(FEW).rank(posterior, history, (0,), Key((0,)))
    assert {candidate.fidelity for candidate in lowest} == {0}


def test_the_effective_best_is_the_mean_where_mean_minus_std_is_highest():
    # the highest mean is far from all target data, the surest high value is the target's own observation
    low = [((0.1, 0.2), 0, 0.0), ((0.9, 0.9), 0, 0.75), ((0.5, 0.5), 0, 0.6)]
    history = history_of([*low, ((0.5, 0.5), 1, 0.7), ((0.1, 0.2), 1, 0.3)])
    surrogate = GaussianProcess(Additive(), starts=2, steps=10, frequencies=8)
    posterior = surrogate.fit(history.observations, Key((0,)))
    seen = np.concatenate([o.unit_x for o in history.observations])
    means, variances = (np.asarray(part)[:, -1] for part in jax.vmap(posterior.marginals)(jnp.asarray(seen)))
    np.testing.assert_allclose(seen[np.argmax(means)], [0.9, 0.9], atol=1e-9)
    surest = int(np.argmax(means - np.sqrt(variances)))
    np.testing.assert_allclose(seen[surest], [0.5, 0.5], atol=1e-9)
    assert effective_best(posterior, history) == pytest.approx(means[surest], rel=1e-9)


# --- the search


def test_the_search_climbs_to_the_highest_improvement(linked):
    posterior = linked([0.0], [1.0], [0.0], straight(1.0, 0.1), 1.0)  # the mean rises towards (1, 1)
    ranked = ImprovementSearch(FEW).rank(posterior, history_of([((0.1, 0.2), 0, 50.0)], 1), (0,), Key((0,)))
    np.testing.assert_allclose(ranked[0].unit_x, 1.0, atol=1e-6)
    assert ranked[0].worth == pytest.approx(log_ei(2.0, 1.0, 50.0) - math.log(10), rel=1e-9)


def test_without_a_target_observation_the_highest_mean_plus_std_is_asked(linked):
    posterior = linked([0.0, -4.0], [1.0, 0.25], [0.0, 0.0], straight(1.0, 0.1), 1.0)
    history = history_of([((0.1, 0.2), 0, 0.3)])
    ranked = ImprovementSearch(FEW).rank(posterior, history, (0, 1), Key((0,)))
    assert {candidate.fidelity for candidate in ranked} == {1}
    np.testing.assert_allclose(ranked[0].unit_x, 1.0, atol=1e-6)
    assert ranked[0].worth == pytest.approx(-4.0 + 2.0 + 0.5 - math.log(10), rel=1e-9)


def test_an_improvement_that_is_no_number_loses(linked):
    def holed(f):
        return jnp.where(f > 1.5, jnp.nan, f), jnp.full_like(f, 0.1)

    # f_0 + std above 1.5, that is x + y above 0.5, breaks the correlation; the log improvement elsewhere is negative
    posterior = linked([0.0, 0.0], [1.0, 1.0], [0.01, 0.01], holed, 1.0)
    history = history_of([((0.1, 0.2), 0, 0.3), ((0.1, 0.2), 1, 0.3)])
    ranked = AugmentedImprovementSearch(FEW).rank(posterior, history, (0,), Key((0,)))
    assert np.sum(ranked[0].unit_x) <= 0.5 + 1e-9
    assert all(math.isfinite(candidate.worth) for candidate in ranked)


DEGENERATE = {
    "one value": [((0.1, 0.2), 0, 3.0)],
    "one target value": [((0.1, 0.2), 1, 3.0)],
    "constant": [((0.1, 0.2), 0, 2.0), ((0.9, 0.3), 0, 2.0), ((0.4, 0.4), 1, 2.0), ((0.3, 0.8), 1, 2.0)],
    "repeated": [((0.1, 0.2), 0, 1.0)] * 3 + [((0.1, 0.2), 1, 1.5)] * 3,
    "huge": [((0.1, 0.2), 0, 1e12), ((0.9, 0.3), 0, -1e12), ((0.4, 0.4), 1, 3e12)],
}


@pytest.mark.parametrize("told", DEGENERATE.values(), ids=DEGENERATE.keys())
@pytest.mark.parametrize(
    "acquisition", [ImprovementSearch(FEW), AugmentedImprovementSearch(FEW)], ids=["log EI", "AEI"]
)
def test_degenerate_data_give_finite_ranks(acquisition, told):
    history = history_of(told)
    family = Additive() if isinstance(acquisition, AugmentedImprovementSearch) else Independent()
    posterior = GaussianProcess(family, starts=2, steps=10, frequencies=8).fit(history.observations, Key((0,)))
    ranked = acquisition.rank(posterior, history, (0, 1), Key((1,)))
    assert all(abs(candidate.worth) < 1e300 for candidate in ranked)
    assert all(PLANE.snap(candidate.unit_x[None])[0].tobytes() == candidate.unit_x.tobytes() for candidate in ranked)


@pytest.mark.parametrize("make", [mf_sko, sf_ei])
def test_a_strategy_proposes_a_valid_new_query_and_the_same_again(make):
    generator, rungs = np.random.default_rng(0), 2
    told = [((x, y), m, -((x - 0.6) ** 2) - y + 0.1 * m) for m in range(rungs) for x, y in generator.random((3, 2))]
    history, whole = history_of(told, rungs), make()
    surrogate = GaussianProcess(whole.surrogate.surrogate.family, starts=2, steps=20, frequencies=8)
    strategy = SurrogateStrategy(surrogate, type(whole.acquisition)(FEW), target_only=whole.target_only)
    assert isinstance(whole.acquisition, Acquisition)
    query = strategy.propose(history, (), trial_key(0, len(told)))
    assert query == strategy.propose(history, (), trial_key(0, len(told)))
    assert PLANE.validate(query.params) == query.params
    assert query.fidelity in range(rungs)
    assert not whole.target_only or query.fidelity == rungs - 1
    assert (query.params, history.ladder[query.fidelity]) not in [(t.params, t.fidelity) for t in history.trials]
    again = strategy.propose(history, (query,), trial_key(0, len(told)))
    assert again != query
