"""Roots of a covariance: the low rank and the dense one are the same matrix, and conditioning is the textbook's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.numerics.linalg import DenseRoot, LowRankRoot, Root, weight_posterior
from fidelium.numerics.padding import SMALLEST_BUCKET

posterior = jax.jit(weight_posterior)


def matrix(root: Root, size: int) -> np.ndarray:
    return np.asarray(root.after(jnp.eye(size)))


def problem(count: int, weights: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, values, noise variances and a mask whose last two rows are padding."""
    generator = np.random.default_rng(seed)
    mask = np.concatenate([np.ones(count), np.zeros(2)])
    shape = count + 2, weights
    return generator.normal(size=shape), generator.normal(size=shape[0]), 10 ** generator.uniform(-6, 0, shape[0]), mask


@pytest.mark.parametrize(("count", "kind"), [(3, LowRankRoot), (18, LowRankRoot), (19, DenseRoot), (60, DenseRoot)])
def test_the_posterior_is_the_textbooks_whatever_the_kind_of_root(count, kind):
    features, y, noise_var, mask = problem(count, 40)
    mean, root = posterior(features, y, noise_var, mask)
    assert isinstance(root, kind)
    real = mask > 0
    precision = np.eye(40) + (features[real] / noise_var[real, None]).T @ features[real]
    both = matrix(root, 40)
    np.testing.assert_allclose(both @ both.T, np.linalg.inv(precision), rtol=1e-5, atol=1e-9)
    expected = np.linalg.solve(precision, features[real].T @ (y[real] / noise_var[real]))
    np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("count", [3, 60])
def test_products_from_both_sides_are_those_of_one_matrix(count):
    root = posterior(*problem(count, 40))[1]
    both, vector = matrix(root, 40), jnp.asarray(np.random.default_rng(1).normal(size=40))
    np.testing.assert_allclose(root.times(vector), both @ vector, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(root.after(vector[None, :11])[0], vector[:11] @ both[:11], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [3, 60])
def test_conditioning_on_more_observations_is_observing_all_of_them_at_once(count):
    features, y, noise_var, mask = problem(count, 40)
    more, more_var = np.random.default_rng(2).normal(size=(3, 40)), np.array([0.1, 1.0, 1e-4])
    root = posterior(features, y, noise_var, mask)[1]
    conditioned = root.conditioned(root.after(jnp.asarray(more)) / np.sqrt(more_var)[:, None]).compact()
    ones = np.concatenate([mask, np.ones(3)])
    arguments = (np.concatenate(pair) for pair in ((features, more), (y, np.zeros(3)), (noise_var, more_var)))
    together = matrix(posterior(*arguments, ones)[1], 40)
    found = matrix(conditioned, 40)
    np.testing.assert_allclose(found @ found.T, together @ together.T, rtol=1e-5, atol=1e-9)


def test_pending_rows_take_the_place_of_padding_so_that_nothing_is_compiled_anew():
    generator = np.random.default_rng(0)
    features = np.concatenate([generator.normal(size=(20, 80)), np.zeros((12, 80))])
    mask = np.concatenate([np.ones(20), np.zeros(12)])
    root = posterior(features, np.zeros(32), np.ones(32), mask)[1]
    conditioned = root.conditioned(jnp.asarray(generator.normal(size=(5, 80))))
    compact = conditioned.compact()
    assert isinstance(compact, LowRankRoot)
    assert compact.left.shape == (SMALLEST_BUCKET, 80)
    np.testing.assert_allclose(matrix(compact, 80), matrix(conditioned, 80), atol=1e-12)


@pytest.mark.parametrize("count", [200, 60], ids=["low rank", "dense"])
def test_values_close_to_each_other_are_predicted_to_the_last_digits_of_a_little_noise(count):
    # a cubic at points 1e-4 apart, with a noise of 1e-7: by the squares of singular values the error was 8e-5
    generator = np.random.default_rng(0)
    frequencies, phases = generator.normal(size=count), generator.uniform(0, 2 * np.pi, count)

    def rows(x):
        return np.cos(np.asarray(x)[:, None] * frequencies[None] + phases[None]) * np.sqrt(2 / count) * 30

    x = np.concatenate([np.linspace(-1, 1, 20), 0.3 + 1e-4 * generator.normal(size=20)])
    mean, _ = posterior(rows(x), x**3 - x, np.full(40, 1e-14), np.ones(40))
    between = 0.3 + 1e-4 * np.linspace(-1, 1, 5)
    np.testing.assert_allclose(rows(between) @ mean, between**3 - between, atol=1e-7)


def test_what_is_known_to_eight_digits_keeps_its_digits():
    # one weight observed with noise 1e-8: its posterior standard deviation is 1e-8, not rounding
    features = np.zeros((1, 4))
    features[0, 2] = 1.0
    root = posterior(features, np.ones(1), np.full(1, 1e-16), np.ones(1))[1]
    assert np.linalg.norm(matrix(root, 4)[2]) == pytest.approx(1e-8, rel=1e-6)
