"""The closed-form stack: cheap data help, units do not matter, nothing degenerate breaks it, no retracing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.typing import NDArray

from fidelium.acquisition.entropy import gaussian_gain, joint_gain
from fidelium.errors import NoDataError
from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.base import Focus
from fidelium.surrogates.ensemble import Ensemble
from fidelium.surrogates.learning import milestone, ravel, subset
from fidelium.surrogates.stacked_dnn import closed_form
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineDetail, CosineFamily, CosineFeatures
from fidelium.surrogates.stacked_dnn.linearised import LinearisedPosterior, Noise, linear_at
from fidelium.surrogates.stacked_dnn.priors import (
    DETAIL_AMPLITUDE,
    EXACT_FLOOR,
    FOCUSED_FLOOR,
    UNRELATED,
    Kind,
    NoiseParameters,
    without_noise,
)

Vector = NDArray[np.float64]

SMALL = ClosedFormStack(CosineFamily(24, 16, 8, 4), members=2, steps=40)
EMPTY = Observations(np.empty((0, 1)), np.empty(0))
GRID = np.linspace(0, 1, 32)[:, None]


def wave(x: Vector) -> Vector:
    return np.sin(7 * x[:, 0]) + 0.5 * x[:, 0]


SPREAD = float(np.std(wave(GRID)))


def seen(function: Callable[[Vector], Vector], x: Sequence[float] | Vector) -> Observations:
    points = np.asarray(x, dtype=float).reshape(-1, 1)
    return Observations(points, function(points))


def one_of(posterior: Ensemble[LinearisedPosterior]) -> LinearisedPosterior:
    """The first member."""
    return posterior.members()[0]


@jax.jit
def moments(posterior: Ensemble[LinearisedPosterior], x: Array) -> tuple[Array, Array]:
    return jax.vmap(posterior.marginals)(x)


def predictions(posterior: Ensemble[LinearisedPosterior], fidelity: int = -1) -> tuple[Vector, Vector]:
    """Mean and standard deviation on the grid, in the objective's units."""
    means, variances = (np.asarray(part)[:, fidelity] for part in moments(posterior, jnp.asarray(GRID)))
    return posterior.scales()[fidelity].outward_moments(means, variances)


def error(posterior: Ensemble[LinearisedPosterior], truth: Callable[[Vector], Vector] = wave) -> float:
    return float(np.sqrt(np.mean((predictions(posterior)[0] - truth(GRID)) ** 2)))


def assert_finite(posterior: Ensemble[LinearisedPosterior]) -> None:
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(posterior))
    means, variances = moments(posterior, jnp.asarray(GRID))
    assert np.all(np.isfinite(means))
    assert np.all(np.isfinite(variances))
    assert np.all(np.asarray(variances) > 0)
    slopes = jax.jacfwd(lambda x: posterior.marginals(x)[0])(jnp.array([0.3]))
    assert np.all(np.isfinite(slopes))


MANY, TWO = np.linspace(0.02, 0.98, 20), [0.2, 0.6]


def test_cheap_data_of_the_same_function_teach_the_target():
    with_low = SMALL.fit([seen(wave, MANY), seen(wave, TWO)], Key((0,)))
    without = SMALL.fit([EMPTY, seen(wave, TWO)], Key((0,)))
    assert error(with_low) < 0.1 * SPREAD
    assert error(with_low) < 0.2 * error(without)


@pytest.mark.parametrize("factor", [2.5, -1.0])
def test_cheap_data_teach_a_target_of_another_scale_or_sign(factor):
    def target(x: Vector) -> Vector:
        return factor * wave(x) + 4.0

    few = [0.05, 0.3, 0.45, 0.7, 0.9]
    with_low = SMALL.fit([seen(wave, MANY), seen(target, few)], Key((0,)))
    without = SMALL.fit([EMPTY, seen(target, few)], Key((0,)))
    assert error(with_low, target) < 0.5 * error(without, target)


def test_it_passes_through_what_it_has_seen():
    posterior = SMALL.fit([seen(wave, MANY), seen(wave, MANY[::4])], Key((1,)))
    x = jnp.asarray(MANY[::4][:, None])
    means, variances = jax.vmap(posterior.marginals)(x)
    values = posterior.scales()[1].outward(np.asarray(means[:, 1]))
    np.testing.assert_allclose(values, wave(np.asarray(x)), atol=0.1 * SPREAD)
    assert np.max(variances[:, 1]) < 0.05


