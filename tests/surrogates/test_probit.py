"""Expectation propagation against the exact posterior, by importance sampling and by quadrature."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.special import ndtr

from fidelium.numerics.padding import pad_rows
from fidelium.surrogates.gp.probit import LEAST_PRECISION, Labels, labels_log_evidence, match_sites

OFFSET, RANDOM = 2.0, 0.05
X = np.array([0.1, 0.3, 0.35, 0.6, 0.9])
SUCCEEDED = np.array([1.0, 1.0, 0.0, 0.0, 1.0])


def gram_of(x: NDArray[np.float64], amplitude: float = 2.0, length: float = 0.3) -> Array:
    return jnp.asarray(amplitude**2 * np.exp(-0.5 * ((x[:, None] - x[None, :]) / length) ** 2))


def labels_of(succeeded: NDArray[np.float64]) -> Labels:
    return Labels(jnp.asarray(succeeded), jnp.ones(len(succeeded)))


def likelihood(g: NDArray[np.float64], succeeded: NDArray[np.float64], random: float) -> NDArray[np.float64]:
    success = (1 - random) * ndtr(OFFSET + g)
    return np.prod(np.where(succeeded > 0, success, 1 - success), axis=-1)


def exactly(succeeded: NDArray[np.float64], random: float) -> tuple[float, NDArray[np.float64]]:
    """log P(labels) and the posterior mean of g at the rows, from 10^6 draws of the prior."""
    chol = np.linalg.cholesky(np.asarray(gram_of(X)) + 1e-9 * np.eye(len(X)))
    g = np.random.default_rng(0).normal(size=(10**6, len(X))) @ chol.T
    weight = likelihood(g, succeeded, random)
    return float(np.log(weight.mean())), weight @ g / weight.sum()


def evidence(gram: Array, succeeded: NDArray[np.float64], random: float = RANDOM) -> float:
    return float(labels_log_evidence(gram, labels_of(succeeded), jnp.asarray(OFFSET), jnp.asarray(random)))


@pytest.mark.parametrize("succeeded", [SUCCEEDED, 1 - SUCCEEDED, np.ones(5), np.zeros(5)], ids=str)
@pytest.mark.parametrize("random", [0.01, 0.2])
def test_evidence_and_mean_are_those_of_a_million_draws(succeeded, random):
    value, mean = exactly(succeeded, random)
    assert evidence(gram_of(X), succeeded, random) == pytest.approx(value, abs=0.08)
    sites = match_sites(gram_of(X), labels_of(succeeded), jnp.asarray(OFFSET), jnp.asarray(random))
    k, y, noise_var = (np.asarray(each) for each in (gram_of(X), sites.shift / sites.precision, 1 / sites.precision))
    np.testing.assert_allclose(k @ np.linalg.solve(k + np.diag(noise_var), y), mean, atol=0.15)


def test_one_label_is_exact():
    gram = gram_of(X[:1])
    for succeeded in (np.ones(1), np.zeros(1)):
        success = (1 - RANDOM) * ndtr(OFFSET / np.sqrt(1 + float(gram[0, 0])))
        expected = np.log(success if succeeded[0] else 1 - success)
        assert evidence(gram, succeeded) == pytest.approx(expected, abs=1e-9)


def test_independent_labels_are_exact():
    each = [evidence(gram_of(X[:1]), SUCCEEDED[i : i + 1]) for i in range(len(X))]
    assert evidence(4.0 * jnp.eye(len(X)), SUCCEEDED) == pytest.approx(sum(each), abs=1e-9)


def test_padding_counts_for_nothing():
    padded = Labels(jnp.asarray(pad_rows(SUCCEEDED, 8)), jnp.asarray(pad_rows(np.ones(5), 8)))
    gram = gram_of(pad_rows(X, 8))
    value = float(labels_log_evidence(gram, padded, jnp.asarray(OFFSET), jnp.asarray(RANDOM)))
    assert value == pytest.approx(evidence(gram_of(X), SUCCEEDED), abs=1e-9)
    sites = match_sites(gram, padded, jnp.asarray(OFFSET), jnp.asarray(RANDOM))
    alone = match_sites(gram_of(X), labels_of(SUCCEEDED), jnp.asarray(OFFSET), jnp.asarray(RANDOM))
    np.testing.assert_allclose(sites.shift[:5], alone.shift, atol=1e-9)


def test_the_gradient_of_the_evidence_matches_finite_differences():
    def value(log_scale: Array, offset: Array, random: Array) -> Array:
        gram = jnp.exp(2 * log_scale) * gram_of(X)
        return labels_log_evidence(gram, labels_of(SUCCEEDED), offset, random)

    at = (jnp.asarray(0.2), jnp.asarray(OFFSET), jnp.asarray(RANDOM))
    slopes = jax.grad(value, (0, 1, 2))(*at)
    for i, slope in enumerate(slopes):
        up, down = (tuple(a + sign * 1e-2 * (j == i) for j, a in enumerate(at)) for sign in (1, -1))
        assert float(slope) == pytest.approx(float(value(*up) - value(*down)) / 2e-2, rel=0.02, abs=2e-3)


def test_a_failure_among_many_successes_is_taken_for_random():
    x = np.linspace(0.5, 0.53, 30)
    succeeded = np.ones(30)
    succeeded[7] = 0.0
    sites = match_sites(gram_of(x), labels_of(succeeded), jnp.asarray(OFFSET), jnp.asarray(0.2))
    assert float(sites.precision[7]) == pytest.approx(LEAST_PRECISION, rel=1e-3)
    assert np.min(np.asarray(sites.precision)[succeeded > 0]) > LEAST_PRECISION
