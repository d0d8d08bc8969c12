"""The lightest plate that does not vibrate below a given frequency and does not cost more than a given price.

The plate of `plate` with its thickness as a fourth parameter. A light material is as good as a stiff one, both are
expensive, and a thick plate has a high frequency but needs more material: price and frequency are both active at the
optimum. With the geometry fixed, the frequency is √(E/ρ) g(ν, t), where g needs a new mesh for every thickness t.

Run as a program: `python -m fidelium.problems.fem.plate_mass query.json result.json`.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.problems.fem.plate import COARSE, FINE, SIDE, Grid, frequency
from fidelium.problems.fem.program import run_program
from fidelium.space import Real, SearchSpace


def plate_mass() -> Problem:
    """Four parameters, two meshes, two constraints, minimised.

    The optimum has the largest ν; thickness, E and ρ were found by SLSQP with g(t) of the fine mesh as a polynomial of
    degree eight, and the optimiser is stored a ten-millionth inside.
    """
    return Problem(
        name="plate-mass",
        space=SearchSpace(
            {
                "thickness": Real(0.5, 1.5),
                "youngs_modulus": Real(1e11, 5e11),
                "poissons_ratio": Real(0.2, 0.49),
                "density": Real(3e3, 9e3),
            }
        ),
        ladder=FidelityLadder((Fidelity("coarse", cost=1), Fidelity("fine", cost=10))),
        direction=Direction.MINIMIZE,
        functions=(plate_mass_coarse, plate_mass_fine),
        optimum=377.13111447,
        optimisers=(
            {
                "thickness": 0.875452457609866,
                "youngs_modulus": 207811050790.779,
                "poissons_ratio": 0.49,
                "density": 4307.8426695884,
            },
        ),
        initial={"coarse": 16, "fine": 4},
        reference="the plate of Li et al. 2020, Sec. 6.2, with a thickness",
        simulated=True,
        constraints=("frequency >= 60", "price <= 300"),
    )


def plate_mass_coarse(
    thickness: float, youngs_modulus: float, poissons_ratio: float, density: float
) -> dict[str, float]:
    """Mass in tonnes, frequency in Hz with 9 x 9 x 1 boxes, and price."""
    return _outcomes(COARSE, thickness, youngs_modulus, poissons_ratio, density)


def plate_mass_fine(thickness: float, youngs_modulus: float, poissons_ratio: float, density: float) -> dict[str, float]:
    """Mass in tonnes, frequency in Hz with 17 x 17 x 2 boxes, and price."""
    return _outcomes(FINE, thickness, youngs_modulus, poissons_ratio, density)


def price(thickness: float, youngs_modulus: float, density: float) -> float:
    """Of the material, in thousands: t L² [1 + (E/2e11)² + (5000/ρ)²]."""
    return thickness * SIDE**2 * (1 + (youngs_modulus / 2e11) ** 2 + (5000 / density) ** 2)


def _outcomes(
    grid: Grid, thickness: float, youngs_modulus: float, poissons_ratio: float, density: float
) -> dict[str, float]:
    return {
        "value": density * thickness * SIDE**2 / 1000,
        "frequency": frequency(replace(grid, thickness=thickness), youngs_modulus, poissons_ratio, density),
        "price": price(thickness, youngs_modulus, density),
    }


if __name__ == "__main__":
    sys.exit(run_program(plate_mass(), sys.argv[1:]))
