"""The sandwich panel against exact elasticity, beam and sandwich theory, and what its beam formula does not see."""

import math
from math import pi

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.linalg import expm

from fidelium import problems
from fidelium.errors import SettingError, SpaceError
from fidelium.problems.fem.assembly import lame, plane_strain_modulus
from fidelium.problems.fem.sandwich import (
    FACE_DENSITY,
    FACE_MODULUS,
    FACE_POISSON,
    FOAM_DENSITY,
    FOAM_MODULUS,
    FOAM_POISSON,
    LAYOUT,
    MASS,
    SPAN,
    Layout,
    SandwichPanel,
    beam_deflection,
    bend,
    sandwich_beam,
    sandwich_solid,
)

SANDWICH = problems.get("sandwich")
UNIFORM = [
    SandwichPanel(0.77, 0.076, 0.0),
    SandwichPanel(0.3, 0.3, 0.0),
    SandwichPanel(0.95, 0.03, 0.0),
    SandwichPanel(0.3, 0.03, 0.0),
]


def exact_deflection(panel: SandwichPanel, terms: int = 25) -> float:
    """Of the underside at midspan under a pressure of 1, without grading: Pagano's solution (1969), wave by wave.

    With u = U(z) cos px, w = W(z) sin px each layer obeys y' = A y for y = (U, W, σ, τ); the faces are free but for the
    pressure, whose wave of wavenumber p = nπ/L, n odd, has the amplitude 4/(nπ).
    """
    total = 0.0
    for n in range(1, 2 * terms, 2):
        p = n * pi / SPAN
        face = expm(panel.face_thickness * _layer(p, *lame(FACE_MODULUS, FACE_POISSON)))
        core = expm(panel.core_height * _layer(p, *lame(panel.core_modulus(0.0), FOAM_POISSON)))
        through = face @ core @ face
        bottom = np.linalg.solve(through[2:, :2], [-4 / (n * pi), 0.0])
        total -= bottom[1] * math.sin(n * pi / 2)
    return total


def _layer(p: float, lam: float, mu: float) -> np.ndarray:
    """The derivatives of U, W, σ and τ along z: Hooke's law and equilibrium in plane strain."""
    wide = lam + 2 * mu
    return np.array(
        [
            [0, -p, 0, 1 / mu],
            [lam * p / wide, 0, 1 / wide, 0],
            [0, 0, 0, p],
            [p**2 * (wide - lam**2 / wide), 0, -p * lam / wide, 0],
        ]
    )


def shear_deflection(panel: SandwichPanel) -> float:
    """What the core's shear adds by sandwich theory (Allen 1969): ∫₀^{L/2} (L/2 - x) / S(x) dx, S = G (h + t)²/h."""
    nodes, weights = leggauss(40)
    x = SPAN / 4 * (1 + nodes)
    shear_modulus = panel.core_modulus(x) / (2 * (1 + FOAM_POISSON))
    stiffness = shear_modulus * (panel.core_height + panel.face_thickness) ** 2 / panel.core_height
    return float(np.sum(SPAN / 4 * weights * (SPAN / 2 - x) / stiffness))


# --- plane elements


@pytest.mark.parametrize("panel", UNIFORM)
def test_the_elements_are_the_exact_solution_of_elasticity(panel: SandwichPanel) -> None:
    assert bend(panel, LAYOUT).deflection == pytest.approx(exact_deflection(panel), rel=5e-6)


def test_the_deflection_converges_to_the_exact_solution() -> None:
    panel = SandwichPanel(0.6, 0.1, 0.0)
    exact = exact_deflection(panel)
    layouts = [Layout(5, 1, 1), Layout(10, 2, 2), Layout(20, 4, 4)]
    errors = [abs(bend(panel, layout).deflection / exact - 1) for layout in layouts]
    assert errors[0] > 6 * errors[1] > 36 * errors[2]
    assert errors[2] < 1e-6


@pytest.mark.parametrize(("grading", "error"), [(-0.5, 0.006), (0.0, 0.005), (0.4657, 0.012), (0.8, 0.06)])
def test_bending_and_shear_of_sandwich_theory_add_up_to_the_elements(grading: float, error: float) -> None:
    # where the core is weak, the faces carry shear by bending on their own: the theory is on the soft side
    panel = SandwichPanel(0.77, 0.076, grading)
    theory = beam_deflection(panel) + shear_deflection(panel)
    assert 0 < theory / bend(panel, LAYOUT).deflection - 1 < error


@pytest.mark.parametrize("name", ["core_share", "core_density", "grading"])
def test_the_stiffness_is_smooth(name: str) -> None:
    design = SANDWICH.optimisers[0]
    ends = SANDWICH.space.parameters[name]
    step = 1e-3 * (ends.high - ends.low)  # pyright: ignore[reportAttributeAccessIssue]
    values = [sandwich_solid(**design | {name: design[name] + step * k}) for k in range(-4, 5)]
    assert np.abs(np.diff(values, n=4)).max() < 5e-8


