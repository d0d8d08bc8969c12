"""The plate against Rayleigh's and Lamb's exact solution, the NAFEMS benchmark and scaling laws."""

import math
from math import pi, sqrt, tanh

import numpy as np
import pytest
from scipy.optimize import root_scalar

from fidelium import problems
from fidelium.errors import SettingError, SpaceError
from fidelium.problems.fem import plate as module
from fidelium.problems.fem.assembly import factorise, nested_dissection
from fidelium.problems.fem.plate import (
    COARSE,
    FINE,
    SIDE,
    THICKNESS,
    Grid,
    discretise,
    fourth_mode,
    frequency,
    modes,
    plate_coarse,
    plate_fine,
)

PLATE = problems.get("plate")
STEEL = {"youngs_modulus": 200e9, "poissons_ratio": 0.3, "density": 8000.0}
HARD_GRIDS = [Grid(9, 1, hard=True), Grid(17, 2, hard=True), Grid(24, 3, hard=True)]


def steel_frequencies(grid: Grid, count: int) -> np.ndarray:
    squares, _ = modes(grid, STEEL["poissons_ratio"], count)
    return np.sqrt(squares * STEEL["youngs_modulus"] / STEEL["density"]) / (2 * pi)


def rayleigh_lamb(m: int, n: int) -> float:
    """Frequency of the bending wave (m, n) of a steel plate on hard supports, exact in three dimensions.

    Such a plate is a piece of an infinite one, whose waves of wavenumber k = π/a √(m² + n²) obey
    (k² + b²)² tanh(a h/2) = 4 k² a b tanh(b h/2), a² = k² - ω²/c_L², b² = k² - ω²/c_T² (Rayleigh and Lamb 1889).
    """
    young, nu, density = STEEL.values()
    k = pi / SIDE * math.hypot(m, n)
    transverse = sqrt(young / (2 * (1 + nu)) / density)
    longitudinal = transverse * sqrt(2 * (1 - nu) / (1 - 2 * nu))

    def residual(omega: float) -> float:
        a, b = sqrt(k**2 - (omega / longitudinal) ** 2), sqrt(k**2 - (omega / transverse) ** 2)
        return (k**2 + b**2) ** 2 * tanh(a * THICKNESS / 2) - 4 * k**2 * a * b * tanh(b * THICKNESS / 2)

    bracket = 1e-2 * transverse * k, (1 - 1e-9) * transverse * k
    return root_scalar(residual, bracket=bracket, xtol=1e-9).root / (2 * pi)


@pytest.fixture(scope="module")
def hard_spectra() -> list[np.ndarray]:
    return [steel_frequencies(grid, 6) for grid in HARD_GRIDS]


def test_the_exact_solution_is_that_of_the_literature() -> None:
    exact = [rayleigh_lamb(1, 1), rayleigh_lamb(1, 2), rayleigh_lamb(2, 2)]
    assert exact == pytest.approx([45.9712, 109.857, 168.819], abs=6e-4)


def test_on_hard_supports_the_bending_mode_converges_to_the_exact_solution(hard_spectra: list[np.ndarray]) -> None:
    errors = [spectrum[0] / rayleigh_lamb(1, 1) - 1 for spectrum in hard_spectra]
    assert errors == pytest.approx([0.0087, 0.00073, 0.00018], rel=0.04)


def test_frequencies_converge_with_the_fourth_power_of_the_cell(hard_spectra: list[np.ndarray]) -> None:
    # quadratic elements: error of the eigenvalue ~ h^(2p), p = 2
    errors = np.log([spectrum[0] / rayleigh_lamb(1, 1) - 1 for spectrum in hard_spectra])
    orders = -np.diff(errors) / np.diff(np.log([grid.cells for grid in HARD_GRIDS]))
    assert np.all((orders > 3.5) & (orders < 4.5)), orders


@pytest.mark.parametrize(("position", "wave"), [(1, (1, 2)), (2, (2, 1)), (5, (2, 2))])
def test_higher_modes_on_hard_supports_converge_too(
    hard_spectra: list[np.ndarray], position: int, wave: tuple[int, int]
) -> None:
    errors = [spectrum[position] / rayleigh_lamb(*wave) - 1 for spectrum in hard_spectra]
    assert 0 < errors[2] < 8e-4
    assert errors[2] < errors[1] / 3 < errors[0] / 9


def test_between_them_is_the_shear_wave_that_does_not_bend(hard_spectra: list[np.ndarray]) -> None:
    # u = sin(π y / a) along x: k = π/a, c_T = √(μ/ρ), f = c_T / (2a)
    shear = sqrt(200e9 / 2.6 / 8000) / (2 * SIDE)
    assert hard_spectra[1][3:5] == pytest.approx([shear, shear], rel=1e-5)


def test_the_soft_plate_is_near_the_nafems_benchmark_from_the_fifth_mode() -> None:
    found = steel_frequencies(FINE, 10)
    assert found[4:] == pytest.approx([109.44, 109.44, 167.89, 193.59, 206.19, 206.19], rel=0.025)


def test_the_first_three_modes_are_rigid() -> None:
    found = steel_frequencies(COARSE, 4)
    assert np.all(found[:3] < 1e-3)
    assert found[3] > 40


