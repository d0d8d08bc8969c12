"""The variational bound: below the evidence, equal to it at the closed form; KL; gradients; what learning achieves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Array

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.numerics import linalg
from fidelium.numerics.padding import PaddedData, pad
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import Architecture, DenseFeatures
from fidelium.surrogates.stacked_dnn.variational import VariationalLayer, VariationalStack, _train, bound

SMALL = Architecture((6, 4), "tanh")
WEIGHTS = 5  # four features and the bias


def layer_with(network: DenseFeatures, mean: Array, root: Array, noise_std: float) -> VariationalLayer:
    """The layer with q(w) = N(mean, root root^T), root lower triangular."""
    raw = jnp.tril(root, -1) + jnp.diag(jnp.log(jnp.diag(root)))
    return VariationalLayer(network, mean, raw, jnp.log(noise_std))


def data_of(count: int, seed: int = 0) -> PaddedData:
    generator = np.random.default_rng(seed)
    x = generator.random((count, 2))
    return pad(x, np.sin(4 * x[:, 0]) + x[:, 1] + 0.1 * generator.normal(size=count))


@jax.jit
def exact_bound(layer: VariationalLayer, data: PaddedData) -> Array:
    """The expectation of the bound over its noise, for one fidelity.

    It is quadratic in the noise e, so that the mean over the points +-sqrt(F) e_i is exact.
    """
    sigma = jnp.sqrt(WEIGHTS) * jnp.concatenate([jnp.eye(WEIGHTS), -jnp.eye(WEIGHTS)])
    return jnp.mean(jax.vmap(lambda e: bound([layer], [data], [e]))(sigma))


@pytest.fixture(scope="module")
def solved() -> tuple[VariationalLayer, PaddedData, Array]:
    """A layer at the closed form of q(w), its data, and the log evidence."""
    network, data, noise_std = SMALL.draw(2, jr.key(0)), data_of(11), 0.2
    phi = jax.vmap(lambda x: network.of_both(x, None))(data.x)
    noise_var = jnp.full(len(data.y), noise_std**2)
    mean, root = linalg.dense_weight_posterior(phi, data.y, noise_var, data.mask)
    lower = jnp.linalg.cholesky(root @ root.T)
    evidence = linalg.log_evidence(phi, data.y, noise_var, data.mask)
    return layer_with(network, mean, lower, noise_std), data, evidence


def test_the_bound_at_the_closed_form_is_the_evidence(solved):
    layer, data, evidence = solved
    assert float(exact_bound(layer, data)) == pytest.approx(float(evidence), rel=1e-9)


def test_the_bound_is_stationary_in_q_at_the_closed_form(solved):
    layer, data, _ = solved
    gradient = jax.grad(exact_bound)(layer, data)
    np.testing.assert_allclose(gradient.weight_mean, 0.0, atol=1e-8)
    np.testing.assert_allclose(jnp.tril(gradient.raw_root), 0.0, atol=1e-8)
    np.testing.assert_array_equal(jnp.triu(gradient.raw_root, 1), 0.0)


@given(st.integers(0, 10**6), st.floats(1e-3, 2.0))
def test_every_other_q_is_below_the_evidence(solved, seed, size):
    layer, data, evidence = solved
    generator = np.random.default_rng(seed)
    moved = VariationalLayer(
        layer.network,
        layer.weight_mean + size * generator.normal(size=WEIGHTS),
        layer.raw_root + size * np.tril(generator.normal(size=(WEIGHTS, WEIGHTS))),
        layer.log_noise_std,
    )
    assert float(exact_bound(moved, data)) < float(evidence)


def test_the_bound_falls_short_of_the_evidence_by_the_divergence_from_the_closed_form(solved):
    layer, data, evidence = solved
    other = layer_with(layer.network, layer.weight_mean + 0.3, 0.5 * layer.root, 0.2)
    # KL(N(m, S) || N(m0, S0)), in any textbook
    precision = np.linalg.inv(np.asarray(layer.root @ layer.root.T))
    covariance = np.asarray(other.root @ other.root.T)
    apart = np.asarray(other.weight_mean - layer.weight_mean)
    log_ratio = 2 * float(jnp.sum(jnp.log(jnp.diag(layer.root) / jnp.diag(other.root))))
    divergence = 0.5 * (np.trace(precision @ covariance) - WEIGHTS + apart @ precision @ apart + log_ratio)
    assert float(evidence - exact_bound(other, data)) == pytest.approx(divergence, rel=1e-9)


@given(st.integers(0, 10**6), st.floats(0, 5.0))
def test_kl_is_never_negative(seed, size):
    generator = np.random.default_rng(seed)
    prior = VariationalLayer.at_prior(SMALL.draw(2, jr.key(0)))
    moved = VariationalLayer(
        prior.network,
        jnp.asarray(size * generator.normal(size=WEIGHTS)),
        jnp.asarray(size * generator.normal(size=(WEIGHTS, WEIGHTS))),
        prior.log_noise_std,
    )
    assert float(moved.kl()) >= -1e-12
    if size > 1e-3:
        assert float(moved.kl()) > 0


def test_kl_is_zero_at_the_prior_and_one_halved_mean_square_away_from_it():
    prior = VariationalLayer.at_prior(SMALL.draw(2, jr.key(0)))
    assert float(prior.kl()) == 0.0
    np.testing.assert_array_equal(prior.root, np.eye(WEIGHTS))
    assert (
        float(VariationalLayer(prior.network, jnp.full(WEIGHTS, 2.0), prior.raw_root, prior.log_noise_std).kl()) == 10.0
    )


def two_fidelities() -> tuple[list[VariationalLayer], list[PaddedData], list[Array]]:
    generator = np.random.default_rng(3)
    layers = [
        VariationalLayer(
            SMALL.draw(2 + m, jr.key(m)),
            jnp.asarray(generator.normal(size=WEIGHTS)),
            jnp.asarray(0.3 * generator.normal(size=(WEIGHTS, WEIGHTS))),
            jnp.asarray(-0.5 - m),
        )
        for m in range(2)
    ]
    noise = [jnp.asarray(generator.normal(size=WEIGHTS)) for _ in range(2)]
    return layers, [data_of(6, 1), data_of(9, 2)], noise


def test_the_bound_of_two_fidelities_is_the_sum_by_hand():
    layers, data, noise = two_fidelities()
    total = -sum(float(layer.kl()) for layer in layers)
    weights = [layer.weight_mean + layer.root @ e for layer, e in zip(layers, noise, strict=True)]
    for m, observed in enumerate(data):
        std = float(jnp.exp(layers[m].log_noise_std))
        for x, y in zip(observed.x[observed.mask > 0], observed.y[observed.mask > 0], strict=True):
            f = weights[0] @ layers[0].network.of_both(x, None)
            if m:
                f = weights[1] @ layers[1].network.of_both(x, f)
            total += -0.5 * ((float(y) - float(f)) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    assert float(bound(layers, data, noise)) == pytest.approx(total, rel=1e-10)


def test_the_gradient_of_the_bound_matches_finite_differences():
    layers, data, noise = two_fidelities()
    value = jax.jit(lambda layers: bound(layers, data, noise))
    gradient = jax.jit(jax.grad(value))(layers)
    directions = jax.tree.map(
        lambda leaf: jnp.asarray(np.random.default_rng(leaf.size).normal(size=leaf.shape)), layers
    )

    def moved(step: float) -> float:
        return float(value(jax.tree.map(lambda leaf, direction: leaf + step * direction, layers, directions)))

    slope = sum(jnp.sum(g * d) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(directions), strict=True))
    assert float(slope) == pytest.approx((moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-6)


def test_learning_raises_the_bound():
    start = (VariationalLayer.at_prior(SMALL.draw(2, jr.key(4))),)
    data = (data_of(16),)
    learned = _train(start, data, jr.key(5), 400, 1e-2)
    learned = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), learned)
    before, after = float(exact_bound(start[0], data[0])), float(exact_bound(learned[0], data[0]))
    assert after > before + 10


def test_the_stack_learns_a_curve_and_its_relation():
    x = np.linspace(0, 1, 14)[:, None]
    observations = [Observations(x, np.sin(6 * x[:, 0])), Observations(x[::2], 3 * np.sin(6 * x[::2, 0]) + 10)]
    stack = VariationalStack(Architecture((16, 8), "tanh"), epochs=800, learning_rate=2e-2)
    posterior = stack.fit(observations, Key((0,)))
    between = x[1::2]
    means = np.asarray(jax.vmap(posterior.marginals)(jnp.asarray(between))[0])
    for m, truth in enumerate([np.sin(6 * between[:, 0]), 3 * np.sin(6 * between[:, 0]) + 10]):
        error = posterior.scales()[m].outward(means[:, m]) - truth
        assert np.mean(error**2) < 0.5 * np.var(truth)  # at points it has not seen, half of the variance explained


DEGENERATE = {
    "constant": ([[0.2], [0.6], [0.9]], [4.0, 4.0, 4.0]),
    "one": ([[0.5]], [-3.0]),
    "repeated": ([[0.3]] * 4, [1.0, 1.0, 1.0, 1.0]),
    "contradicting": ([[0.3]] * 4, [1.0, 2.0, 3.0, 1e3]),
    "tiny": ([[0.1], [0.8]], [1e-12, 3e-12]),
    "huge": ([[0.1], [0.8]], [1e12, -3e12]),
    "shifted": ([[0.1], [0.8]], [1e9, 1e9 + 1]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_give_a_finite_posterior_in_double_precision(name):
    x, y = (np.array(part) for part in DEGENERATE[name])
    empty = Observations(np.empty((0, 1)), np.empty(0))
    # one padding bucket for all cases: the training is compiled once
    posterior = VariationalStack(SMALL, epochs=60).fit([Observations(x, y), empty, Observations(x, y)], Key((1,)))
    for leaf in jax.tree.leaves(posterior):
        assert leaf.dtype == jnp.float64
        assert np.all(np.isfinite(leaf))
    means, variances = posterior.marginals(jnp.array([0.4]))
    assert np.all(np.isfinite(means))
    assert np.all(variances > 0)


def test_the_same_key_learns_the_same_and_another_key_does_not():
    x = np.array([[0.1], [0.7]])
    observations = [Observations(x, np.array([1.0, 2.0]))] * 3
    first, again, other = (VariationalStack(SMALL, epochs=60).fit(observations, Key((word,))) for word in (1, 1, 2))
    np.testing.assert_array_equal(first.layers[2].weight_mean, again.layers[2].weight_mean)
    assert not np.array_equal(first.layers[2].weight_mean, other.layers[2].weight_mean)


def test_no_data_and_settings_out_of_range_are_refused():
    empty = Observations(np.empty((0, 1)), np.empty(0))
    with pytest.raises(NoDataError, match="at least one observation"):
        VariationalStack().fit([empty, empty], Key((0,)))
    with pytest.raises(SettingError, match="epochs must be at least 1"):
        VariationalStack(epochs=0)
    with pytest.raises(SettingError, match="learning_rate must be above 0"):
        VariationalStack(learning_rate=0.0)
