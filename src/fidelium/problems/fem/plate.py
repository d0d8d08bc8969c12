"""The vibrating plate: which material makes its fourth mode the highest (the paper's Sec. 6.2 and supplement)?

A 10 x 10 x 1 plate of elastic material whose four sides cannot move vertically. Its first three modes are rigid motions
in its plane; the fourth is the first that bends. The paper lets Poisson's ratio reach 0.6, but no elastic material has
one of 0.5 or more: the range ends at 0.49 here.

Run as a program: `python -m fidelium.problems.fem.plate query.json result.json`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from skfem import MeshTet

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.problems.fem.elasticity import check_positive
from fidelium.problems.fem.program import run
from fidelium.problems.fem.vibration import Grid, discretise, modes
from fidelium.space import Real, SearchSpace

COARSE = Grid(cells=9, layers=1)
FINE = Grid(cells=17, layers=2)
_FOURTH = 3


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


@lru_cache(maxsize=1024)
def _unit_frequency(grid: Grid, poissons_ratio: float) -> float:
    squares, _ = modes(grid, poissons_ratio, _FOURTH + 1)
    return math.sqrt(squares[_FOURTH]) / (2 * math.pi)


if __name__ == "__main__":
    sys.exit(run(plate(), sys.argv[1:]))
