"""The conductor against the series of the plate without a hole, its symmetries and mesh convergence."""

import math
from math import exp, pi

import numpy as np
import pytest
from scipy.optimize import brentq
from skfem import Basis, ElementTriP2, MeshTri

from fidelium import problems
from fidelium.errors import SettingError, SpaceError
from fidelium.problems.fem.conductor import (
    COARSE,
    FINE,
    HOT,
    LEVEL,
    RAMP,
    SIDE,
    STEP,
    Ellipse,
    Rings,
    conductor_coarse,
    conductor_fine,
    o_grid,
    respond,
    seconds_to_warm,
    triangles,
)

CONDUCTOR = problems.get("conductor")
OBLIQUE = {"x_radius": 1.2, "y_radius": 0.6, "angle": 0.5}


def exact_temperature(length: float, time: float) -> float:
    """T(L, t) of a bar with one insulated end, warmed by the ramp at the other, after the ramp's end."""
    total = 0.0
    for n in range(200):
        rate = ((2 * n + 1) * pi / (2 * length)) ** 2
        if rate * (time - RAMP) < 700:
            grown = (exp(-rate * (time - RAMP)) - exp(-rate * time)) / (rate * RAMP)
            total += 4 * (-1) ** n / ((2 * n + 1) * pi) * grown
    return HOT * (1 - total)


def strip(length: float, cells: int) -> MeshTri:
    return MeshTri.init_tensor(np.linspace(0, length, cells + 1), np.linspace(0, length / cells, 2))


def areas(rings: Rings, hole: Ellipse) -> np.ndarray:
    """Of all triangles, negative if their corners run clockwise; the mesh itself sorts them."""
    first, second, third = o_grid(rings, hole, SIDE).p[:, triangles(rings)].transpose(1, 0, 2)
    across, up = second - first, third - first
    return (across[0] * up[1] - across[1] * up[0]) / 2


def random_holes(count: int) -> list[Ellipse]:
    generator = np.random.default_rng(0)
    return [
        Ellipse(generator.uniform(0.2, 1.5), generator.uniform(0.2, 1.5), generator.uniform(0, pi))
        for _ in range(count)
    ]


# --- without a hole


@pytest.mark.parametrize(("length", "expected"), [(4.0, 9.6252524829), (2.0, 2.59983050), (1.0, 0.86122100)])
def test_without_a_hole_the_time_is_that_of_the_series(length: float, expected: float) -> None:
    exact = brentq(lambda time: exact_temperature(length, time) - LEVEL, RAMP, 20, xtol=1e-12)
    assert exact == pytest.approx(expected, abs=6e-9)
    assert respond(strip(length, 32), LEVEL, step=0.0125).when(LEVEL) == pytest.approx(exact, rel=2e-5)


def test_without_a_hole_the_fine_meshs_resolution_is_exact_to_a_hundred_thousandth() -> None:
    assert respond(strip(SIDE, 20), LEVEL).when(LEVEL) == pytest.approx(9.6252524829, rel=1e-5)


def test_the_time_converges_with_the_square_of_the_step() -> None:
    mesh = strip(1.0, 32)
    errors = [respond(mesh, LEVEL, step).when(LEVEL) - 0.86122100 for step in (0.05, 0.025, 0.0125)]
    assert np.log2(np.abs(errors[:-1]) / np.abs(errors[1:])) == pytest.approx([2, 2], abs=0.15)


def test_the_response_is_the_series_at_all_times() -> None:
    response = respond(strip(SIDE, 20), 95.0)
    later = response.times > RAMP
    exact = [exact_temperature(SIDE, time) for time in response.times[later]]
    np.testing.assert_allclose(response.means[later], exact, atol=0.02)
    assert response.means[0] == 0
    assert response.means[-1] > response.means[-2] >= 95.0 > response.means[-3]


# --- the mesh


def test_no_triangle_is_inverted_for_thousands_of_holes() -> None:
    for number, hole in enumerate(random_holes(3000)):
        for rings in (COARSE, FINE) if number % 10 == 0 else (COARSE,):
            assert areas(rings, hole).min() > 0


@pytest.mark.parametrize(("rings", "longest"), [(COARSE, 0.8), (FINE, 0.2)])
def test_no_edge_is_longer_than_the_paper_says(rings: Rings, longest: float) -> None:
    corners = [Ellipse(x, y, angle) for x in (0.2, 1.5) for y in (0.2, 1.5) for angle in (0, 0.4, pi / 4, pi / 2)]
    for hole in corners + random_holes(100):
        mesh = o_grid(rings, hole, SIDE)
        edges = mesh.p[:, mesh.facets]
        assert np.linalg.norm(edges[:, 0] - edges[:, 1], axis=0).max() <= longest + 1e-12