def test_steel_on_both_meshes() -> None:
    assert PLATE.evaluate(STEEL, "coarse") == pytest.approx(44.934, abs=6e-4)
    assert PLATE.evaluate(STEEL, "fine") == pytest.approx(44.281, abs=6e-4)


def test_the_optimum_is_a_corner() -> None:
    assert PLATE.optimum == pytest.approx(88.9964, abs=6e-5)
    assert PLATE.optimisers == ({"youngs_modulus": 5e11, "poissons_ratio": 0.49, "density": 6e3},)


def test_the_frequency_grows_with_poissons_ratio() -> None:
    nus = np.linspace(0.2, 0.49, 12).tolist()
    assert np.all(np.diff([frequency(COARSE, 1.0, nu, 1.0) for nu in nus]) > 0)
    assert np.all(np.diff([frequency(FINE, 1.0, nu, 1.0) for nu in (0.2, 0.3, 0.48, 0.49)]) > 0)


def test_the_frequency_is_that_of_the_whole_pencil() -> None:
    # ω² M u = K u with E and ρ inside, by a dense solver that knows nothing of scaling, shifts or orders
    from scipy.linalg import eigh

    from fidelium.problems.fem.assembly import lame

    grid, (young, nu, density) = Grid(3, 1), (3e11, 0.4, 7e3)
    plate, (first, second) = discretise(grid), lame(young, nu)
    stiffness = first * plate.volume_part + second * plate.shape_part
    squares = eigh(stiffness.toarray(), density * plate.mass.toarray(), eigvals_only=True)
    assert frequency(grid, young, nu, density) == pytest.approx(sqrt(squares[3]) / (2 * pi), rel=1e-9)


def test_the_same_question_has_the_same_answer_to_the_last_digit() -> None:
    first = plate_coarse(**STEEL)
    module._unit_frequency.cache_clear()
    assert plate_coarse(**STEEL) == first


def test_the_fidelities_rank_designs_alike(rank_correlation) -> None:
    generator = np.random.default_rng(0)
    designs = [
        {"youngs_modulus": generator.uniform(1e11, 5e11), "poissons_ratio": nu, "density": generator.uniform(6e3, 9e3)}
        for nu in (0.2, 0.3, 0.48, 0.49)
        for _ in range(25)
    ]
    coarse, fine = ([PLATE.evaluate(design, name) for design in designs] for name in PLATE.ladder.names)
    assert rank_correlation(coarse, fine) > 0.999


def test_the_mode_is_one_bump_that_the_sides_hold_down() -> None:
    mode = fourth_mode(COARSE, **STEEL)
    points = mode.mesh.refined().p
    np.testing.assert_allclose(points, discretise(COARSE).nodes, atol=1e-14)
    x, y, _ = points
    on_side = np.isclose(x % SIDE, 0) | np.isclose(y % SIDE, 0)
    assert mode.frequency == plate_coarse(**STEEL)
    assert np.abs(mode.displacement[2, on_side]).max() == 0
    assert mode.displacement[2, ~on_side].min() > 0
    top = points[:, np.argmax(mode.displacement[2])]
    assert top[:2] == pytest.approx([5, 5], abs=0.6)
    bump = np.sin(pi * x / SIDE) * np.sin(pi * y / SIDE)  # mode (1, 1)
    assert np.corrcoef(bump, mode.displacement[2])[0, 1] > 0.999


def test_nested_dissection_orders_every_node_once_and_fills_less_than_minimum_degree() -> None:
    grid = Grid(12, 2)
    plate = discretise(grid)
    order = nested_dissection(plate.nodes, grid.planes)
    assert np.array_equal(np.sort(order), np.arange(plate.nodes.shape[1]))
    matrix = plate.volume_part + plate.shape_part + plate.mass
    assert factorise(matrix, ordered=True).nnz < 0.9 * factorise(matrix).nnz


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"poissons_ratio": 0.5}, r"Poisson's ratio .* must be above -1 and below 0.5, got 0.5"),
        ({"poissons_ratio": 0.6}, r"below 0.5, got 0.6"),
        ({"poissons_ratio": math.nan}, r"below 0.5, got nan"),
        ({"youngs_modulus": 0.0}, r"Young's modulus must be a finite number above 0, got 0.0"),
        ({"youngs_modulus": math.inf}, r"Young's modulus must be a finite number above 0, got inf"),
        ({"density": -1.0}, r"the density must be a finite number above 0, got -1.0"),
        ({"density": math.nan}, r"the density must be a finite number above 0, got nan"),
    ],
)
@pytest.mark.parametrize("function", [plate_coarse, plate_fine])
def test_what_is_no_elastic_material_is_refused(function, change: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        function(**STEEL | change)


@pytest.mark.parametrize(
    ("name", "value"), [("poissons_ratio", 0.6), ("youngs_modulus", 5.1e11), ("density", math.nan)]
)
def test_designs_outside_the_space_are_refused(name: str, value: float) -> None:
    with pytest.raises(SpaceError, match=f"'{name}'.*got {value!r}"):
        PLATE.evaluate(STEEL | {name: value}, "fine")
