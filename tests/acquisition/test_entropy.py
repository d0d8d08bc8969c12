"""The gain: Wang and Jegelka's closed form at the target, brute force by sampling below it, and never a bad number."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.stats import norm

from fidelium.acquisition.entropy import observation_gain, paper_gain
from fidelium.surrogates.base import Posterior

GAINS = pytest.mark.parametrize("gain", [observation_gain, paper_gain], ids=["observation", "paper"])
X = jnp.array([0.3, 0.6])
POINTS = jnp.asarray(np.random.default_rng(1).random((5, 2)))


@partial(jax.jit, static_argnums=(0, 4))
def value_and_gradient(gain, posterior: Posterior, f_star: Array, x: Array, fidelity: int) -> tuple[Array, Array]:
    return jax.value_and_grad(lambda x: gain(posterior, f_star, x, fidelity))(x)


def value(gain, posterior: Posterior, f_star, fidelity: int, x: Array = X) -> float:
    f_star = jnp.atleast_1d(jnp.asarray(f_star, dtype=float))
    return float(value_and_gradient(gain, posterior, f_star, x, fidelity)[0])


def identity(f: Array) -> tuple[Array, Array]:
    return f, jnp.full_like(f, 1e-12)


def unrelated(f: Array) -> tuple[Array, Array]:
    return 0.7 + 0 * f, jnp.full_like(f, 0.5)


def affine(slope, offset, variance):
    return lambda f: (slope * f + offset, jnp.full_like(f, variance))


def bend(f: Array) -> tuple[Array, Array]:
    return f + 0.4 * jnp.sin(f), 0.1 + 0.1 * jnp.cos(f) ** 2


# --- at the target

MEAN, VAR, NOISE = 0.4, 0.9, 0.2
F_STAR = np.array([0.1, 0.5, 1.3, 2.5, 4.0])
BETA = (F_STAR - MEAN) / np.sqrt(VAR)
RATIO = norm.pdf(BETA) / norm.cdf(BETA)


def test_the_papers_gain_at_the_target_is_wang_and_jegelkas(linked):
    known = np.mean(BETA * RATIO / 2 - norm.logcdf(BETA))
    posterior = linked([0.0, MEAN], [1.0, VAR], [0.1, NOISE], identity)
    assert value(paper_gain, posterior, F_STAR, 1) == pytest.approx(known, rel=1e-12)


def test_the_papers_gain_is_blind_to_noise_and_to_scale(linked):
    plain = linked([0.0, MEAN], [1.0, VAR], [0.1, NOISE], identity)
    noisy = linked([0.0, MEAN], [1.0, VAR], [0.1, 1e3], identity)
    tiny = linked([0.0, 1e-6 * MEAN], [1.0, 1e-12 * VAR], [0.1, NOISE], identity)
    assert value(paper_gain, noisy, F_STAR, 1) == value(paper_gain, plain, F_STAR, 1)
    assert value(paper_gain, tiny, 1e-6 * F_STAR, 1) == pytest.approx(value(paper_gain, plain, F_STAR, 1), rel=1e-9)


def test_the_gain_of_an_observation_at_the_target_is_the_closed_form(linked):
    # -1/2 log(1 - rho^2 r (r + beta)), averaged over f*
    rho2 = VAR / (VAR + NOISE)
    known = np.mean(-0.5 * np.log(1 - rho2 * RATIO * (RATIO + BETA)))
    posterior = linked([0.0, MEAN], [1.0, VAR], [0.1, NOISE], identity)
    assert value(observation_gain, posterior, F_STAR, 1) == pytest.approx(known, rel=1e-10)


def test_the_gain_of_an_observation_falls_with_noise_and_vanishes_with_the_variance(linked):
    gains = [
        value(observation_gain, linked([0.0, MEAN], [1.0, VAR], [0.1, noise], identity), F_STAR, 1)
        for noise in (1e-9, 1e-3, 0.1, 1.0, 100.0)
    ]
    assert all(low > high for low, high in pairwise(gains))
    at_f_star = linked([0.0, 0.5], [1.0, 1e-10], [0.1, 1e-4], identity)  # the trap of the noise-free gain
    assert value(observation_gain, at_f_star, [0.5], 1) < 1e-6
    assert value(paper_gain, at_f_star, [0.5], 1) == pytest.approx(np.log(2), rel=1e-9)


def test_one_fidelity_alone_is_the_target(linked):
    rho2 = VAR / (VAR + NOISE)
    known = np.mean(-0.5 * np.log(1 - rho2 * RATIO * (RATIO + BETA)))
    assert value(observation_gain, linked([MEAN], [VAR], [NOISE], identity), F_STAR, 0) == pytest.approx(
        known, rel=1e-10
    )


# --- below the target


def test_below_the_target_a_normal_link_has_a_closed_form(linked):
    # f_M = a f_m + 0.3 + e and f_m are jointly normal with correlation c: of eta the share 1 - c^2 r (r + beta) is left
    generator = np.random.default_rng(0)
    slope, mean, beta = (generator.uniform(*ends, size=300) for ends in ((-2, 2), (-3, 3), (-2, 4)))
    var, variance, noise = (10 ** generator.uniform(*ends, size=300) for ends in ((-2, 1), (-1.3, 0.3), (-6, 0)))
    target_var = slope**2 * var + variance
    f_star = slope * mean + 0.3 + beta * np.sqrt(target_var)

    def below(slope, mean, var, variance, noise, f_star):
        posterior = linked([mean, 0.0], [var, 1.0], [noise, 0.1], affine(slope, 0.3, variance))
        return observation_gain(posterior, f_star[None], X, 0)

    r = norm.pdf(beta) / norm.cdf(beta)
    known = -0.5 * np.log(1 - var / (var + noise) * slope**2 * var / target_var * r * (r + beta))
    got = jax.jit(jax.vmap(below))(slope, mean, var, variance, noise, f_star)
    np.testing.assert_allclose(got, known, atol=0.02)


def brute_force(
    mean: float, var: float, noise: float, link_mean: NDArray, link_std: NDArray, below: NDArray, f_star: float
) -> tuple[float, float]:
    """The gain of y_m by sampling: Gaussian entropy less that of the samples with f_M <= f*, and its standard error."""
    target = link_mean + link_std * np.random.default_rng(1).normal(size=len(below))
    kept = below[target <= f_star]
    squares = (kept - kept.mean()) ** 2
    gain = 0.5 * np.log((var + noise) / (squares.mean() + noise))
    return float(gain), float(0.5 * squares.std() / np.sqrt(len(kept)) / (squares.mean() + noise))


@pytest.mark.parametrize("f_star", [-0.3, 0.4, 1.0, 1.5])
def test_below_the_target_a_bent_link_agrees_with_brute_force(linked, f_star):
    mean, var, noise = 0.2, 0.8, 0.01
    below = np.random.default_rng(0).normal(mean, np.sqrt(var), size=400_000)
    link_mean, link_var = (np.asarray(part) for part in bend(jnp.asarray(below)))
    known, error = brute_force(mean, var, noise, link_mean, np.sqrt(link_var), below, f_star)
    posterior = linked([mean, 0.0], [var, 1.0], [noise, 0.1], bend)
    assert value(observation_gain, posterior, f_star, 0) == pytest.approx(known, abs=4 * error + 0.02)


@pytest.mark.parametrize("fidelity", [0, 1])
def test_below_the_target_of_a_stack_the_gain_agrees_with_brute_force(random_stack, fidelity):
    posterior = random_stack(3)
    means, variances = (np.asarray(part) for part in posterior.marginals(X))
    mean, var = float(means[fidelity]), float(variances[fidelity])
    noise = float(posterior.noise_var(fidelity, jnp.asarray(mean)))
    below = np.random.default_rng(0).normal(mean, np.sqrt(var), size=400_000)
    grid = np.linspace(mean - 6 * np.sqrt(var), mean + 6 * np.sqrt(var), 801)
    link_mean, link_var = jax.vmap(lambda f: posterior.target_given(X, fidelity, f))(jnp.asarray(grid))
    at_mean, at_std = (np.interp(below, grid, np.asarray(part)) for part in (link_mean, jnp.sqrt(link_var)))
    f_star = float(means[2] + 0.3 * np.sqrt(variances[2]))
    known, error = brute_force(mean, var, noise, at_mean, at_std, below, f_star)
    assert known > 0.01
    assert value(observation_gain, posterior, f_star, fidelity) == pytest.approx(known, abs=4 * error + 0.02)


@pytest.mark.parametrize("beta", [-1.5, -0.5, 0.0, 0.7, 2.0])
def test_identity_layers_give_the_same_gain_at_every_fidelity(linked, beta):
    posterior = linked([MEAN] * 3, [VAR] * 3, [NOISE] * 3, identity)
    f_star = MEAN + beta * np.sqrt(VAR)
    low, middle, target = (value(observation_gain, posterior, f_star, m) for m in range(3))
    assert low == middle
    assert low == pytest.approx(target, abs=0.03)


@GAINS
def test_an_independent_layer_tells_nothing(linked, gain):
    posterior = linked([0.1, MEAN], [2.0, VAR], [1e-3, NOISE], unrelated)
    assert value(gain, posterior, F_STAR, 0) == pytest.approx(0.0, abs=1e-12)
    assert value(gain, posterior, F_STAR, 1) > 0.05


def test_the_papers_gain_below_the_target_is_algorithm_2_to_the_letter(linked):
    mean, var = 0.2, 0.8
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    t, g = mean + np.sqrt(var) * nodes, weights / weights.sum()
    link_mean, link_var = (np.asarray(part) for part in bend(jnp.asarray(t)))
    expected = []
    for f_star in F_STAR:
        R = norm.cdf((f_star - link_mean) / np.sqrt(link_var))
        Z, Z1, Z2 = np.sum(g * R), np.sum(g * t * R), np.sum(g * t**2 * R)
        expected.append(0.5 * np.log(var) - 0.5 * np.log(Z2 / Z - Z1**2 / Z**2))
    posterior = linked([mean, 0.0], [var, 1.0], [0.1, 0.1], bend)
    assert value(paper_gain, posterior, F_STAR, 0) == pytest.approx(np.mean(expected), rel=1e-9)


def test_a_closer_relative_of_the_target_tells_more(linked):
    def below(c2: Array) -> Array:
        posterior = linked([0.0, 0.0], [1.0, 1.0], [1e-3, 1e-3], affine(jnp.sqrt(c2), 0.0, 1 - c2))
        return observation_gain(posterior, jnp.array([0.5]), X, 0)

    gains = jax.jit(jax.vmap(below))(jnp.array([0.0, 0.1, 0.5, 0.9, 0.99]))
    assert np.all(np.diff(gains) > 0)


@GAINS
def test_the_gain_is_an_average_over_f_star(linked, gain):
    posterior = linked([0.2, 0.3], [0.8, 0.9], [0.1, 0.1], bend)
    for m in range(2):
        alone = [value(gain, posterior, [f_star], m) for f_star in F_STAR]
        assert value(gain, posterior, F_STAR, m) == pytest.approx(np.mean(alone), rel=1e-12)


# --- always a number

means = st.floats(-1e6, 1e6)
variances = st.floats(-12, 6).map(lambda power: 10.0**power)
f_stars = st.floats(-1e8, 1e8) | st.floats(-3, 3)


def steep(f: Array) -> tuple[Array, Array]:
    """A link of large and small slopes and of variances from 1e-12 to 1."""
    return f + 100 * jnp.tanh(f), 1e-12 + jnp.exp(-(f**2))


@jax.jit
def every_gain(posterior: Posterior, f_star: Array) -> tuple[Array, Array]:
    """Both gains at both fidelities, and their gradients."""
    queries = [(gain, m) for gain in (observation_gain, paper_gain) for m in range(2)]
    found = [jax.value_and_grad(lambda x, gain=gain, m=m: gain(posterior, f_star, x, m))(X) for gain, m in queries]
    return tuple(jnp.stack(part) for part in zip(*found, strict=True))  # pyright: ignore[reportReturnType]


@given(
    st.tuples(means, means),
    st.tuples(variances, variances),
    st.tuples(variances, variances),
    st.sampled_from([identity, unrelated, bend, steep]),
    f_stars,
)
def test_the_gain_and_its_gradient_are_finite_and_the_gain_not_negative(linked, mean, var, noise, link, f_star):
    gains, gradients = every_gain(linked(list(mean), list(var), list(noise), link, 0.5), jnp.array([f_star]))
    assert np.all(np.isfinite(gains))
    assert np.all(np.isfinite(gradients))
    # the paper's gain below the target is a difference of entropies by five nodes: there it may be negative
    assert np.all(np.asarray(gains)[[0, 1, 3]] >= 0)


@GAINS
@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_gradients_match_finite_differences(random_stack, gain, fidelity):
    posterior = random_stack(3)
    f_star = posterior.marginals(X)[0][2] + jnp.array([-0.3, 0.5, 1.5])
    direction = jnp.array([0.6, -0.8])
    ahead, behind = (value(gain, posterior, f_star, fidelity, X + step * direction) for step in (1e-5, -1e-5))
    slope = float(value_and_gradient(gain, posterior, f_star, X, fidelity)[1] @ direction)
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-5, abs=1e-8)


@GAINS
def test_vmap_is_a_loop_and_jit_is_no_jit(random_stack, gain):
    posterior = random_stack(2)
    f_star = jnp.array([0.5, 1.5])
    together = jax.jit(jax.vmap(lambda x: gain(posterior, f_star, x, 0)))(POINTS)
    alone = [value(gain, posterior, f_star, 0, x) for x in POINTS]
    np.testing.assert_allclose(together, alone, rtol=1e-11)
    assert alone[0] == pytest.approx(float(gain(posterior, f_star, POINTS[0], 0)), rel=1e-11)
