"""The gain with constraints and failures: brute force over the joint of what a run shows, limits in closed form."""

from __future__ import annotations

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from scipy.special import ndtr

from fidelium.acquisition.base import SCREENED_AT_ONCE
from fidelium.acquisition.constrained import run_gain
from fidelium.acquisition.entropy import joint_gain
from fidelium.acquisition.maxima import NO_DESIGN, maximise_feasible
from fidelium.acquisition.maximise import search
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History
from fidelium.numerics.scaling import Scale
from fidelium.space import Integer, Real, SearchSpace
from fidelium.surrogates.runs import CAUTION, Cautious, RunMember, RunPaths

X = jnp.array([0.3, 0.6])
FAR = 1e9


class Normal(eqx.Module):
    """Two fidelities, jointly normal: mean + tilt * sum(x), a covariance and noise that do not depend on x."""

    mean: Float[Array, " m"]
    covariance: Float[Array, "m m"]
    noise: Float[Array, " m"]
    tilt: Float[Array, ""]

    def scales(self) -> tuple[Scale, ...]:
        return (Scale(),) * len(self.mean)

    def joint(self, x: Float[Array, " d"]) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        return self.mean + self.tilt * jnp.sum(x), self.covariance

    def marginals(self, x: Float[Array, " d"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        return self.joint(x)[0], jnp.diag(self.covariance)

    def target_given(self, x: Array, fidelity: int, value: Array) -> tuple[Array, Array]:
        mean, cov = self.joint(x)
        slope = cov[fidelity, -1] / cov[fidelity, fidelity]
        return mean[-1] + slope * (value - mean[fidelity]), cov[-1, -1] - slope * cov[fidelity, -1]

    def draw_paths(self, key: jax.Array, count: int) -> Waves:
        heights = self.mean[-1] + jnp.sqrt(self.covariance[-1, -1]) * jax.random.normal(key, (count,))
        return Waves(jnp.asarray(0.0), heights)  # for a tilt of 1

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.broadcast_to(self.noise[fidelity], jnp.shape(value))

    def noise_vars(self, values: Float[Array, " m"]) -> Float[Array, " m"]:
        return self.noise

    def members(self):
        return (self,)

    def given(self, x, fidelities):
        return self


class Coin(eqx.Module):
    """Success with given probabilities, whatever x."""

    s: Float[Array, ""]
    u1: Float[Array, ""]
    u0: Float[Array, ""]

    def probabilities(self, x: Array) -> Array:
        return jnp.stack([self.s, self.s * self.u1 + (1 - self.s) * self.u0])

    def pair(self, x: Array, fidelity) -> tuple[Array, Array, Array]:
        return self.s, self.u1, self.u0


def normal(mean: float, std: float, correlation: float, noise: float = 1e-12, tilt: float = 0.0) -> Normal:
    cov = std**2 * np.array([[1.0, correlation], [correlation, 1.0]])
    return Normal(jnp.full(2, mean), jnp.asarray(cov), jnp.full(2, noise), jnp.asarray(tilt))


def member(parts: list[Normal], limits: list[tuple[float, float]], coin: Coin | None = None) -> RunMember:
    success = None if coin is None else Cautious(coin, jnp.asarray(1e-6))  # any risk is taken
    results = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return RunMember(results, jnp.asarray(np.array(limits).reshape(-1, 2)), success)


@partial(jax.jit, static_argnums=3)
def gain(of: RunMember, f_star: Array, x: Array, fidelity: int) -> Array:
    return run_gain(of, f_star, x, fidelity)


@partial(jax.jit, static_argnums=3)
def value_and_gradient(of: RunMember, f_star: Array, x: Array, fidelity: int) -> tuple[Array, Array]:
    return jax.value_and_grad(lambda x: run_gain(of, f_star, x, fidelity))(x)


def brute_force(of: list[Normal], limits, f_star: float, fidelity: int, coin: Coin | None = None, count: int = 10**6):
    """E_y[r log r] over draws of what the run shows, with Z(y) from the conditional of each result; Z(y)'s mean; Z."""
    generator = np.random.default_rng(0)
    z_y, z = np.ones(count), 1.0
    bounds = [(f_star, FAR), *limits]
    for each, (low, high) in zip(of, bounds, strict=True):
        mean, cov = (np.asarray(part) for part in each.joint(X))
        variance = cov[fidelity, fidelity] + float(each.noise[fidelity])
        y = generator.normal(mean[fidelity], np.sqrt(variance), count)
        slope = cov[fidelity, -1] / variance
        at, left = mean[-1] + slope * (y - mean[fidelity]), np.sqrt(max(cov[-1, -1] - slope * cov[fidelity, -1], 1e-18))
        std = np.sqrt(cov[-1, -1])
        z *= ndtr((high - mean[-1]) / std) - ndtr((low - mean[-1]) / std)
        z_y *= ndtr((high - at) / left) - ndtr((low - at) / left)
    if coin is not None:
        s, u1, u0 = float(coin.s), float(coin.u1), float(coin.u0)
        works = generator.random(count) < s
        z_y = np.where(works, z_y * u1, z * u0)
        z *= s * u1 + (1 - s) * u0
    r = (1 - z_y) / (1 - z)
    terms = r * np.log(np.maximum(r, 1e-300)) - r + 1  # E[r] = 1, so the same on average, with less noise
    return terms.mean(), terms.std() / np.sqrt(count), z_y.mean(), z


CASES = {
    "no constraint": ([normal(0.4, 0.9, 0.8, 0.05)], []),
    "one limit": ([normal(0.4, 0.9, 0.8, 0.05), normal(0.2, 0.5, 0.6, 0.01)], [(-FAR, 0.1)]),
    "two-sided": ([normal(0.4, 0.9, 0.8), normal(0.2, 0.5, 0.9)], [(0.0, 0.3)]),
    "three outcomes": (
        [normal(1.4, 0.9, 0.7), normal(0.2, 0.5, 0.9), normal(-1.0, 1.0, 0.3), normal(5.0, 2.0, 0.95)],
        [(0.1, FAR), (-FAR, 0.0), (4.0, 9.0)],
    ),
    "nothing in common": ([normal(0.4, 0.9, 0.0), normal(0.2, 0.5, 0.0)], [(0.0, FAR)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fidelity", [0, 1])
@pytest.mark.parametrize("f_star", [0.3, 1.5, -1.0])
def test_the_gain_agrees_with_brute_force(name: str, fidelity: int, f_star: float):
    parts, limits = CASES[name]
    exact, error, mean_z, z = brute_force(parts, limits, f_star, fidelity)
    assert mean_z == pytest.approx(z, abs=5e-3)  # Z(y) averages to Z
    found = float(gain(member(parts, limits), jnp.array([f_star]), X, fidelity))
    assert found == pytest.approx(exact, rel=0.13, abs=5 * error + 1e-9)


@pytest.mark.parametrize("coin", [(0.7, 0.95, 0.1), (0.3, 0.6, 0.5), (0.99, 1 - 1e-9, 1e-9)])
def test_the_gain_with_failures_agrees_with_brute_force(coin: tuple[float, float, float]):
    parts, limits = CASES["one limit"]
    success = Coin(*map(jnp.asarray, coin))
    for fidelity in (0, 1):
        exact, error, mean_z, z = brute_force(parts, limits, 0.3, fidelity, success)
        assert mean_z == pytest.approx(z, abs=5e-3)
        found = float(gain(member(parts, limits, success), jnp.array([0.3]), X, fidelity))
        assert found == pytest.approx(exact, rel=0.13, abs=5 * error)


def test_what_will_probably_fail_is_avoided():
    parts, limits = CASES["one limit"]
    bold, careful = (
        eqx.tree_at(lambda m: m.success.least, member(parts, limits, Coin(*map(jnp.asarray, (0.3, 0.6, 0.5)))), least)
        for least in (jnp.asarray(0.3), jnp.asarray(0.6))
    )
    ratio = float(gain(careful, jnp.array([0.3]), X, 0)) / float(gain(bold, jnp.array([0.3]), X, 0))
    assert ratio == pytest.approx(0.5**CAUTION, rel=1e-9)


def test_at_the_target_without_noise_it_is_minus_the_logarithm_of_the_complement():
    parts, limits = [normal(0.4, 0.9, 0.8, 1e-13), normal(0.2, 0.5, 0.6, 1e-13)], [(-FAR, 0.1)]
    z = ndtr((0.4 - 0.7) / 0.9) * ndtr((0.1 - 0.2) / 0.5)
    assert float(gain(member(parts, limits), jnp.array([0.7]), X, 1)) == pytest.approx(-np.log1p(-z), rel=1e-3)


def test_without_a_feasible_design_the_gain_is_about_feasibility_alone():
    parts, limits = [normal(0.4, 0.9, 0.8, 1e-13), normal(0.2, 0.5, 0.6, 1e-13)], [(-FAR, 0.1)]
    other = [normal(-70.0, 9.0, 0.1, 1e-13), parts[1]]
    found = [float(gain(member(each, limits), jnp.array([NO_DESIGN]), X, 1)) for each in (parts, other)]
    assert found[0] == pytest.approx(-np.log1p(-ndtr(-0.2)), rel=1e-3)
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_without_constraints_it_ranks_queries_like_the_gain_of_truncated_normals():
    # The same question with another approximation: H(y) - H(y | f_M <= f*) of normal variables. This one is the
    # divergence between the two distributions: averaged over f* it is the same, and it is smaller for a large f*.
    generator = np.random.default_rng(0)
    events, moments = [], []
    for _ in range(200):
        mean, std, correlation = generator.normal(0, 0.7), generator.uniform(0.05, 1.0), generator.uniform(0.3, 0.99)
        part, fidelity = normal(mean, std, correlation, 1e-3), int(generator.integers(2))
        f_star = jnp.asarray(generator.normal(1.0, 0.3, 5))
        events.append(float(gain(member([part], []), f_star, X, fidelity)))
        moments.append(float(joint_gain(part, f_star, X, fidelity)))
    ranks = [np.argsort(np.argsort(gains)) for gains in (events, moments)]
    assert float(np.mean((ranks[0] - ranks[1]) ** 2)) < 0.05 * np.var(ranks[0]) * 2


def test_fidelities_may_be_traced_and_jit_changes_nothing():
    of = member(*CASES["three outcomes"])
    f_star = jnp.array([0.3, 1.0])
    traced = jax.jit(jax.vmap(lambda m: run_gain(of, f_star, X, m)))(jnp.arange(2))
    for fidelity in (0, 1):
        plain = float(run_gain(of, f_star, X, fidelity))
        assert float(gain(of, f_star, X, fidelity)) == pytest.approx(plain, rel=1e-9)
        assert float(traced[fidelity]) == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize("together", [False, True])
def test_a_search_screens_in_blocks_and_ranks_by_the_gain_of_every_design(together: bool):
    parts, limits = CASES["three outcomes"]
    tilted = [eqx.tree_at(lambda p: p.tilt, part, jnp.asarray(0.3 * (-1) ** i)) for i, part in enumerate(parts)]
    known = [(member(tilted, limits), jnp.array([0.3, 1.0])), (member(parts, limits), jnp.array([-1.0, 2.0]))]
    space = SearchSpace({"a": Real(0, 1), "b": Real(0, 1)})
    ladder = FidelityLadder((Fidelity("low", 1.0), Fidelity("high", 10.0)))
    history = History(space, ladder, Direction.MAXIMIZE, (), math.inf)
    candidates = space.sample(np.random.default_rng(0), 2 * SCREENED_AT_ONCE + 7)
    ranked = search(run_gain, known, history, (0, 1), candidates, 3, together=together, tiny=True)
    for each in ranked:
        plain = np.mean([float(gain(of, f_star, jnp.asarray(each.unit_x), each.fidelity)) for of, f_star in known])
        assert each.worth == pytest.approx(plain / ladder.costs[each.fidelity], rel=1e-9)
    for m in (0, 1):  # no candidate is better than what was climbed from the best of them
        best = max(each.worth for each in ranked if each.fidelity == m)
        for x in candidates[:: SCREENED_AT_ONCE // 4]:
            plain = np.mean([float(gain(of, f_star, jnp.asarray(x), m)) for of, f_star in known])
            assert plain / ladder.costs[m] <= best * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("with_failures", [False, True])
def test_gradients(name: str, with_failures: bool):
    parts, limits = CASES[name]
    tilted = [eqx.tree_at(lambda p: p.tilt, part, jnp.asarray(0.3 * (-1) ** i)) for i, part in enumerate(parts)]
    coin = Coin(jnp.asarray(0.8), jnp.asarray(0.9), jnp.asarray(0.2)) if with_failures else None
    of, f_star = member(tilted, limits, coin), jnp.array([0.3, 1.5])
    gradient = np.asarray(jax.jit(jax.grad(lambda x: run_gain(of, f_star, x, 0)))(X))
    step = 1e-5
    for axis in range(2):
        move = step * np.eye(2)[axis]
        difference = (float(gain(of, f_star, X + move, 0)) - float(gain(of, f_star, X - move, 0))) / (2 * step)
        assert gradient[axis] == pytest.approx(difference, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("mean", [-1e6, -30.0, 0.0, 30.0, 1e6])
@pytest.mark.parametrize("std", [1e-6, 1.0, 1e3])
def test_the_gain_is_finite_and_not_negative_for_any_numbers(mean: float, std: float):
    of = member([normal(mean, std, 0.99), normal(mean, std, 0.5), normal(-mean, std, 0.0)], [(-FAR, 0.0), (0.0, 1.0)])
    for f_star in (NO_DESIGN, -1.0, 1e5):
        for fidelity in (0, 1):
            value, gradient = value_and_gradient(of, jnp.array([f_star]), X, fidelity)
            assert np.isfinite(value)
            assert float(value) >= 0
            assert np.all(np.isfinite(gradient))


class Waves(eqx.Module):
    """Draws of one result: a function of x for every draw, by name."""

    kind: Float[Array, ""]
    shift: Float[Array, " draws"]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " draws"]:
        return jax.vmap(lambda i: self.at(i, x))(jnp.arange(len(self.shift)))

    def at(self, draw: Array, x: Float[Array, " d"]) -> Float[Array, ""]:
        rise, disk = jnp.sum(x), jnp.sum((x - 0.5) ** 2)
        return jnp.where(self.kind == 0, rise, disk) + self.shift[draw]


def test_draws_are_maximised_over_their_feasible_designs_only():
    # maximise x + y within a disk of radius 0.3, 0.1 and none (the third draw's disk is empty)
    paths = jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        Waves(jnp.asarray(0.0), jnp.zeros(3)),
        Waves(jnp.asarray(1.0), -jnp.array([0.3**2, 0.1**2, -0.01])),
    )
    runs = RunPaths(paths, jnp.array([[-FAR, 0.0]]), None, jnp.zeros(3))
    found = maximise_feasible(runs, np.random.default_rng(0).random((128, 2)), 3)
    for i, radius in enumerate((0.3, 0.1)):
        assert found.value[i] == pytest.approx(1 + np.sqrt(2) * radius, abs=1e-6)
        assert np.sum((found.unit_x[i] - 0.5) ** 2) <= radius**2
    assert found.value[2] == NO_DESIGN
    assert np.sum((found.unit_x[2] - 0.5) ** 2) < 0.02  # near the least violation


def test_draws_are_maximised_over_designs_with_the_integers_of_a_design():
    # maximise x + y within a disk of radius 0.3 about the centre, y one of 1 to 4, which are encoded as eighths
    paths = jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        Waves(jnp.asarray(0.0), jnp.zeros(2)),
        Waves(jnp.asarray(1.0), jnp.full(2, -(0.3**2))),
    )
    space = SearchSpace({"x": Real(0, 1), "y": Integer(1, 4)})
    candidates = space.sample(np.random.default_rng(0), 64)
    found = maximise_feasible(RunPaths(paths, jnp.array([[-FAR, 0.0]]), None, jnp.zeros(2)), candidates, 3, space=space)
    best = 0.5 + np.sqrt(0.3**2 - 0.125**2)  # with y = 5/8; without integers it were 0.712, and 7/8 is outside
    np.testing.assert_allclose(found.unit_x, [[best, 0.625]] * 2, atol=1e-6)


def test_draws_are_maximised_within_known_constraints():
    paths = jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        Waves(jnp.asarray(0.0), jnp.zeros(2)),
        Waves(jnp.asarray(1.0), jnp.full(2, -(0.3**2))),
    )
    space = SearchSpace({"x": Real(0, 1), "y": Real(0, 1)}, constraints=["x - y <= -0.2"])
    candidates = space.sample(np.random.default_rng(0), 64)
    found = maximise_feasible(RunPaths(paths, jnp.array([[-FAR, 0.0]]), None, jnp.zeros(2)), candidates, 3, space=space)
    # on the disk's edge and on the line y = x + 0.2 at once
    side = (np.sqrt(0.3**2 - 0.02) - np.sqrt(0.02)) / np.sqrt(2)
    np.testing.assert_allclose(found.unit_x, [[0.5 + side, 0.7 + side]] * 2, atol=1e-6)
    assert all(space.contains(space.decode(x)) for x in found.unit_x)


class Ramp(eqx.Module):
    """Success with probability 1 - x_1."""

    slope: Float[Array, ""]

    def probabilities(self, x: Array) -> Array:
        return jnp.clip(1 - self.slope * x[0], 1e-3, 1 - 1e-3)[None]

    def pair(self, x: Array, fidelity) -> tuple[Array, Array, Array]:
        return self.probabilities(x)[0], jnp.ones(()), jnp.zeros(())  # a rerun does the same


def test_draws_are_maximised_over_designs_that_succeed_according_to_the_draw():
    paths = jax.tree.map(lambda leaf: leaf[None], Waves(jnp.asarray(0.0), jnp.zeros(3)))
    levels = jnp.array([0.8, 0.5, 0.2])
    runs = RunPaths(paths, jnp.zeros((0, 2)), Ramp(jnp.asarray(1.0)), levels)
    found = maximise_feasible(runs, np.random.default_rng(0).random((128, 2)), 3)
    # x + y is largest at y = 1 and where 1 - x is the level
    np.testing.assert_allclose(found.unit_x, [[0.2, 1.0], [0.5, 1.0], [0.8, 1.0]], atol=1e-3)
    np.testing.assert_allclose(found.value, [1.2, 1.5, 1.8], atol=1e-3)
    assert np.all(found.unit_x[:, 0] <= 1 - levels)


def test_draws_of_a_member_go_through_value_outcomes_and_success():
    part = eqx.tree_at(lambda p: p.tilt, normal(0.0, 1e-6, 0.5), jnp.asarray(1.0))
    of = RunMember(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), part, part),
        jnp.array([[-FAR, 1.0]]),
        Cautious(Ramp(jnp.asarray(1.0)), jnp.asarray(0.5)),
    )
    paths = of.draw_paths(jax.random.key(0), 4)
    value, beyond = paths(jnp.array([0.9, 0.3]))
    np.testing.assert_allclose(value, 1.2, atol=1e-4)
    np.testing.assert_allclose(beyond[0], 0.2, atol=1e-4)  # the outcome is 1.2, its limit 1
    assert np.all(np.diff(np.asarray(beyond[1])) > 0)  # P(success) is 0.1, the levels rise from 0.15
