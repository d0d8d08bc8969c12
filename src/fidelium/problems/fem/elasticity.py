"""Linear elasticity of isotropic materials: Hooke's constants, stiffness and mass of a mesh.

The components of a displacement all live on one scalar basis with N nodes; the component i at node a is the unknown
with the number i N + a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array
from skfem import Basis, BilinearForm

from fidelium.errors import SettingError


def check_positive(what: str, value: float) -> None:
    """Refuse what is not a finite number above 0.

    Raises:
        SettingError: if it is not.
    """
    if not 0 < value < math.inf:
        raise SettingError(f"{what} must be a finite number above 0, got {value!r}")


def check_between(what: str, value: float, low: float, high: float) -> None:
    """Refuse what is not strictly between two numbers.

    Raises:
        SettingError: if it is not.
    """
    if not low < value < high:
        raise SettingError(f"{what} must be above {low:g} and below {high:g}, got {value!r}")


Weight = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Young's modulus as a function of the position, over some unit of it."""


def lame(youngs_modulus: float, poissons_ratio: float) -> tuple[float, float]:
    """Lamé's constants: λ = E ν / ((1 + ν)(1 - 2ν)) and μ = E / (2 (1 + ν)).

    Raises:
        SettingError: if E is not above 0, or ν not between -1 and 1/2: no elastic material is like that.
    """
    check_positive("Young's modulus", youngs_modulus)
    check_between("Poisson's ratio of an elastic material", poissons_ratio, -1, 0.5)
    nu = poissons_ratio
    return youngs_modulus * nu / ((1 + nu) * (1 - 2 * nu)), youngs_modulus / (2 * (1 + nu))


def plane_strain_modulus(youngs_modulus: float, poissons_ratio: float) -> float:
    """E / (1 - ν²): what bends a wide panel, whose cross sections cannot spread sideways."""
    return youngs_modulus / (1 - poissons_ratio**2)


def stiffness_parts(basis: Basis, weight: Weight | None = None) -> tuple[csr_array, csr_array]:
    """The matrices A and B of the stiffness K = λ A + μ B; neither depends on the material.

    With G_ij = ∫ ∂_i φ ∂_j φᵀ:  A_ij = G_ij  from ∫ div u div v,  B_ij = G_ji + δ_ij Σ_k G_kk  from ∫ 2 ε(u) : ε(v).

    Args:
        basis: the scalar basis of every component.
        weight: a factor under the integrals, 1 if None.
    """
    axes = range(basis.mesh.dim())
    gradients = [[_products_of_slopes(basis, i, j, weight) for j in axes] for i in axes]
    laplacian = sum(gradients[k][k] for k in axes)
    blocks = [[gradients[j][i] + laplacian if i == j else gradients[j][i] for j in axes] for i in axes]
    return csr_array(block_array(gradients)), csr_array(block_array(blocks))


def mass(basis: Basis) -> csr_array:
    """The matrix of ∫ u · v."""
    one = BilinearForm(lambda u, v, w: u * v).assemble(basis)
    axes = range(basis.mesh.dim())
    return csr_array(block_array([[one if i == j else None for j in axes] for i in axes]))


def _products_of_slopes(basis: Basis, i: int, j: int, weight: Weight | None) -> Any:
    """G_ij = ∫ ∂_i φ ∂_j φᵀ, weighted."""

    def integrand(u: Any, v: Any, w: Any) -> Any:
        product = v.grad[i] * u.grad[j]
        return product if weight is None else weight(w.x) * product

    return BilinearForm(integrand).assemble(basis)
