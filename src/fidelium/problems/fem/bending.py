"""Bending of a sandwich panel in plane strain: quadratic quadrilaterals for one half of the span.

Unlike a beam's, the cross sections of this model may warp and slide: the soft core shears. At the support the vertical
displacement is held over the whole depth (a diaphragm), at midspan the horizontal one (symmetry).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from skfem import Basis, ElementQuad2, MeshQuad

from fidelium.problems.fem.elasticity import lame, stiffness_parts
from fidelium.problems.fem.sandwich import FACE_MODULUS, FACE_POISSON, FOAM_POISSON, SPAN, Panel
from fidelium.problems.fem.sparse import factorise


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
