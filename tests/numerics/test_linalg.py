"""Bayesian linear regression: the evidence is SciPy's density, the posterior the textbook's, padding is nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fidelium.numerics.linalg import condition_root_rows, dense_weight_posterior, log_evidence, log_normal

evidence = jax.jit(log_evidence)
evidence_gradients = jax.jit(jax.grad(log_evidence, argnums=(0, 1, 2)))
posterior = jax.jit(dense_weight_posterior)
conditioned = jax.jit(condition_root_rows)
normal = jax.jit(log_normal)

SHAPES = [(4, 9), (9, 4), (6, 6), (1, 3), (3, 1)]
FEWER_ROWS_AND_MORE = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "n{}-f{}".format(*shape))


def regression(shape: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, values and noise variances of a random problem."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=shape), generator.normal(size=shape[0]), generator.uniform(0.01, 2.0, size=shape[0])


def log_density(y: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    return float(multivariate_normal.logpdf(y, mean, covariance))  # pyright: ignore[reportArgumentType]


def padded(features, y, noise_var, extra: int) -> tuple[np.ndarray, ...]:
    """The same problem with rows of padding, whose noise is as arbitrary as their features and values."""
    count, width = features.shape
    return (
        np.concatenate([features, np.full((extra, width), 7.0)]),
        np.concatenate([y, np.full(extra, -3.0)]),
        np.concatenate([noise_var, np.full(extra, 0.3)]),
        np.concatenate([np.ones(count), np.zeros(extra)]),
    )


@FEWER_ROWS_AND_MORE
def test_the_evidence_is_the_density_of_the_values(shape):
    features, y, noise_var = regression(shape)
    density = log_density(y, np.zeros(shape[0]), features @ features.T + np.diag(noise_var))
    assert evidence(features, y, noise_var, np.ones(shape[0])) == pytest.approx(density, rel=1e-11)


@FEWER_ROWS_AND_MORE
def test_the_posterior_is_the_textbooks(shape):
    features, y, noise_var = regression(shape)
    mean, root = posterior(features, y, noise_var, np.ones(shape[0]))
    precision = np.eye(shape[1]) + features.T @ np.diag(1 / noise_var) @ features
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, features.T @ (y / noise_var)), rtol=1e-9, atol=1e-12)


@FEWER_ROWS_AND_MORE
def test_evidence_is_prior_times_likelihood_over_posterior(shape):
    # log p(y) = log p(y | w) + log p(w) - log q(w), at any w: Bayes' theorem ties the two functions together
    features, y, noise_var = regression(shape)
    mean, root = (np.asarray(part) for part in posterior(features, y, noise_var, np.ones(shape[0])))
    w = np.random.default_rng(1).normal(size=shape[1])
    likelihood = log_density(y, features @ w, np.diag(noise_var))
    prior = log_density(w, np.zeros(shape[1]), np.eye(shape[1]))
    q = log_density(w, mean, root @ root.T)
    assert evidence(features, y, noise_var, np.ones(shape[0])) == pytest.approx(likelihood + prior - q, rel=1e-9)


@FEWER_ROWS_AND_MORE
def test_padding_changes_neither_evidence_nor_gradient_nor_posterior(shape):
    features, y, noise_var = regression(shape)
    plain = (features, y, noise_var, np.ones(shape[0]))
    more = padded(features, y, noise_var, extra=12 - shape[0])
    assert evidence(*more) == pytest.approx(float(evidence(*plain)), rel=1e-10)
    for of_plain, of_more in zip(evidence_gradients(*plain), evidence_gradients(*more), strict=True):
        of_more = np.asarray(of_more)
        assert np.all(np.isfinite(of_more))
        np.testing.assert_allclose(of_more[: shape[0]], of_plain, rtol=1e-8, atol=1e-9)
        np.testing.assert_array_equal(of_more[shape[0] :], 0.0)
    for of_plain, of_more in zip(posterior(*plain), posterior(*more), strict=True):
        np.testing.assert_allclose(of_more, of_plain, rtol=1e-9, atol=1e-12)


def test_padding_alone_is_the_prior():
    features, y, noise_var, mask = padded(np.empty((0, 3)), np.empty(0), np.empty(0), 8)
    assert evidence(features, y, noise_var, mask) == 0.0
    mean, root = posterior(features, y, noise_var, mask)
    np.testing.assert_array_equal(mean, np.zeros(3))
    np.testing.assert_array_equal(root, np.eye(3))
    for gradient in evidence_gradients(features, y, noise_var, mask):
        np.testing.assert_array_equal(gradient, 0.0)


@FEWER_ROWS_AND_MORE
def test_the_gradient_of_the_evidence_matches_finite_differences(shape):
    features, y, noise_var = regression(shape)
    arguments = [features, y, noise_var]
    for position, gradient in enumerate(evidence_gradients(*arguments, np.ones(shape[0]))):
        direction = np.random.default_rng(2).normal(size=gradient.shape)
        sides = []
        for step in (1e-5, -1e-5):
            moved = list(arguments)
            moved[position] = moved[position] + step * direction
            sides.append(float(evidence(*moved, np.ones(shape[0]))))
        assert np.sum(gradient * direction) == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-5, abs=1e-7)


@FEWER_ROWS_AND_MORE
@pytest.mark.parametrize("more", [1, 3, 9])
def test_conditioning_the_root_is_refitting_with_the_rows_added(shape, more):
    features, y, noise_var = regression(shape)
    first = max(shape[0] - more, 0)
    _, before = posterior(features[:first], y[:first], noise_var[:first], np.ones(first))
    _, after = posterior(features, y, noise_var, np.ones(shape[0]))
    root = conditioned(before, features[first:], noise_var[first:], np.ones(shape[0] - first))
    np.testing.assert_allclose(root @ root.T, after @ after.T, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("size", [1, 4, 12])
def test_conditioning_from_the_prior_step_by_step_is_the_posterior_in_any_order(size):
    features, y, noise_var = regression((12, 5))
    _, whole = posterior(features, y, noise_var, np.ones(12))
    for order in (np.arange(12), np.arange(12)[::-1]):
        root = jnp.eye(5)
        for rows in order.reshape(-1, size):
            root = conditioned(root, features[rows], noise_var[rows], np.ones(size))
        np.testing.assert_allclose(root @ root.T, whole @ whole.T, rtol=1e-9, atol=1e-12)


@given(st.floats(1e-12, 1e12), st.floats(1e-6, 1e6), st.integers(1, 30))
def test_the_variance_at_an_observed_point_falls_as_one_over_the_observations(noise, size, times):
    # var after n observations of one point: 1 / (1/v + n / s), however small the noise
    phi = jnp.array([size, 0.0, 0.0])
    one_by_one = jnp.eye(3)
    for _ in range(times):
        one_by_one = conditioned(one_by_one, phi[None], jnp.array([noise]), jnp.ones(1))
    mask = (np.arange(30) < times).astype(float)  # one shape for all examples
    together = conditioned(jnp.eye(3), jnp.tile(phi, (30, 1)), jnp.full(30, noise), mask)
    for root in (one_by_one, together):
        variance = float(jnp.sum((root.T @ phi) ** 2))
        assert variance == pytest.approx(1 / (1 / size**2 + times / noise), rel=1e-3)
        assert float(root[1, 1]) == 1.0


@given(st.floats(1e-12, 1e3), st.integers(0, 10**6))
def test_the_variance_at_a_point_observed_in_any_direction_is_the_harmonic_sum(ratio, seed):
    # v s / (v + s), here with s = ratio v
    generator = np.random.default_rng(seed)
    root, phi = np.tril(generator.normal(size=(4, 4))) + 2 * np.eye(4), generator.normal(size=4)
    before = float(np.sum((root.T @ phi) ** 2))
    after = conditioned(root, phi[None], np.array([ratio * before]), np.ones(1))
    assert float(jnp.sum((after.T @ phi) ** 2)) == pytest.approx(before * ratio / (1 + ratio), rel=1e-3)


@pytest.mark.parametrize("noise", [1e-12, 1.0])
def test_padding_tells_nothing_however_small_its_noise(noise):
    root = np.tril(np.random.default_rng(0).normal(size=(5, 5))) + 3 * np.eye(5)
    features, _, noise_var = regression((6, 5))
    np.testing.assert_array_equal(conditioned(root, features, np.full(6, noise), np.zeros(6)), root)
    mask = (np.arange(6) < 2).astype(float)
    some = conditioned(root, features, np.where(mask > 0, noise_var, noise), mask)
    np.testing.assert_allclose(some, conditioned(root, features[:2], noise_var[:2], np.ones(2)), rtol=1e-11, atol=1e-13)


@FEWER_ROWS_AND_MORE
def test_the_density_of_a_normal_vector_is_scipys_and_padding_is_nothing(shape):
    features, y, noise_var = regression(shape)
    covariance = features @ features.T + np.diag(noise_var)
    assert normal(y, covariance, np.ones(shape[0])) == pytest.approx(log_density(y, 0 * y, covariance), rel=1e-11)
    more, more_y, more_noise, mask = padded(features, y, noise_var, extra=12 - shape[0])
    padding = more @ more.T + np.diag(more_noise)
    assert normal(more_y, padding, mask) == pytest.approx(log_density(y, 0 * y, covariance), rel=1e-11)
    gradients = jax.grad(log_normal, argnums=(0, 1))(jnp.asarray(more_y), jnp.asarray(padding), jnp.asarray(mask))
    for gradient in gradients:
        assert np.all(np.isfinite(gradient))
        np.testing.assert_array_equal(gradient[shape[0] :], 0.0)


@FEWER_ROWS_AND_MORE
def test_the_evidence_by_the_weights_and_by_the_values_is_one_number(shape):
    features, y, noise_var = regression(shape)
    by_values = normal(y, features @ features.T + np.diag(noise_var), np.ones(shape[0]))
    assert float(evidence(features, y, noise_var, np.ones(shape[0]))) == pytest.approx(float(by_values), rel=1e-10)


def test_features_of_any_size_give_finite_evidence_and_gradients():
    for size in (1e-8, 1e-3, 1e3):
        for shape in SHAPES:
            features, y, noise_var = regression(shape)
            features, noise_var = size * features, noise_var * 1e-8
            assert np.isfinite(evidence(features, y, noise_var, np.ones(shape[0])))
            for gradient in evidence_gradients(features, y, noise_var, np.ones(shape[0])):
                assert np.all(np.isfinite(gradient))


def test_repeated_rows_with_no_noise_to_speak_of_have_a_finite_posterior():
    features = np.tile(np.array([[1.0, 2.0, 3.0]]), (6, 1))
    mean, root = posterior(features, np.full(6, 14.0), np.full(6, 1e-10), np.ones(6))
    assert features[0] @ mean == pytest.approx(14.0, rel=1e-6)
    assert np.all(np.isfinite(root))
    assert float(jnp.sum((root.T @ features[0]) ** 2)) == pytest.approx(1e-10 / 6, rel=1e-3)


def test_the_derivative_of_the_normal_density_is_that_of_finite_differences_in_every_direction():
    generator = np.random.default_rng(3)
    root, y, mask = generator.normal(size=(5, 5)), generator.normal(size=5), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    at = (jnp.asarray(y), jnp.asarray(root @ root.T + np.eye(5)))
    density = jax.jit(lambda y, covariance: log_normal(y, covariance, jnp.asarray(mask)))
    for _ in range(4):
        change = generator.normal(size=(5, 5))
        direction = (jnp.asarray(generator.normal(size=5)), jnp.asarray(change + change.T))
        ahead, behind = (density(*(a + h * d for a, d in zip(at, direction, strict=True))) for h in (1e-5, -1e-5))
        _, forward = jax.jvp(density, at, direction)
        assert float(forward) == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-6)
        backward = sum(jnp.sum(g * d) for g, d in zip(jax.grad(density, (0, 1))(*at), direction, strict=True))
        assert float(backward) == pytest.approx(float(forward), rel=1e-12)
