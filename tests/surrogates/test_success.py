"""The model of success: laws of its probabilities, honesty with few trials, and what it learns from regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.randomness import Key
from fidelium.surrogates.success import SuccessModel, SuccessPosterior

Points = NDArray[np.float64]
Succeeds = Callable[[Points], NDArray[np.bool_]]

KEY = Key((0,))
NONE = np.zeros((0, 2))


def half_space(x: Points) -> NDArray[np.bool_]:
    return x[:, 0] + x[:, 1] < 1.1


def points(count: int, dimension: int = 2, seed: int = 0) -> Points:
    return np.random.default_rng(seed).random((count, dimension))


def fitted(x: Points, succeeded: NDArray[np.bool_], model: SuccessModel | None = None) -> SuccessPosterior:
    """Given trials of one fidelity."""
    return (model or SuccessModel()).fit([x[succeeded]], [x[~succeeded]], KEY)


def learned(succeeds: Sequence[Succeeds], x: Sequence[Points]) -> SuccessPosterior:
    """Given trials of several fidelities."""
    ok = [rule(each) for rule, each in zip(succeeds, x, strict=True)]
    good, bad = ([each[right == wanted] for each, right in zip(x, ok, strict=True)] for wanted in (True, False))
    return SuccessModel().fit(good, bad, KEY)


def of_all(posterior: SuccessPosterior, x: Points) -> NDArray[np.float64]:
    """P(success), `(points, fidelities)`."""
    return np.asarray(_of_all(posterior, x))


_of_all = jax.jit(lambda posterior, x: jax.vmap(posterior.probabilities)(x))


def pairs(posterior: SuccessPosterior, x: Points, fidelity: int) -> list[NDArray[np.float64]]:
    """s, u1 and u0 of every point."""
    return [np.asarray(each) for each in _pairs(posterior, x, fidelity)]


_pairs = jax.jit(lambda posterior, x, fidelity: jax.vmap(lambda row: posterior.pair(row, fidelity))(x))


@pytest.fixture(scope="module")
def three() -> SuccessPosterior:
    """Three fidelities with the same failing half-space, most trials at the lowest."""
    return learned([half_space] * 3, [points(20), points(8, seed=1), points(4, seed=2)])


def test_probabilities_are_those_of_pairs_and_between_0_and_1(three):
    x = points(50, seed=3)
    p = of_all(three, x)
    assert p.shape == (50, 3)
    assert np.all((p > 0) & (p < 1))
    for m in range(3):
        np.testing.assert_allclose(pairs(three, x, m)[0], p[:, m], rtol=1e-12)


def test_the_target_succeeds_as_often_whether_or_not_one_looks_below(three):
    x = points(200, seed=4)
    target = of_all(three, x)[:, -1]
    for m in range(3):
        s, u1, u0 = pairs(three, x, m)
        np.testing.assert_allclose(s * u1 + (1 - s) * u0, target, rtol=1e-12)
        assert np.all((u0 > 0) & (u0 < u1) & (u1 < 1))


def test_a_success_below_says_more_where_less_is_known(three):
    known, unknown = [0.1, 0.1], [0.95, 0.02]
    _, u1, u0 = pairs(three, np.array([known, unknown]), 0)
    assert np.diff(u1 - u0)[0] > 0.05


def test_a_design_that_succeeded_at_the_target_fails_there_only_by_chance(three):
    s, u1, u0 = (each[0] for each in pairs(three, np.array([[0.55, 0.5]]), 2))  # close to the edge
    assert 0.2 < s < 0.8
    assert u1 >= 1 - float(jnp.max(three.random))
    assert u0 < 0.2
    weight = three.weight * (1 - three.random)
    np.testing.assert_allclose(u1, (weight * (1 - three.random)).sum() / weight.sum(), atol=0.02)


def test_the_fidelity_may_be_traced(three):
    x = jnp.asarray([0.3, 0.6])
    together = jax.jit(jax.vmap(three.pair, (None, 0)))(x, jnp.arange(3))
    for one, all_of_them in zip(three.pair(x, 1), together, strict=True):  # not compiled
        np.testing.assert_allclose(one, all_of_them[1], rtol=1e-10)


def test_vmap_equals_a_loop(three):
    x = points(3, seed=5)
    np.testing.assert_allclose(of_all(three, x), [three.probabilities(jnp.asarray(row)) for row in x], rtol=1e-10)


def test_gradients_match_finite_differences(three):
    def value(x, m):
        s, u1, u0 = three.pair(x, m)
        return s + 2 * u1 + 3 * u0 + jnp.sum(three.probabilities(x))

    slope = jax.jit(jax.vmap(jax.grad(value), (0, None)))
    rows = jax.jit(jax.vmap(value, (0, None)))
    x = np.concatenate([points(20, seed=6), points(20)[:3]])  # three of them are trials
    for m in range(3):
        found = np.asarray(slope(x, jnp.asarray(m)))
        for i, step in enumerate(1e-5 * np.eye(2)):
            difference = (rows(x + step[None], jnp.asarray(m)) - rows(x - step[None], jnp.asarray(m))) / 2e-5
            np.testing.assert_allclose(found[:, i], difference, rtol=1e-4, atol=1e-6)


def test_far_from_all_trials_it_returns_the_prior_rate_but_for_the_level_that_is_learned():
    model = SuccessModel()
    nothing = model.fit([NONE], [NONE], KEY)
    prior = model.rate * (1 - np.dot(model.random, model.random_prior) / np.sum(model.random_prior))
    np.testing.assert_allclose(of_all(nothing, points(5))[:, 0], prior, atol=1e-9)
    posterior = fitted(points(20), half_space(points(20)))
    far = of_all(posterior, np.array([[50.0, 50.0]]))[0, 0]
    assert 0.6 < far < 0.95


def test_without_failures_success_is_likely_everywhere_and_likelier_with_every_trial():
    x = points(300, seed=7)
    few, many = (of_all(fitted(points(n), np.ones(n, bool)), x) for n in (5, 40))
    assert np.min(few) > 0.85
    assert np.min(many) > 0.9
    assert np.mean(many) > np.mean(few)


@pytest.mark.parametrize("seed", range(4))
def test_one_failure_among_twenty_successes_rules_nothing_out(seed):
    x = points(21, seed=seed)
    succeeded = np.arange(21) != 20
    grid = points(500, seed=8)
    p = of_all(fitted(x, succeeded), grid)[:, 0]
    distance = np.linalg.norm(grid - x[20], axis=1)
    assert np.min(p[distance > 0.4]) > 0.7
    assert np.min(p[distance > 0.1]) > 0.35
    assert np.min(p) > 0.2


def test_the_first_failure_of_all_rules_nothing_out():
    p = of_all(SuccessModel().fit([NONE], [np.array([[0.5, 0.5]])], KEY), points(200))[:, 0]
    assert np.min(p) > 0.2
    assert np.max(p) > 0.6


@pytest.mark.parametrize("seed", range(4))
def test_a_failing_half_space_is_learned_from_a_dozen_trials(seed):
    generator = np.random.default_rng(seed)
    x = generator.random((60, 2))
    x = np.concatenate([x[half_space(x)][:12], x[~half_space(x)][:8]])
    grid = generator.random((500, 2))
    p, ok = of_all(fitted(x, half_space(x)), grid)[:, 0], half_space(grid)
    assert np.mean((p - ok) ** 2) < 0.1  # 0.25 is a coin
    assert np.mean(ok[p > 0.8]) > 0.8
    assert np.mean(ok[p < 0.2]) < 0.1
    failed = x[~half_space(x)]
    deep = failed[np.sum(failed, axis=1) > 1.4]
    assert np.all(of_all(fitted(x, half_space(x)), deep)[:, 0] < 0.2)


def test_the_edge_sharpens_as_trials_come():
    grid = points(500, seed=9)
    scores = []
    for n in (15, 45, 120):
        x = points(n, seed=10)
        scores.append(np.mean((of_all(fitted(x, half_space(x)), grid)[:, 0] - half_space(grid)) ** 2))
    assert scores[0] > scores[1] > scores[2]
    assert scores[2] < 0.03


def test_successes_crowded_at_the_edge_show_where_it_is():
    generator = np.random.default_rng(11)
    along = generator.random(30)
    good = np.stack([along, 1.05 - along - 0.1 * generator.random(30)], axis=1).clip(0, 1)
    along = generator.random(6)
    bad = np.stack([along, np.minimum(1.25 - along, 1.0)], axis=1).clip(0, 1)
    p = of_all(SuccessModel().fit([good], [bad], KEY), np.array([[0.5, 0.4], [0.3, 0.6], [0.6, 0.8], [0.8, 0.8]]))[:, 0]
    assert np.all(p[:2] > 0.8)
    assert np.all(p[2:] < 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_random_failures_carve_no_holes(seed):
    generator = np.random.default_rng(seed)
    x, grid = generator.random((60, 2)), generator.random((500, 2))
    succeeded = np.ones(60, bool)
    succeeded[generator.choice(60, size=6, replace=False)] = False
    p = of_all(fitted(x, succeeded), grid)[:, 0]
    assert np.mean((p > 0.75) & (p < 0.98)) > 0.9
    assert np.min(p) > 0.4


def test_a_failure_at_the_cheap_fidelity_lowers_the_target():
    x = points(20)
    p = of_all(learned([half_space, half_space], [x, NONE]), np.array([[0.9, 0.9], [0.1, 0.1]]))
    assert p[0, 0] < 0.1
    assert p[0, 0] < p[0, 1] < 0.35
    assert p[1, 1] > 0.85


def test_a_region_that_fails_at_one_fidelity_only_is_learned_as_such():
    def always(x: Points) -> NDArray[np.bool_]:
        return np.ones(len(x), bool)

    x = points(30)
    p = of_all(learned([always, half_space], [x, points(30, seed=1)]), np.array([[0.9, 0.9], [0.1, 0.1]]))
    assert p[0, 0] > 0.7
    assert p[0, 1] < 0.25
    assert np.all(p[1] > 0.85)


def test_in_twenty_dimensions():
    x, grid = points(60, 20), points(300, 20, seed=1)
    p = of_all(fitted(x, half_space(x)), grid)[:, 0]
    ok = half_space(grid)
    base = np.mean(half_space(x))
    assert np.mean((p - ok) ** 2) < 0.9 * np.mean((base - ok) ** 2)
    assert np.all(np.isfinite(p))


def test_of_many_trials_failures_and_the_successes_around_them_are_kept():
    x, grid = points(600), points(400, seed=1)
    p = of_all(fitted(x, half_space(x)), grid)[:, 0]
    assert np.mean((p - half_space(grid)) ** 2) < 0.03
    small = SuccessModel(most_points=32)
    assert fitted(x, half_space(x), small).processes.weights.shape == (len(small.random), 32)


def test_it_repeats_itself():
    x = points(20)
    first, second = (of_all(fitted(x, half_space(x)), points(10, seed=1)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_it_does_not_retrace_while_the_data_grow_inside_a_bucket(traces):
    x = points(64)
    of_all(fitted(x[:33], half_space(x[:33])), points(10))
    traces.on = True
    for n in (34, 40, 64):
        of_all(fitted(x[:n], half_space(x[:n])), points(10))
    assert traces.seen == []
    x = points(65)
    of_all(fitted(x, half_space(x)), points(10))
    assert traces.seen != []


def test_settings_are_checked():
    with pytest.raises(SettingError, match="between 0 and 1"):
        SuccessModel(rate=1.0)
    with pytest.raises(SettingError, match="prior probability"):
        SuccessModel(random=(0.1,))
    with pytest.raises(SettingError, match="kernel"):
        SuccessModel(kernel="linear")
