"""Scores of architectures: honest halves, padding that changes nothing, and numbers that mean something."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.numerics.padding import pad
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import FEATURES, Architecture, DenseFeatures, StackArchitecture
from fidelium.surrogates.stacked_dnn.variational import _train, climb, standard_units
from fidelium.tuning import cross_validation
from fidelium.tuning.cross_validation import (
    LEAST_LOG_DENSITY,
    CrossValidation,
    Split,
    _log_density,
    common_shape,
    draw_layers,
    draw_weights,
    half_splits,
    held_adam,
    learned_parts,
    pad_weights,
)

SMALL = StackArchitecture((2, 3), (5, 4), 1e-2)
LARGE = StackArchitecture((4, 2), (7, 6), 3e-3)


def observed(*counts: int, slope: float = 1.0, shift: float = 0.0) -> list[Observations]:
    generator = np.random.default_rng(0)
    points = [generator.random((count, 1)) for count in counts]
    return [Observations(x, slope * (np.sin(5 * x[:, 0]) + 0.3 * m) + shift) for m, x in enumerate(points)]


# --- halves ---


@given(st.lists(st.integers(0, 11), min_size=1, max_size=3).filter(lambda counts: max(counts) >= 4), st.integers(0, 99))
def test_halves_are_halves_and_together_everything(counts, word):
    observations = observed(*counts)
    for split in half_splits(observations, 3, Key((word,))):
        for seen, train, test in zip(observations, split.train, split.test, strict=True):
            assert len(test) == (len(seen) // 2 if len(seen) >= 4 else 0)
            together = np.concatenate([train.unit_x[:, 0], test.unit_x[:, 0]])
            np.testing.assert_array_equal(np.sort(together), np.sort(seen.unit_x[:, 0]))


def test_splits_differ_from_each_other_and_come_from_the_key_alone():
    first, again, other = (half_splits(observed(12), 2, Key((word,))) for word in (0, 0, 1))
    np.testing.assert_array_equal(first[0].test[0].y, again[0].test[0].y)
    assert set(first[0].test[0].y) != set(first[1].test[0].y)
    assert set(first[0].test[0].y) != set(other[0].test[0].y)


# --- padding ---


def network_of(weights: list[np.ndarray]) -> DenseFeatures:
    wide = tuple(jnp.asarray(weight, jnp.float64) for weight in weights)
    return DenseFeatures(wide, tuple(jnp.zeros(weight.shape[1]) for weight in wide), "relu")


@pytest.mark.parametrize(("depth", "width"), [(3, 6), (3, 9), (5, 6), (6, 11)])
def test_a_padded_network_is_the_same_function(depth, width):
    weights = draw_weights(2, 3, 6, Key((1,)))
    small, padded = network_of(weights), network_of(pad_weights(weights, depth, width))
    shapes = [(2, width), *[(width, width)] * (depth - 2), (width, FEATURES)]
    assert [weight.shape for weight in padded.weights] == shapes
    for x in np.random.default_rng(0).random((5, 2)):
        np.testing.assert_allclose(
            padded.of_both(jnp.asarray(x), None), small.of_both(jnp.asarray(x), None), rtol=1e-12, atol=1e-12
        )


def test_a_padded_stack_learns_what_the_small_one_learns_and_its_padding_stays():
    observations = observed(9, 6)
    data = tuple(
        pad(seen.unit_x, unit.inward(seen.y))
        for seen, unit in zip(observations, standard_units(observations), strict=True)
    )
    key, epochs, shape = jr.key(3), 60, common_shape([SMALL, LARGE])
    small = draw_layers(SMALL, SMALL, 1, Key((0,)))
    directly = _train(small, data, key, epochs, SMALL.learning_rate)

    @jax.jit
    def train_padded(layers):
        single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), data)
        adam = held_adam(jnp.float32(SMALL.learning_rate), learned_parts(layers, SMALL))
        return climb(adam, (layers, adam.init(layers)), single, jr.split(key, epochs))[0]

    learned = train_padded(draw_layers(SMALL, shape, 1, Key((0,))))
    assert (shape.depths, shape.widths) == ((4, 3), (7, 6))
    for m, (before, alone, padded) in enumerate(zip(small, directly, learned, strict=True)):
        assert not np.allclose(before.network.weights[0], alone.network.weights[0], atol=1e-2)  # it did learn
        weights = [np.asarray(weight) for weight in alone.network.weights]
        expected = pad_weights(weights, shape.depths[m], shape.widths[m])
        for weight, same in zip(padded.network.weights, expected, strict=True):
            np.testing.assert_allclose(weight, same, atol=2e-4)
            np.testing.assert_array_equal(np.asarray(weight) == 0, same == 0)
        np.testing.assert_allclose(padded.weight_mean, alone.weight_mean, atol=2e-4)
        np.testing.assert_allclose(padded.log_noise_std, alone.log_noise_std, atol=2e-4)


def test_drawn_weights_are_distributed_as_those_of_the_stack():
    ours = draw_weights(40, 3, 300, Key((0,)))
    theirs = Architecture((300, 300, FEATURES)).draw(40, jr.key(0)).weights
    for drawn, reference in zip(ours, theirs, strict=True):
        assert drawn.shape == reference.shape
        deviation = np.sqrt(2 / sum(drawn.shape))
        assert np.std(drawn) == pytest.approx(deviation, rel=0.03)
        assert np.max(np.abs(drawn)) == pytest.approx(np.max(np.abs(reference)), rel=0.01)  # two deviations, cut off


# --- scores ---


@pytest.fixture(scope="module")
def validation() -> CrossValidation:
    return CrossValidation(splits=2, epochs=60)


def test_a_score_is_the_same_alone_and_beside_larger_architectures(validation):
    alone = validation.scores(observed(9, 6), [SMALL], Key((0,)))
    beside = validation.scores(observed(9, 6), [LARGE, SMALL], Key((0,)))
    assert beside[1] == pytest.approx(alone[0], abs=1e-3)
    assert abs(beside[0] - beside[1]) > 1e-2


def test_the_same_key_is_the_same_score_and_another_key_another(validation):
    first, again, other = (validation.scores(observed(9, 6), [SMALL], Key((word,)))[0] for word in (0, 0, 1))
    assert first == again
    assert abs(first - other) > 1e-3


@pytest.mark.parametrize(("slope", "shift"), [(1e6, 0.0), (1e-6, 0.0), (3.0, -1e3)])
def test_a_score_does_not_depend_on_the_units(validation, slope, shift):
    (plain,) = validation.scores(observed(9, 6), [SMALL], Key((0,)))
    (moved,) = validation.scores(observed(9, 6, slope=slope, shift=shift), [SMALL], Key((0,)))
    assert moved == pytest.approx(plain, abs=1e-3)


def test_a_sensible_learning_rate_scores_higher_than_an_absurd_one():
    rates = (1e-2, 1e-9, 1e4)
    architectures = [StackArchitecture((2, 2), (16, 16), rate) for rate in rates]
    sensible, idle, diverged = CrossValidation(splits=2, epochs=500).scores(observed(24, 16), architectures, Key((0,)))
    unlearned = norm.logpdf(1.0)  # a prediction that knows mean and spread of the values, and nothing else
    assert sensible > unlearned + 0.3
    assert idle < unlearned
    assert LEAST_LOG_DENSITY <= diverged < idle


def test_the_log_density_is_that_by_hand():
    train = (Observations(np.zeros((2, 1)), np.array([1.0, 5.0])), Observations(np.zeros((1, 1)), np.array([7.0])))
    test = (Observations(np.zeros((2, 1)), np.array([2.0, 9.0])), Observations(np.empty((0, 1)), np.empty(0)))
    units = standard_units([Observations(np.zeros((4, 1)), np.array([1.0, 5.0, 2.0, 9.0])), train[1]])
    means, variances = np.array([[0.5, 0.0], [1.5, 0.0]]), np.array([[0.25, 1.0], [4.0, 1.0]])
    # learned from 1 and 5: mean 3, spread 2; so the predictions are 4 and 6 with deviations 1 and 4
    expected = np.mean(norm.logpdf([2.0, 9.0], [4.0, 6.0], [1.0, 4.0])) + np.log(np.std([1.0, 5.0, 2.0, 9.0]))
    assert _log_density(Split(train, test), units, means, variances) == pytest.approx(expected, rel=1e-12)


def test_a_test_point_counts_for_no_less_than_the_floor():
    seen = Observations(np.zeros((2, 1)), np.array([-1.0, 1.0]))
    for mean, variance in ((np.nan, 1.0), (np.inf, np.inf), (1e3, 1.0)):
        parts = np.full((2, 1), mean), np.full((2, 1), variance)
        assert _log_density(Split((seen,), (seen,)), standard_units([seen]), *parts) == LEAST_LOG_DENSITY


def test_the_training_reports_and_can_be_ended(validation, monkeypatch):
    monkeypatch.setattr(cross_validation, "_PIECE", 30)
    shares: list[float] = []
    in_pieces = validation.scores(observed(9, 6), [SMALL], Key((0,)), shares.append)
    assert shares == [0.5, 1.0]
    monkeypatch.undo()
    assert in_pieces[0] == pytest.approx(validation.scores(observed(9, 6), [SMALL], Key((0,)))[0], abs=1e-3)

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        validation.scores(observed(9, 6), [SMALL], Key((0,)), stop)


def test_too_little_data_and_settings_out_of_range_are_refused(validation):
    with pytest.raises(NoDataError, match="at least 4 observations"):
        validation.scores(observed(3, 3), [SMALL], Key((0,)))
    with pytest.raises(SettingError, match="architectures of 1 fidelities"):
        validation.scores(observed(9), [SMALL], Key((0,)))
    with pytest.raises(SettingError, match="at least 1, got 0 and 5000"):
        CrossValidation(splits=0)
