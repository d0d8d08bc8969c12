"""A structural insulated panel of given mass: plywood faces on a core of rigid polyurethane foam, and its beam theory.

The panel spans 3 m between two supports and carries a uniform pressure. Each square metre of it weighs 30 kg, shared
between core and faces. The foam's modulus falls with the square of its relative density r = ρ/ρ_solid: E = 1.6 GPa r²,
ν = 1/3 (Gibson and Ashby). Plywood is taken as isotropic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fidelium.problems.fem.checks import check_between
from fidelium.problems.fem.elasticity import plane_strain_modulus

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