def test_the_truth_is_mostly_within_three_standard_deviations():
    inside: list[NDArray[np.bool_]] = []
    for seed in range(5):
        posterior = SMALL.fit([seen(wave, np.random.default_rng(seed).random(8))], Key((2, seed)))
        mean, std = predictions(posterior)
        inside.append(np.abs(mean - wave(GRID)) < 3 * std)
        assert np.max(std) < 3 * SPREAD  # not by knowing nothing
    assert np.mean(inside) > 0.75


DEGENERATE: dict[str, list[Observations]] = {
    "constant": [seen(np.ones_like, MANY[:6]), seen(np.ones_like, TWO), seen(np.ones_like, [0.5])],
    "zero": [seen(np.zeros_like, MANY[:6]), EMPTY, seen(np.zeros_like, TWO)],
    "one low": [seen(wave, [0.3]), EMPTY, EMPTY],
    "one middle": [EMPTY, seen(wave, [0.3]), EMPTY],
    "one target": [EMPTY, EMPTY, seen(wave, [0.3])],
    "one each": [seen(wave, [0.3]), seen(wave, [0.3]), seen(wave, [0.3])],
    "repeated": [seen(wave, [0.4] * 6), seen(wave, [0.4] * 3), seen(wave, [0.4] * 2)],
    "contradicting": [Observations(np.full((5, 1), 0.4), np.array([1.0, 2.0, -3.0, 4.0, 0.0])), EMPTY, seen(wave, TWO)],
    "empty middle": [seen(wave, MANY[:7]), EMPTY, seen(wave, TWO)],
    "empty lowest": [EMPTY, seen(wave, MANY[:7]), seen(wave, TWO)],
    "empty target": [seen(wave, MANY[:7]), seen(wave, TWO), EMPTY],
    "one outlier": [Observations(MANY[:8, None], np.array([0.0, 1, 2, 1, 0, 1, 2, -1e9])), EMPTY, seen(wave, TWO)],
    "rounding": [Observations(MANY[:3, None], np.array([0.1 + 0.2, 0.3, 0.3])), EMPTY, seen(wave, TWO)],
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_give_a_finite_posterior(name):
    assert_finite(SMALL.fit([Observations(o.unit_x, o.y.reshape(-1)) for o in DEGENERATE[name]], Key((3,))))


def test_a_constant_is_predicted_everywhere():
    posterior = SMALL.fit(
        [Observations(MANY[:6, None], np.full(6, 7.5)), Observations(MANY[:2, None], np.full(2, 7.5))], Key((4,))
    )
    mean, _ = predictions(posterior)
    np.testing.assert_allclose(mean, 7.5, atol=0.05 * 7.5)


def test_an_empty_target_is_expected_to_be_like_the_fidelity_below():
    posterior = SMALL.fit([seen(wave, MANY), EMPTY], Key((5,)))
    (low, _), (high, high_std) = predictions(posterior, 0), predictions(posterior, 1)
    np.testing.assert_allclose(high, low, atol=0.3 * SPREAD)
    assert np.all(high_std >= predictions(posterior, 0)[1] * 0.99)


@pytest.mark.parametrize(("factor", "shift"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e9), (3.0, -2.0)])
def test_predictions_are_equivariant_in_the_units_of_y(factor, shift):
    def moved(x: Vector) -> Vector:
        return factor * wave(x) + shift

    plain = SMALL.fit([seen(wave, MANY), seen(wave, MANY[::3])], Key((6,)))
    scaled = SMALL.fit([seen(moved, MANY), seen(moved, MANY[::3])], Key((6,)))
    (mean, std), (scaled_mean, scaled_std) = predictions(plain), predictions(scaled)
    np.testing.assert_allclose((scaled_mean - shift) / factor, mean, atol=0.02 * SPREAD)
    np.testing.assert_allclose(scaled_std / factor, std, atol=0.02 * SPREAD)
    assert_finite(scaled)


def test_the_same_key_gives_the_same_posterior_and_another_key_other_features():
    data = [seen(wave, MANY[:6]), seen(wave, TWO)]
    first, again, other = (SMALL.fit(data, Key((word,))) for word in (1, 1, 2))
    for one, two in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one_of(first).layers[0].weight_mean, one_of(other).layers[0].weight_mean)


