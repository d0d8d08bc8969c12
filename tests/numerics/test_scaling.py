"""Scales: monotone, exactly undone, equivariant, and standardising whatever the units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fidelium.numerics.scaling import Scale, standardising

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).map(np.array)
scales = st.builds(
    Scale,
    centre=st.floats(-1e3, 1e3),
    spread=st.floats(1e-3, 1e3),
    shift=st.floats(-2, 2),
    scale=st.floats(0.1, 10),
)
LONG_TAIL = -np.exp(np.random.default_rng(0).normal(size=200) * 1.5)


@given(scales, st.lists(st.floats(-30, 30), min_size=1, max_size=10).map(np.array))
def test_outward_undoes_inward(scale, in_spreads):
    y = scale.centre + scale.spread * in_spreads
    np.testing.assert_allclose(scale.outward(scale.inward(y)), y, rtol=1e-9, atol=1e-9 * scale.spread)


@given(scales)
def test_a_scale_is_strictly_increasing(scale):
    y = scale.centre + scale.spread * np.linspace(-50, 50, 201)
    assert np.all(np.diff(scale.inward(y)) > 0)


@given(values)
def test_standardised_values_have_mean_0_and_deviation_1(y):
    assume(np.std(y) > 1e-9 * np.max(np.abs(y)))
    z = standardising(y).inward(y)
    assert np.mean(z) == pytest.approx(0.0, abs=1e-5)
    assert np.std(z) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_any_magnitude_becomes_order_one(size):
    y = size * np.array([-1.0, 0.5, 2.0, 3.5])
    z = standardising(y).inward(y)
    assert np.mean(z) == pytest.approx(0.0, abs=1e-12)
    assert np.std(z) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("y", [[], [0.0], [0.0, 0.0], [7.5], [-1e12] * 3, [1e-12] * 5, [0.1 + 0.2, 0.3, 0.3]], ids=repr)
def test_constant_single_or_no_values_become_zeros(y):
    scale = standardising(np.array(y))
    np.testing.assert_allclose(scale.inward(np.array(y)), 0.0, atol=1e-12)
    assert scale.spread > 0
    assert scale.scale > 0


@pytest.mark.parametrize(("factor", "shift"), [(1e-12, 0.0), (1e12, 0.0), (3.0, -7.0), (1.0, 1e6)])
def test_scales_are_equivariant(factor, shift):
    z = standardising(LONG_TAIL).inward(LONG_TAIL)
    moved = factor * LONG_TAIL + shift
    np.testing.assert_allclose(standardising(moved).inward(moved), z, rtol=1e-6, atol=1e-6)


@given(scales, st.floats(-2, 2), st.floats(1e-3, 1.0))
def test_outward_moments_are_those_of_the_scaled_normal(scale, mean, scaled_std):
    std = scaled_std / scale.scale
    got_mean, got_std = scale.outward_moments(np.array([mean]), np.array([std**2]))
    z = np.linspace(-9, 9, 2001)
    weights = np.exp(-0.5 * z**2) / np.sum(np.exp(-0.5 * z**2))
    y = scale.outward(mean + std * z)
    by_integral = float(weights @ y)
    spread = float(np.sqrt(weights @ (y - by_integral) ** 2))
    assert got_mean[0] == pytest.approx(by_integral, abs=1e-3 * spread + 1e-9 * abs(scale.centre))
    assert got_std[0] == pytest.approx(spread, rel=5e-3)


@given(scales, st.floats(-1e3, 1e3), st.floats(0, 1e6))
def test_outward_moments_are_finite_however_unsure(scale, mean, variance):
    got_mean, got_std = scale.outward_moments(np.array([mean]), np.array([variance]))
    assert np.isfinite(got_mean[0])
    assert np.isfinite(got_std[0])
    assert got_std[0] >= 0
