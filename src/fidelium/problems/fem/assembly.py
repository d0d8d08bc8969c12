"""What the finite-element problems share: Hooke's constants, stiffness and mass matrices, sparse factorisation, checks.

The components of a displacement all live on one scalar basis with N nodes; the component i at node a is the unknown
with the number i N + a.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array, csr_matrix
from scipy.sparse.linalg import SuperLU, splu
from skfem import Basis, BilinearForm

from fidelium.errors import SettingError

_LEAF = 20
"""Groups of nodes this small are not divided further."""

Weight = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Young's modulus as a function of position, relative to a unit."""


def lame(youngs_modulus: float, poissons_ratio: float) -> tuple[float, float]:
    """Lamé's constants: λ = E ν / ((1 + ν)(1 - 2ν)) and μ = E / (2 (1 + ν)).

    Raises:
        SettingError: if E is not above 0, or ν not between -1 and 1/2.
    """
    check_positive("Young's modulus", youngs_modulus)
    check_between("Poisson's ratio of an elastic material", poissons_ratio, -1, 0.5)
    nu = poissons_ratio
    return youngs_modulus * nu / ((1 + nu) * (1 - 2 * nu)), youngs_modulus / (2 * (1 + nu))


def plane_strain_modulus(youngs_modulus: float, poissons_ratio: float) -> float:
    """E / (1 - ν²): the bending modulus of a wide panel, whose cross sections cannot spread sideways."""
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


def factorise(matrix: csr_array | csr_matrix, *, ordered: bool = False) -> SuperLU:
    """The factors of a symmetric positive definite matrix, without pivoting.

    Args:
        matrix: the matrix.
        ordered: whether its rows are already in a good order; otherwise a minimum-degree order is found.
    """
    order = "NATURAL" if ordered else "MMD_AT_PLUS_A"
    return splu(matrix.tocsc(), permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def nested_dissection(points: NDArray[np.float64], planes: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """An order of the nodes of a box of elements that keeps the factors sparse (George 1973).

    The smallest plane of element boundaries near the middle cuts the box into two halves that share no element and are
    coupled through this plane alone. It is eliminated after both; each half is ordered in the same way.

    Args:
        points: the nodes, one column each.
        planes: the coordinates of the element boundaries along each axis, increasing.
    """
    return np.concatenate(_dissect(points, planes, np.arange(points.shape[1])))


def _dissect(
    points: NDArray[np.float64], planes: Sequence[NDArray[np.float64]], nodes: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """The nodes in groups: the first half, the second half, the plane between them."""
    sides = [_sides(points[axis, nodes], planes[axis]) for axis in range(len(planes))]
    cuts = [side for side in sides if np.any(side < 0) and np.any(side > 0)]
    if len(nodes) <= _LEAF or not cuts:
        return [nodes]
    side = min(cuts, key=lambda each: np.count_nonzero(each == 0))
    halves = [_dissect(points, planes, nodes[side == sign]) for sign in (-1, 1)]
    return [*halves[0], *halves[1], nodes[side == 0]]


def _sides(x: NDArray[np.float64], planes: NDArray[np.float64]) -> NDArray[np.float64]:
    """-1, 0 or 1 for coordinates below, on or above the plane nearest to their middle."""
    plane = planes[np.argmin(np.abs(planes - (x.min() + x.max()) / 2))]
    return np.sign(np.where(np.isclose(x, plane), 0.0, x - plane))


def check_positive(what: str, value: float) -> None:
    """Check that a value is a finite number above 0.

    Raises:
        SettingError: if it is not.
    """
    if not 0 < value < math.inf:
        raise SettingError(f"{what} must be a finite number above 0, got {value!r}")


def check_between(what: str, value: float, low: float, high: float) -> None:
    """Check that a value is strictly between two numbers.

    Raises:
        SettingError: if it is not.
    """
    if not low < value < high:
        raise SettingError(f"{what} must be above {low:g} and below {high:g}, got {value!r}")
