"""A mesh of a square with an elliptic hole: rings of boxes between the hole and the square, four triangles in each box.

The triangles are the same for all holes and only their corners move, smoothly, with the hole; a free mesher would add a
jump wherever it changes its mind. The hole's edges are straight: a coarse mesh sees a polygon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from skfem import MeshTri

from fidelium.problems.fem.elasticity import check_between, check_positive


@dataclass(frozen=True)
class Rings:
    """How fine the mesh is.

    Args:
        per_side: boxes along each side of the square.
        layers: boxes from the hole to the square.
    """

    per_side: int
    layers: int


@dataclass(frozen=True)
class Ellipse:
    """A hole in the middle of the square.

    Args:
        x_radius: along its first axis.
        y_radius: along its second axis.
        angle: by which both axes are turned to the left, in radians.

    Raises:
        SettingError: if a radius is not above 0, or a number is not finite.
    """

    x_radius: float
    y_radius: float
    angle: float

    def __post_init__(self) -> None:
        check_positive("the hole's x-radius", self.x_radius)
        check_positive("the hole's y-radius", self.y_radius)
        check_between("the hole's angle", self.angle, -math.inf, math.inf)

    def at(self, eccentric: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points at these eccentric angles, one column each."""
        x, y = self.x_radius * np.cos(eccentric), self.y_radius * np.sin(eccentric)
        cosine, sine = np.cos(self.angle), np.sin(self.angle)
        return np.stack([cosine * x - sine * y, sine * x + cosine * y])


def o_grid(rings: Rings, hole: Ellipse, side: float) -> MeshTri:
    """The square of this side around the origin, without the hole.

    Raises:
        SettingError: if the hole is wider than the square.
    """
    for radius in (hole.x_radius, hole.y_radius):
        check_between("the radius of a hole that fits", radius, 0, side / 2)
    outer = side / 2 * _square(rings.per_side)
    # rays from the middle would leave the tips of a slender hole without points; eccentric angles spread them, and
    # give the same points to the same hole described with its axes exchanged
    inner = hole.at(np.arctan2(outer[1], outer[0]) - hole.angle)
    share = np.linspace(0, 1, rings.layers + 1)[:, None]
    corners = inner[:, None] + share * (outer - inner)[:, None]  # axis, ring, place on the ring
    along = corners + np.roll(corners, -1, axis=2)
    middles = (along[:, :-1] + along[:, 1:]) / 4
    return MeshTri(np.concatenate([corners.reshape(2, -1), middles.reshape(2, -1)], axis=1), triangles(rings))


@cache
def _square(per_side: int) -> NDArray[np.float64]:
    """Points around the square [-1, 1]², to the left from the corner (1, -1)."""
    up = np.linspace(-1, 1, per_side, endpoint=False)
    one = np.ones(per_side)
    return np.concatenate([[one, up], [-up, one], [-one, -up], [up, -one]], axis=1)


@cache
def triangles(rings: Rings) -> NDArray[np.int64]:
    """The corners of all triangles, anticlockwise: each box has one on each side, which meet in its middle."""
    around = 4 * rings.per_side
    ring, place = np.divmod(np.arange(rings.layers * around), around)
    following = ring * around + (place + 1) % around
    box = [ring * around + place, ring * around + place + around, following + around, following]
    middle = (rings.layers + 1) * around + ring * around + place
    return np.concatenate([np.stack([box[k], box[(k + 1) % 4], middle]) for k in range(4)], axis=1)
