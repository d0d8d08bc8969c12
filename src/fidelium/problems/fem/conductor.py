"""The thermal conductor: which hole lets the heat through fastest (the paper's Sec. 6.2 and supplement)?

A square plate, 4 x 4, with an elliptic hole in its middle. Its left edge is warmed from 0 to 100 degrees in half a
second, all other edges and the hole are insulated. The paper gives no size; this is ours.

    ∂T/∂t = ΔT,   T = ramp(t) on the left edge,   ∂T/∂n = 0 on all others,   T = 0 at the start

Conductivity, density and heat capacity are 1. Solved with quadratic triangles and the Crank-Nicolson rule, which needs
one factorisation. The mesh is rings of boxes between the hole and the square, four triangles in each box: the triangles
are the same for all holes and only their corners move, smoothly, with the hole; a free mesher would add jumps. The
hole's edges are straight: a coarse mesh sees a polygon.

Run as a program: `python -m fidelium.problems.fem.conductor query.json result.json`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import root_scalar
from skfem import Basis, BilinearForm, ElementTriP2, FacetBasis, LinearForm, MeshTri

from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.problems.fem.assembly import check_between, check_positive, factorise
from fidelium.problems.fem.program import run_program
from fidelium.space import Real, SearchSpace

SIDE = 4.0
"""Of the square."""

LEVEL, HOT = 70.0, 100.0
"""Degrees: the mean of the right edge to be reached, and the left edge after the ramp."""

RAMP, STEP = 0.5, 0.1
"""Seconds: of the ramp and of a time step, which divides the ramp so that no step straddles its end."""

_LONGEST = 1000.0
"""Seconds after which a body that is still cold is an error."""


@dataclass(frozen=True)
class Rings:
    """How fine the mesh is.

    Args:
        per_side: boxes along each side of the square.
        layers: boxes from the hole to the square.
    """

    per_side: int
    layers: int


COARSE = Rings(per_side=5, layers=4)
FINE = Rings(per_side=20, layers=14)


def conductor() -> Problem:
    """The conductor with two meshes, minimised.

    The optimum is the slit along the flow, where both radii are at a bound and the angle is one of symmetry. Among
    1,500 random holes on the coarse mesh nothing was faster, and L-BFGS-B from six designs on the fine mesh ended there
    or, at 9.6989 s, at the smallest round hole. The same slit can be described in three ways.
    """
    return Problem(
        name="conductor",
        space=SearchSpace({"x_radius": Real(0.2, 1.5), "y_radius": Real(0.2, 1.5), "angle": Real(0, math.pi)}),
        ladder=FidelityLadder((Fidelity("coarse", cost=1), Fidelity("fine", cost=10))),
        direction=Direction.MINIMIZE,
        functions=(conductor_coarse, conductor_fine),
        optimum=9.6790675237212,
        optimisers=(
            {"x_radius": 1.5, "y_radius": 0.2, "angle": 0.0},
            {"x_radius": 1.5, "y_radius": 0.2, "angle": math.pi},
            {"x_radius": 0.2, "y_radius": 1.5, "angle": math.pi / 2},
        ),
        initial={"coarse": 20, "fine": 5},
        reference="Li et al. 2020, Sec. 6.2",
        simulated=True,
    )


def conductor_coarse(x_radius: float, y_radius: float, angle: float) -> float:
    """Seconds until the mean of the right edge reaches 70 degrees, with no edge of a triangle longer than 0.8."""
    return seconds_to_warm(COARSE, x_radius, y_radius, angle)


def conductor_fine(x_radius: float, y_radius: float, angle: float) -> float:
    """Seconds until the mean of the right edge reaches 70 degrees, with no edge of a triangle longer than 0.2."""
    return seconds_to_warm(FINE, x_radius, y_radius, angle)


def seconds_to_warm(rings: Rings, x_radius: float, y_radius: float, angle: float) -> float:
    """Seconds until the mean temperature of the right edge reaches 70 degrees.

    Raises:
        SettingError: if a radius is not above 0, or the hole does not fit.
    """
    mesh = o_grid(rings, Ellipse(x_radius, y_radius, angle), SIDE)
    return respond(mesh, LEVEL).when(LEVEL)


@dataclass(frozen=True)
class Ellipse:
    """A hole in the middle of the square.

    Args:
        x_radius: along its first axis.
        y_radius: along its second axis.
        angle: of both axes, anticlockwise, in radians.

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
        check_between("the radius of a hole", radius, 0, side / 2)
    outer = side / 2 * _square(rings.per_side)
    # rays from the middle would leave the tips of a slender hole without points; eccentric angles spread them, and
    # give the same points when the same hole is described with its axes exchanged
    inner = hole.at(np.arctan2(outer[1], outer[0]) - hole.angle)
    share = np.linspace(0, 1, rings.layers + 1)[:, None]
    corners = inner[:, None] + share * (outer - inner)[:, None]  # axis, ring, place on the ring
    along = corners + np.roll(corners, -1, axis=2)
    middles = (along[:, :-1] + along[:, 1:]) / 4
    return MeshTri(np.concatenate([corners.reshape(2, -1), middles.reshape(2, -1)], axis=1), triangles(rings))


