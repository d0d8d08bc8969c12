"""Transient heat conduction from a warmed edge: quadratic triangles, the Crank-Nicolson rule, one factorisation.

    ∂T/∂t = ΔT,   T = warmed(t) on the left edge,   ∂T/∂n = 0 on all others,   T = 0 at the start

Conductivity, density and heat capacity are 1. The left edge ramps from 0 to 100 degrees in half a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import root_scalar
from skfem import Basis, BilinearForm, ElementTriP2, FacetBasis, LinearForm, MeshTri

from fidelium.errors import SettingError
from fidelium.problems.fem.elasticity import check_between
from fidelium.problems.fem.sparse import factorise

HOT = 100.0
RAMP = 0.5
STEP = 0.1
"""Seconds; it divides the ramp, so that no step straddles its end."""

_LONGEST = 1000.0
"""Seconds after which a body that is still cold is given up."""


@dataclass(frozen=True, eq=False)
class Response:
    """How the right edge warmed up.

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
            SettingError: if it did not reach it.
        """
        check_between("a temperature that was reached", level, 0, float(self.means[-1]))
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
