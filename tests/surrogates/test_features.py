"""The networks below the last layer: the processes they stand for, hand-computed values, settings out of range."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fidelium.errors import SettingError
from fidelium.randomness import Key
from fidelium.surrogates.learning import Prior, normal_like, ravel, unravel
from fidelium.surrogates.stacked_dnn.architecture import ACTIVATIONS, Architecture, DenseFeatures
from fidelium.surrogates.stacked_dnn.features import CosineFamily, CosineFeatures, all_of
from fidelium.surrogates.stacked_dnn.priors import DETAIL_AMPLITUDE, Kind, LayerParameters, layer_prior

DIMENSION = 2
CENTRE = np.array([0.3, 0.6])
WIDE = CosineFamily(pairs=2048, relation_pairs=2048, detail_pairs=2048, detail_pairs_above=2048)
SMALL = CosineFamily(pairs=4, relation_pairs=4, detail_pairs=4, detail_pairs_above=4)
DRAWS = 16

X, OTHER = jnp.array([0.2, 0.7]), jnp.array([0.5, 0.4])


def moved(theta: LayerParameters, scale: float, seed: int) -> LayerParameters:
    """The parameters with a normal number added to every entry."""
    step = normal_like(theta, np.random.default_rng(seed))
    return jax.tree.map(lambda entry, step: np.asarray(entry + scale * step), theta, step)


def theta_below() -> LayerParameters:
    """What may have been learned in a lowest layer."""
    return moved(layer_prior(DIMENSION, Kind.ALONE, None).mean, 0.3, 9)


def prior_of(has_below: bool, kind: Kind) -> Prior[LayerParameters]:
    return layer_prior(DIMENSION, kind, theta_below() if has_below else None)


def at(theta: LayerParameters) -> LayerParameters:
    return jax.tree.map(jnp.asarray, theta)


def cosine(has_below: bool, family: CosineFamily = WIDE, seed: int = 0) -> CosineFeatures:
    """A wide cosine network with random parameters, the same for every seed of its frequencies."""
    like = prior_of(has_below, Kind.FREE).mean
    theta = jax.tree.map(lambda step: jnp.asarray(-0.3 + 0.3 * step), normal_like(like, np.random.default_rng(1)))
    features = family.features(family.draw(CENTRE, has_below, Key((seed,))), theta)
    assert isinstance(features, CosineFeatures)
    return features


def squared_distance(log_length: Any) -> float:
    return float(jnp.sum(((X - OTHER) / jnp.exp(log_length)) ** 2))


def matern52(r: float) -> float:
    return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)


def squared_exponential(r: float) -> float:
    return math.exp(-0.5 * r**2)


@pytest.mark.parametrize(("name", "kernel"), [("matern52", matern52), ("rbf", squared_exponential)])
def test_cosine_features_of_x_are_the_process_of_their_kernel(name, kernel):
    products = []
    for seed in range(DRAWS):
        features = cosine(False, replace(WIDE, kernel=name), seed)
        process = features.process.learned
        at_x, at_other = (features.of_x(x)[: 2 * WIDE.pairs] for x in (X, OTHER))
        r, variance = math.sqrt(squared_distance(process.log_lengths)), math.exp(2 * float(process.log_amplitude))
        assert float(at_x @ at_x) == pytest.approx(variance, rel=1e-12)
        products.append(float(at_x @ at_other) / variance - kernel(r))
    assert np.mean(products) == pytest.approx(0.0, abs=3e-3)
    assert np.max(np.abs(products)) < 0.01


@pytest.mark.parametrize("has_below", [False, True])
def test_the_detail_is_a_process_of_short_lengths_under_a_bell(has_below):
    products = []
    for seed in range(DRAWS):
        features = cosine(has_below, seed=seed)
        detail = features.detail.learned
        at_x, at_other = (features.of_x(x)[2 * WIDE.pairs :] for x in (X, OTHER))
        bells = [
            math.exp(float(detail.log_amplitude) - 0.5 * np.sum((x - CENTRE) ** 2) / math.exp(2 * detail.log_radius))
            for x in (X, OTHER)
        ]
        assert float(at_x @ at_x) == pytest.approx(bells[0] ** 2, rel=1e-12)
        kernel = squared_exponential(math.sqrt(squared_distance(detail.log_lengths)))
        products.append(float(at_x @ at_other) / (bells[0] * bells[1]) - kernel)
    assert np.mean(products) == pytest.approx(0.0, abs=3e-3)
    assert np.max(np.abs(products)) < 0.01


def test_far_from_the_best_design_there_is_no_detail():
    drawn = SMALL.draw(CENTRE, False, Key((3,)))
    features = SMALL.features(drawn, at(prior_of(False, Kind.ALONE).mean))
    assert isinstance(features, CosineFeatures)
    near, far = (np.linalg.norm(features.detail(jnp.asarray(CENTRE + away))) for away in (0.0, 0.5))
    assert near == pytest.approx(DETAIL_AMPLITUDE, rel=1e-12)
    assert far < 1e-9 * near


def test_cosine_features_of_both_are_a_smooth_process_a_line_and_a_bias():
    products = []
    for seed in range(DRAWS):
        features = cosine(True, seed=seed)
        assert features.relation is not None
        relation = features.relation.learned
        f, g = 0.4, -0.8
        far = squared_distance(relation.log_lengths) + ((f - g) / math.exp(float(relation.log_below_length))) ** 2
        variance, slope = math.exp(2 * float(relation.log_amplitude)), math.exp(2 * float(relation.log_slope))
        at_x, at_other = features.of_both(X, jnp.asarray(f)), features.of_both(OTHER, jnp.asarray(g))
        assert float(at_x @ at_x) == pytest.approx(variance + slope * f**2 + 1, rel=1e-12)
        products.append(float(at_x @ at_other) - variance * math.exp(-0.5 * far) - slope * f * g - 1)
    assert np.mean(products) == pytest.approx(0.0, abs=3e-3)
    assert np.max(np.abs(products)) < 0.01


def test_the_lowest_layer_has_a_bias_and_nothing_below():
    features = cosine(False)
    np.testing.assert_array_equal(features.of_both(X, None), [1.0])


def test_draws_repeat_with_the_key_and_only_with_it():
    family = CosineFamily(16, 8, 8, 8)
    first, again, other = (family.draw(CENTRE, True, Key((word,))) for word in (1, 1, 2))
    np.testing.assert_array_equal(first.of_x, again.of_x)
    np.testing.assert_array_equal(first.of_both, again.of_both)
    assert not np.any(np.asarray(first.of_x) == np.asarray(other.of_x))


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("has_below", [False, True])
def test_the_prior_mean_is_inside_the_search_box_and_fits_the_features(kind, has_below):
    drawn, prior = SMALL.draw(CENTRE, has_below, Key((3,))), prior_of(has_below, kind)
    lower, mean, upper, std = (ravel(part) for part in (prior.lower, prior.mean, prior.upper, prior.std))
    assert np.all((lower < mean) & (mean < upper))
    assert np.all(std > 0)
    below = jnp.array(0.3) if has_below else None

    def every_feature(theta):
        features = SMALL.features(drawn, theta)
        return jnp.concatenate([features.of_x(X), features.of_both(X, below)])

    # every parameter but the noise moves the features: none is left over, none is missing
    jacobian = jax.jacfwd(every_feature)(jax.tree.map(lambda entry: jnp.asarray(entry + 0.01), prior.mean))
    moves = jax.tree.map(lambda columns: np.any(np.asarray(columns) != 0, axis=0).astype(float), jacobian)
    assert not np.any(ravel(moves.noise))
    assert np.all(ravel((moves.process, moves.detail, moves.relation)))


def test_noise_and_detail_are_not_doubted_and_all_else_as_far_as_it_is_unknown():
    prior = prior_of(True, Kind.FREE)
    assert prior.doubt is not None
    assert not np.any(ravel((prior.doubt.noise, prior.doubt.detail)))
    known, unknown = ((part.process, part.relation) for part in (prior.doubt, prior.std))
    np.testing.assert_array_equal(ravel(known), ravel(unknown))


def test_parameters_are_ravelled_in_the_order_of_their_names_and_back():
    theta = prior_of(True, Kind.FREE).mean
    parts = [theta.noise, theta.process, theta.detail, theta.relation]
    vector = ravel(theta)
    np.testing.assert_array_equal(vector, np.concatenate([ravel(part) for part in parts]))
    for again in (unravel(theta, vector), unravel(theta, jnp.asarray(vector))):
        assert jax.tree.structure(again) == jax.tree.structure(theta)
        assert all(jax.tree.leaves(jax.tree.map(np.array_equal, again, theta)))


def test_a_layer_that_stands_alone_hardly_sees_the_one_below():
    drawn = SMALL.draw(CENTRE, True, Key((3,)))

    def effect(kind: Kind) -> float:
        features = SMALL.features(drawn, at(prior_of(True, kind).mean))
        low, high = (all_of(features, X, jnp.array(below)) for below in (-1.0, 1.0))
        return float(jnp.linalg.norm(high - low))

    assert effect(Kind.ALONE) < 0.01 < 0.2 < effect(Kind.RESIDUAL) < effect(Kind.FREE)
    alone, lowest = prior_of(True, Kind.ALONE).mean, prior_of(False, Kind.ALONE).mean
    np.testing.assert_array_equal(alone.process.log_lengths, lowest.process.log_lengths)  # learns them by itself


@pytest.mark.parametrize("kind", [Kind.FREE, Kind.RESIDUAL])
def test_the_lengths_and_the_detail_of_a_layer_are_believed_to_be_those_learned_below(kind):
    below = theta_below()
    other = moved(below, 1.0, 0)
    first, second = (layer_prior(DIMENSION, kind, theta) for theta in (below, other))
    for prior, theta in ((first, below), (second, other)):
        np.testing.assert_array_equal(prior.mean.process.log_lengths, theta.process.log_lengths)
        np.testing.assert_array_equal(prior.mean.detail.log_lengths, theta.detail.log_lengths)
        assert prior.mean.detail.log_radius == theta.detail.log_radius
        assert prior.mean.detail.log_amplitude < theta.detail.log_amplitude  # part of it is passed up
    passed_up = second.mean.detail.log_amplitude - first.mean.detail.log_amplitude
    assert passed_up == pytest.approx(float(other.detail.log_amplitude - below.detail.log_amplitude), rel=1e-12)
    # and nothing else depends on what was learned below
    rest = [(p.mean.noise, p.mean.process.log_amplitude, p.mean.relation) for p in (first, second)]
    np.testing.assert_array_equal(ravel(rest[0]), ravel(rest[1]))
    np.testing.assert_array_equal(ravel(first.std), ravel(second.std))
    lowest = layer_prior(DIMENSION, kind, None)
    assert np.all(first.std.process.log_lengths < lowest.std.process.log_lengths)


def test_a_dense_network_by_hand():
    network = DenseFeatures(
        (jnp.array([[1.0, -1.0], [0.5, 0.0], [0.0, 2.0]]), jnp.array([[1.0], [1.0]])),
        (jnp.array([0.1, 0.2]), jnp.array([-0.3])),
        "relu",
    )
    # inputs sqrt(12) (x - 1/2) and f; the activation is on the features too, the bias feature comes last
    x, f = jnp.array([0.5 + 1 / math.sqrt(12), 0.5]), jnp.array(-0.25)
    hidden = [max(1.0 + 0.1, 0.0), max(-1.0 - 0.5 + 0.2, 0.0)]
    np.testing.assert_allclose(network.of_both(x, f), [max(sum(hidden) - 0.3, 0.0), 1.0], rtol=1e-14)
    np.testing.assert_array_equal(network.of_both(x, jnp.array(-10.0)), network.of_both(x, f))
    assert network.of_x(x).shape == (0,)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dense_gradients_match_finite_differences(activation):
    network = Architecture((6, 5, 4), activation).draw(3, jr.key(0))
    direction = jnp.array([0.3, -0.7, 0.5])

    @jax.jit
    def along(step):
        return jnp.sum(network.of_both(X + step * direction[:2], 0.3 + step * direction[2]) ** 2)

    difference = (along(jnp.asarray(1e-5)) - along(jnp.asarray(-1e-5))) / 2e-5
    assert float(jax.grad(along)(0.0)) == pytest.approx(float(difference), rel=1e-5, abs=1e-9)


def test_initial_weights_are_glorots_truncated_at_two_deviations():
    network = Architecture((512, 256), "relu").draw(512, jr.key(1))
    for weight, sizes in zip(network.weights, [512 + 512, 512 + 256], strict=True):
        variance = 2 / sizes
        entries = np.asarray(weight).ravel()
        assert np.var(entries) == pytest.approx(variance, rel=5 / math.sqrt(len(entries)))
        assert np.max(np.abs(entries)) <= 2 * math.sqrt(variance) / 0.8796 * 1.001
    assert all(not np.any(bias) for bias in network.biases)


@pytest.mark.parametrize(
    ("widths", "activation", "match"),
    [
        ((32,), "relu", "2 to 12 layers"),
        ((32,) * 13, "relu", "2 to 12 layers"),
        ((32, 0), "relu", "from 1 to 512"),
        ((513, 32), "relu", "from 1 to 512"),
        ((32, 32), "sigmoid", "activation must be one of relu, tanh"),
    ],
)
def test_an_architecture_out_of_range_is_refused(widths, activation, match):
    with pytest.raises(SettingError, match=match):
        Architecture(widths, activation)


def test_a_cosine_network_without_features_or_of_an_unknown_kernel_is_refused():
    with pytest.raises(SettingError, match="at least one pair"):
        CosineFamily(pairs=0)
    with pytest.raises(SettingError, match="kernel must be one of rbf, matern52, got 'matern32'"):
        CosineFamily(kernel="matern32")
