"""The truncated normal against SciPy, against quadrature that does not cancel, and at the ends of the float range."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from fidelium.numerics import normal
from fidelium.numerics.normal import (
    bivariate_excess,
    log_cdf,
    log_improvement,
    truncated_variance,
    truncation_entropy_loss,
)

SWITCH = normal._TAIL
FUNCTIONS = [truncated_variance, truncation_entropy_loss, log_cdf]


def of_all(function, betas) -> NDArray[np.float64]:
    return np.asarray(jax.jit(jax.vmap(function))(np.asarray(betas, dtype=float)))


def slopes(function, betas) -> NDArray[np.float64]:
    return np.asarray(jax.jit(jax.vmap(jax.grad(function)))(np.asarray(betas, dtype=float)))


def in_the_tail(beta: float) -> tuple[float, float]:
    """Variance of z given z <= beta << 0, and the entropy lost, without cancellation.

    With z = beta - u / |beta| the density of u >= 0 is exp(-u - u^2 / (2 beta^2)): Gauss-Laguerre.
    """
    u, weights = special.roots_laguerre(80)
    density = weights * np.exp(-0.5 * (u / beta) ** 2)
    z = density.sum()
    mean = np.sum(density * u) / z
    variance = np.sum(density * (u - mean) ** 2) / z / beta**2
    entropy = np.log(z) + np.sum(density * (u + 0.5 * (u / beta) ** 2)) / z - np.log(-beta)
    return variance, 0.5 * np.log(2 * np.pi * np.e) - entropy


def test_the_variance_is_that_of_scipys_truncated_normal():
    betas = np.linspace(-8, 6, 57)
    np.testing.assert_allclose(of_all(truncated_variance, betas), stats.truncnorm(-np.inf, betas).var(), rtol=1e-8)


def test_the_entropy_lost_is_that_of_scipys_truncated_normal():
    betas = np.linspace(-8, 6, 57)
    lost = stats.norm.entropy() - stats.truncnorm(-1e3, betas).entropy()
    np.testing.assert_allclose(of_all(truncation_entropy_loss, betas), lost, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("beta", [-10.0, -19.99, -20.01, -30.0, -40.0, -100.0, -1e3, -1e4, -1e6])
def test_both_are_right_far_down_the_tail(beta):
    variance, lost = in_the_tail(beta)
    assert of_all(truncated_variance, [beta])[0] == pytest.approx(variance, rel=1e-6)
    assert of_all(truncation_entropy_loss, [beta])[0] == pytest.approx(lost, rel=1e-8)


@pytest.mark.parametrize("function", FUNCTIONS[:2], ids=lambda f: f.__name__)
def test_value_and_slope_are_continuous_where_the_series_takes_over(function):
    below, above = SWITCH - 1e-7, SWITCH + 1e-7
    assert of_all(function, [below])[0] == pytest.approx(of_all(function, [above])[0], rel=1e-7)
    assert slopes(function, [below])[0] == pytest.approx(slopes(function, [above])[0], rel=1e-4)


def test_without_truncation_nothing_is_lost():
    betas = [10.0, 40.0, 1e4, 1e9, 1e200]
    np.testing.assert_allclose(of_all(truncated_variance, betas), 1.0, rtol=1e-15)
    np.testing.assert_allclose(of_all(truncation_entropy_loss, betas), 0.0, atol=1e-15)
    np.testing.assert_allclose(of_all(log_cdf, betas), 0.0, atol=1e-15)


def test_at_beta_zero_the_half_normal():
    assert of_all(truncated_variance, [0.0])[0] == pytest.approx(1 - 2 / np.pi, rel=1e-14)
    assert of_all(truncation_entropy_loss, [0.0])[0] == pytest.approx(np.log(2), rel=1e-14)


def test_the_variance_rises_and_the_loss_falls_with_beta():
    betas = np.linspace(-60, 5, 400)
    assert np.all(np.diff(of_all(truncated_variance, betas)) > 0)
    assert np.all(np.diff(of_all(truncation_entropy_loss, betas)) < 0)


FAR = np.concatenate([-np.logspace(9, -9, 73), [0.0], np.logspace(-9, 9, 73), [SWITCH]])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_gradients_are_finite_from_minus_to_plus_a_billion(function):
    assert np.all(np.isfinite(of_all(function, FAR)))
    assert np.all(np.isfinite(slopes(function, FAR)))


def test_the_variance_stays_in_0_1_and_the_loss_is_never_negative():
    variance = of_all(truncated_variance, FAR)
    assert np.all((variance > 0) & (variance <= 1))
    assert np.all(of_all(truncation_entropy_loss, FAR) >= 0)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_match_finite_differences(function):
    betas = np.array([-1e5, -2e3, -300.0, -50.0, -31.0, -20.0, -5.0, -1.0, 0.0, 1.0, 3.0])
    step = 1e-4 * np.maximum(1.0, np.abs(betas))
    difference = (of_all(function, betas + step) - of_all(function, betas - step)) / (2 * step)
    np.testing.assert_allclose(slopes(function, betas), difference, rtol=2e-5, atol=1e-9)


def test_log_cdf_is_scipys():
    betas = np.array([-1e7, -1e3, -38.0, -19.0, -5.0, 0.0, 2.0, 5.0])
    np.testing.assert_allclose(of_all(log_cdf, betas), special.log_ndtr(betas), rtol=1e-9)


# z, log(phi(z) + z Phi(z)) and Phi(z) / (phi(z) + z Phi(z)), computed by mpmath with 60 digits and more
IMPROVEMENT = np.array(
    [
        (-1e6, -500000000028.55, 1000000.000002),
        (-1e3, -500014.73445209116, 1000.001999994),
        (-40.0, -808.29856835662, 40.04990665764852),
        (-22.0, -249.10717756158823, 22.0903535924958),
        (-20.0, -206.9178385094251, 20.099262811101283),
        (-18.0, -168.70884325865197, 18.110103880027143),
        (-10.0, -55.55312203612235, 10.194383033412553),
        (-5.0, -16.74430116266099, 5.361816241288088),
        (-1.0, -2.4851210257126413, 1.9042712333296918),
        (0.0, -0.9189385332046728, 1.2533141373155003),
        (1.0, 0.08002621884930694, 0.7766387252017393),
        (5.0, 1.6094379231264313, 0.19999994053122006),
        (40.0, 3.6888794541139363, 0.025),
        (1e6, 13.815510557964274, 1e-6),
    ]
)


def test_the_log_improvement_and_its_slope_are_right_to_many_digits():
    z, value, slope = IMPROVEMENT.T
    np.testing.assert_allclose(of_all(log_improvement, z), value, rtol=1e-13, atol=1e-11)
    np.testing.assert_allclose(slopes(log_improvement, z), slope, rtol=1e-11)


def test_the_log_improvement_and_its_slope_are_finite_everywhere_and_it_never_falls():
    z = np.unique(FAR)
    assert np.all(np.isfinite(of_all(log_improvement, z)))
    assert np.all(np.isfinite(slopes(log_improvement, z)))
    assert np.all(np.diff(of_all(log_improvement, z)) >= 0)
    near = np.linspace(-60, 30, 2001)
    assert np.all(np.diff(of_all(log_improvement, near)) > 0)


def test_the_log_improvement_is_continuous_where_the_series_takes_over():
    below, above = SWITCH - 1e-9, SWITCH + 1e-9
    expected = 2e-9 * slopes(log_improvement, [above])[0]
    rise = of_all(log_improvement, [above])[0] - of_all(log_improvement, [below])[0]
    assert rise == pytest.approx(expected, abs=1e-10)
    assert slopes(log_improvement, [below])[0] == pytest.approx(slopes(log_improvement, [above])[0], rel=1e-9)


# a, b, r and Phi_2(a, b; r) - Phi(a) Phi(b), by mpmath's quadrature of Plackett's identity with 40 digits
EXCESS = np.array(
    [
        (0, 0, 0.5, 0.0833333333333333),
        (0, 0, -0.99, -0.227473293177794),
        (0.001, 0, 0.999, 0.242880003299771),
        (0.3, -0.3, 0.8, 0.122070697913632),
        (1, 1, 0.3, 0.0202863589155488),
        (-1, 2.5, 0.97, 0.000985196029090377),
        (-3, -3.01, 0.9999, 0.00129576019094202),
        (-3, -3, 0.9999, 0.00132307344672377),
        (2, 2.001, 0.999999, 0.0221690854723936),
        (-6, -6, 0.5, 3.893578333408e-13),
        (-6, -6, 0.99, 6.53562456861822e-10),
        (-6, -6, -0.5, -9.73355181341031e-19),
        (-6, -2, 0.01, 3.48304689587434e-12),
        (-6, 6, 0.3, 9.73355079791138e-19),
        (6, 7, 0.9, 1.05679506562066e-12),
        (-12, -12, 0.8, 1.00783497915243e-37),
        (-12, -30, 0.8, 4.90671392859282e-198),
        (-1, -1.5, 1e-07, 3.13394688117133e-9),
        (-1, -1.5, 1e-05, 3.13397015072517e-7),
    ]
)


def excess(a, b, r) -> NDArray[np.float64]:
    a, b, r = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in (a, b, r)))
    return np.asarray(jax.jit(jax.vmap(bivariate_excess))(a.ravel(), b.ravel(), r.ravel()))


def excess_slopes(a, b, r) -> list[NDArray[np.float64]]:
    rows = (np.asarray(each, dtype=float) for each in (a, b, r))
    return [np.asarray(each) for each in jax.jit(jax.vmap(jax.grad(bivariate_excess, (0, 1, 2))))(*rows)]


def test_the_excess_is_right_to_many_digits_of_itself_however_small():
    a, b, r, value = EXCESS.T
    np.testing.assert_allclose(excess(a, b, r), value, rtol=3e-7, atol=0)
    central = np.maximum(np.abs(a), np.abs(b)) <= 7
    np.testing.assert_allclose(excess(a, b, r)[central], value[central], rtol=1e-8, atol=0)


def test_the_excess_completes_scipys_distribution_of_two_variables():
    generator = np.random.default_rng(0)
    a, b, r = generator.normal(size=40), generator.normal(size=40), generator.uniform(-0.999, 0.999, size=40)
    whole = [
        stats.multivariate_normal.cdf(np.array([a[i], b[i]]), cov=np.array([[1, r[i]], [r[i], 1]]))  # pyright: ignore[reportArgumentType]
        for i in range(len(a))
    ]
    np.testing.assert_allclose(special.ndtr(a) * special.ndtr(b) + excess(a, b, r), whole, atol=1e-8)


def test_the_excess_has_the_symmetries_of_the_normal():
    generator = np.random.default_rng(1)
    a, b, r = 3 * generator.normal(size=200), 3 * generator.normal(size=200), generator.uniform(-1, 1, size=200)
    here = excess(a, b, r)
    np.testing.assert_allclose(excess(b, a, r), here, rtol=1e-9)
    np.testing.assert_allclose(excess(-a, -b, r), here, rtol=1e-9)
    np.testing.assert_allclose(excess(a, -b, -r), -here, rtol=1e-9)
    np.testing.assert_array_equal(np.sign(here), np.sign(r))
    np.testing.assert_array_equal(excess(a, b, np.zeros(200)), 0.0)


def test_with_full_correlation_the_smaller_bound_decides():
    a, b = (each.ravel() for each in np.meshgrid([-7.0, -1.0, -0.2, 0.0, 0.4, 3.0], [-6.0, -1.0, 0.0, 0.5, 3.0]))
    low, high = np.minimum(a, b), np.maximum(a, b)
    np.testing.assert_allclose(excess(a, b, np.ones(len(a))), special.ndtr(low) * special.ndtr(-high), rtol=1e-6)


WIDE = [each.ravel() for each in np.meshgrid(FAR[::8], FAR[::8], [-1.0, -0.9, -1e-6, 0.0, 1e-9, 0.5, 0.999999, 1.0])]


def test_the_excess_and_its_slopes_are_finite_and_of_the_right_sign_everywhere():
    here = excess(*WIDE)
    assert np.all(np.isfinite(here))
    assert np.all(here * WIDE[2] >= 0)
    assert np.all(np.abs(here) <= 0.25 + 1e-6)
    assert all(np.all(np.isfinite(each)) for each in excess_slopes(*WIDE))


def test_the_slopes_of_the_excess_match_finite_differences():
    generator = np.random.default_rng(2)
    at = np.stack([2 * generator.normal(size=100), 2 * generator.normal(size=100), generator.uniform(-0.95, 0.95, 100)])
    found = excess_slopes(*at)
    for i in range(3):
        step = np.zeros((3, 1))
        step[i] = 1e-5
        difference = (excess(*(at + step)) - excess(*(at - step))) / 2e-5
        np.testing.assert_allclose(found[i], difference, rtol=1e-5, atol=1e-10)
