"""Bending of a sandwich panel, by beam theory and in plane strain: quadratic quadrilaterals for one half of the span.

The panel has plywood faces on a core of rigid polyurethane foam. It spans 3 m between two supports and carries a
uniform pressure. Each square metre of it weighs 30 kg, shared between core and faces. The foam's modulus falls with the
square of its relative density r = ρ/ρ_solid: E = 1.6 GPa r², ν = 1/3 (Gibson and Ashby). Plywood is taken as isotropic.

Unlike a beam's, the cross sections of the plane model may warp and slide: the soft core shears. At the support the
vertical displacement is held over the whole depth (a diaphragm), at midspan the horizontal one (symmetry).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from skfem import Basis, ElementQuad2, MeshQuad

from fidelium.problems.fem.elasticity import check_between, lame, plane_strain_modulus, stiffness_parts
from fidelium.problems.fem.sparse import factorise

SPAN = 3.0
MASS = 30.0
"""kg per square metre."""

FACE_MODULUS, FACE_POISSON, FACE_DENSITY = 9e9, 0.3, 600.0
FOAM_MODULUS, FOAM_POISSON, FOAM_DENSITY = 1.6e9, 1 / 3, 1200.0
"""Of the foam's cell walls; the foam's own modulus and density follow from its relative density."""

_GAUSS_POINTS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(32)

Position = TypeVar("Position", float, NDArray[np.float64])


@dataclass(frozen=True)
class Panel:
    """A panel of the given mass.

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
        """In metres: what the core's mass fills at its density."""
        return self.core_share * MASS / (FOAM_DENSITY * self.core_density)

    @property
    def face_thickness(self) -> float:
        """Of each of the two faces, in metres."""
        return (1 - self.core_share) * MASS / (2 * FACE_DENSITY)

    def core_modulus(self, x: Position) -> Position:
        """Young's modulus of the foam at a distance x from the support, up to midspan: E_s r(x)², r linear in x."""
        density = self.core_density * (1 + self.grading * (1 - 4 * x / SPAN))
        return FOAM_MODULUS * density**2


def beam_deflection(panel: Panel) -> float:
    """Deflection in the middle under a pressure of 1, by Euler and Bernoulli: cross sections stay plane and normal.

    w = ∫₀^{L/2} x M(x) / D(x) dx,  M(x) = x (L - x) / 2,  D = E_f' [(h + 2t)³ - h³]/12 + E_c' h³/12,  E' = E/(1 - ν²)
    """
    x, weights = SPAN / 4 * (1 + _GAUSS_POINTS), SPAN / 4 * _GAUSS_WEIGHTS
    inner, outer = panel.core_height, panel.core_height + 2 * panel.face_thickness
    faces = plane_strain_modulus(FACE_MODULUS, FACE_POISSON) * (outer**3 - inner**3) / 12
    core = plane_strain_modulus(1.0, FOAM_POISSON) * panel.core_modulus(x) * inner**3 / 12
    return float(np.sum(weights * x * x * (SPAN - x) / 2 / (faces + core)))


@dataclass(frozen=True)
class Layout:
    """How one half of the panel is cut into elements.

    Args:
        along: elements from the support to midspan.
        core_layers: elements through the core.
        face_layers: elements through each face.
    """

    along: int
    core_layers: int
    face_layers: int = 1


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


def bend(panel: Panel, layout: Layout) -> Bent:
    """The panel under a pressure of 1 on its upper face."""
    mesh = _mesh(panel, layout)
    basis = Basis(mesh, ElementQuad2())
    count, (x, _) = basis.N, basis.doflocs
    held = np.concatenate([np.isclose(x, SPAN / 2), np.isclose(x, 0)])
    free = np.flatnonzero(~held)
    displacement = np.zeros(2 * count)
    force = np.concatenate([np.zeros(count), _pressure(basis.doflocs)])
    displacement[free] = factorise(_stiffness(panel, mesh)[free][:, free]).solve(force[free])
    return Bent(mesh, basis.doflocs, displacement.reshape(2, count))


def _mesh(panel: Panel, layout: Layout) -> MeshQuad:
    inner = panel.core_height / 2
    outer = inner + panel.face_thickness
    core = np.linspace(-inner, inner, layout.core_layers + 1)
    face = np.linspace(inner, outer, layout.face_layers + 1)[1:]
    return MeshQuad.init_tensor(np.linspace(0, SPAN / 2, layout.along + 1), np.concatenate([-face[::-1], core, face]))


def _stiffness(panel: Panel, mesh: MeshQuad) -> csr_array:
    """K = Σ over core and faces of λ A + μ B, Young's modulus under the integrals."""
    in_core = np.abs(mesh.p[1, mesh.t].mean(axis=0)) < panel.core_height / 2
    foam, metal = (Basis(mesh, ElementQuad2(), elements=np.flatnonzero(chosen)) for chosen in (in_core, ~in_core))
    volume, shape = stiffness_parts(foam, weight=lambda position: panel.core_modulus(position[0]))
    of_core = lame(1.0, FOAM_POISSON)
    core = of_core[0] * volume + of_core[1] * shape
    volume, shape = stiffness_parts(metal)
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
