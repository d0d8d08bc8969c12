"""L-BFGS of many rows in a box: known optima, SciPy's L-BFGS-B at active bounds, rows independent of each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from fidelium.numerics.lbfgs import Maxima, maximise_rows

Rows = NDArray[np.float64]


def rosenbrock(x: Rows) -> tuple[Rows, Rows]:
    """Minus Rosenbrock's function of every row, and its gradient."""
    ahead, behind = x[:, 1:], x[:, :-1]
    curve = ahead - behind**2
    value = -np.sum(100 * curve**2 + (1 - behind) ** 2, axis=1)
    gradient = np.zeros_like(x)
    gradient[:, :-1] += 400 * behind * curve + 2 * (1 - behind)
    gradient[:, 1:] -= 200 * curve
    return value, gradient


class Quadratic:
    """value = -(x - centre) A (x - centre) / 2 of every row, with a random positive definite A of known condition."""

    def __init__(self, dimension: int, condition: float, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        basis, _ = np.linalg.qr(generator.normal(size=(dimension, dimension)))
        self.matrix = (basis * np.geomspace(1, condition, dimension)) @ basis.T
        self.centre = generator.uniform(-1.5, 1.5, size=dimension)

    def __call__(self, x: Rows) -> tuple[Rows, Rows]:
        from_centre = x - self.centre
        gradient = -from_centre @ self.matrix
        return 0.5 * np.sum(from_centre * gradient, axis=1), gradient


def waves(x: Rows) -> tuple[Rows, Rows]:
    """Many maxima: sum_i sin(5 x_i) + x_i^2 / 2."""
    return np.sum(np.sin(5 * x) + x**2 / 2, axis=1), 5 * np.cos(5 * x) + x


def starts(rows: int, dimension: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).uniform(low, high, size=(rows, dimension))


@pytest.mark.parametrize("condition", [1.0, 10.0, 1000.0])
def test_a_quadratic_is_climbed_to_its_centre_from_every_start(condition):
    quadratic = Quadratic(5, condition)
    found = maximise_rows(quadratic, starts(6, 5), -10.0, 10.0, steps=200, tolerance=1e-10)
    np.testing.assert_allclose(found.x, np.tile(quadratic.centre, (6, 1)), atol=1e-4)
    np.testing.assert_allclose(found.value, 0.0, atol=1e-8)


@pytest.mark.parametrize("dimension", [2, 4])
def test_rosenbrocks_valley_is_followed_to_its_end(dimension):
    start = starts(8, dimension, 0.0, 2.0)
    found = maximise_rows(rosenbrock, start, -5.0, 5.0, steps=400, tolerance=1e-9)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
    np.testing.assert_allclose(found.value, 0.0, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_at_active_bounds_it_ends_where_scipys_does(seed):
    quadratic = Quadratic(6, 50.0, seed)  # centres up to 1.5: several bounds are active
    found = maximise_rows(quadratic, starts(4, 6), -0.5, 0.5, steps=300, tolerance=1e-10)
    known = minimize(
        lambda x: -quadratic(x[None])[0][0],
        np.zeros(6),
        jac=lambda x: -quadratic(x[None])[1][0],
        method="L-BFGS-B",
        bounds=[(-0.5, 0.5)] * 6,
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 1000},
    )
    assert np.any(np.abs(known.x) == 0.5)
    np.testing.assert_allclose(found.value, -known.fun, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.x, np.tile(known.x, (4, 1)), atol=1e-4)


def test_rosenbrock_in_a_box_that_cuts_its_valley_ends_at_the_wall():
    found = maximise_rows(rosenbrock, starts(5, 2, 0.0, 0.5), 0.0, 0.5, steps=200, tolerance=1e-10)
    np.testing.assert_allclose(found.x, np.tile([0.5, 0.25], (5, 1)), atol=1e-5)


def test_bounds_may_differ_by_column():
    lower, upper = np.array([-3.0, 0.25]), np.array([-2.0, 4.0])
    quadratic = Quadratic(2, 1.0)
    found = maximise_rows(quadratic, starts(3, 2), lower, upper)
    expected = np.clip(quadratic.centre, lower, upper)  # condition 1: the nearest point of the box
    np.testing.assert_allclose(found.x, np.tile(expected, (3, 1)), atol=1e-6)


@pytest.mark.parametrize("function", [rosenbrock, waves, Quadratic(3, 100.0)], ids=["rosenbrock", "waves", "quadratic"])
def test_a_batch_is_each_row_alone(function):
    start = starts(7, 3)
    together = maximise_rows(function, start, -1.0, 1.0, steps=40)
    for row in range(7):
        alone = maximise_rows(function, start[row : row + 1], -1.0, 1.0, steps=40)
        np.testing.assert_allclose(together.x[row], alone.x[0], rtol=1e-9, atol=1e-9)
        assert together.value[row] == pytest.approx(alone.value[0], rel=1e-9, abs=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5), st.floats(1e-3, 1e6))
