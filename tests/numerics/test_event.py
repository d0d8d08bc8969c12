"""The information about an event: limits in closed form, the beta distribution's own integral, brute force."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, ndtr, polygamma
from scipy.stats import norm

from fidelium.numerics.event import event_information

INFORMATION = jax.jit(event_information)


def information(z: float, share: float) -> float:
    variance = share * z * (1 - z)
    return float(INFORMATION(jnp.log(z), jnp.log(variance + z**2)))


@pytest.mark.parametrize("z", [1e-12, 1e-3, 0.2, 0.9])
def test_an_observation_that_decides_the_event_gives_its_whole_information(z: float):
    assert information(z, 1.0) == pytest.approx(-np.log1p(-z), rel=1e-9)


@pytest.mark.parametrize("z", [1e-8, 0.01, 0.3, 0.8])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.7, 0.95])
def test_it_is_the_expectation_over_a_beta_distribution(z: float, share: float):
    n = 1 / share - 1
    if z > 1e-6:
        assert information(z, share) == pytest.approx(
            digamma((1 - z) * n + 1) - digamma(n + 1) - np.log1p(-z), rel=1e-6
        )
    else:  # I = Z (1 - n psi'(n + 1)) + O(Z^2)
        assert information(z, share) == pytest.approx(z * (1 - n * polygamma(1, n + 1)), rel=1e-6)


def test_the_formula_of_the_beta_distribution_agrees_with_draws():
    z, share = 0.3, 0.4
    n = 1 / share - 1
    w = np.random.default_rng(0).beta((1 - z) * n, z * n, size=10**6)
    terms = w / (1 - z) * np.log(np.maximum(w, 1e-300) / (1 - z))
    assert abs(information(z, share) - terms.mean()) < 4 * terms.std() / 1e3


@pytest.mark.parametrize("z", [1e-6, 0.1, 0.7])
def test_little_variance_gives_half_of_it_relative_to_the_complement(z: float):
    for share in (1e-9, 1e-6, 1e-4):
        expected = 0.5 * share * z / (1 - z)
        assert information(z, share) == pytest.approx(expected, rel=max(1e-3, 2e-16 / (share * z) * 4))


@pytest.mark.parametrize("margin", [-3.0, -1.0, 0.5, 1.5])
@pytest.mark.parametrize("correlation", [0.3, 0.7, 0.95, 0.999])
def test_it_agrees_with_brute_force_for_a_normal_variable(margin: float, correlation: float):
    nodes = np.linspace(-9, 9, 40001)
    weights = norm.pdf(nodes) * (nodes[1] - nodes[0])
    given = ndtr((margin + correlation * nodes) / np.sqrt(1 - correlation**2))
    z, square = float(weights @ given), float(weights @ given**2)
    ratio = (1 - given) / (1 - z)
    exact = float(weights @ (ratio * np.log(np.maximum(ratio, 1e-300))))
    assert float(INFORMATION(jnp.log(z), jnp.log(square))) == pytest.approx(exact, rel=0.13)


def test_it_is_finite_and_smooth_everywhere():
    both = jax.jit(jax.vmap(jax.value_and_grad(event_information, argnums=(0, 1))))
    log_z = np.repeat([-600.0, -70.0, -3.0, -1e-3, -1e-12, 0.0], 6)
    log_square = log_z + np.tile([-500.0, -3.0, -1e-8, 0.0, 1e-12, 5.0], 6)  # inconsistent ones, too
    value, gradients = both(jnp.asarray(log_z), jnp.asarray(log_square))
    assert np.all(np.isfinite(value))
    assert np.all(np.asarray(value) >= 0)
    for gradient in gradients:
        assert np.all(np.isfinite(gradient))
