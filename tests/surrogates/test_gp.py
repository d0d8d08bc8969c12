"""The laws of the Gaussian processes: evidence and posterior in closed form, kernels, limits, features, jitter."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.typing import NDArray
from scipy import special
from scipy.stats import multivariate_normal

from fidelium.errors import SettingError
from fidelium.history import Observations
from fidelium.numerics.kernels import Kernel, frequencies
from fidelium.randomness import Key
from fidelium.surrogates.gp.covariances import (
    BIAS,
    Additive,
    Convolved,
    ConvolvedProcesses,
    Coregionalised,
    CovarianceFamily,
    Independent,
    LatentParameters,
)
from fidelium.surrogates.gp.exact import JITTERS, Covariance, ExactGP, Rows, process_log_evidence
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.gp.nonlinear import LayerCovariance, NonlinearAutoregressive, RelationCovariance
from fidelium.surrogates.learning import ProcessParameters, normal_like
from fidelium.surrogates.multitask_nn import SharedFeatures

DIMENSION, FIDELITIES, COUNT = 2, 3, 12
FAMILIES: dict[str, CovarianceFamily] = {
    "independent": Independent(),
    "independent, matern52": Independent("matern52"),
    "additive": Additive(),
    "additive, rho = 0.5": Additive(rho=0.5),
    "coregionalised": Coregionalised(),
    "convolved": Convolved(),
    "shared features": SharedFeatures(),
}
EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def of(family: CovarianceFamily, seed: int = 0) -> Covariance:
    """The covariance at a point drawn from the prior of theta."""
    prior = family.prior(DIMENSION, FIDELITIES, Key((seed,)))
    step = normal_like(prior.mean, np.random.default_rng(seed))
    theta = jax.tree.map(lambda mean, std, step: jnp.asarray(mean + 0.5 * std * step), prior.mean, prior.std, step)
    return family.covariance(theta, FIDELITIES)


def some_points(count: int = COUNT, seed: int = 1) -> tuple[Array, Array]:
    """Points (x, fidelity), every fidelity among them."""
    x = np.random.default_rng(seed).random((count, DIMENSION))
    return jnp.asarray(x), jnp.arange(count) % FIDELITIES


@jax.jit
def matrix(covariance: Covariance, at: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
    return jax.vmap(lambda p: jax.vmap(lambda q: covariance(p, q))(other))(at)


@jax.jit
def moments(process: ExactGP, at: tuple[Array, Array]) -> tuple[Array, Array]:
    return jax.vmap(process.moments)(at)


@jax.jit
def joint(process: ExactGP, p: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    return process.joint(p, other)


@partial(jax.jit, static_argnums=1)
def draws(process: ExactGP, count: int, at: tuple[Array, Array]) -> Array:
    """Draws of the process at these points, a row each."""
    drawn = process.draw(jax.random.key(0), count)
    return jax.vmap(lambda draw: jax.vmap(lambda p: process.value(draw, p))(at))(drawn)


def some_rows(at: tuple[Array, Array], noise: float = 0.01, padding: int = 0, seed: int = 2) -> Rows:
    """Observations with random values; what is in the padding must not matter."""
    generator = np.random.default_rng(seed)
    count = len(at[0])
    y, noise_var = generator.normal(size=count), noise * (1 + generator.random(count))
    at = (jnp.pad(at[0], ((0, padding), (0, 0)), constant_values=0.5), jnp.pad(at[1], (0, padding)))
    y = np.pad(y, (0, padding), constant_values=1e6)
    noise_var = np.pad(noise_var, (0, padding), constant_values=3.0)
    mask = np.pad(np.ones(count), (0, padding))
    return Rows(at, jnp.asarray(y), jnp.asarray(noise_var), jnp.asarray(mask))


def process_of(family: CovarianceFamily, rows: Rows, frequencies: int = 256) -> ExactGP:
    drawn = family.frequencies(frequencies, DIMENSION, FIDELITIES, Key((9,)))
    return ExactGP.of(of(family), jax.tree.map(jnp.asarray, drawn), rows)


# --- evidence and posterior


@EVERY_FAMILY
def test_the_evidence_is_scipys_normal_density(family):
    at = some_points()
    rows = some_rows(at)
    gram = np.asarray(matrix(of(family), at, at)) + np.diag(np.asarray(rows.noise_var))
    expected = multivariate_normal.logpdf(np.asarray(rows.y), cov=gram)  # pyright: ignore[reportArgumentType]
    assert float(jax.jit(process_log_evidence)(of(family), rows)) == pytest.approx(expected, rel=1e-8)


@EVERY_FAMILY
def test_mean_and_covariance_are_those_of_conditioned_normals(family):
    at, other = some_points(), some_points(5, seed=3)
    rows = some_rows(at)
    covariance, process = of(family), process_of(family, rows)
    gram = np.asarray(matrix(covariance, at, at)) + np.diag(np.asarray(rows.noise_var))
    k = np.asarray(matrix(covariance, other, at))
    means = k @ np.linalg.solve(gram, np.asarray(rows.y))
    covariances = np.asarray(matrix(covariance, other, other)) - k @ np.linalg.solve(gram, k.T)
    found_means, found_variances = moments(process, other)
    np.testing.assert_allclose(found_means, means, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found_variances, np.diag(covariances), rtol=1e-6, atol=1e-9)
    pair = joint(process, *[(other[0][i], other[1][i]) for i in range(2)])
    np.testing.assert_allclose(pair[0], means[:2], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(pair[1], covariances[:2, :2], rtol=1e-6, atol=1e-9)


def test_padding_changes_nothing():
    family, at, other = Coregionalised(), some_points(), some_points(5, seed=3)
    plain, padded = some_rows(at), some_rows(at, padding=20)
    assert float(process_log_evidence(of(family), padded)) == pytest.approx(
        float(process_log_evidence(of(family), plain)), rel=1e-12
    )
    for found, expected in zip(
        moments(process_of(family, padded), other), moments(process_of(family, plain), other), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    drawn = process_of(family, padded).draw(jax.random.key(0), 4)
    np.testing.assert_array_equal(drawn.update[:, COUNT:], 0.0)


def test_an_expected_observation_is_an_observation_of_the_mean():
    family, at, other = Additive(), some_points(), some_points(6, seed=3)
    rows = some_rows(at)
    process = process_of(family, rows)
    more = process.given(other, jnp.full(6, 0.02), jnp.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
    together = jax.tree.map(
        lambda a, b: jnp.concatenate([a, b[:3]]),
        rows,
        Rows(other, moments(process, other)[0], jnp.full(6, 0.02), jnp.ones(6)),
    )
    expected = moments(process_of(family, together), other)
    np.testing.assert_allclose(moments(more, other)[0], moments(process, other)[0], rtol=1e-9)
    np.testing.assert_allclose(moments(more, other)[1], expected[1], rtol=1e-8)
    assert np.all(expected[1][:3] < 0.021)


# --- kernels


def matern(distance: NDArray[np.float64], smoothness: float) -> NDArray[np.float64]:
    """2^(1 - nu) / Gamma(nu) s^nu K_nu(s), s = sqrt(2 nu) r (Rasmussen and Williams 2006, eq. (4.14))."""
    s = np.sqrt(2 * smoothness) * distance
    return 2 ** (1 - smoothness) / special.gamma(smoothness) * s**smoothness * special.kv(smoothness, s)


def test_the_matern_kernel_is_that_of_the_bessel_function():
    lengths = np.array([0.3, 1.7])
    kernel = Kernel(jnp.log(lengths), "matern52")
    x, other = np.random.default_rng(0).random((2, 50, 2))
    distance = np.sqrt(np.sum(((x - other) / lengths) ** 2, axis=1))
    np.testing.assert_allclose(jax.vmap(kernel)(jnp.asarray(x), jnp.asarray(other)), matern(distance, 2.5), rtol=1e-9)


def test_the_squared_exponential_kernel_has_a_length_per_coordinate():
    kernel = Kernel(jnp.log(jnp.array([0.5, 2.0])))
    # exp(-(0.5 / 0.5)^2 / 2 - (1 / 2)^2 / 2) = exp(-5 / 8)
    assert float(kernel(jnp.zeros(2), jnp.array([0.5, 1.0]))) == pytest.approx(np.exp(-0.625), rel=1e-14)


@pytest.mark.parametrize("name", ["rbf", "matern52"])
def test_kernels_are_one_at_no_distance_and_flat_there(name):
    kernel, x = Kernel(jnp.log(jnp.array([0.2, 0.7])), name), jnp.array([0.3, 0.9])
    assert float(kernel(x, x)) == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(jax.grad(kernel)(x, x), 0.0, atol=1e-8)
    of_lengths = eqx.filter_grad(lambda kernel: kernel(x, x))(kernel)
    np.testing.assert_allclose(of_lengths.log_length, 0.0, atol=1e-12)
    assert np.all(np.isfinite(jax.hessian(kernel)(x, x)))


def test_an_unknown_kernel_is_refused():
    for make in (Independent, Additive, Coregionalised, NonlinearAutoregressive):
        with pytest.raises(SettingError, match="periodic"):
            make(kernel="periodic")
    with pytest.raises(SettingError, match="0"):
        Coregionalised(latent=0)


@EVERY_FAMILY
def test_covariances_are_symmetric_and_positive_definite(family):
    for seed in range(3):
        at = some_points(30, seed)
        k = np.asarray(matrix(of(family, seed), at, at))
        np.testing.assert_allclose(k, k.T, rtol=1e-12)
        assert np.linalg.eigvalsh(k)[0] > -1e-9 * np.trace(k)


# --- how fidelities belong together


def cross_correlations(family: CovarianceFamily, theta: Any) -> NDArray[np.float64]:
    """Correlations of all fidelities at one point."""
    covariance = family.covariance(jax.tree.map(jnp.asarray, theta), FIDELITIES)
    at = (jnp.full((FIDELITIES, DIMENSION), 0.4), jnp.arange(FIDELITIES))
    k = np.asarray(matrix(covariance, at, at))
    return k / np.sqrt(np.outer(np.diag(k), np.diag(k)))


def test_additive_fidelities_with_rho_0_are_independent():
    family = Additive(rho=0.0)
    theta = family.prior(DIMENSION, FIDELITIES, Key((0,))).mean
    np.testing.assert_allclose(cross_correlations(family, theta), np.eye(FIDELITIES), atol=1e-15)
    # and the process of every fidelity is that of the independent ones with the same amplitudes and lengths
    at = some_points()
    additive, independent = (each.covariance(theta, FIDELITIES) for each in (family, Independent()))
    np.testing.assert_allclose(matrix(additive, at, at), matrix(independent, at, at), rtol=1e-13)


def test_additive_fidelities_with_rho_1_share_all_of_the_lower_one():
    family = Additive(rho=1.0)
    covariance = family.covariance(family.prior(DIMENSION, FIDELITIES, Key((0,))).mean, FIDELITIES)
    x, other = jnp.array([0.2, 0.3]), jnp.array([0.4, 0.9])
    low = covariance((x, jnp.asarray(0)), (other, jnp.asarray(0)))
    for m in (1, 2):  # cov(f_m, f_1) = cov(f_1, f_1), for f_m = f_1 + independent parts
        assert float(covariance((x, jnp.asarray(m)), (other, jnp.asarray(0)))) == pytest.approx(float(low), rel=1e-13)


def test_the_autoregression_is_that_of_kennedy_and_ohagan():
    rho = -1.3
    theta = Additive(rho=rho).prior(DIMENSION, FIDELITIES, Key((0,))).mean
    x, other = np.array([0.2, 0.3]), np.array([0.4, 0.9])
    kappa = [
        np.exp(2 * each.log_amplitude) * (np.exp(-0.5 * np.sum(((x - other) / np.exp(each.log_lengths)) ** 2)) + BIAS)
        for each in theta
    ]
    covariance = Additive(rho=rho).covariance(theta, FIDELITIES)
    at, towards = (jnp.asarray(x), jnp.asarray(2)), (jnp.asarray(other), jnp.asarray(1))
    # cov(f_3, f_2) = rho var f_2 = rho (rho^2 kappa_1 + kappa_2)
    assert float(covariance(at, towards)) == pytest.approx(rho * (rho**2 * kappa[0] + kappa[1]), rel=1e-12)


def test_coregionalised_fidelities_with_omega_0_are_independent():
    family = Coregionalised()
    theta = family.prior(DIMENSION, FIDELITIES, Key((0,))).mean
    theta = eqx.tree_at(lambda theta: [each.loadings for each in theta], theta, replace_fn=np.zeros_like)
    np.testing.assert_allclose(cross_correlations(family, theta), np.eye(FIDELITIES), atol=1e-15)


def test_coregionalisation_is_equation_2_of_the_paper():
    loadings, own_vars = np.array([0.9, -0.4, 0.3]), np.array([0.2, 0.1, 0.5])
    theta = LatentParameters(loadings, np.log(own_vars), np.log([0.3, 0.6]))
    covariance = Coregionalised(latent=1).covariance((theta,), FIDELITIES)
    at = (jnp.full((FIDELITIES, DIMENSION), 0.4), jnp.arange(FIDELITIES))
    b = np.outer(loadings, loadings) + np.diag(own_vars)
    np.testing.assert_allclose(matrix(covariance, at, at), b * (1 + BIAS), rtol=1e-13)


def test_shared_features_with_r_0_are_perrones_independent_heads():
    family = SharedFeatures()
    theta = family.prior(DIMENSION, FIDELITIES, Key((0,))).mean
    apart, related = (
        eqx.tree_at(lambda theta: theta.logit_correlation, theta, np.asarray(logit))
        for logit in (-1e3, np.log(0.7 / 0.3))
    )
    np.testing.assert_allclose(cross_correlations(family, apart), np.eye(FIDELITIES), atol=1e-12)
    expected = 0.3 * np.eye(FIDELITIES) + 0.7
    np.testing.assert_allclose(cross_correlations(family, related), expected, rtol=1e-12)


@pytest.mark.parametrize("pair", [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2)])
def test_the_convolved_covariance_is_a_numerical_convolution(pair):
    length, widths, amplitudes = 0.3, np.array([0.05, 0.2, 0.6]), np.array([1.0, 0.7, 1.4])
    nothing = Independent().covariance((ProcessParameters(np.asarray(-40.0), np.zeros(1)),) * 3, 3)
    covariance = ConvolvedProcesses(
        jnp.log(amplitudes), 2 * jnp.log(widths)[:, None], 2 * jnp.log(jnp.array([length])), nothing
    )
    z = np.linspace(-6, 6, 1201)
    latent = np.exp(-0.5 * ((z[:, None] - z[None, :]) / length) ** 2)

    def smoothed(m: int, x: float, n: int, other: float) -> float:
        """int int G_m(x - z) G_n(x' - z') kappa(z, z') dz dz'."""
        left, right = (np.exp(-0.5 * ((p - z) / widths[k]) ** 2) / widths[k] for k, p in ((m, x), (n, other)))
        return float(left @ latent @ right) * (z[1] - z[0]) ** 2 / (2 * np.pi)

    m, n = pair
    for x, other in [(0.3, 0.3), (0.1, 0.5), (0.0, 1.0)]:
        unit = np.sqrt(smoothed(m, 0, m, 0) * smoothed(n, 0, n, 0))  # amplitudes are those of f_m
        expected = amplitudes[m] * amplitudes[n] * (smoothed(m, x, n, other) / unit + BIAS)
        found = covariance((jnp.array([x]), jnp.asarray(m)), (jnp.array([other]), jnp.asarray(n)))
        assert float(found) == pytest.approx(expected, rel=1e-8)


# --- features and draws


@EVERY_FAMILY
def test_features_stand_for_the_covariance(family):
    covariance, at = of(family), some_points()
    drawn = jax.tree.map(jnp.asarray, family.frequencies(4096, DIMENSION, FIDELITIES, Key((3,))))
    phi = jax.jit(jax.vmap(lambda p: covariance.features(drawn, p)))(at)
    k = np.asarray(matrix(covariance, at, at))
    largest = np.max(np.diag(k))
    np.testing.assert_allclose(phi @ phi.T, k, atol=0.03 * largest)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_features_stand_for_the_covariance_of_a_layer(kernel):
    relation = RelationCovariance(jnp.log(0.8), jnp.log(0.5), Kernel(jnp.log(jnp.array([0.5, 0.9, 1.5]))))
    covariance = LayerCovariance(jnp.log(0.6), Kernel(jnp.log(jnp.array([0.4, 0.7])), kernel), relation)
    at = (some_points()[0], jnp.asarray(np.random.default_rng(4).normal(size=COUNT)))
    drawn = (
        jnp.asarray(frequencies(kernel, 4096, DIMENSION, Key((5,)))),
        jnp.asarray(frequencies("rbf", 4096, DIMENSION + 1, Key((6,)))),
    )
    phi = jax.jit(jax.vmap(lambda p: covariance.features(drawn, p)))(at)
    np.testing.assert_allclose(phi @ phi.T, matrix(covariance, at, at), atol=0.03)
    # a^2 k_x k_f + b^2 f f' + c^2 k_delta + bias, at the first two points
    x, other = (np.asarray(part) for part in at[0][:2])
    f, g = (float(value) for value in at[1][:2])
    k_x = np.exp(-0.5 * np.sum(((x - other) / np.array([0.5, 0.9])) ** 2))
    k_f = np.exp(-0.5 * ((f - g) / 1.5) ** 2)
    k_delta = float(Kernel(jnp.log(jnp.array([0.4, 0.7])), kernel)(at[0][0], at[0][1]))
    expected = 0.25 * k_x * k_f + 0.64 * f * g + 0.36 * k_delta + BIAS
    assert float(matrix(covariance, at, at)[0, 1]) == pytest.approx(expected, rel=1e-12)


@EVERY_FAMILY
def test_draws_pass_through_what_is_known(family):
    at = some_points(9)
    truth = np.random.default_rng(0).multivariate_normal(np.zeros(9), np.asarray(matrix(of(family), at, at)))
    rows = Rows(at, jnp.asarray(truth), jnp.full(9, 1e-8), jnp.ones(9))
    values = draws(process_of(family, rows), 8, at)
    np.testing.assert_allclose(values, np.tile(truth, (8, 1)), atol=2e-3)


@EVERY_FAMILY
def test_draws_have_the_mean_and_covariance_of_the_posterior(family):
    count, other = 4000, some_points(3, seed=3)
    process = process_of(family, some_rows(some_points(), noise=0.1), frequencies=1024)
    values = np.asarray(draws(process, count, other))
    means, variances = (np.asarray(part) for part in moments(process, other))
    stds = np.sqrt(variances)
    assert np.all(np.abs(values.mean(0) - means) < (4 / np.sqrt(count) + 0.05) * stds)
    assert np.all(np.abs(values.std(0) / stds - 1) < 4 / np.sqrt(2 * count) + 0.05)


# --- jitter


def test_repeated_points_without_noise_are_held_by_a_reported_jitter():
    at = jax.tree.map(lambda part: jnp.repeat(part, 4, axis=0), some_points(6))
    rows = Rows(at, jnp.repeat(jnp.arange(6.0), 4), jnp.zeros(24), jnp.ones(24))
    process = process_of(Coregionalised(), rows)
    scale = float(np.mean(np.diag(np.asarray(matrix(of(Coregionalised()), at, at)))))
    assert 0 < float(process.jitter) <= JITTERS[-1] * scale
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(process))
    means, variances = moments(process, at)
    np.testing.assert_allclose(means, rows.y, atol=1e-2)
    assert np.all((variances > 0) & (np.asarray(variances) < 1e-3))


def test_data_in_good_order_need_no_jitter():
    assert float(process_of(Coregionalised(), some_rows(some_points())).jitter) == 0.0


# --- learning


def test_the_belief_about_noise_counts_until_the_data_say_otherwise():
    def learned(count: int, noise_std: float) -> float:
        x = np.random.default_rng(0).random((count, DIMENSION))
        seen = Observations(x, np.sin(3 * x[:, 0]) + x[:, 1])  # smooth, and without noise
        posterior = GaussianProcess(Independent(), noise_std=noise_std).fit([seen], Key((0,)))
        return float(posterior.noise_var(0, jnp.zeros(()))) ** 0.5

    assert learned(2, 5e-4) < 5e-3 < learned(2, 2e-2)
    assert learned(40, 2e-2) < 5e-3


def test_lengths_are_learned_from_the_data():
    x = np.random.default_rng(0).random((40, DIMENSION))
    seen = Observations(x, np.sin(14 * x[:, 0]) + 0.3 * x[:, 1])
    posterior = GaussianProcess(Independent()).fit([seen], Key((0,)))
    covariance = posterior.process.covariance
    short, long = np.exp(covariance.kernels[0].log_length)  # pyright: ignore[reportAttributeAccessIssue]
    assert short < 0.3 < 1.0 < long
    test = jnp.asarray(np.random.default_rng(1).random((50, DIMENSION)))
    means = np.asarray(jax.jit(jax.vmap(posterior.marginals))(test)[0])[:, 0]
    truth = np.sin(14 * test[:, 0]) + 0.3 * test[:, 1]
    np.testing.assert_allclose(posterior.scales()[0].outward(means), truth, atol=0.15)


@pytest.mark.parametrize(
    "surrogate",
    [
        GaussianProcess(Coregionalised()),
        GaussianProcess(Additive(rho=1.5)),
        GaussianProcess(Convolved()),
        NonlinearAutoregressive(),
    ],
    ids=["coregionalised", "additive", "convolved", "non-linear"],
)
def test_cheap_data_teach_the_target(surrogate):
    def wave(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sin(7 * x[:, 0]) + 0.5 * x[:, 0]

    many, few = np.linspace(0.02, 0.98, 20)[:, None], np.array([[0.1], [0.35], [0.6], [0.9]])
    grid = np.linspace(0, 1, 50)[:, None]
    target = 1.5 * wave(grid) - 0.3

    def error(low: Observations) -> float:
        posterior = surrogate.fit([low, Observations(few, 1.5 * wave(few) - 0.3)], Key((0,)))
        means = np.asarray(jax.jit(jax.vmap(posterior.marginals))(jnp.asarray(grid))[0])[:, 1]
        return float(np.sqrt(np.mean((posterior.scales()[1].outward(means) - target) ** 2)))

    assert error(Observations(many, wave(many))) < 0.2 * error(Observations(np.empty((0, 1)), np.empty(0)))
    assert error(Observations(many, wave(many))) < 0.15 * np.std(target)


def test_the_non_linear_chain_learns_a_relation_that_no_line_can_follow():
    """Perdikaris et al. (2017), Sec. 3(a): f_1 = sin 8 pi x, f_2 = (x - sqrt 2) f_1^2."""
    low_x, high_x = np.linspace(0, 1, 50)[:, None], np.linspace(0, 1, 15)[:, None]

    def low(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sin(8 * np.pi * x[:, 0])

    def high(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return (x[:, 0] - np.sqrt(2)) * low(x) ** 2

    grid = np.linspace(0, 1, 100)[:, None]
    errors = []
    for surrogate in (NonlinearAutoregressive(), GaussianProcess(Additive())):
        posterior = surrogate.fit([Observations(low_x, low(low_x)), Observations(high_x, high(high_x))], Key((0,)))
        means = np.asarray(jax.jit(jax.vmap(posterior.marginals))(jnp.asarray(grid))[0])[:, 1]
        errors.append(float(np.sqrt(np.mean((posterior.scales()[1].outward(means) - high(grid)) ** 2))))
    assert errors[0] < 0.15 * np.std(high(grid))
    assert errors[0] < 0.3 * errors[1]


def test_a_fidelity_without_data_is_expected_to_be_like_the_one_below():
    x = np.linspace(0.02, 0.98, 15)[:, None]
    low = Observations(x, 100 + 5 * np.sin(5 * x[:, 0]))
    posterior = NonlinearAutoregressive().fit([low, Observations(np.empty((0, 1)), np.empty(0))], Key((0,)))
    grid = jnp.linspace(0, 1, 30)[:, None]
    means, variances = (np.asarray(part) for part in jax.jit(jax.vmap(posterior.marginals))(grid))
    np.testing.assert_allclose(means[:, 1], means[:, 0], atol=1e-6)
    assert np.all(variances[:, 1] > variances[:, 0])
    assert posterior.scales()[1] == posterior.scales()[0]