def test_the_same_question_has_the_same_answer_to_the_last_digit() -> None:
    design = SANDWICH.optimisers[0]
    assert sandwich_solid(**design) == sandwich_solid(**design)


def test_displacements_belong_to_the_vertices_of_the_refined_mesh() -> None:
    bent = bend(UNIFORM[0], Layout(3, 2))
    np.testing.assert_allclose(bent.mesh.refined().p, bent.nodes, atol=1e-14)


# --- beam theory


@pytest.mark.parametrize("panel", UNIFORM)
def test_the_beam_is_the_textbooks(panel: SandwichPanel) -> None:
    inner, outer = panel.core_height, panel.core_height + 2 * panel.face_thickness
    faces = FACE_MODULUS / (1 - FACE_POISSON**2) * (outer**3 - inner**3) / 12
    core = plane_strain_modulus(FOAM_MODULUS * panel.core_density**2, FOAM_POISSON) * inner**3 / 12
    assert beam_deflection(panel) == pytest.approx(5 * SPAN**4 / (384 * (faces + core)), rel=1e-12)


def test_every_panel_has_the_given_mass() -> None:
    for panel in UNIFORM:
        core = panel.core_height * panel.core_density * FOAM_DENSITY
        assert core + 2 * panel.face_thickness * FACE_DENSITY == pytest.approx(MASS, rel=1e-14)
    graded = SandwichPanel(0.5, 0.1, 0.7)
    x = np.linspace(0, SPAN / 2, 1001)
    assert np.mean(np.sqrt(graded.core_modulus(x) / FOAM_MODULUS)) == pytest.approx(0.1, rel=1e-12)


def test_where_the_core_is_stiff_the_beam_is_right() -> None:
    ratios = [sandwich_solid(0.3, density, 0.0) / sandwich_beam(0.3, density, 0.0) for density in (0.03, 0.1, 0.3)]
    assert ratios == sorted(ratios)
    assert ratios[0] < 0.1
    assert ratios[-1] > 0.95


def test_the_beams_best_panel_has_two_thirds_of_its_mass_in_the_lightest_core() -> None:
    shares = np.linspace(0.3, 0.95, 66)
    stiffest = shares[np.argmax([sandwich_beam(share, 0.03, 0.0) for share in shares.tolist()])]
    assert stiffest == pytest.approx(2 / 3, abs=0.02)  # φ² (1 - φ) of thin faces
    densities = np.geomspace(0.03, 0.3, 20).tolist()
    assert np.all(np.diff([sandwich_beam(2 / 3, density, 0.0) for density in densities]) < 0)


# --- what the beam does not see


def test_the_low_fidelity_misleads_where_the_core_is_light(rank_correlation) -> None:
    units = SANDWICH.space.sample(np.random.default_rng(0), 100)
    designs = [SANDWICH.space.decode(unit) for unit in units]
    beam = np.array([sandwich_beam(**each) for each in designs])
    solid = np.array(
        [1e-6 / bend(SandwichPanel(**each), Layout(12, 2)).deflection for each in designs]
    )  # right to 0.3 %
    light = np.array([each["core_density"] < 0.06 for each in designs])
    dense = np.array([each["core_density"] > 0.12 for each in designs])
    assert 0.5 < rank_correlation(beam, solid) < 0.7
    assert rank_correlation(beam[light], solid[light]) < -0.3
    assert rank_correlation(beam[dense], solid[dense]) > 0.95
    assert solid[np.argmax(beam)] < 0.7 * solid.max()


def test_the_optimum_is_inside_and_far_from_the_beams() -> None:
    (best,) = SANDWICH.optimisers
    unit = SANDWICH.space.encode(best)
    assert np.all((unit > 0.2) & (unit < 0.8))
    beams_best = {"core_share": 2 / 3, "core_density": 0.03, "grading": best["grading"]}
    assert sandwich_beam(**beams_best) > 6 * sandwich_beam(**best)
    assert sandwich_solid(**beams_best) < 0.6 * SANDWICH.optimum


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"core_share": 1.0}, "core's share of the mass must be above 0 and below 1, got 1.0"),
        ({"core_density": math.nan}, "core's relative density must be above 0 and below 1, got nan"),
        ({"grading": -1.0}, "grading of the core must be above -1 and below 1, got -1.0"),
    ],
)
@pytest.mark.parametrize("function", [sandwich_beam, sandwich_solid])
def test_what_is_no_panel_is_refused(function, change: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        function(**SANDWICH.optimisers[0] | change)


def test_designs_outside_the_space_are_refused() -> None:
    with pytest.raises(SpaceError, match="'grading'"):
        SANDWICH.evaluate(SANDWICH.optimisers[0] | {"grading": 0.9}, "solid")
