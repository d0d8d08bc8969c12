"""Standard errors that runs report are the noise of their observations, in every model's units."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.history import Observations
from fidelium.numerics.scaling import Scale, precision_shares, standardising
from fidelium.numerics.warping import Bend, Warp
from fidelium.randomness import Key
from fidelium.strategies.recommendation import Expected, observed_designs
from fidelium.surrogates.gp.covariances import Additive, Coregionalised, Independent
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.known_noise import LEAST_STD, MOST_STD, NOT_KNOWN, known_vars, typical_var, unit_of
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.stacked_dnn.linearised import Noise
from fidelium.surrogates.warped import Warped, fit_warped

KEY = Key((4,))
SMALL = ClosedFormStack(CosineFamily(24, 16, 8, 4), members=2, steps=30)


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(5 * x[:, 0]) + x[:, 1]


def observed(counts: tuple[int, ...], std: float | None = None, seed: int = 0) -> list[Observations]:
    """A wave at every fidelity; with standard errors between a third of `std` and three times as much."""
    generator = np.random.default_rng(seed)
    found: list[Observations] = []
    for count in counts:
        x = generator.random((count, 2))
        errors = None if std is None else std * 3 ** generator.uniform(-1, 1, count)
        noise = 0.0 if errors is None else errors * generator.normal(size=count)
        found.append(Observations(x, wave(x) + noise, errors))
    return found


@pytest.mark.parametrize("family", [Independent(), Additive(), Coregionalised()], ids=repr)
def test_a_process_with_reported_errors_is_the_closed_form(family):
    seen = observed((9, 6), 0.2)
    posterior = GaussianProcess(family, starts=1, steps=20).fit(seen, KEY)
    covariance, units = posterior.process.covariance, posterior.scales()
    x = jnp.asarray(np.concatenate([each.unit_x for each in seen]))
    which = jnp.repeat(jnp.arange(2), np.array([9, 6]), total_repeat_length=15)
    k = jax.vmap(lambda p, m: jax.vmap(lambda q, n: covariance((p, m), (q, n)))(x, which))(x, which)
    noise = np.concatenate([(each.std / unit.spread) ** 2 for each, unit in zip(seen, units, strict=True)])  # type: ignore[operator]
    y = np.concatenate([unit.inward(each.y) for each, unit in zip(seen, units, strict=True)])
    gram = np.asarray(k) + np.diag(noise)
    at = jnp.array([0.3, 0.6])
    towards = np.asarray(jax.vmap(lambda q, n: covariance((at, jnp.asarray(1)), (q, n)))(x, which))
    mean, variance = posterior.marginals(at)
    own = float(covariance((at, jnp.asarray(1)), (at, jnp.asarray(1))))
    np.testing.assert_allclose(mean[1], towards @ np.linalg.solve(gram, y), rtol=1e-7)
    np.testing.assert_allclose(variance[1], own - towards @ np.linalg.solve(gram, towards), rtol=1e-6)


def test_equal_errors_are_the_same_as_that_fixed_noise():
    seen = observed((10, 6))
    equal = [replace(each, std=np.full(len(each), 0.3)) for each in seen]
    posterior = GaussianProcess(Independent(), starts=1, steps=20).fit(equal, KEY)
    rows = posterior.process.rows
    expected = [(0.3 / unit.spread) ** 2 for unit in posterior.scales()]
    np.testing.assert_allclose(posterior.noise, expected, rtol=1e-12)
    np.testing.assert_allclose(rows.noise_var[:16], np.repeat(expected, [10, 6]), rtol=1e-12)


def test_without_errors_nothing_changes_and_without_a_number_the_noise_is_learned():
    seen = observed((10, 6))
    plain = GaussianProcess(starts=2, steps=30).fit(seen, KEY)
    nothing = GaussianProcess(starts=2, steps=30).fit([replace(o, std=np.full(len(o), np.nan)) for o in seen], KEY)
    for leaf, other in zip(jax.tree.leaves(plain), jax.tree.leaves(nothing), strict=True):
        assert jnp.array_equal(leaf, other)
    some = [replace(o, std=np.where(np.arange(len(o)) < 3, 0.5, np.nan)) for o in seen]
    rows = GaussianProcess(starts=2, steps=30).fit(some, KEY).process.rows
    noise = np.asarray(rows.noise_var)
    assert len(set(noise[3:10].tolist())) == 1 != len(set(noise[:10].tolist()))


@pytest.mark.parametrize("surrogate", [SMALL, GaussianProcess(starts=1, steps=30)], ids=["stack", "process"])
def test_a_noisy_run_moves_the_model_less_than_a_precise_one(surrogate):
    seen = observed((12, 8))
    x = np.full((1, 2), 0.5)

    def after(std: float) -> float:
        target = seen[-1]
        errors = np.append(np.full(len(target), 0.01), std)
        more = Observations(np.concatenate([target.unit_x, x]), np.append(target.y, wave(x) + 1.0), errors)
        posterior = surrogate.fit([seen[0], more], KEY)
        mean, variance = posterior.marginals(jnp.asarray(x[0]))
        return float(posterior.scales()[-1].outward_moments(np.asarray(mean), np.asarray(variance))[0][-1] - wave(x)[0])

    precise, noisy = after(0.01), after(3.0)
    assert precise > 0.5
    assert abs(noisy) < 0.25


def test_variances_in_the_models_units_follow_the_slope_of_the_map():
    warp = Warp(Bend(below=0.0, scale=0.5))
    unit = Scale(centre=1.0, spread=2.0, shift=0.3, scale=0.7, warp=warp)
    y, std = np.array([-3.0, -0.1, 0.4, 2.0]), np.full(4, 1e-6)
    slopes = (unit.inward(y + 1e-6) - unit.inward(y - 1e-6)) / 2e-6
    np.testing.assert_allclose(unit.inward_std(y, std), 1e-6 * slopes, rtol=1e-6)
    seen = Observations(y[:, None], y, np.array([0.0, 0.1, np.nan, 1e30]))
    found = known_vars(seen, unit)
    assert found[0] == LEAST_STD**2
    assert found[1] == pytest.approx((0.1 * slopes[1]) ** 2, rel=1e-5)
    assert found[2] == NOT_KNOWN
    assert found[3] == MOST_STD**2
    assert typical_var(seen, unit) == pytest.approx((0.1 * slopes[1]) ** 2, rel=1e-5)
    assert typical_var(Observations(y[:, None], y), unit) == NOT_KNOWN


def test_a_warped_surrogate_hands_on_errors_by_the_slope():
    seen = observed((10, 6), 0.1)
    warps = (Warp(Bend(below=0.5, scale=0.3)),) * 2
    fitted = fit_warped(GaussianProcess(starts=1, steps=10), seen, warps, KEY)
    first = seen[0]
    assert first.std is not None
    expected = first.std * np.exp(warps[0].log_slope(first.y)) / fitted.scales()[0].spread
    np.testing.assert_allclose(np.sqrt(np.asarray(fitted.process.rows.noise_var)[:10]), expected, rtol=1e-9)


def test_maps_of_long_tails_are_chosen_knowing_the_errors():
    generator = np.random.default_rng(1)
    x = generator.random((40, 2))
    std = 10 ** generator.uniform(-2, 0.5, 40)
    plain = Observations(x, wave(x) + std * generator.normal(size=40), std)
    posterior = Warped(GaussianProcess(starts=1, steps=30)).fit([plain], KEY)
    assert posterior.scales()[0].warp.is_identity  # noise is no tail


def test_noisy_values_count_less_in_the_units():
    y = np.array([0.0, 1.0, 2.0, 3.0, 1000.0])
    errors = np.array([0.1, 0.1, 0.1, 0.1, 1000.0])
    scale = standardising(y, errors)
    assert abs(scale.centre - 1.5) < 0.01
    assert abs(scale.spread - np.std(y[:4])) < 0.2
    assert standardising(y, np.full(5, 0.3)) == standardising(y)
    assert unit_of(Observations(y[:, None], y)) == standardising(y)
    np.testing.assert_allclose(precision_shares(y, errors).sum(), 1.0)
    assert np.isfinite(precision_shares(np.zeros(3), np.array([0.0, 0.0, 1.0]))).all()


def test_in_the_stack_errors_take_the_place_of_the_floor_and_ripples_are_learned():
    noise = Noise(jnp.asarray(0.1), jnp.asarray(0.5), jnp.array([1.0, 1e9]))
    values, known = jnp.array([-1.0, 1.0, 2.0]), jnp.array([0.04, NOT_KNOWN, 0.09])
    np.testing.assert_allclose(noise.var_given(values, known), [0.04 + 1.0, 0.01, 0.09])
    np.testing.assert_allclose(noise.with_floor(jnp.asarray(0.25)).var(values), [1.25, 0.25, 0.25])
    np.testing.assert_array_equal(noise.with_floor(jnp.asarray(NOT_KNOWN)).var(values), noise.var(values))


def test_the_best_value_is_judged_less_its_error():
    seen = Observations(np.zeros((3, 1)), np.array([1.0, 5.0, 2.0]), np.array([0.0, 9.0, np.nan]))
    assert seen.sure_y.tolist() == [1.0, -4.0, 2.0]


def test_only_values_reported_to_be_exact_or_found_to_repeat_are_reported_as_observed():
    x = np.array([[0.1], [0.2], [0.3], [0.4], [0.4]])
    y, errors = np.array([1.0, 2.0, 3.0, 4.0, 4.0]), np.array([0.0, 0.5, np.nan, np.nan, 0.5])
    posterior = Expected(x, y - 0.5, np.full(5, 0.2))
    found = observed_designs(Observations(x, y, errors), posterior, np.full(5, 0.01), 0.05)
    assert found.mean.tolist() == [1.0, 1.5, 3.0, 3.5]
    assert found.std.tolist() == [0.0, 0.2, 0.0, 0.2]
    found = observed_designs(Observations(x, y, errors), posterior, np.full(5, 1.0), 0.05)
    assert found.mean.tolist() == [1.0, 1.5, 2.5, 3.5]