@pytest.mark.parametrize("kind", [None, *Kind])
def test_the_density_of_theta_has_the_gradient_that_the_search_is_told(kind):
    family = SMALL.family
    data = closed_form.pad(MANY[:6, None], wave(MANY[:6, None]))
    generator = np.random.default_rng(0)
    drawn = family.draw(np.array([0.4]), False, Key((7,)))
    prior = family.prior(1, Kind.ALONE, None)
    alpha = spread = None
    if kind is not None:
        drawn = family.draw(np.array([0.4]), True, Key((7,)))
        prior = family.prior(1, kind, prior.mean)
        rows = generator.normal(size=(len(data.y), 3))
        alpha, spread = jnp.asarray(generator.normal(size=len(data.y))), jnp.asarray(rows @ rows.T)

    def value_and_gradient(theta: Vector) -> tuple[Vector, Vector]:
        mean, std = jax.tree.map(lambda part: part[None], (prior.mean, prior.std))
        shared = (data.x, data.y[None], data.mask, alpha, spread, jnp.array([[jnp.max(data.y), jnp.inf]]))
        found = closed_form._log_density_rows(family, drawn, theta[None], slopes, mean, std, *shared)
        return np.asarray(found[0])[0], np.asarray(found[1])[0]

    slopes = jnp.array([kind.slope if kind else 0.0])
    start = eqx.tree_at(lambda p: p.noise.log_floor, prior.mean, prior.mean.noise.log_floor + 3.9)  # well conditioned
    theta = ravel(start) + 0.1
    direction = generator.normal(size=len(theta))
    difference = (
        value_and_gradient(theta + 1e-5 * direction)[0] - value_and_gradient(theta - 1e-5 * direction)[0]
    ) / 2e-5
    assert value_and_gradient(theta)[1] @ direction == pytest.approx(float(difference), rel=1e-5)


@pytest.fixture(scope="module")
def three_fidelities() -> LinearisedPosterior:
    few = [seen(wave, MANY[::3]), seen(lambda x: 2 * wave(x), MANY[::6]), seen(lambda x: wave(x) ** 2, TWO)]
    return one_of(SMALL.fit(few, Key((11,))))


def covariance(posterior: LinearisedPosterior, x: Array) -> tuple[Vector, Vector]:
    """Means of all fidelities at the rows of x, and their covariance matrix, row by row and fidelity by fidelity."""
    linear = jax.vmap(lambda x: linear_at(posterior.layers, x))(x)
    rows = linear.rows.reshape(-1, linear.rows.shape[-1])
    return np.asarray(linear.means).ravel(), np.asarray(rows @ rows.T)


@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_given_is_conditioning_the_gaussian_of_all_fidelities(three_fidelities, fidelity):
    # C - c c^T / (c_m + s): a pending query tells about every fidelity at once, and moves no mean
    x = jnp.array([[0.33], [0.5], [0.91]])
    means, before = covariance(three_fidelities, x)
    after_means, after = covariance(three_fidelities.given(np.asarray(x)[:1], [fidelity]), x)
    column = before[:, fidelity]
    noise_var = float(three_fidelities.noise_var(fidelity, jnp.asarray(means[fidelity])))
    known = before - np.outer(column, column) / (column[fidelity] + noise_var)
    np.testing.assert_array_equal(after_means, means)
    np.testing.assert_allclose(after, known, rtol=1e-6, atol=1e-9)
    variances, left = np.diag(before)[:3], np.diag(after)[:3]
    assert np.all(left < variances)  # below and above it too


def test_given_many_is_given_one_after_another_in_any_order(three_fidelities):
    rows, fidelities = MANY[[3, 8, 8, 14, 17], None], [2, 0, 1, 2, 0]
    x = jnp.asarray(MANY[:5, None])
    _, together = covariance(three_fidelities.given(rows, fidelities), x)
    for order in (range(5), reversed(range(5))):
        posterior = three_fidelities
        for row in order:
            posterior = posterior.given(rows[row : row + 1], [fidelities[row]])
        np.testing.assert_allclose(covariance(posterior, x)[1], together, rtol=1e-6, atol=1e-9)


