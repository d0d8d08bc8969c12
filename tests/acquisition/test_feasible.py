"""Climbing within known constraints: the maximum on an edge or in a corner, compared with SciPy's and with grids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize

from fidelium.acquisition.base import Designs
from fidelium.acquisition.feasible import climb_feasible
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Real, SearchSpace

Function = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def reals(count: int) -> dict[str, Real]:
    return {f"x{i}": Real(0, 1) for i in range(count)}


def bowl(centre: np.ndarray, weights: np.ndarray) -> Function:
    """f = - sum w (x - c)²."""
    return lambda x: (-np.sum(weights * (x - centre) ** 2, axis=1), -2 * weights * (x - centre))


def climbed(space: SearchSpace, function: Function, rows: int = 8, steps: int = 30) -> tuple[np.ndarray, float]:
    start = space.sample(np.random.default_rng(1), rows)
    found = climb_feasible(space, function, start, steps=steps, tolerance=1e-6)
    assert space.meets(found.x).all()
    assert np.array_equal(space.snap(found.x), found.x)
    np.testing.assert_allclose(function(found.x)[0], found.value)
    assert np.all(found.value >= function(start)[0])
    return found.x[found.best], float(found.value[found.best])


PLAIN = [  # the maximum of -(x - 0.9)² - 3 (y - 0.8)² on an edge, by hand from the Lagrange conditions
    (["x0 + x1 <= 1"], [0.375, 0.625]),
    (["x0 + x1 <= 1", "x1 <= 0.3"], [0.7, 0.3]),
    (["x1 <= 0.3 * x0"], [1.0, 0.3]),  # the bound of x0 and the edge
    (["x1 <= 0.5 * x0 + 0.1"], [1.0, 0.6]),
    (["x0 <= 0.5", "x1 < 0.25"], [0.5, 0.25]),
]


@pytest.mark.parametrize(("constraints", "expected"), PLAIN)
def test_the_maximum_on_an_edge_or_in_a_corner_is_that_of_the_lagrange_conditions(constraints, expected):
    found, _ = climbed(SearchSpace(reals(2), constraints), bowl(np.array([0.9, 0.8]), np.array([1.0, 3.0])))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dimension", [2, 6, 10])
def test_linear_sets_end_where_slsqp_does(seed, dimension):
    generator = np.random.default_rng(seed)
    centre, weights = generator.random(dimension) * 1.4, 10 ** generator.uniform(-1, 1, dimension)
    normals, inside = generator.normal(size=(2, dimension)).round(3), generator.random(dimension)
    limits = (normals @ inside).round(3) + 0.01
    texts = [
        f"{' + '.join(f'{a} * x{i}' for i, a in enumerate(row))} <= {limit}"
        for row, limit in zip(normals.tolist(), limits.tolist(), strict=True)
    ]
    function = bowl(centre, weights)
    found, value = climbed(SearchSpace(reals(dimension), texts), function)
    reference = minimize(
        lambda x: -function(x[None])[0][0],
        inside,
        jac=lambda x: -function(x[None])[1][0],
        bounds=[(0, 1)] * dimension,
        constraints=LinearConstraint(normals, -np.inf, limits),
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    spread = float(np.sum(weights))
    assert value == pytest.approx(-reference.fun, abs=1e-3 * spread)
    np.testing.assert_allclose(found, reference.x, atol=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_a_ball_ends_where_slsqp_does(seed):
    generator = np.random.default_rng(seed)
    centre, weights = 0.6 + generator.random(4), 10 ** generator.uniform(-0.5, 0.5, 4)
    function = bowl(centre, weights)
    found, value = climbed(SearchSpace(reals(4), ["x0**2 + x1**2 + x2**2 + x3**2 <= 0.5"]), function)
    reference = minimize(
        lambda x: -function(x[None])[0][0],
        np.full(4, 0.3),
        bounds=[(0, 1)] * 4,
        constraints=NonlinearConstraint(lambda x: x @ x, -np.inf, 0.5),
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert value == pytest.approx(-reference.fun, abs=1e-5)
    assert np.linalg.norm(found) == pytest.approx(np.sqrt(0.5), abs=1e-9)  # on the edge, not merely near it


def test_a_wavy_function_on_a_thin_ring_ends_at_the_best_of_a_grid():
    space = SearchSpace(reals(2), ["0.0999 <= (x0 - 0.5)**2 + (x1 - 0.5)**2 <= 0.1"])

    def waves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.sin(9 * x[:, 0]) + np.cos(7 * x[:, 1]), np.stack(
            [9 * np.cos(9 * x[:, 0]), -7 * np.sin(7 * x[:, 1])], 1
        )

    angles = np.linspace(0, 2 * np.pi, 20_001)
    best = -np.inf
    for radius in np.sqrt([0.0999, 0.1]):
        ring = 0.5 + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        best = max(best, float(np.max(waves(ring)[0])))
    assert climbed(space, waves, rows=32)[1] == pytest.approx(best, abs=1e-5)


def test_a_maximum_inside_is_found_as_without_constraints():
    centre = np.array([0.3, 0.4])
    space = SearchSpace(reals(2), ["x0 + x1 <= 1"])
    np.testing.assert_allclose(climbed(space, bowl(centre, np.ones(2)))[0], centre, atol=1e-5)


def test_without_constraints_it_is_the_climb_in_the_box():
    function = bowl(np.array([0.9, 1.2]), np.ones(2))
    start = np.random.default_rng(0).random((5, 2))
    expected = maximise_rows(function, start, 0.0, 1.0, steps=20, tolerance=1e-6)
    for space in (None, SearchSpace(reals(2))):
        found = climb_feasible(space, function, start, steps=20, tolerance=1e-6)
        assert found.x.tobytes() == expected.x.tobytes()
        assert found.value.tobytes() == expected.value.tobytes()


def test_whole_numbers_and_choices_stay_valid():
    space = SearchSpace(
        {"x": Real(0, 1), "n": Integer(0, 9), "core": Categorical(("foam", "oak", "balsa"))},
        ["x + n / 10 <= 0.75", "core != 'oak'"],
    )
    found, _ = climbed(space, lambda u: (np.sum(u, axis=1) + u[:, 3], np.ones_like(u) + np.eye(5)[3]), rows=16)
    design = space.decode(found)
    assert design["core"] != "oak"
    assert design["x"] + design["n"] / 10 == pytest.approx(0.75, abs=1e-9)


def test_a_function_that_is_nan_somewhere_never_leads_out():
    space = SearchSpace(reals(2), ["x0 + x1 <= 1"])

    def broken(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.where(x[:, 0] > 0.5, np.nan, x[:, 0] + x[:, 1])
        return value, np.ones_like(x)

    start = space.sample(np.random.default_rng(3), 6)
    found = climb_feasible(space, broken, start)
    assert space.meets(found.x).all()


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_it_never_leaves_a_random_set_and_never_falls(seed, dimension):
    generator = np.random.default_rng(seed)
    inside = generator.random(dimension)
    text = " + ".join(
        f"{a} * x{i} ** {p}"
        for i, (a, p) in enumerate(
            zip(generator.normal(size=dimension).round(2), generator.integers(1, 4, dimension), strict=True)
        )
    )
    value = float(eval(text, {}, {f"x{i}": x for i, x in enumerate(inside)}))
    space = SearchSpace(reals(dimension), [f"{value - 0.01} <= {text} <= {value + 0.01}"])
    top = generator.random(dimension) * 2 - 0.5
    x, height = climbed(space, bowl(top, np.ones(dimension)), rows=4, steps=15)
    assert space.meets(x[None]).all()
    assert height <= 0  # that of the bowl's top


def test_starting_points_around_centres_meet_the_constraints():
    space = SearchSpace(reals(3), ["0.999 <= x0 + x1 + x2 <= 1.001"])
    history = History(space, FidelityLadder((Fidelity("only", 1),)), Direction.MAXIMIZE)
    for centres in (np.empty((0, 3)), np.array([[0.9, 0.9, 0.9], [0.2, 0.3, 0.5]])):
        points = Designs().around(history, centres, Key((1,)))
        assert len(points) == 608
        assert space.meets(points).all()
