"""The chain of moments: exact for affine relations, else Monte Carlo's; conditioning is refitting; draws are draws."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics import linalg
from fidelium.numerics.scaling import Scale
from fidelium.surrogates.base import VARIANCE_FLOOR
from fidelium.surrogates.stacked_dnn.variational import NetworkLayer, StackPosterior

X = jnp.array([0.3, 0.8])
POINTS = jnp.asarray(np.random.default_rng(5).random((6, 2)))


class AffineFeatures(eqx.Module):
    """phi = [x, f_{m-1}, 1]: f_m is an affine function of both."""

    def of_x(self, x: Float[Array, " d"]) -> Float[Array, " fx"]:
        return x

    def of_both(self, x: Float[Array, " d"], below: Float[Array, ""] | None) -> Float[Array, " fb"]:
        return jnp.ones(1) if below is None else jnp.stack([below, jnp.ones(())])


def affine_stack(fidelities: int, nodes: int = 5) -> StackPosterior:
    generator = np.random.default_rng(fidelities)
    layers = []
    for m in range(fidelities):
        count = 3 if m == 0 else 4
        root = 0.3 * np.tril(generator.normal(size=(count, count)))
        mean = generator.normal(size=count)
        layers.append(NetworkLayer(AffineFeatures(), *(jnp.asarray(part) for part in (mean, root, 0.01))))
    return StackPosterior.of(layers, [Scale()] * fidelities, nodes)


def affine_step(layer: NetworkLayer, x: Array, mean: float, variance: float) -> tuple[float, float]:
    """Moments of w . [x, f, 1] for independent w ~ q and f ~ N(mean, variance), in closed form."""
    mu, covariance = np.asarray(layer.weight_mean), np.asarray(layer.weight_root @ layer.weight_root.T)
    phi = np.array([*np.asarray(x), mean, 1.0])
    # Var = E[phi S phi] + Var[mean], and E[f^2] = mean^2 + variance
    spread = phi @ covariance @ phi + variance * (covariance[2, 2] + mu[2] ** 2)
    return float(mu @ phi), float(spread)


def through(layer: NetworkLayer, x: Array, below: NDArray[np.float64], key: Array) -> NDArray[np.float64]:
    """f_m at each value of f_{m-1}, with weights drawn from q(w) for each."""
    noise = jr.normal(key, (len(below), layer.weight_mean.shape[0]))
    weights = layer.weight_mean[None, :] + noise @ layer.weight_root.T
    return np.asarray(jax.jit(jax.vmap(lambda w, f: layer.value(w, x, f)))(weights, jnp.asarray(below)))


def assert_moments_of(draws: NDArray[np.float64], mean: float, variance: float) -> None:
    """The draws have this mean and variance, within four standard errors."""
    count = len(draws)
    squares = (draws - draws.mean()) ** 2
    assert abs(draws.mean() - mean) < 4 * draws.std() / np.sqrt(count)
    assert abs(squares.mean() - variance) < 4 * squares.std() / np.sqrt(count)


@jax.jit
def marginals(posterior: StackPosterior, x: Array) -> tuple[Array, Array]:
    return posterior.marginals(x)


def given(posterior: StackPosterior, x: Array, fidelity: int) -> StackPosterior:
    """The posterior with a query at one point pending."""
    return posterior.given(np.asarray(x)[None], [fidelity])


def moments(posterior: StackPosterior, x: Array = X) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    means, variances = marginals(posterior, x)
    return np.asarray(means), np.asarray(variances)


def test_marginals_are_exact_for_affine_relations():
    posterior = affine_stack(4)
    means, variances = moments(posterior)
    lowest = posterior.layers[0]
    phi = np.array([*np.asarray(X), 1.0])
    mean = float(np.asarray(lowest.weight_mean) @ phi)
    variance = float(np.sum((np.asarray(lowest.weight_root).T @ phi) ** 2))
    for m in range(4):
        if m:
            mean, variance = affine_step(posterior.layers[m], X, mean, variance)
        assert means[m] == pytest.approx(mean, rel=1e-10)
        assert variances[m] == pytest.approx(variance, rel=1e-9)


def test_the_target_given_a_value_is_exact_for_affine_relations():
    posterior = affine_stack(4)
    for fidelity, value in [(0, 0.7), (1, -1.2), (2, 3.0)]:
        mean, variance = value, 0.0
        for layer in posterior.layers[fidelity + 1 :]:
            mean, variance = affine_step(layer, X, mean, variance)
        got_mean, got_variance = posterior.target_given(X, fidelity, jnp.asarray(value))
        assert float(got_mean) == pytest.approx(mean, rel=1e-10)
        assert float(got_variance) == pytest.approx(variance, rel=1e-9, abs=10 * VARIANCE_FLOOR)


def test_each_marginal_is_monte_carlo_from_the_gaussian_below(random_stack):
    posterior = random_stack(3, nodes=30)
    means, variances = moments(posterior)
    generator = np.random.default_rng(0)
    for m in (1, 2):
        below = generator.normal(means[m - 1], np.sqrt(variances[m - 1]), size=40_000)
        draws = through(posterior.layers[m], X, below, jr.key(m))
        assert_moments_of(draws, means[m], variances[m])


def test_the_target_given_a_value_is_monte_carlo_from_that_value(random_stack):
    posterior = random_stack(3, nodes=30)
    value = jnp.asarray(0.4)
    mean, variance = posterior.target_given(X, 1, value)
    assert_moments_of(through(posterior.layers[2], X, np.full(40_000, 0.4), jr.key(0)), float(mean), float(variance))
    # two layers up: the Gaussian of the layer between, then Monte Carlo
    between_mean, between_var = posterior.layers[1].conditional(X, value)
    below = np.random.default_rng(1).normal(float(between_mean), float(between_var) ** 0.5, size=40_000)
    mean, variance = posterior.target_given(X, 0, value)
    assert_moments_of(through(posterior.layers[2], X, below, jr.key(1)), float(mean), float(variance))


def test_conditionals_average_to_the_marginals(random_stack):
    # E[f_M] = E[E[f_M | f_m]]: exact one layer below the target, where no Gaussian stands between
    posterior = random_stack(3, nodes=20)
    means, variances = moments(posterior)
    z, g = np.polynomial.hermite_e.hermegauss(20)
    g = g / g.sum()
    values = jnp.asarray(means[1] + np.sqrt(variances[1]) * z)
    given_means, given_vars = jax.vmap(lambda value: posterior.target_given(X, 1, value))(values)
    mean = float(g @ np.asarray(given_means))
    assert mean == pytest.approx(means[2], rel=1e-10)
    total = g @ (np.asarray(given_vars) + (np.asarray(given_means) - mean) ** 2)
    assert float(total) == pytest.approx(variances[2], rel=1e-10)


def test_variances_are_positive_even_where_everything_is_known():
    sure = [
        eqx.tree_at(lambda layer: layer.weight_root, layer, jnp.zeros_like(layer.weight_root))
        for layer in affine_stack(3).layers
    ]
    posterior = StackPosterior.of(sure, [Scale()] * 3, 5)
    _, variances = moments(posterior)
    assert np.all(variances > 0)
    assert np.all(variances < 100 * VARIANCE_FLOOR)
    slopes = jax.jacfwd(lambda x: jnp.sqrt(posterior.marginals(x)[1]))(X)
    assert np.all(np.isfinite(slopes))


def features_of(layer: NetworkLayer, x: Array, below: Array | None) -> Array:
    return jnp.concatenate([layer.features.of_x(x), layer.features.of_both(x, below)])


@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_given_is_refitting_with_the_expected_value_observed(random_stack, fidelity):
    # layer m learns its weights in closed form from y at POINTS, then from one more row: X, with the value it expects
    stack = random_stack(3)
    layer = stack.layers[fidelity]
    generator = np.random.default_rng(2)
    y, belows = generator.normal(size=6), generator.normal(size=6) if fidelity else [None] * 6
    phi = jnp.stack(
        [features_of(layer, x, None if f is None else jnp.asarray(f)) for x, f in zip(POINTS, belows, strict=True)]
    )
    mean, root = linalg.dense_weight_posterior(phi, jnp.asarray(y), layer.noise_var * jnp.ones(6), jnp.ones(6))
    learned = eqx.tree_at(lambda layer: (layer.weight_mean, layer.weight_root), layer, (mean, root))
    before = eqx.tree_at(lambda stack: stack.layers[fidelity], stack, learned)
    below_x = marginals(before, X)[0][fidelity - 1] if fidelity else None
    more = jnp.concatenate([phi, features_of(layer, X, below_x)[None]])
    more_y = jnp.append(y, mean @ more[-1])
    mean, root = linalg.dense_weight_posterior(more, more_y, layer.noise_var * jnp.ones(7), jnp.ones(7))
    updated = given(before, X, fidelity).layers[fidelity]
    np.testing.assert_allclose(updated.weight_mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(updated.weight_root @ updated.weight_root.T, root @ root.T, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_given_keeps_every_mean_and_takes_variance_away_at_its_fidelity_alone(random_stack, fidelity):
    before = random_stack(3)
    after = given(before, X, fidelity)
    for m, (old, new) in enumerate(zip(before.layers, after.layers, strict=True)):
        np.testing.assert_array_equal(new.weight_mean, old.weight_mean)
        lost = old.weight_root @ old.weight_root.T - new.weight_root @ new.weight_root.T
        assert np.min(np.linalg.eigvalsh(lost)) > -1e-12
        if m != fidelity:
            np.testing.assert_array_equal(new.weight_root, old.weight_root)
    assert moments(after)[1][fidelity] < moments(before)[1][fidelity]


def test_the_variance_given_n_times_falls_as_one_over_n(random_stack):
    posterior = random_stack(1)
    first = moments(posterior)[1][0]
    for _ in range(5):
        posterior = given(posterior, X, 0)
    noise = float(posterior.layers[0].noise_var)
    assert moments(posterior)[1][0] == pytest.approx(1 / (1 / first + 5 / noise), rel=1e-8)


def covariance(layer: NetworkLayer) -> NDArray[np.float64]:
    return np.asarray(layer.weight_root @ layer.weight_root.T)


def test_given_many_rows_is_given_one_after_another(random_stack):
    # exact for the two lowest fidelities: the means below them do not depend on any variance
    stack = random_stack(2)
    rows, fidelities = np.asarray(POINTS), [0, 1, 1, 0, 1, 0]
    together, one_by_one = stack.given(rows, fidelities), stack
    for row in np.argsort(fidelities, kind="stable"):
        one_by_one = given(one_by_one, POINTS[row], fidelities[row])
    for one, other in zip(together.layers, one_by_one.layers, strict=True):
        np.testing.assert_allclose(covariance(one), covariance(other), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("noise_var", [1e-8, 1e-4])
@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_padding_tells_nothing_however_small_the_noise(random_stack, fidelity, noise_var):
    stack = eqx.tree_at(
        lambda stack: [layer.noise_var for layer in stack.layers], random_stack(3), [jnp.asarray(noise_var)] * 3
    )
    nothing = stack.given_at(fidelity, jnp.zeros((32, 2)), jnp.zeros(32))
    for before, after in zip(stack.layers, nothing.layers, strict=True):
        np.testing.assert_array_equal(after.weight_root, before.weight_root)
    plain = stack.given_at(fidelity, POINTS, jnp.ones(6))
    more, weight = jnp.concatenate([POINTS, jnp.zeros((26, 2))]), jnp.repeat(jnp.array([1.0, 0.0]), jnp.array([6, 26]))
    padded = stack.given_at(fidelity, more, weight)
    for before, after in zip(plain.layers, padded.layers, strict=True):
        np.testing.assert_allclose(covariance(after), covariance(before), rtol=1e-6, atol=1e-9)


def test_given_does_not_retrace_while_the_pending_queries_are_few(random_stack, traces):
    stack, rows = random_stack(2), np.random.default_rng(0).random((8, 2))
    stack.given(rows[:2], [0, 1])
    traces.on = True
    for fidelities in ([0], [1], [1, 1, 0], [0] * 5 + [1] * 3):
        stack.given(rows[: len(fidelities)], fidelities)
    assert traces.seen == []


def test_draws_of_the_lowest_fidelity_have_the_marginals_and_covariance_of_the_posterior(random_stack):
    posterior = random_stack(1)
    paths = posterior.draw_paths(jr.key(0), 20_000)
    draws = np.asarray(jax.vmap(paths)(POINTS[:2]))
    for row, x in zip(draws, POINTS[:2], strict=True):
        mean, variance = moments(posterior, x)
        assert_moments_of(row, float(mean[0]), float(variance[0]))
    layer = posterior.layers[0]
    spread = np.stack([layer.weight_root.T @ features_of(layer, x, None) for x in POINTS[:2]], axis=1)
    products = (draws[0] - draws[0].mean()) * (draws[1] - draws[1].mean())
    assert abs(products.mean() - spread[:, 0] @ spread[:, 1]) < 4 * products.std() / np.sqrt(len(products))


def test_draws_of_the_target_pass_each_layers_own_draw(random_stack):
    # with sure upper layers the draw of the target is a known function of the draw of the lowest
    posterior = random_stack(2)
    top = eqx.tree_at(lambda layer: layer.weight_root, posterior.layers[1], jnp.zeros((15, 15)))
    paths = StackPosterior.of([posterior.layers[0], top], [Scale()] * 2, 5).draw_paths(jr.key(3), 5)
    lowest = jax.vmap(lambda w: posterior.layers[0].value(w, X, None))(paths.draws[0])
    np.testing.assert_allclose(paths(X), jax.vmap(lambda f: top.conditional(X, f)[0])(lowest), rtol=1e-12)


def test_a_draw_is_one_function_with_a_gradient(random_stack):
    paths = random_stack(3).draw_paths(jr.key(1), 4)
    for draw in range(4):
        one = jax.jit(lambda x, draw=draw: paths.at(jnp.asarray(draw), x))
        assert float(one(X)) == pytest.approx(float(paths(X)[draw]), rel=1e-12)
        direction = jnp.array([0.6, -0.8])
        difference = (one(X + 1e-5 * direction) - one(X - 1e-5 * direction)) / 2e-5
        assert float(jax.grad(one)(X) @ direction) == pytest.approx(float(difference), rel=1e-6)


def test_vmap_is_a_loop_and_jit_is_no_jit(random_stack):
    posterior = random_stack(3)
    means, variances = jax.jit(lambda posterior: jax.vmap(posterior.marginals)(POINTS))(posterior)
    values = jnp.linspace(-1, 1, len(POINTS))
    given = jax.jit(jax.vmap(lambda x, value: posterior.target_given(x, 0, value)))(POINTS, values)
    for row, (x, value) in enumerate(zip(POINTS, values, strict=True)):
        one_mean, one_var = posterior.marginals(x)
        np.testing.assert_allclose(means[row], one_mean, rtol=1e-11)
        np.testing.assert_allclose(variances[row], one_var, rtol=1e-11)
        one_given = posterior.target_given(x, 0, value)
        np.testing.assert_allclose([part[row] for part in given], one_given, rtol=1e-11)


def test_gradients_of_the_marginals_match_finite_differences(random_stack):
    posterior = random_stack(3)
    both = jax.jit(lambda x: jnp.concatenate(posterior.marginals(x)))
    direction = jnp.array([0.8, 0.6])
    difference = (both(X + 1e-5 * direction) - both(X - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(jax.jacfwd(both)(X) @ direction, difference, rtol=1e-5, atol=1e-8)


def test_the_units_of_the_values_come_back_as_they_went_in(random_stack):
    scales = [Scale(1.5, 2.5, 0.1, 0.9), Scale(-1e12, 1e12)]
    assert StackPosterior.of(random_stack(2).layers, scales, 5).scales() == tuple(scales)


def test_an_observation_has_the_variance_of_the_value_and_its_layers_noise(random_stack):
    posterior = random_stack(3)
    values = jnp.array([-2.0, 0.0, 5.0])
    for fidelity, layer in enumerate(posterior.layers):
        np.testing.assert_array_equal(posterior.noise_var(fidelity, values), jnp.full(3, layer.noise_var))
