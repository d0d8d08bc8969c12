"""Frequencies: their features stand for the kernel of their name, and cover its spectrum more evenly than chance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fidelium.errors import SettingError
from fidelium.numerics import kernels
from fidelium.numerics.kernels import KERNELS, check_kernel, frequencies, normal_frequencies, student_frequencies
from fidelium.randomness import Key

DIMENSIONS = pytest.mark.parametrize("dimension", [1, 2, 5])


def rbf(r: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-(r**2) / 2)


def matern52(r: NDArray[np.float64]) -> NDArray[np.float64]:
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


BOTH = pytest.mark.parametrize(("name", "kernel"), [("rbf", rbf), ("matern52", matern52)])


def apart(dimension: int) -> NDArray[np.float64]:
    """Differences x - x' in random directions, of lengths from 0 to 3."""
    directions = np.random.default_rng(dimension).normal(size=(40, dimension))
    return np.linspace(0, 3, 40)[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)


def errors(w: NDArray[np.float64], kernel) -> NDArray[np.float64]:
    """The mean of cos(w . (x - x')) less the kernel."""
    differences = apart(w.shape[1])
    return np.cos(differences @ w.T).mean(axis=1) - kernel(np.linalg.norm(differences, axis=1))


@BOTH
@DIMENSIONS
def test_the_mean_of_the_cosines_is_the_kernel(name, kernel, dimension):
    # E[cos(w . (x - x'))] = k(x - x'), over the draws too: none of them is biased
    draws = np.array([errors(frequencies(name, 1024, dimension, Key((seed,))), kernel) for seed in range(30)])
    error = np.mean(draws, axis=0)
    assert np.all(np.abs(error) < 4.5 * np.std(draws, axis=0) / np.sqrt(30) + 1e-6)
    assert np.max(np.abs(error)) < 6e-3  # and a standard error of chance would be 1 / sqrt(2 * 30 * 1024) = 4e-3


@BOTH
@DIMENSIONS
def test_they_stand_for_the_kernel_better_than_random_ones(name, kernel, dimension):
    def random(generator: np.random.Generator) -> NDArray[np.float64]:
        normals = generator.normal(size=(100, dimension))
        return normals if name == "rbf" else normals / np.sqrt(generator.chisquare(5, size=(100, 1)) / 5)

    even = [np.mean(errors(frequencies(name, 100, dimension, Key((seed,))), kernel) ** 2) for seed in range(30)]
    by_chance = [np.mean(errors(random(np.random.default_rng(seed)), kernel) ** 2) for seed in range(30)]
    assert np.sqrt(np.mean(even)) < 0.85 * np.sqrt(np.mean(by_chance))


@DIMENSIONS
def test_every_component_has_the_distribution_of_the_spectrum(dimension):
    # Kolmogorov-Smirnov distances; evenly spread points are nearer than 1000 random ones (0.043 at 5 percent)
    normal = normal_frequencies(1000, dimension, Key((0,)))
    student = student_frequencies(1000, dimension, 5, Key((0,)))
    for column in range(dimension):
        assert stats.kstest(normal[:, column], stats.norm.cdf).statistic < 0.02
        assert stats.kstest(student[:, column], stats.t(5).cdf).statistic < 0.043


@pytest.mark.parametrize("degrees", [3, 5, 8])
def test_the_length_of_student_frequencies_has_an_f_distribution(degrees):
    # |w|^2 / d ~ F(d, degrees): one divisor for all components, else their tails would be those of a product
    dimension = 3
    w = student_frequencies(2000, dimension, degrees, Key((1,)))
    assert stats.kstest(np.sum(w**2, axis=1) / dimension, stats.f(dimension, degrees).cdf).statistic < 0.03


@pytest.mark.parametrize("count", [20, 100, 500])
@DIMENSIONS
def test_the_points_cover_the_cube_better_than_random_ones(dimension, count):
    even = [stats.qmc.discrepancy(kernels._even(count, dimension, Key((seed,)))) for seed in range(20)]
    uniform = [stats.qmc.discrepancy(np.random.default_rng(seed).random((count, dimension))) for seed in range(20)]
    assert np.mean(even) < 0.8 * np.mean(uniform)


@pytest.mark.parametrize("name", KERNELS)
@DIMENSIONS
def test_the_same_key_is_the_same_frequencies_and_another_key_others(name, dimension):
    first, again, other = (frequencies(name, 64, dimension, Key((word,))) for word in (1, 1, 2))
    assert first.shape == (64, dimension)
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (1, 30), (5000, 30)])
def test_frequencies_are_finite_for_any_count_and_dimension(name, count, dimension):
    w = frequencies(name, count, dimension, Key((0,)))
    assert w.shape == (count, dimension)
    assert np.all(np.isfinite(w))


def test_kernels_have_a_name_and_no_other_is_taken():
    for name in KERNELS:
        check_kernel(name)
    with pytest.raises(SettingError, match="kernel must be one of rbf, matern52, got 'periodic'"):
        check_kernel("periodic")