def test_joint_is_what_marginals_and_conditionals_say(three_fidelities):
    x = jnp.array([0.41])
    means, covariance = three_fidelities.joint(x)
    marginal_means, variances = three_fidelities.marginals(x)
    np.testing.assert_allclose(means, marginal_means, rtol=1e-12)
    np.testing.assert_allclose(np.diag(covariance), variances, rtol=1e-9)
    for m in (0, 1):
        ends = [three_fidelities.target_given(x, m, means[m] + step)[0] for step in (-1.0, 1.0)]
        assert float(ends[1] - ends[0]) / 2 == pytest.approx(float(covariance[m, 2] / covariance[m, m]), rel=1e-6)
    np.testing.assert_allclose(
        three_fidelities.noise_vars(means), [three_fidelities.noise_var(m, means[m]) for m in range(3)], rtol=1e-12
    )


@pytest.mark.parametrize("fidelity", [0, 1, 2])
def test_the_joint_gain_is_the_gaussian_one(three_fidelities, fidelity):
    f_star = jnp.array([0.5, 1.0, 2.5])
    for place in (0.1, 0.5, 0.77):
        x = jnp.array([place])
        ours = jax.jit(joint_gain)(three_fidelities, f_star, x, jnp.asarray(fidelity))
        assert float(ours) == pytest.approx(float(gaussian_gain(three_fidelities, f_star, x, fidelity)), rel=1e-5)


def test_the_slope_varies_as_the_features_say():
    # Var[w . dphi/df] = |dphi/df|^2, on average over the random directions
    family = CosineFamily(4, 4000, 4, 4)
    drawn = family.draw(np.array([0.4, 0.2]), True, Key((0,)))
    lowest = family.prior(2, Kind.ALONE, None).mean
    theta = jax.tree.map(lambda leaf: jnp.asarray(leaf) + 0.3, family.prior(2, Kind.FREE, lowest).mean)
    features = family.features(drawn, theta)
    slopes = jax.jacfwd(lambda f: features.of_both(jnp.array([0.3, 0.9]), f))(jnp.asarray(0.7))
    assert float(slopes @ slopes) == pytest.approx(float(family.slope_var(theta.relation)), rel=0.05)


def test_an_opposed_fidelity_teaches_as_well_as_a_like_one():
    # the sign of the relation is nothing to a free layer: the same evidence for both
    few = MANY[::3]
    like, opposed = (
        SMALL.fit([seen(lambda x, sign=sign: sign * wave(x), MANY), seen(wave, few)], Key((14,)))
        for sign in (1.0, -1.0)
    )
    assert error(opposed) < 2 * error(like) + 0.02 * SPREAD


def test_members_believe_different_things_where_the_data_leave_room():
    lengths: dict[int, list[float]] = {}
    for count in (3, 20):
        ensemble = ClosedFormStack(SMALL.family, members=8, steps=40).fit([seen(wave, MANY[:count])], Key((13,)))
        features = [member.layers[0].features for member in ensemble.members()]
        lengths[count] = [float(each.process.learned.log_lengths[0]) for each in features]  # pyright: ignore[reportAttributeAccessIssue]
    assert np.std(lengths[3]) > 0.3
    assert np.std(lengths[20]) < 0.5 * np.std(lengths[3])


def test_shares_are_drawn_as_evenly_as_they_can_be():
    share = np.array([0.5, 0.3, 0.2])
    counts = [np.bincount(closed_form._spread_over(share, 4, Key((word,))), minlength=3) for word in range(200)]
    assert all(count[0] == 2 for count in counts)
    np.testing.assert_allclose(np.mean(counts, axis=0), 4 * share, atol=0.15)


def test_it_does_not_retrace_while_the_data_grow_inside_a_bucket(traces):
    SMALL.fit([seen(wave, MANY[:9]), seen(wave, MANY[:2])], Key((9,)))
    traces.on = True
    for low, high in [(10, 3), (12, 5), (16, 8)]:
        SMALL.fit([seen(wave, MANY[:low]), seen(wave, MANY[:high])], Key((9, low)))
    assert traces.seen == []
    SMALL.fit([seen(wave, np.linspace(0, 1, 65)), seen(wave, MANY[:8])], Key((9,)))
    assert traces.seen != []  # a new bucket is traced, and seen to be