@cache
def triangles(rings: Rings) -> NDArray[np.int64]:
    """The corners of all triangles, anticlockwise: each box has one on each side, which meet in its middle."""
    around = 4 * rings.per_side
    ring, place = np.divmod(np.arange(rings.layers * around), around)
    following = ring * around + (place + 1) % around
    box = [ring * around + place, ring * around + place + around, following + around, following]
    middle = (rings.layers + 1) * around + ring * around + place
    return np.concatenate([np.stack([box[k], box[(k + 1) % 4], middle]) for k in range(4)], axis=1)


@cache
def _square(per_side: int) -> NDArray[np.float64]:
    """Points around the square [-1, 1]², anticlockwise from the corner (1, -1)."""
    up = np.linspace(-1, 1, per_side, endpoint=False)
    one = np.ones(per_side)
    return np.concatenate([[one, up], [-up, one], [-one, -up], [up, -one]], axis=1)


@dataclass(frozen=True, eq=False)
class Response:
    """Temperature of the right edge against time.

    Args:
        times: from 0 in equal steps.
        means: mean temperature of the right edge at each time.
        temperature: at the last time, of the vertices of `mesh.refined()`, which are the nodes in their order.
    """

    times: NDArray[np.float64]
    means: NDArray[np.float64]
    temperature: NDArray[np.float64]

    def when(self, level: float) -> float:
        """The time at which the mean first reached this level: a cubic through the four steps around it.

        Raises:
            SettingError: if the mean did not reach it.
        """
        check_between("the level", level, 0, float(self.means[-1]))
        after = int(np.argmax(self.means >= level))
        around = slice(max(after - 2, 0), after + 2)
        curve = BarycentricInterpolator(self.times[around], self.means[around])
        bracket = self.times[after - 1], self.times[after]
        return float(root_scalar(lambda time: float(curve(time)) - level, bracket=bracket, xtol=1e-13).root)


def respond(mesh: MeshTri, level: float, step: float = STEP) -> Response:
    """Warm the left edge of a body until the mean temperature of the right edge is one step past a level.

    Args:
        mesh: the body.
        level: in degrees.
        step: in seconds; it should divide the ramp.

    Raises:
        SettingError: if the level is not between 0 and 100 degrees, or not reached in 1000 seconds.
    """
    check_between("the temperature to wait for", level, 0, HOT)
    basis = Basis(mesh, ElementTriP2())
    average = _average_of_right_edge(mesh)
    means = [0.0]
    for temperature in _march(basis, step):
        means.append(float(average @ temperature))
        if means[-2] >= level:
            times = np.arange(len(means), dtype=np.float64) * step
            return Response(times, np.array(means), temperature)
    raise SettingError(f"the right edge did not reach {level:g} degrees in {_LONGEST:g} seconds")


def _march(basis: Basis, step: float) -> Iterator[NDArray[np.float64]]:
    """The temperatures after each step:  (M + Δt/2 K) T₊ = (M - Δt/2 K) T  inside, the ramp on the left edge."""
    mass = BilinearForm(lambda u, v, w: u * v).assemble(basis)
    conduction = BilinearForm(lambda u, v, w: u.grad[0] * v.grad[0] + u.grad[1] * v.grad[1]).assemble(basis)
    after, before = (mass + step / 2 * conduction).tocsr(), (mass - step / 2 * conduction).tocsr()
    left = np.isclose(basis.doflocs[0], basis.doflocs[0].min())
    warmed, inside = np.flatnonzero(left), np.flatnonzero(~left)
    factors = factorise(after[inside][:, inside])
    before_inside, from_edge = before[inside], after[inside][:, warmed]
    temperature = np.zeros(basis.N)
    for number in range(1, round(_LONGEST / step) + 1):
        known = before_inside @ temperature
        temperature = np.full(basis.N, HOT * min(number * step / RAMP, 1.0))
        temperature[inside] = factors.solve(known - from_edge @ temperature[warmed])
        yield temperature


def _average_of_right_edge(mesh: MeshTri) -> Any:
    """The weights that give the mean over the right edge."""
    right = mesh.p[0].max()
    facets = mesh.facets_satisfying(lambda x: np.isclose(x[0], right), boundaries_only=True)
    weights = LinearForm(lambda v, w: v).assemble(FacetBasis(mesh, ElementTriP2(), facets=facets))
    return weights / weights.sum()


if __name__ == "__main__":
    sys.exit(run_program(conductor(), sys.argv[1:]))
