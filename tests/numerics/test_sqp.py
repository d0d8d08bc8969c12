"""Sequential quadratic programming: its quadratic programs against another solver, and maxima that are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fidelium.numerics.sqp import maximise_within, quadratic_programs


def random_program(seed, n=4, d=3, k=5):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(n, d, d)) * 0.5
    return (
        root @ root.transpose(0, 2, 1),
        generator.normal(size=(n, d)),
        generator.normal(size=(n, k, d)),
        generator.normal(size=(n, k)) * 0.3 - 0.1,
        generator.uniform(1, 30, size=n),
        -generator.uniform(0.01, 0.5, size=(n, d)),
        generator.uniform(0.01, 0.5, size=(n, d)),
    )


def gained(p, curvature, gradient, slopes, g, weight):
    return gradient @ p - p @ curvature @ p / 2 - weight * np.sum(np.maximum(g + slopes @ p, 0.0))


def solved(curvature, gradient, slopes, g, weight, low, high):
    """The same program by SLSQP, with the violations as variables."""
    d, k = len(gradient), len(g)
    found = minimize(
        lambda z: -(gradient @ z[:d] - z[:d] @ curvature @ z[:d] / 2) + weight * np.sum(z[d:]),
        np.concatenate([np.zeros(d), np.maximum(g, 0.0) + 0.01]),
        constraints=[{"type": "ineq", "fun": lambda z: z[d:] - g - slopes @ z[:d]}],
        bounds=[*zip(low, high, strict=True), *[(0, None)] * k],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    return found.x[:d]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_quadratic_programs_are_solved(seed):
    program = random_program(seed)
    p, multipliers = quadratic_programs(*program)
    *_, weight, low, high = program
    assert np.all((p >= low) & (p <= high))
    assert np.all((multipliers >= 0) & (multipliers <= weight[:, None]))
    for row, found in enumerate(p):
        parts = [part[row] for part in program]
        other = solved(*parts)
        assert gained(found, *parts[:5]) >= gained(other, *parts[:5]) - 1e-6


def test_multipliers_say_what_a_limit_is_worth():
    # maximise 2 p0 + p1 where p0 <= 0.1: the limit is worth 2, one that is far away nothing
    slopes, g = np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[-0.1, -5.0]])
    gradient, flat = np.array([[2.0, 1.0]]), np.zeros((1, 2, 2))
    box = np.full((1, 2), 0.5)
    p, multipliers = quadratic_programs(flat, gradient, slopes, g, np.array([10.0]), -box, box)
    np.testing.assert_allclose(p, [[0.1, 0.5]], atol=1e-7)
    np.testing.assert_allclose(multipliers, [[2.0, 0.0]], atol=1e-6)


def rows_of(value, value_slope, limits, limit_slopes):
    def evaluate(x):
        return (
            np.array([value(row) for row in x]),
            np.array([value_slope(row) for row in x]),
            np.array([limits(row) for row in x]),
            np.array([limit_slopes(row) for row in x]),
        )

    return evaluate


disc = rows_of(  # the point of a disc that is farthest in a direction
    lambda x: x[0] + 2 * x[1],
    lambda x: np.array([1.0, 2.0]),
    lambda x: np.array([(x[0] - 0.4) ** 2 + (x[1] - 0.4) ** 2 - 0.09]),
    lambda x: np.array([[2 * (x[0] - 0.4), 2 * (x[1] - 0.4)]]),
)

corner = rows_of(  # where two curves meet, at (0.6, 0.36)
    lambda x: 3 * x[1] - x[0],
    lambda x: np.array([-1.0, 3.0]),
    lambda x: np.array([x[1] - x[0] ** 2, x[0] - 0.6]),
    lambda x: np.array([[-2 * x[0], 1.0], [1.0, 0.0]]),
)

banana = rows_of(  # Rosenbrock's valley, with its summit at (0.75, 0.75) inside
    lambda x: -100 * (x[1] + 0.25 - (x[0] + 0.25) ** 2) ** 2 - (0.75 - x[0]) ** 2,
    lambda x: np.array(
        [
            400 * (x[0] + 0.25) * (x[1] + 0.25 - (x[0] + 0.25) ** 2) + 2 * (0.75 - x[0]),
            -200 * (x[1] + 0.25 - (x[0] + 0.25) ** 2),
        ]
    ),
    lambda x: np.array([x[0] + x[1] - 1.9]),
    lambda x: np.array([[1.0, 1.0]]),
)


@pytest.mark.parametrize(
    ("problem", "optimum", "steps", "digits"),
    [
        (disc, [0.4 + 0.3 / 5**0.5, 0.4 + 0.6 / 5**0.5], 25, 1e-5),
        (corner, [0.6, 0.36], 16, 1e-9),
        (banana, [0.75, 0.75], 60, 1e-3),
    ],
    ids=["disc", "corner", "valley"],
)
def test_known_maxima_are_found(problem, optimum, steps, digits):
    start = 0.4 + 0.6 * np.random.default_rng(0).random((8, 2))
    found = maximise_within(problem, start, steps=steps)
    np.testing.assert_allclose(found, np.tile(optimum, (8, 1)), atol=digits)


def test_rows_do_not_depend_on_each_other():
    start = np.random.default_rng(1).random((5, 2))
    together = maximise_within(disc, start, steps=25)
    alone = np.concatenate([maximise_within(disc, row[None], steps=25) for row in start])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_where_nothing_is_feasible_the_violation_is_least():
    nowhere = rows_of(  # x0 <= 0.2 and x0 >= 0.6 at once, and the second counts three times as much
        lambda x: 0.01 * x[1],
        lambda x: np.array([0.0, 0.01]),
        lambda x: np.array([x[0] - 0.2, 3 * (0.6 - x[0])]),
        lambda x: np.array([[1.0, 0.0], [-3.0, 0.0]]),
    )
    found = maximise_within(nowhere, np.array([[0.9, 0.1], [0.1, 0.5]]), steps=40)
    np.testing.assert_allclose(found, [[0.6, 1.0], [0.6, 1.0]], atol=1e-6)


def test_steps_into_what_cannot_be_evaluated_are_not_taken():
    def wall(x):
        f, df, g, dg = disc(x)
        return np.where(x[:, 0] > 0.5, np.nan, f), df, g, dg

    found = maximise_within(wall, np.array([[0.3, 0.3]]), steps=40)
    assert found[0, 0] <= 0.5
    assert wall(found)[0] > wall(np.array([[0.3, 0.3]]))[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_rows_that_cannot_be_evaluated_stay_in_the_cube_and_do_not_spoil_others(bad):
    def spoilt(x):
        f, df, g, dg = disc(x)
        f[0], df[0], g[0], dg[0] = bad, bad, bad, bad
        return f, df, g, dg

    found = maximise_within(spoilt, np.array([[0.2, 0.9], [0.3, 0.3]]), steps=25)
    assert np.all((found >= 0) & (found <= 1))
    np.testing.assert_allclose(found[1], [0.4 + 0.3 / 5**0.5, 0.4 + 0.6 / 5**0.5], atol=1e-5)


def test_without_limits_it_is_a_plain_climb():
    def hill(x):
        return -np.sum((x - 0.3) ** 2, axis=1), -2 * (x - 0.3), np.empty((len(x), 0)), np.empty((len(x), 0, 2))

    found = maximise_within(hill, np.array([[0.9, 0.0], [0.0, 1.0]]), steps=30)
    np.testing.assert_allclose(found, np.full((2, 2), 0.3), atol=1e-5)
