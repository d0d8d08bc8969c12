"""The sandwich panel: which core makes a panel of given mass stiffest, when the beam formula ignores shear?

Three parameters divide the mass: how much of it is core, how light the foam is, and where along the span it is denser.
A lighter foam is thicker, since its mass is given. In beam theory that only helps: the faces are farther apart. In fact
the core shears, more the lighter it is, and most where the shear force is largest, near the supports. So the beam's
best panel has the lightest core allowed and is insensitive to grading; the true optimum is inside all ranges.

The panel has plywood faces on a core of rigid polyurethane foam. It spans 3 m between two supports and carries a
uniform pressure. Each square metre of it weighs 30 kg, shared between core and faces. The foam's modulus falls with the
square of its relative density r = ρ/ρ_solid: E = 1.6 GPa r², ν = 1/3 (Gibson and Ashby). Plywood is modelled as
isotropic.

Run as a program: `python -m fidelium.problems.fem.sandwich query.json result.json`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from skfem import Basis, ElementQuad2, MeshQuad

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.problems.fem.assembly import check_between, factorise, lame, plane_strain_modulus, stiffness_parts
from fidelium.problems.fem.program import run_program
from fidelium.space import Real, SearchSpace

SPAN = 3.0

MASS = 30.0
"""kg per square metre."""

FACE_MODULUS, FACE_POISSON, FACE_DENSITY = 9e9, 0.3, 600.0

FOAM_MODULUS, FOAM_POISSON, FOAM_DENSITY = 1.6e9, 1 / 3, 1200.0
"""Of the foam's cell walls; the foam's own modulus and density follow from its relative density."""

_GAUSS_POINTS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(32)

_KILOPASCAL_PER_MILLIMETRE = 1e-6
"""Of one pascal per metre."""

Position = TypeVar("Position", float, NDArray[np.float64])


@dataclass(frozen=True)
class Layout:
    """How one half of the panel is divided into elements.

    Args:
        along: elements from the support to midspan.
        core_layers: elements through the core.
        face_layers: elements through each face.
    """

    along: int
    core_layers: int
    face_layers: int = 1


LAYOUT = Layout(along=40, core_layers=6)


def sandwich() -> Problem:
    """The panel by beam theory and by plane elements, maximised.

    The optimum was found by Nelder and Mead's search, then by Newton's steps with second differences; none of 1,000
    random panels was stiffer. It is given to eight digits: values are exact to about 2e-9.
    """
    return Problem(
        name="sandwich",
        space=SearchSpace(
            {"core_share": Real(0.3, 0.95), "core_density": Real(0.03, 0.3, log=True), "grading": Real(-0.5, 0.8)}
        ),
        ladder=FidelityLadder((Fidelity("beam", cost=1), Fidelity("solid", cost=10))),
        direction=Direction.MAXIMIZE,
        functions=(sandwich_beam, sandwich_solid),
        optimum=0.62935125,
        optimisers=({"core_share": 0.77111, "core_density": 0.075782, "grading": 0.46574},),
        initial={"beam": 20, "solid": 5},
        reference="after Allen 1969 and Gibson and Ashby 1997, ch. 9",
        simulated=True,
    )


def sandwich_beam(core_share: float, core_density: float, grading: float) -> float:
    """Stiffness in kPa per mm of deflection by Euler's and Bernoulli's beam."""
    deflection = beam_deflection(SandwichPanel(core_share, core_density, grading))
    return _KILOPASCAL_PER_MILLIMETRE / deflection


def sandwich_solid(core_share: float, core_density: float, grading: float) -> float:
    """Stiffness in kPa per mm of deflection by plane elements: 40 along half the span, 6 in the core, 1 per face."""
    deflection = bend(SandwichPanel(core_share, core_density, grading), LAYOUT).deflection
    return _KILOPASCAL_PER_MILLIMETRE / deflection


@dataclass(frozen=True)
class SandwichPanel:
    """A panel of mass `MASS`.

    Args:
        core_share: the core's share of the mass.
        core_density: relative density of the foam, on average.
        grading: how much denser than that the foam is at the supports, and lighter at midspan, as a share of it.

    Raises:
        SettingError: if share and density are not inside (0, 1), or the grading not inside (-1, 1).
    """

    core_share: float
    core_density: float
    grading: float

    def __post_init__(self) -> None:
        check_between("the core's share of the mass", self.core_share, 0, 1)
        check_between("the core's relative density", self.core_density, 0, 1)
        check_between("the grading of the core", self.grading, -1, 1)

    @property
    def core_height(self) -> float:
        """In metres: the core's mass divided by its density."""
        return self.core_share * MASS / (FOAM_DENSITY * self.core_density)

    @property
    def face_thickness(self) -> float:
        """Of each of the two faces, in metres."""
        return (1 - self.core_share) * MASS / (2 * FACE_DENSITY)

    def core_modulus(self, x: Position) -> Position:
        """Young's modulus of the foam at a distance x from the support, up to midspan: E_s r(x)², r linear in x."""
        density = self.core_density * (1 + self.grading * (1 - 4 * x / SPAN))
        return FOAM_MODULUS * density**2