def test_theta_is_learned_at_milestones_and_the_weights_from_everything():
    x = np.random.default_rng(0).random(35)
    at_32, at_35 = (SMALL.fit([seen(wave, x[:n])], Key((12,))) for n in (32, 35))
    for one, two in zip(at_32.members(), at_35.members(), strict=True):
        same = jax.tree.map(np.array_equal, one.layers[0].features, two.layers[0].features)
        assert all(jax.tree.leaves(same))
        assert not np.array_equal(one.layers[0].weight_mean, two.layers[0].weight_mean)
    assert error(at_35) <= error(at_32) + 0.01 * SPREAD


@pytest.mark.parametrize(
    ("count", "last"), [(0, 0), (1, 1), (16, 16), (17, 16), (31, 30), (35, 32), (36, 36), (1500, 1408)]
)
def test_milestones_are_six_to_twelve_per_cent_apart(count, last):
    assert milestone(count) == last
    assert milestone(last) == last


def test_theta_is_learned_from_a_part_of_many_observations_and_weights_from_all():
    x = np.random.default_rng(0).random((60, 1))
    whole = SMALL.fit([seen(wave, x)], Key((10,)))
    part = ClosedFormStack(SMALL.family, members=2, steps=40, most_points=16).fit([seen(wave, x)], Key((10,)))
    assert error(part) < 0.1 * SPREAD
    assert error(whole) < 0.1 * SPREAD


@pytest.mark.parametrize(("count", "most"), [(5, 8), (8, 8), (9, 8), (100, 7), (1000, 256)])
def test_a_subset_keeps_the_newest_half_and_nothing_twice(count, most):
    chosen = subset(count, most, Key((0,)))
    assert len(chosen) == min(count, most)
    assert len(set(chosen.tolist())) == len(chosen)
    assert set(range(count - math.floor(most / 2), count)) <= set(chosen.tolist()) or count <= most
    assert np.all(np.diff(chosen) > 0)


def test_no_data_are_refused():
    with pytest.raises(NoDataError, match="at least one observation"):
        SMALL.fit([EMPTY, EMPTY], Key((0,)))


def test_the_noise_grows_with_the_distance_from_where_precision_matters():
    learned = NoiseParameters(jnp.log(0.1), jnp.log(0.5))
    objective = Noise.of(learned, jnp.array([1.0, jnp.inf]))  # the best value, and all above it
    np.testing.assert_allclose(objective.var(jnp.array([2.0, 1.0, -1.0])), [0.01, 0.01, 0.01 + 1.0], rtol=1e-12)
    outcome = Noise.of(learned, jnp.array([-1.0, 1.0]))  # between two limits
    np.testing.assert_allclose(outcome.var(jnp.array([0.5, -1.0, 3.0, -5.0])), [0.01, 0.01, 1.01, 4.01], rtol=1e-12)


def test_a_floor_at_its_bound_is_next_to_none():
    for share, floor in ((1.0, EXACT_FLOOR), (1.1, EXACT_FLOOR), (2.0, 2 * FOCUSED_FLOOR)):
        learned = without_noise(NoiseParameters(jnp.log(share * FOCUSED_FLOOR), jnp.log(0.5)))
        assert float(jnp.exp(learned.log_floor)) == pytest.approx(floor)
        assert float(jnp.exp(learned.log_ripple)) == pytest.approx(0.5)


def test_without_noise_a_focused_stack_predicts_a_limit_to_eight_digits():
    # observations 1e-3 around the design where a wave is at its limit, and some far away
    at = 0.37
    x = np.concatenate([np.linspace(0, 1, 12), at + 1e-3 * np.linspace(-1, 1, 7)])[:, None]
    limit = float(wave(np.array([[at]]))[0])
    posterior = ClosedFormStack().focused(Focus((at,), ((limit, limit),))).fit([seen(wave, x)], Key((3,)))
    (scale,) = posterior.scales()
    mean, variance = moments(posterior, jnp.array([[at + 3.3e-4]]))
    found, deviation = scale.outward_moments(np.asarray(mean)[:, 0], np.asarray(variance)[:, 0])
    assert found[0] == pytest.approx(float(wave(np.array([[at + 3.3e-4]]))[0]), abs=1e-7)
    assert deviation[0] < 3e-6


