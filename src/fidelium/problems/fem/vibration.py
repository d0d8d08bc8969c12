"""Free vibration of an elastic plate on supported edges: quadratic tetrahedra, matrices made once per mesh.

With the displacement u e^{iωt} the plate's modes are those of  (λ A + μ B) u = ω² ρ M u.  The matrices A, B and M
depend on the mesh alone; measured in units of E/ρ, the spectrum depends on Poisson's ratio alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh
from skfem import Basis, ElementTetP2, MeshTet

from fidelium.problems.fem.elasticity import lame, mass, stiffness_parts
from fidelium.problems.fem.sparse import factorise, nested_dissection

SIDE = 10.0
THICKNESS = 1.0

_SHIFT = -1e-3
"""Eigenvalues nearest to this are found, in units of E/ρ: the rigid motions at 0, then the fourth mode near 3e-3."""


@dataclass(frozen=True)
class Grid:
    """How the plate is cut into boxes of six tetrahedra each.

    Args:
        cells: boxes along each side.
        layers: boxes through the thickness.
        hard: whether the sides hold the displacement along the edge too, not the vertical one alone.
    """

    cells: int
    layers: int
    hard: bool = False

    @property
    def planes(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Where the boxes meet, along each axis."""
        across, through = np.linspace(0, SIDE, self.cells + 1), np.linspace(0, THICKNESS, self.layers + 1)
        return across, across, through


@dataclass(frozen=True, eq=False)
class Discretisation:
    """A plate as matrices over its free unknowns, in an order that factorises quickly.

    Args:
        mesh: the tetrahedra.
        nodes: the positions of all nodes, one column each.
        free: the numbers of the unknowns that no support holds.
        volume_part: A of the stiffness λ A + μ B.
        shape_part: B of it.
        mass: M, of density 1.
    """

    mesh: MeshTet
    nodes: NDArray[np.float64]
    free: NDArray[np.int64]
    volume_part: csr_array
    shape_part: csr_array
    mass: csr_array


@cache
def discretise(grid: Grid) -> Discretisation:
    """The plate on a grid; made once and kept."""
    mesh = MeshTet.init_tensor(*grid.planes)
    basis = Basis(mesh, ElementTetP2())
    nodes = basis.doflocs
    order = nested_dissection(nodes, grid.planes)
    unknowns = np.stack([order, order + basis.N, order + 2 * basis.N], axis=1).ravel()
    free = unknowns[~_held(nodes, grid.hard)[unknowns]]
    matrices = (*stiffness_parts(basis), mass(basis))
    first, second, third = (matrix[free][:, free] for matrix in matrices)
    return Discretisation(mesh, nodes, free, first, second, third)


def modes(grid: Grid, poissons_ratio: float, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest modes: the squares of their angular frequencies in units of E/ρ, and displacements, one column each.

    The start of the iteration is fixed, so that the same question has the same answer to the last digit.

    Raises:
        SettingError: if this is no Poisson's ratio of an elastic material.
    """
    lame_lambda, lame_mu = lame(1.0, poissons_ratio)
    plate = discretise(grid)
    stiffness = (lame_lambda * plate.volume_part + lame_mu * plate.shape_part).tocsc()
    factors = factorise(stiffness - _SHIFT * plate.mass, ordered=True)
    inverse: Any = LinearOperator(stiffness.shape, factors.solve, dtype=float)  # pyright: ignore[reportCallIssue]
    start = np.ones(len(plate.free))
    squares, vectors = eigsh(stiffness, count, plate.mass.tocsc(), sigma=_SHIFT, OPinv=inverse, v0=start)
    increasing = np.argsort(squares)
    displacement = np.zeros((3 * plate.nodes.shape[1], count))
    displacement[plate.free] = vectors[:, increasing]
    return np.maximum(squares[increasing], 0.0), displacement


def _held(nodes: NDArray[np.float64], hard: bool) -> NDArray[np.bool_]:
    """For each unknown, whether a support holds it: on a side the vertical one, if hard that along the side too."""
    on_x_side, on_y_side = (np.isclose(x, 0) | np.isclose(x, SIDE) for x in nodes[:2])
    nowhere = np.zeros_like(on_x_side)
    along_x, along_y = (on_y_side, on_x_side) if hard else (nowhere, nowhere)
    return np.concatenate([along_x, along_y, on_x_side | on_y_side])
