"""Sparse symmetric positive definite systems: an order for the unknowns of a box, and the factorisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse.linalg import SuperLU, splu

_LEAF = 20
"""Groups of nodes this small are not cut any further."""


def factorise(matrix: csr_array | csr_matrix, *, ordered: bool = False) -> SuperLU:
    """The factors of a symmetric positive definite matrix, without pivoting.

    Args:
        matrix: the matrix.
        ordered: whether its rows are in a good order already; otherwise one of minimum degree is found for them.
    """
    order = "NATURAL" if ordered else "MMD_AT_PLUS_A"
    return splu(matrix.tocsc(), permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def nested_dissection(points: NDArray[np.float64], planes: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """An order of the nodes of a box of elements that keeps the factors sparse (George 1973).

    The smallest plane of element boundaries near the middle cuts the box in two halves that share no element.
    Eliminated after both, it is the only place where they meet; each half is ordered in the same way.

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