def beam_deflection(panel: SandwichPanel) -> float:
    """Deflection in the middle under a pressure of 1, by Euler and Bernoulli: cross sections stay plane and normal.

    w = ∫₀^{L/2} x M(x) / D(x) dx,  M(x) = x (L - x) / 2,  D = E_f' [(h + 2t)³ - h³]/12 + E_c' h³/12,  E' = E/(1 - ν²)
    """
    x, weights = SPAN / 4 * (1 + _GAUSS_POINTS), SPAN / 4 * _GAUSS_WEIGHTS
    inner, outer = panel.core_height, panel.core_height + 2 * panel.face_thickness
    faces = plane_strain_modulus(FACE_MODULUS, FACE_POISSON) * (outer**3 - inner**3) / 12
    core = plane_strain_modulus(1.0, FOAM_POISSON) * panel.core_modulus(x) * inner**3 / 12
    return float(np.sum(weights * x * x * (SPAN - x) / 2 / (faces + core)))


@dataclass(frozen=True, eq=False)
class Bent:
    """One half of the panel under a pressure of 1.

    Args:
        mesh: the elements; x from the support, z from the middle of the core.
        nodes: the positions of the displacements, one column each.
        displacement: of each node, along x and z.
    """

    mesh: MeshQuad
    nodes: NDArray[np.float64]
    displacement: NDArray[np.float64]

    @property
    def deflection(self) -> float:
        """How far the underside moves down at midspan."""
        x, z = self.nodes
        midspan = np.flatnonzero(np.isclose(x, SPAN / 2))
        return -float(self.displacement[1, midspan[np.argmin(z[midspan])]])


def bend(panel: SandwichPanel, layout: Layout) -> Bent:
    """The panel under a pressure of 1 on its upper face, in plane strain: quadratic quadrilaterals for half the span.

    Unlike a beam's, the cross sections of this model may warp and slide: the soft core shears. At the support the
    vertical displacement is fixed over the whole depth (a diaphragm), at midspan the horizontal one (symmetry).
    """
    mesh = _mesh(panel, layout)
    basis = Basis(mesh, ElementQuad2())
    count, (x, _) = basis.N, basis.doflocs
    held = np.concatenate([np.isclose(x, SPAN / 2), np.isclose(x, 0)])
    free = np.flatnonzero(~held)
    displacement = np.zeros(2 * count)
    force = np.concatenate([np.zeros(count), _pressure(basis.doflocs)])
    displacement[free] = factorise(_stiffness(panel, mesh)[free][:, free]).solve(force[free])
    return Bent(mesh, basis.doflocs, displacement.reshape(2, count))


def _mesh(panel: SandwichPanel, layout: Layout) -> MeshQuad:
    inner = panel.core_height / 2
    outer = inner + panel.face_thickness
    core = np.linspace(-inner, inner, layout.core_layers + 1)
    face = np.linspace(inner, outer, layout.face_layers + 1)[1:]
    return MeshQuad.init_tensor(np.linspace(0, SPAN / 2, layout.along + 1), np.concatenate([-face[::-1], core, face]))


def _stiffness(panel: SandwichPanel, mesh: MeshQuad) -> csr_array:
    """K = Σ over core and faces of λ A + μ B, Young's modulus under the integrals."""
    in_core = np.abs(mesh.p[1, mesh.t].mean(axis=0)) < panel.core_height / 2
    foam, plywood = (Basis(mesh, ElementQuad2(), elements=np.flatnonzero(chosen)) for chosen in (in_core, ~in_core))
    volume, shape = stiffness_parts(foam, weight=lambda position: panel.core_modulus(position[0]))
    of_core = lame(1.0, FOAM_POISSON)
    core = of_core[0] * volume + of_core[1] * shape
    volume, shape = stiffness_parts(plywood)
    of_faces = lame(FACE_MODULUS, FACE_POISSON)
    return core + of_faces[0] * volume + of_faces[1] * shape


def _pressure(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vertical forces of a pressure of 1 on the upper face: Simpson's rule, exact for quadratic elements."""
    x, z = nodes
    on_top = np.flatnonzero(np.isclose(z, z.max(), rtol=1e-12))
    along = on_top[np.argsort(x[on_top])]
    weights = np.ones(len(along))
    weights[1::2], weights[2:-1:2] = 4, 2
    force = np.zeros(len(x))
    force[along] = -weights / weights.sum() * SPAN / 2
    return force


if __name__ == "__main__":
    sys.exit(run_program(sandwich(), sys.argv[1:]))
