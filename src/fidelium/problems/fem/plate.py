"""The vibrating plate: which material makes its fourth mode the highest (the paper's Sec. 6.2 and supplement)?

A 10 x 10 x 1 plate of elastic material whose four sides cannot move vertically. Its first three modes are rigid motions
in its plane; the fourth is the first that bends. The paper lets Poisson's ratio reach 0.6, but elastic materials stay
below 0.5: the range ends at 0.49 here.

With the displacement u e^{iωt} the plate's modes are those of  (λ A + μ B) u = ω² ρ M u.  The matrices A, B and M of
quadratic tetrahedra depend on the mesh alone and are made once per mesh; in units of E/ρ, the spectrum depends on
Poisson's ratio alone.

Run as a program: `python -m fidelium.problems.fem.plate query.json result.json`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh
from skfem import Basis, ElementTetP2, MeshTet

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.problems.fem.assembly import check_positive, factorise, lame, mass, nested_dissection, stiffness_parts
from fidelium.problems.fem.program import run_program
from fidelium.space import Real, SearchSpace

SIDE = 10.0
THICKNESS = 1.0
_FOURTH = 3

_SHIFT = -1e-3
"""Eigenvalues nearest to this are found, in units of E/ρ: the rigid motions at 0, then the fourth mode near 3e-3."""


@dataclass(frozen=True)
class Grid:
    """How the plate is divided into boxes of six tetrahedra each.

    Args:
        cells: boxes along each side.
        layers: boxes through the thickness.
        hard: whether the sides also fix the displacement along the edge, not only the vertical one.
        thickness: of the plate.
    """

    cells: int
    layers: int
    hard: bool = False
    thickness: float = THICKNESS

    @property
    def planes(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Where the boxes meet, along each axis."""
        across, through = np.linspace(0, SIDE, self.cells + 1), np.linspace(0, self.thickness, self.layers + 1)
        return across, across, through


COARSE = Grid(cells=9, layers=1)
FINE = Grid(cells=17, layers=2)


def plate() -> Problem:
    """The plate with two meshes, maximised.

    The frequency is √(E/ρ) g(ν), so the optimum has the largest E and the smallest ρ; g increases on either mesh.
    """
    return Problem(
        name="plate",
        space=SearchSpace(
            {"youngs_modulus": Real(1e11, 5e11), "poissons_ratio": Real(0.2, 0.49), "density": Real(6e3, 9e3)}
        ),
        ladder=FidelityLadder((Fidelity("coarse", cost=1), Fidelity("fine", cost=10))),
        direction=Direction.MAXIMIZE,
        functions=(plate_coarse, plate_fine),
        optimum=88.99640855145911,
        optimisers=({"youngs_modulus": 5e11, "poissons_ratio": 0.49, "density": 6e3},),
        initial={"coarse": 20, "fine": 5},
        reference="Li et al. 2020, Sec. 6.2; NAFEMS FV52",
        simulated=True,
    )


def plate_coarse(youngs_modulus: float, poissons_ratio: float, density: float) -> float:
    """The fourth frequency in Hz with cells of at most 1.2: 9 x 9 x 1 boxes."""
    return frequency(COARSE, youngs_modulus, poissons_ratio, density)


def plate_fine(youngs_modulus: float, poissons_ratio: float, density: float) -> float:
    """The fourth frequency in Hz with cells of at most 0.6: 17 x 17 x 2 boxes."""
    return frequency(FINE, youngs_modulus, poissons_ratio, density)


def frequency(grid: Grid, youngs_modulus: float, poissons_ratio: float, density: float) -> float:
    """f₄ = √(E/ρ) g(ν), where g is the fourth frequency of a plate with E = ρ = 1.

    Raises:
        SettingError: if E or ρ is not above 0, or ν not between -1 and 1/2.
    """
    check_positive("Young's modulus", youngs_modulus)
    check_positive("the density", density)
    return math.sqrt(youngs_modulus / density) * _unit_frequency(grid, poissons_ratio)


@lru_cache(maxsize=1024)
def _unit_frequency(grid: Grid, poissons_ratio: float) -> float:
    squares, _ = modes(grid, poissons_ratio, _FOURTH + 1)
    return math.sqrt(squares[_FOURTH]) / (2 * math.pi)


@dataclass(frozen=True, eq=False)
class ModeShape:
    """A mode of the plate.

    Args:
        frequency: in Hz.
        mesh: the tetrahedra; the vertices of `mesh.refined()` are the nodes, in their order.
        displacement: of each node, upwards in the middle, 1 at most.
    """

    frequency: float
    mesh: MeshTet
    displacement: NDArray[np.float64]


def fourth_mode(grid: Grid, youngs_modulus: float, poissons_ratio: float, density: float) -> ModeShape:
    """The mode whose frequency is the plate's objective.

    Raises:
        SettingError: as `frequency`.
    """
    _, vectors = modes(grid, poissons_ratio, _FOURTH + 1)
    displacement = vectors[:, _FOURTH].reshape(3, -1)
    largest = displacement.ravel()[np.argmax(np.abs(displacement))]
    value = frequency(grid, youngs_modulus, poissons_ratio, density)
    return ModeShape(value, discretise(grid).mesh, displacement / largest)


@dataclass(frozen=True, eq=False)
class Discretisation:
    """A plate as matrices over its free unknowns, ordered for a fast factorisation.

    Args:
        mesh: the tetrahedra.
        nodes: the positions of all nodes, one column each.
        free: the numbers of the unknowns that no support fixes.
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


@lru_cache(maxsize=4)
def discretise(grid: Grid) -> Discretisation:
    """The plate on a grid; the last few are cached."""
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

    The start of the iteration is fixed, so that the result is reproducible to the last digit.

    Raises:
        SettingError: if Poisson's ratio is not between -1 and 1/2.
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
    """For each unknown, whether a support fixes it: on a side the vertical one, if hard that along the side too."""
    on_x_side, on_y_side = (np.isclose(x, 0) | np.isclose(x, SIDE) for x in nodes[:2])
    nowhere = np.zeros_like(on_x_side)
    along_x, along_y = (on_y_side, on_x_side) if hard else (nowhere, nowhere)
    return np.concatenate([along_x, along_y, on_x_side | on_y_side])


if __name__ == "__main__":
    sys.exit(run_program(plate(), sys.argv[1:]))
