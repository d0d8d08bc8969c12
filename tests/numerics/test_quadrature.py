"""Gauss-Hermite quadrature is exact to degree 2n - 1; moment matching is exact for affine layers; Lemma 4.1."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.numerics.quadrature import gauss_hermite, match_moments


def matched(u, gamma, mean: float, variance: float, count: int) -> tuple[float, float]:
    """Mean and variance of f_m by quadrature over f_{m-1} ~ N(mean, variance)."""
    z, g = gauss_hermite(count)
    t = mean + np.sqrt(variance) * z
    matched_mean, matched_variance = match_moments(g, jax.numpy.asarray(u(t)), jax.numpy.asarray(gamma(t)))
    return float(matched_mean), float(matched_variance)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 20])
def test_n_nodes_are_exact_to_degree_2n_minus_1_and_not_beyond(count):
    z, g = gauss_hermite(count)
    moments = [1.0, 0.0]  # E[z^k] = (k - 1) E[z^(k-2)]
    while len(moments) <= 2 * count:
        moments.append((len(moments) - 1) * moments[-2])
    for degree in range(2 * count):
        assert np.sum(g * z**degree) == pytest.approx(moments[degree], rel=1e-11, abs=1e-9 * moments[degree // 2 * 2])
    missing = moments[2 * count] - np.sum(g * z ** (2 * count))
    assert missing == pytest.approx(float(np.prod(np.arange(1, count + 1))), rel=1e-4)  # n!, the classic error term


@given(st.integers(1, 60))
def test_weights_are_a_probability_and_nodes_symmetric(count):
    z, g = gauss_hermite(count)
    assert g.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.all(g > 0)
    np.testing.assert_allclose(z, -z[::-1], atol=1e-13)
    np.testing.assert_allclose(g, g[::-1], rtol=1e-9)


@given(
    slope=st.floats(-1e3, 1e3),
    offset=st.floats(-1e3, 1e3),
    gamma=st.floats(1e-6, 1e3),
    mean=st.floats(-1e3, 1e3),
    variance=st.floats(1e-6, 1e3),
)
def test_moment_matching_is_exact_for_affine_layers(slope, offset, gamma, mean, variance):
    got_mean, got_variance = matched(lambda f: slope * f + offset, lambda f: gamma + 0 * f, mean, variance, 5)
    scale = abs(slope * mean) + abs(offset) + abs(slope) * np.sqrt(variance) + 1
    assert got_mean == pytest.approx(slope * mean + offset, abs=1e-12 * scale)
    assert got_variance == pytest.approx(slope**2 * variance + gamma, rel=1e-9, abs=1e-12 * scale**2)


def test_moment_matching_is_exact_for_a_quadratic_layer_with_quadratic_variance():
    # u = f^2, gamma = f^2, f ~ N(a, s): E = a^2 + s, Var = 4 a^2 s + 2 s^2 + a^2 + s
    a, s = 0.7, 1.9
    mean, variance = matched(np.square, np.square, a, s, 3)
    assert mean == pytest.approx(a**2 + s, rel=1e-13)
    assert variance == pytest.approx(4 * a**2 * s + 2 * s**2 + a**2 + s, rel=1e-13)


@pytest.mark.parametrize(
    ("u", "gamma"),
    [
        (np.tanh, lambda f: 0.1 + 0.2 * np.cos(f) ** 2),
        (lambda f: np.sin(2 * f) + 0.3 * f, lambda f: 0.05 + 0 * f),
        (lambda f: np.exp(0.5 * f), lambda f: 0.3 / (1 + f**2)),
    ],
    ids=["tanh", "sine", "exponential"],
)
def test_moment_matching_agrees_with_a_million_draws(u, gamma):
    mean, variance, count = 0.4, 0.6, 10**6
    generator = np.random.default_rng(0)
    below = generator.normal(mean, np.sqrt(variance), count)
    f = u(below) + np.sqrt(gamma(below)) * generator.normal(size=count)
    got_mean, got_variance = matched(u, gamma, mean, variance, 25)
    squares = (f - f.mean()) ** 2
    assert abs(got_mean - f.mean()) < 4 * f.std() / np.sqrt(count)
    assert abs(got_variance - squares.mean()) < 4 * squares.std() / np.sqrt(count)


means = st.floats(-1e150, 1e150)
variances = st.floats(1e-270, 1e150)


@given(st.integers(1, 20), st.data())
def test_lemma_4_1_positive_conditional_variances_give_a_positive_variance(count, data):
    u = np.array(data.draw(st.lists(means, min_size=count, max_size=count)))
    gamma = np.array(data.draw(st.lists(variances, min_size=count, max_size=count)))
    _, g = gauss_hermite(count)
    mean, variance = match_moments(g, jax.numpy.asarray(u), jax.numpy.asarray(gamma))
    assert variance > 0
    assert variance >= np.sum(g * gamma) * (1 - 1e-12)
    assert np.isfinite(mean)
    assert np.isfinite(variance)


def test_the_variance_survives_a_mean_that_dwarfs_it():
    # E[f^2] - E[f]^2 would be 0 or negative here
    _, variance = matched(lambda f: 1e9 + f, lambda f: 1e-4 + 0 * f, 0.0, 1e-4, 5)
    assert variance == pytest.approx(2e-4, rel=1e-3)