def test_a_focused_stack_is_precise_at_its_limit():
    x = MANY[:, None]
    limit = float(np.median(wave(x)))
    focus = Focus((0.25,), ((limit, limit),))
    layer = one_of(SMALL.focused(focus).fit([seen(wave, x)], Key((3,)))).layers[0]
    (unit,) = one_of(SMALL.focused(focus).fit([seen(wave, x)], Key((3,)))).scales()
    np.testing.assert_allclose(layer.noise.precise, unit.inward(np.array([limit, limit])), rtol=1e-12)
    np.testing.assert_allclose(cast("CosineFeatures", layer.features).detail.centre, [0.25])


def rippling(x: Vector) -> Vector:
    """A hill whose ripples are a third of the depth below its top."""
    depth = 100 * (x[:, 0] - 0.4) ** 2
    return -depth * (1 + 0.3 * np.sin(997 * x[:, 0]))


def test_ripples_of_bad_designs_do_not_hide_which_good_one_is_best():
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.random(30), generator.uniform(0.35, 0.45, 10)])
    posterior = ClosedFormStack().fit([seen(rippling, x)], Key((3,)))
    noise = one_of(posterior).layers[0].noise
    assert 0.1 < float(noise.ripple) < 0.6
    assert float(noise.floor) < 0.01
    near = np.linspace(0.36, 0.44, 9)[:, None]
    mean = np.asarray(moments(posterior, jnp.asarray(near))[0])[:, 0]
    assert abs(float(near[int(np.argmax(mean)), 0]) - 0.4) <= 0.011


def listens(low: Callable[[Vector], Vector], count: int) -> float:
    """The share of members, over eight keys, whose layer of a wave depends on the layer below."""
    data = [seen(low, MANY), seen(wave, MANY[::2][:count])]
    slopes: list[float] = []
    for word in range(8):
        for member in SMALL.fit(data, Key((word,))).members():
            features = member.layers[1].features
            assert isinstance(features, CosineFeatures)
            assert features.relation is not None
            slopes.append(float(features.relation.learned.log_slope))
    return float(np.mean(np.array(slopes) > UNRELATED + 1))


def test_a_layer_listens_to_the_one_below_as_far_as_the_evidence_goes():
    related, rubbish = (lambda x: 3 * wave(x) + 1), (lambda x: np.sin(1e4 * x[:, 0]))
    assert listens(related, 10) == 1.0
    assert 0.3 < listens(rubbish, 2) < 0.9  # two points cannot tell
    assert listens(rubbish, 10) < 0.4


def test_rubbish_below_does_little_harm():
    rubbish, target = seen(lambda x: np.sin(1e4 * x[:, 0]), MANY), seen(wave, MANY[::2])
    both = np.mean([error(SMALL.fit([rubbish, target], Key((word,)))) for word in range(6)])
    alone = np.mean([error(SMALL.fit([target], Key((word,)))) for word in range(6)])
    assert both < 1.5 * alone + 0.01 * SPREAD


def finely_rippled(x: Vector) -> Vector:
    """A hill with ripples of 0.3 everywhere, a hundredth of its spread and much shorter."""
    return -100 * (x[:, 0] - 0.4) ** 2 + 0.3 * np.cos(200 * (x[:, 0] - 0.4))


def detail_of(posterior: Ensemble[LinearisedPosterior]) -> CosineDetail:
    features = one_of(posterior).layers[0].features
    assert isinstance(features, CosineFeatures)
    return features.detail


def test_ripples_near_the_best_design_are_followed():
    generator = np.random.default_rng(0)
    x = np.concatenate([[0.4], generator.random(30), generator.uniform(0.32, 0.48, 40)])
    posterior = ClosedFormStack().fit([seen(finely_rippled, x)], Key((3,)))
    near = np.linspace(0.35, 0.45, 41)[:, None]
    mean = posterior.scales()[0].outward(np.asarray(moments(posterior, jnp.asarray(near))[0])[:, 0])
    assert np.sqrt(np.mean((mean - finely_rippled(near)) ** 2)) < 0.25 * 0.3 / math.sqrt(2)
    # cos(200 x) as a process has a length of about 1 / 200
    assert float(detail_of(posterior).learned.log_lengths[0]) == pytest.approx(math.log(1 / 200), abs=1.0)


def test_a_smooth_function_is_learned_to_have_no_detail():
    x = np.concatenate([MANY, np.linspace(0.1, 0.35, 24)])
    detail = detail_of(ClosedFormStack().fit([seen(wave, x)], Key((3,))))
    assert float(detail.learned.log_amplitude) < math.log(DETAIL_AMPLITUDE) - 0.5
