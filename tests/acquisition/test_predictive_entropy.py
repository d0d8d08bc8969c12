"""Predictive entropy search: truncated moments, expectation propagation, and mutual information by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.typing import NDArray
from scipy import stats

from fidelium.acquisition.base import Designs
from fidelium.acquisition.predictive_entropy import (
    SLACK_VAR,
    Maximisers,
    PredictiveEntropySearch,
    ProcessPosterior,
    half_space_site,
    maximisers,
    predictive_gain,
    propagate,
    telling,
)
from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Observations, Trial, TrialState
from fidelium.numerics.kernels import Kernel
from fidelium.numerics.padding import SMALLEST_BUCKET, pad_rows
from fidelium.randomness import Key
from fidelium.space import Integer, Real, SearchSpace
from fidelium.strategies.recipes import mf_pes
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Convolved, ConvolvedProcesses, MixedProcesses
from fidelium.surrogates.gp.exact import Covariance, ExactGP, Rows
from fidelium.surrogates.gp.joint import GaussianProcess, JointPosterior
from fidelium.surrogates.warped import Warped

NO_RIVALS = np.zeros((0, 1))


def kernels(*lengths: float) -> tuple[Kernel, ...]:
    return tuple(Kernel(jnp.log(jnp.array([length]))) for length in lengths)


def convolved() -> Covariance:
    """Two fidelities that see one process of length 0.25 through smoothers, and a little of their own."""
    own = MixedProcesses(jnp.array([[[0.3], [0.0]], [[0.0], [0.3]]]), kernels(0.3, 0.3))
    return ConvolvedProcesses(
        jnp.array([0.0, 0.1]), jnp.log(jnp.array([[0.02], [0.005]])), jnp.log(jnp.full(1, 0.06)), own
    )


def mixed(low: float, high: float, alone: float) -> Covariance:
    """f_1 = low g + alone h, f_2 = high g, with two processes g and h."""
    return MixedProcesses(jnp.array([[[low], [high]], [[alone], [0.0]]]), kernels(0.2, 0.3))


def posterior_of(
    covariance: Covariance,
    x: Sequence[float] = (0.1, 0.35, 0.6, 0.8, 0.3, 0.75),
    fidelities: Sequence[int] = (0, 0, 0, 0, 1, 1),
    y: Sequence[float] = (-0.5, 0.6, 0.2, -0.3, 0.5, 0.1),
    noise: Sequence[float] = (0.05, 0.02),
) -> JointPosterior:
    """The posterior of a given covariance, on the line."""
    which = np.pad(np.array(fidelities, dtype=int), (0, SMALLEST_BUCKET - len(y)))
    noise_var = jnp.array(noise)
    at = (jnp.asarray(pad_rows(np.array(x)[:, None], SMALLEST_BUCKET)), jnp.asarray(which))
    mask = jnp.asarray(pad_rows(np.ones(len(y)), SMALLEST_BUCKET))
    rows = Rows(at, jnp.asarray(pad_rows(np.array(y), SMALLEST_BUCKET)), noise_var[which], mask)
    return JointPosterior(ExactGP.of(covariance, (), rows), noise_var, jnp.zeros((len(noise), 4)))


@partial(jax.jit, static_argnums=3)
def gains_and_gradients(posterior: JointPosterior, context: Maximisers, x: Array, fidelity: int) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda x: predictive_gain(posterior, context, x, fidelity)))(x)


def judged(posterior: JointPosterior, context: Maximisers, x, fidelity: int) -> tuple[NDArray, NDArray]:
    """Gains and gradients at the rows of x; always of one shape, to compile once."""
    found = gains_and_gradients(posterior, context, jnp.asarray(pad_rows(np.asarray(x), 32)), fidelity)
    gains, gradients = (np.asarray(part)[: len(x)] for part in found)
    return gains, gradients


def gains(posterior: JointPosterior, context: Maximisers, x, fidelity: int) -> NDArray[np.float64]:
    return judged(posterior, context, x, fidelity)[0]


def knowing(posterior: JointPosterior, rivals: NDArray, stars: NDArray) -> Maximisers:
    """What x* tells, for one to four values of x* or 96; as many times each as to make 96, to compile once."""
    return maximisers(posterior.process, 1, rivals, np.tile(stars, (96 // len(stars), 1)))


def on_grid(posterior: JointPosterior, grid: NDArray) -> tuple[NDArray, NDArray]:
    """Mean and covariance of f_1 on the grid, then f_2 on the grid."""
    at = (jnp.asarray(np.tile(grid, 2)[:, None]), jnp.repeat(jnp.arange(2), len(grid)))
    values = posterior.process.values(at)
    return np.asarray(values.mean), np.asarray(posterior.process.covariances(values, values))


def test_covariances_of_many_values_are_those_of_each_pair():
    process = posterior_of(convolved()).process
    points = [(jnp.array([x]), jnp.asarray(m)) for x in (0.2, 0.5, 0.95) for m in (0, 1)]
    values = process.values(jax.tree.map(lambda *leaves: jnp.stack(leaves), *points))
    cov = process.covariances(values, values)
    for i, j in ((0, 1), (1, 4), (5, 2), (3, 0)):
        mean, pair = process.joint(points[i], points[j])
        np.testing.assert_allclose(values.mean[jnp.array([i, j])], mean, rtol=1e-12)
        np.testing.assert_allclose(cov[jnp.ix_(jnp.array([i, j]), jnp.array([i, j]))], pair, rtol=1e-10, atol=1e-13)


# --- half-spaces


def with_sites(mean, cov, precision, shift) -> tuple[NDArray, NDArray]:
    """The Gaussian times the sites."""
    prior = np.linalg.inv(np.atleast_2d(cov))
    posterior = np.linalg.inv(prior + np.diag(np.atleast_1d(precision)))
    return posterior @ (prior @ np.atleast_1d(mean) + np.atleast_1d(shift)), posterior


@pytest.mark.parametrize("variance", [1e-8, 1e-4, 0.3, 4.0])
@pytest.mark.parametrize("beta", [-30.0, -6.0, -1.0, 0.0, 0.5, 3.0, 7.0])
def test_one_site_has_the_moments_of_the_truncated_normal(variance, beta):
    # w = u + e is truncated at 0; u is normal given w
    spread = variance + SLACK_VAR
    mean, slope = beta * math.sqrt(spread), variance / spread
    above = stats.truncnorm(-beta, np.inf, loc=mean, scale=math.sqrt(spread))
    site = jax.jit(half_space_site)(jnp.asarray(mean), jnp.asarray(variance))
    (got_mean,), ((got_var,),) = with_sites(mean, variance, *site)
    if beta > -20:  # beyond, SciPy's variance is off by per cents
        assert got_var == pytest.approx(variance - slope**2 * (spread - above.var()), rel=1e-5)
    assert got_mean == pytest.approx(mean + slope * (above.mean() - mean), rel=1e-6, abs=1e-9)


def test_sites_are_finite_and_no_more_precise_than_the_slack_wherever_the_normal_is():
    mean, variance = np.meshgrid([-1e6, -1e2, -1.0, 0.0, 1.0, 1e6], [0.0, 1e-12, 1e-6, 1.0, 1e3])
    precision, shift = jax.jit(jax.vmap(half_space_site))(mean.ravel(), variance.ravel())
    assert np.all(np.isfinite(shift))
    assert np.all((np.asarray(precision) >= 0) & (np.asarray(precision) <= 1.001 / SLACK_VAR))


ONE = jnp.ones(2)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.7])
@pytest.mark.parametrize("mean", [(0.0, 0.0), (0.5, -0.8), (-1.0, -1.0)])
def test_propagation_through_two_constraints_agrees_with_monte_carlo(correlation, mean):
    cov = np.array([[1.0, 0.8 * correlation], [0.8 * correlation, 0.64]])
    draws = np.random.default_rng(0).multivariate_normal(mean, cov, size=1_000_000)
    kept = draws[np.all(draws >= 0, axis=1)]
    sites = jax.jit(propagate)(jnp.array(mean), jnp.asarray(cov), ONE)
    got_mean, got_cov = with_sites(mean, cov, sites.precision, sites.shift)
    # 0.03 is the error of the approximation, which is exact for independent constraints
    tolerance = 0.03 if correlation else 4 / math.sqrt(len(kept))
    np.testing.assert_allclose(got_mean, kept.mean(axis=0), atol=tolerance)
    np.testing.assert_allclose(got_cov, np.cov(kept.T), atol=tolerance)


def test_padding_counts_for_nothing_in_propagation():
    cov = np.array([[1.0, 0.5, 0.3], [0.5, 0.8, 0.4], [0.3, 0.4, 0.6]])
    mean = np.array([0.2, -0.3, -5.0])
    padded = jax.jit(propagate)(jnp.asarray(mean), jnp.asarray(cov), jnp.array([1.0, 1.0, 0.0]))
    alone = jax.jit(propagate)(jnp.asarray(mean[:2]), jnp.asarray(cov[:2, :2]), ONE)
    np.testing.assert_allclose(padded.precision, [*np.asarray(alone.precision), 0.0], rtol=1e-12)
    np.testing.assert_allclose(padded.shift, [*np.asarray(alone.shift), 0.0], rtol=1e-12)


def test_of_constraints_that_are_nearly_the_same_the_tightest_is_kept():
    cov = np.array([[1.0, 0.99, 0.2, 1.0], [0.99, 1.0, 0.2, 1.0], [0.2, 0.2, 1.0, 0.2], [1.0, 1.0, 0.2, 1.0]])
    mean = jnp.array([0.3, -0.1, 0.5, -2.0])
    with_padding, without = jnp.array([1.0, 1.0, 1.0, 0.0]), jnp.ones(4)
    np.testing.assert_array_equal(telling(mean, jnp.asarray(cov), with_padding), [0, 1, 1, 0])
    np.testing.assert_array_equal(telling(mean, jnp.asarray(cov), without), [0, 0, 1, 1])
    np.testing.assert_array_equal(telling(jnp.zeros(4), jnp.ones((4, 4)), without), [1, 0, 0, 0])  # copies


def test_of_rivals_known_for_sure_the_best_counts():
    posterior = posterior_of(convolved(), (0.2, 0.5, 0.8), (1, 1, 1), (0.3, 1.0, -0.5), noise=(1e-9, 1e-9))
    star, x = np.array([[0.35]]), np.array([[0.1], [0.4], [0.65]])
    everyone, best, none = (
        gains(posterior, knowing(posterior, rivals[:, None], star), x, 1)
        for rivals in (np.array([0.2, 0.5, 0.8]), np.array([0.5]), np.zeros(0))
    )
    np.testing.assert_allclose(everyone, best, rtol=1e-6)
    assert np.max(np.abs(best - none)) > 0.05


# --- the gain, against closed forms and brute force


def test_without_rivals_the_gain_is_that_of_one_truncation():
    posterior, x, star = posterior_of(convolved()), 0.5, 0.2
    mean, cov = on_grid(posterior, np.array([x, star]))  # f_1(x), f_1(x*), f_2(x), f_2(x*)
    to_lead = np.array([[0, 0, -1, 1.0]])
    spread = (to_lead @ cov @ to_lead.T).item() + SLACK_VAR
    beta = (to_lead @ mean).item() / math.sqrt(spread)
    r = stats.norm.pdf(beta) / stats.norm.cdf(beta)
    context = knowing(posterior, NO_RIVALS, np.array([[star]]))
    for m, row, noise in ((0, 0, 0.05), (1, 2, 0.02)):
        left = cov[row, row] - (cov[row] @ to_lead[0]) ** 2 * r * (r + beta) / spread
        known = 0.5 * math.log((cov[row, row] + noise) / (left + noise))
        assert gains(posterior, context, [[x]], m)[0] == pytest.approx(known, rel=1e-9)


def grouped_entropies(posterior: JointPosterior, grid: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """P(x*) on the grid, and for every (m, x) H[y] - E_x*[H[y | x*]] by grouping joint samples by their x*.

    Twice: with the entropies of Gaussians of the groups' variances, and with those of their very densities.
    """
    mean, cov = on_grid(posterior, grid)
    size = len(grid)
    f = np.random.default_rng(0).multivariate_normal(mean, cov, size=200_000, method="eigh")
    star = np.argmax(f[:, size:], axis=1)
    share = np.bincount(star, minlength=size) / len(f)
    gaussian, exact = np.zeros(2 * size), np.zeros(2 * size)
    for column, noise in enumerate(np.repeat(np.asarray(posterior.noise), size)):
        std = math.sqrt(cov[column, column] + noise)
        y, width = np.linspace(mean[column] - 7 * std, mean[column] + 7 * std, 401, retstep=True)
        blur = stats.norm.pdf(y[:, None], y, math.sqrt(noise)) * width
        for i in np.flatnonzero(share * len(f) > 100):
            group = f[star == i, column]
            gaussian[column] += share[i] * 0.5 * math.log(std**2 / (group.var() + noise))
            counts = np.histogram(group, bins=np.append(y - width / 2, y[-1] + width / 2))[0]
            density = blur @ (counts / counts.sum() / width) + 1e-300
            exact[column] += share[i] * (stats.norm.entropy(scale=std) + np.sum(density * np.log(density)) * width)
    return share, gaussian.reshape(2, size), exact.reshape(2, size)


def other_way_round(posterior: JointPosterior, grid: NDArray) -> NDArray:
    """H[x*] - E_y[H[x* | y]] for every (m, x), by conditioning the Gaussian on y and sampling x* for each."""
    mean, cov = on_grid(posterior, grid)
    size = len(grid)
    z = np.random.default_rng(1).normal(size=(30_000, size))
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)

    def draws(mean: NDArray, cov: NDArray) -> NDArray:
        values, vectors = np.linalg.eigh(cov)
        return mean + z @ (vectors * np.sqrt(np.maximum(values, 0))).T

    def entropy(f: NDArray) -> float:
        return float(stats.entropy(np.bincount(np.argmax(f, axis=1), minlength=size)))

    before = entropy(draws(mean[size:], cov[size:, size:]))
    found = []
    for column, noise in enumerate(np.repeat(np.asarray(posterior.noise), size)):
        var, c = cov[column, column] + noise, cov[column, size:]
        given = draws(mean[size:], cov[size:, size:] - np.outer(c, c) / var)
        after = [entropy(given + c / math.sqrt(var) * node) for node in nodes]
        found.append(before - np.average(after, weights=weights))
    return np.array(found).reshape(2, size)


@pytest.mark.parametrize("noise", [(0.05, 0.02), (0.3, 0.1)], ids=["little noise", "much noise"])
def test_the_gain_on_a_grid_is_the_mutual_information_of_x_star_and_y(noise):
    grid = np.linspace(0.05, 0.95, 8)
    posterior = posterior_of(convolved(), noise=noise)
    share, gaussian, exact = grouped_entropies(posterior, grid)
    # I(x*; y) is symmetric, and what is said of y by x* nearly Gaussian
    np.testing.assert_allclose(exact, other_way_round(posterior, grid), atol=0.01)
    np.testing.assert_allclose(gaussian, exact, atol=0.01)
    assert np.ptp(exact) > 0.1
    # every point of the grid as often as it is x*
    stars = grid[np.searchsorted(np.cumsum(share), (np.arange(96) + 0.5) / 96)][:, None]
    # against the observed designs some of what x* tells is missed; against all of the grid it is known to 0.03
    for rivals, tolerance in (([0.3, 0.75], 0.08), (grid, 0.04)):
        context = knowing(posterior, np.array(rivals)[:, None], stars)
        got = np.array([gains(posterior, context, grid[:, None], m) for m in range(2)])
        np.testing.assert_allclose(got, exact, atol=tolerance)
        assert np.corrcoef(stats.rankdata(got), stats.rankdata(exact))[0, 1] > 0.95


# --- laws

STARS = np.array([[0.12], [0.5], [0.93]])
RIVALS = np.array([[0.3], [0.75]])
POINTS = np.linspace(0.0, 1.0, 21)[:, None]


@pytest.mark.parametrize("rivals", [NO_RIVALS, RIVALS], ids=["no rivals", "rivals"])
def test_a_fidelity_that_is_the_target_tells_as_much(rivals):
    posterior = posterior_of(mixed(1.0, 1.0, 0.0), noise=(0.1, 0.1))
    context = knowing(posterior, rivals, STARS)
    low, high = (gains(posterior, context, POINTS, m) for m in range(2))
    assert np.max(high) > 0.05
    np.testing.assert_allclose(low, high, rtol=1e-9, atol=1e-12)


def test_a_fidelity_that_is_independent_of_the_target_tells_nothing():
    posterior = posterior_of(mixed(0.0, 1.0, 1.0))
    context = knowing(posterior, RIVALS, STARS)
    np.testing.assert_array_equal(gains(posterior, context, POINTS, 0), 0.0)
    assert np.max(gains(posterior, context, POINTS, 1)) > 0.05


def test_the_gain_is_not_negative_and_rises_as_the_noise_falls():
    posterior = posterior_of(convolved())
    context = knowing(posterior, RIVALS, STARS)
    for m in range(2):
        quieter = [
            gains(eqx.tree_at(lambda p: p.noise, posterior, jnp.full(2, noise)), context, POINTS, m)
            for noise in (10.0, 1.0, 0.1, 1e-3, 1e-6)
        ]
        assert np.all(quieter[0] >= 0)
        assert all(np.all(more > less) for less, more in pairwise(quieter))


def test_the_gain_is_an_average_over_x_star():
    posterior = posterior_of(convolved())
    alone = [gains(posterior, knowing(posterior, RIVALS, STARS[i : i + 1]), POINTS, 0) for i in range(3)]
    together = gains(posterior, knowing(posterior, RIVALS, STARS), POINTS, 0)
    np.testing.assert_allclose(together, np.mean(alone, axis=0), rtol=1e-10)


@pytest.mark.parametrize("fidelity", [0, 1])
def test_gradients_match_finite_differences(fidelity):
    posterior = posterior_of(convolved())
    context = knowing(posterior, RIVALS, STARS)
    x = np.linspace(0.013, 0.987, 24)[:, None]  # not at an x*, where the gain bends within a thousandth
    ahead, behind = (gains(posterior, context, x + step, fidelity) for step in (1e-5, -1e-5))
    slope = judged(posterior, context, x, fidelity)[1][:, 0]
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-7)


# --- any data

SURROGATE = GaussianProcess(Convolved(), starts=2, steps=12, frequencies=32)
EMPTY = Observations(np.zeros((0, 1)), np.zeros(0))
LINE = np.linspace(0.1, 0.9, 5)[:, None]
DEGENERATE = {
    "one point": (Observations(LINE[:1], np.ones(1)), Observations(LINE[2:3], np.zeros(1))),
    "one target point alone": (EMPTY, Observations(LINE[2:3], np.ones(1))),
    "no target": (Observations(LINE, np.sin(6 * LINE[:, 0])), EMPTY),
    "repeated points": (
        Observations(np.repeat(LINE, 4, axis=0), np.repeat(LINE[:, 0], 4)),
        Observations(np.full((9, 1), 0.3), np.full(9, 2.0)),
    ),
    "repeated points that differ": (EMPTY, Observations(np.full((9, 1), 0.3), np.arange(9.0))),
    "constant": (Observations(LINE, np.full(5, 3.0)), Observations(LINE, np.full(5, 3.0))),
    "tiny": (Observations(LINE, 1e-12 * LINE[:, 0]), Observations(LINE[1:], 1e-12 * LINE[1:, 0] ** 2)),
    "huge": (Observations(LINE, 1e12 * LINE[:, 0]), Observations(LINE[1:], -1e12 * LINE[1:, 0] ** 2)),
}


@pytest.mark.parametrize("seen", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_the_gain_and_its_gradient_are_finite_for_any_data(seen):
    posterior = SURROGATE.fit(seen, Key((0,)))
    # x* among them: at an observed design, next to one, at the edge
    stars = np.array([[0.3], [0.3 + 1e-9], [0.5001], [1.0]])
    context = knowing(posterior, seen[1].unit_x, stars)
    points = np.concatenate([POINTS, stars, LINE])
    for m in range(2):
        value, gradient = judged(posterior, context, points, m)
        assert np.all(np.isfinite(value))
        assert np.all(np.isfinite(gradient))
        assert np.all(value >= 0)


def test_constraints_that_contradict_the_data_still_give_numbers():
    # the sure worst design as x*, against sure better ones
    posterior = posterior_of(convolved(), (0.2, 0.5, 0.8), (1, 1, 1), (-2.0, 2.0, 2.0), noise=(1e-8, 1e-8))
    context = knowing(posterior, np.array([[0.5], [0.8]]), np.array([[0.2]]))
    for m in range(2):
        value, gradient = judged(posterior, context, POINTS, m)
        assert np.all(np.isfinite(value))
        assert np.all(np.isfinite(gradient))
        assert np.all(value >= 0)


# --- proposals

BOX = SearchSpace({"a": Real(-5, 10), "n": Integer(0, 9)})
SMALL = PredictiveEntropySearch(draws=3, draw_starts=2, designs=Designs(pool=24, local=8, starts=2))
STRATEGY = SurrogateStrategy(SURROGATE, SMALL)


@pytest.fixture(scope="module")
def history_of() -> Callable[[Sequence[int]], History]:
    """Makes a history with so many observations at each fidelity."""

    def make(counts: Sequence[int]) -> History:
        ladder = FidelityLadder(tuple(Fidelity(f"f{m}", 4**m) for m in range(len(counts))))
        which = np.repeat(np.arange(len(counts)), counts)
        designs = [BOX.decode(x) for x in BOX.sample(np.random.default_rng(0), len(which))]
        values = [math.sin(p["a"]) + 0.1 * p["n"] + 0.1 * m for p, m in zip(designs, which, strict=True)]
        trials = tuple(
            Trial(number, params, ladder[int(m)], TrialState.DONE, value)
            for number, (params, m, value) in enumerate(zip(designs, which, values, strict=True))
        )
        return History(BOX, ladder, Direction.MAXIMIZE, trials)

    return make


@pytest.mark.parametrize("counts", [(5, 2), (5, 0)], ids=str)  # other ladders: tests/study/test_all_strategies.py
def test_a_proposal_is_valid_and_repeats(history_of, counts):
    history = history_of(counts)
    query = STRATEGY.propose(history, (), Key((1,)))
    assert BOX.validate(query.params) == query.params
    assert query.fidelity in range(len(counts))
    assert STRATEGY.propose(history, (), Key((1,))) == query
    assert STRATEGY.propose(history, [query], Key((1,))) != query


def test_nothing_is_traced_while_the_data_grow_inside_a_bucket(history_of, traces):
    STRATEGY.propose(history_of((6, 2)), (), Key((0,)))
    traces.on = True
    for counts in ((7, 2), (9, 5), (12, 20)):
        STRATEGY.propose(history_of(counts), (), Key(counts))
    assert traces.seen == []
    process = SURROGATE.fit(history_of((9, 5)).observations, Key((0,))).process
    maximisers(process, 1, np.zeros((SMALLEST_BUCKET + 1, 2)), np.zeros((SMALL.draws, 2)))
    assert traces.seen != []  # the next bucket is traced, and seen to be


def test_only_the_best_designs_of_the_target_are_rivals_when_there_are_many(history_of):
    history = history_of((3, 6))
    top = np.argsort(-history.observations[-1].y)[:2]
    fewer = History(BOX, history.ladder, history.direction, tuple(history.trials[i] for i in (0, 1, 2, *(3 + top))))
    posterior = SURROGATE.fit(history.observations, Key((0,)))
    two = replace(SMALL, rivals=2)

    def worths(acquisition: PredictiveEntropySearch, history: History) -> list[float]:
        return [candidate.worth for candidate in acquisition.rank(posterior, history, (0, 1), Key((3,)))]

    assert worths(two, history) == worths(SMALL, fewer)
    assert worths(two, history) != worths(replace(SMALL, rivals=0), history)


def test_a_posterior_that_is_no_joint_gaussian_is_refused(history_of, random_stack):
    with pytest.raises(SettingError, match="jointly Gaussian"):
        SMALL.rank(random_stack(2), history_of((2, 2)), (0, 1), Key((0,)))
    assert isinstance(SURROGATE.fit(history_of((2, 2)).observations, Key((0,))), ProcessPosterior)


def test_the_strategy_is_a_convolved_process_with_predictive_entropy():
    strategy = mf_pes()
    assert isinstance(strategy.acquisition, PredictiveEntropySearch)
    assert strategy.surrogate == Warped(GaussianProcess(Convolved()))