def test_it_never_leaves_the_box_and_never_ends_below_its_start(seed, rows, dimension, size):
    seen: list[Rows] = []

    def watched(x: Rows) -> tuple[Rows, Rows]:
        seen.append(x)
        value, gradient = waves(x)
        return size * value, size * gradient

    start = starts(rows, dimension, -2.0, 2.0, seed)
    found = maximise_rows(watched, start, -1.0, 1.0, steps=25)
    assert len(seen) <= 25
    assert all(np.all(np.abs(x) <= 1.0) for x in seen)
    assert np.all(found.value >= size * waves(np.clip(start, -1.0, 1.0))[0])
    np.testing.assert_array_equal(found.value, size * waves(found.x)[0])


def test_the_maximum_found_has_no_projected_gradient_left():
    found = maximise_rows(waves, starts(20, 3), -1.0, 1.0, steps=100, tolerance=1e-8)
    _, gradient = waves(found.x)
    projected = np.clip(found.x + gradient, -1.0, 1.0) - found.x
    np.testing.assert_allclose(projected, 0.0, atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_meets_no_number_keeps_its_last_good_point_and_harms_no_other(bad):
    def holed(x: Rows) -> tuple[Rows, Rows]:
        from_centre = x - np.array([0.8, 0.0])  # the maximum lies in the hole
        value, gradient = -0.5 * np.sum(from_centre**2, axis=1), -from_centre
        hole = x[:, 0] > 0.3
        return np.where(hole, bad, value), np.where(hole[:, None], np.nan, gradient)

    start = np.array([[0.0, 0.0], [0.9, 0.9], [-0.5, 0.5]])
    found = maximise_rows(holed, start, -1.0, 1.0, steps=60)
    good = [0, 2]
    assert np.all(np.isfinite(found.value[good]))
    assert np.all(found.x[good, 0] <= 0.3)
    assert np.all(found.value[good] > holed(start)[0][good])
    assert found.value[1] == -np.inf
    assert found.best in good


def test_a_finite_value_with_a_gradient_that_is_none_counts_as_bad():
    def sharp(x: Rows) -> tuple[Rows, Rows]:
        value, gradient = waves(x)
        return value, np.where(x > 0.2, np.nan, gradient)

    found = maximise_rows(sharp, np.array([[0.0], [0.5]]), -1.0, 1.0, steps=30)
    assert found.x[0, 0] <= 0.2
    assert np.isfinite(found.value[0])
    assert found.value[1] == -np.inf


def test_a_flat_function_is_left_where_it_was_after_one_look():
    calls: list[int] = []

    def flat(x: Rows) -> tuple[Rows, Rows]:
        calls.append(len(x))
        return np.zeros(len(x)), np.zeros_like(x)

    start = starts(3, 2)
    np.testing.assert_array_equal(maximise_rows(flat, start, -1.0, 1.0).x, start)
    assert calls == [3]


def test_without_bounds_it_climbs_too():
    quadratic = Quadratic(3, 10.0)
    found = maximise_rows(quadratic, starts(2, 3, 50.0, 60.0), -np.inf, np.inf, steps=200, tolerance=1e-9)
    np.testing.assert_allclose(found.x, np.tile(quadratic.centre, (2, 1)), atol=1e-4)


def test_best_is_the_row_of_the_highest_value():
    assert Maxima(np.zeros((3, 1)), np.array([1.0, 5.0, -np.inf])).best == 1