def test_the_mesh_covers_the_square_without_the_hole() -> None:
    hole = Ellipse(**OBLIQUE)
    exact = SIDE**2 - pi * hole.x_radius * hole.y_radius
    missing = [areas(Rings(n, n), hole).sum() - exact for n in (10, 20, 40)]
    # a polygon with its corners on the ellipse is too small a hole, by O(h²)
    assert np.log2(np.divide(missing[:-1], missing[1:])) == pytest.approx([2, 2], abs=0.1)
    assert missing[0] > 0


# --- with a hole


def test_the_time_converges_as_the_mesh_is_refined() -> None:
    times = [seconds_to_warm(rings, **OBLIQUE) for rings in (Rings(10, 7), FINE, Rings(40, 28))]
    assert times[-1] == pytest.approx(10.746, abs=5e-4)
    assert times[1] == pytest.approx(10.746, abs=1.2e-3)
    assert np.log2((times[1] - times[0]) / (times[2] - times[1])) == pytest.approx(2, abs=0.3)  # the hole is a polygon


def test_mirrored_holes_are_equal() -> None:
    for function in (conductor_coarse, conductor_fine):
        assert function(1.2, 0.6, 0.5) == pytest.approx(function(1.2, 0.6, pi - 0.5), rel=1e-11)


def test_the_same_hole_with_its_axes_exchanged_is_equal() -> None:
    for function in (conductor_coarse, conductor_fine):
        assert function(1.2, 0.6, 0.5) == pytest.approx(function(0.6, 1.2, 0.5 + pi / 2), rel=1e-11)


def test_a_round_hole_has_no_angle() -> None:
    # by the mesh alone: its points are those of another angle's, up to rounding
    assert conductor_coarse(0.7, 0.7, 0.0) == pytest.approx(conductor_coarse(0.7, 0.7, 1.1), rel=1e-11)


@pytest.mark.parametrize("name", ["x_radius", "y_radius", "angle"])
def test_the_time_is_smooth(name: str) -> None:
    times = [conductor_coarse(**OBLIQUE | {name: OBLIQUE[name] + 1e-3 * k}) for k in range(-4, 5)]
    assert np.abs(np.diff(times, n=4)).max() < 1e-9
    assert np.abs(np.diff(times)).min() > 1e-6


def test_a_slit_across_the_flow_is_the_slowest_and_one_along_it_the_fastest() -> None:
    across, along = conductor_fine(0.2, 1.5, 0.0), conductor_fine(1.5, 0.2, 0.0)
    assert along == pytest.approx(CONDUCTOR.optimum, rel=1e-10)
    assert CONDUCTOR.optimum == pytest.approx(9.68, abs=2e-3)
    assert along < conductor_fine(0.2, 0.2, 0.0) < conductor_fine(1.5, 1.5, 0.0) < across


def test_the_same_question_has_the_same_answer_to_the_last_digit() -> None:
    assert conductor_fine(**OBLIQUE) == conductor_fine(**OBLIQUE)


def test_the_fidelities_rank_designs_alike(rank_correlation) -> None:
    holes = [(hole.x_radius, hole.y_radius, hole.angle) for hole in random_holes(12)]
    coarse, fine = ([function(*hole) for hole in holes] for function in CONDUCTOR.functions)
    assert rank_correlation(coarse, fine) > 0.99


def test_the_step_divides_the_ramp() -> None:
    steps = RAMP / STEP
    assert steps == pytest.approx(round(steps), rel=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_radius": 0.0}, "x-radius must be a finite number above 0, got 0.0"),
        ({"y_radius": math.nan}, "y-radius must be a finite number above 0, got nan"),
        ({"angle": math.inf}, "angle must be above -inf and below inf, got inf"),
        ({"y_radius": 2.0}, "radius of a hole must be above 0 and below 2, got 2.0"),
    ],
)
def test_what_is_no_hole_is_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        conductor_fine(**OBLIQUE | change)


def test_a_level_reached_in_the_first_steps_has_a_time_too() -> None:
    response = respond(strip(0.01, 2), 10.0)  # thin: the right edge follows the ramp
    assert response.when(10.0) == pytest.approx(10 / HOT * RAMP, rel=0.01)


def test_temperatures_belong_to_the_vertices_of_the_refined_mesh() -> None:
    mesh = o_grid(COARSE, Ellipse(**OBLIQUE), SIDE)
    np.testing.assert_allclose(mesh.refined().p, Basis(mesh, ElementTriP2()).doflocs, atol=1e-14)


def test_a_temperature_that_is_never_reached_is_refused() -> None:
    with pytest.raises(SettingError, match="must be above 0 and below 100, got 100"):
        respond(strip(1.0, 4), 100)
    with pytest.raises(SettingError, match="the level must be above 0 and below 7"):
        respond(strip(SIDE, 8), LEVEL).when(80)
    with pytest.raises(SettingError, match="did not reach 70 degrees in 1000 seconds"):
        respond(strip(100.0, 4), LEVEL, step=0.5)


def test_designs_outside_the_space_are_refused() -> None:
    with pytest.raises(SpaceError, match="'x_radius'"):
        CONDUCTOR.evaluate(OBLIQUE | {"x_radius": 1.6}, "fine")
