"""Warps: strictly increasing, exactly undone, with the slopes of finite differences, for numbers of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.numerics.scaling import Scale, scale_rows, scales_of, standardising
from fidelium.numerics.warping import IDENTITY, LARGEST, Bend, Warp

BENDS = {
    "below": Bend(below=1.5, scale=0.3),
    "above": Bend(above=-2.0, scale=4.0),
    "both": Bend(below=0.5, above=0.5, scale=1.0),
    "between": Bend(below=-1.0, above=3.0, scale=0.7),
}
WARPS = {name: Warp(bend) for name, bend in BENDS.items()} | {
    "identity": IDENTITY,
    "twice": Warp(Bend(below=1.5, scale=0.3), Bend(below=-2.0, scale=0.5)),
    "up and down": Warp(Bend(above=-2.0, scale=4.0), Bend(below=0.2, scale=0.1)),
}
warps = st.sampled_from(list(WARPS.values()))


@given(warps, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20).map(np.array))
def test_outward_undoes_inward(warp, y):
    np.testing.assert_allclose(warp.outward(warp.inward(y)), y, rtol=1e-9, atol=1e-9)


@given(warps, st.lists(st.floats(-3, 3), min_size=1, max_size=20).map(np.array))
def test_inward_undoes_outward(warp, z):
    np.testing.assert_allclose(warp.inward(warp.outward(z)), z, rtol=1e-6, atol=1e-6)


@given(warps)
def test_a_warp_is_strictly_increasing(warp):
    assert np.all(np.diff(warp.inward(np.linspace(-50, 50, 2001))) > 0)


@given(warps, st.floats(-100, 100))
def test_slopes_are_those_of_finite_differences(warp, y):
    step = 1e-5 * max(1.0, abs(y))
    ends = warp.inward(np.array([y - step, y + step]))
    slope = (ends[1] - ends[0]) / (2 * step)
    # the second derivative jumps at the ends, so that there the difference is right to first order only
    assert math.exp(warp.log_slope(np.array([y]))[0]) == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("bend", BENDS.values(), ids=BENDS)
def test_the_slope_does_not_jump(bend):
    for end in (bend.below, bend.above):
        if abs(end) < LARGEST:
            near = bend.log_slope(np.array([end - 1e-9, end, end + 1e-9]))
            np.testing.assert_allclose(near, -math.log(bend.scale), atol=1e-7)


def test_the_logarithm_of_an_exponential_is_straight():
    m = np.linspace(-4, 3, 50)
    down, up = -np.exp(-3 * m), 7 + np.exp(3 * m)
    for y, bend in ((down, Bend(below=down.max(), scale=-down.max())), (up, Bend(above=up.min(), scale=up.min() - 7))):
        z = bend.inward(y)
        np.testing.assert_allclose(np.diff(z), 3 * np.diff(m), rtol=1e-6)


def test_between_two_limits_it_is_straight():
    bend = BENDS["between"]
    y = np.linspace(-1, 3, 9)
    np.testing.assert_allclose(bend.inward(y), (y + 1) / 0.7)
    np.testing.assert_allclose(bend.inward(np.array([-1 - 0.7, 3 + 0.7])), [-math.log(2), 4 / 0.7 + math.log(2)])


def test_the_identity_changes_no_bit():
    y = np.array([0.1, -1e300, 1e-300, LARGEST, 3.0])
    assert np.array_equal(IDENTITY.inward(y), y)
    assert np.array_equal(IDENTITY.outward(y), y)
    assert np.array_equal(IDENTITY.log_slope(y), np.zeros(5))


@pytest.mark.parametrize("size", [1e-290, 1e-12, 1.0, 1e12, 1e300])
def test_any_magnitude_is_mapped_and_undone(size):
    y = size * np.array([-5.0, -1.0, 0.2, 1.0, 2.0])
    for bend in (Bend(below=size, scale=0.1 * size), Bend(above=-size, scale=0.1 * size)):
        z = bend.inward(y)
        assert np.all(np.diff(z) > 0)
        assert np.max(np.abs(z)) < 100
        np.testing.assert_allclose(bend.outward(z), y, rtol=1e-9, atol=1e-9 * size)
        assert np.all(np.isfinite(bend.log_slope(y)))


@pytest.mark.parametrize("warp", WARPS.values(), ids=WARPS)
def test_the_largest_floats_stay_finite(warp):
    for values in (warp.inward, warp.outward, warp.log_slope):
        assert np.all(np.isfinite(values(np.array([-LARGEST, -1e308, 0.0, 1e308, LARGEST]))))


@given(warps)
def test_a_scale_keeps_its_warp_as_numbers(warp):
    scale = Scale(1.0, 2.0, 0.5, 3.0, warp)
    rows = scale_rows([scale, Scale()])
    assert np.all(np.isfinite(rows))
    assert scales_of(rows) == (scale, Scale())


def test_scales_of_rows_without_a_warp_have_none():
    assert scales_of(np.array([[1.0, 2.0, 0.5, 3.0]])) == (Scale(1.0, 2.0, 0.5, 3.0),)


@pytest.mark.parametrize("warp", WARPS.values(), ids=WARPS)
def test_a_scale_goes_through_its_warp_both_ways(warp):
    y = np.linspace(-30, 30, 61)
    affine = standardising(warp.inward(y))
    scale = Scale(affine.centre, affine.spread, affine.shift, affine.scale, warp)
    z = scale.inward(y)
    assert np.std(z) == pytest.approx(1.0)
    np.testing.assert_allclose(scale.outward(z), y, rtol=1e-9, atol=1e-9)


def test_moments_of_a_warped_scale_are_the_median_and_half_the_interval():
    scale = Scale(warp=Warp(Bend(above=0.0, scale=1.0)))
    mean, std = scale.outward_moments(np.array([2.0, -3.0]), np.array([0.25, 1.0]))
    np.testing.assert_allclose(mean, [math.expm1(2.0), -3.0])
    np.testing.assert_allclose(std, [(math.exp(2.5) - math.exp(1.5)) / 2, 1.0])
