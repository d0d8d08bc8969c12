"""The expected cost of (x, m) as a function that is searched with gradients: what a worth is divided by.

    log cost_m(x) = level_m + sum_j weight_jm exp(-|(x - centre_j) / length|^2 / 2)

What was learned from measured costs has this form already. Declared costs that are expressions or functions of the
design are interpolated between random designs; this is only for the climbs, what is found has its exact cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.costs.declared import sample_designs
from fidelium.costs.learned import MOST_RUNS
from fidelium.expected_costs import ExpectedCosts
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.surrogates.base import Point, Scalar

_SAMPLES = 192
_LENGTH = 1.0
"""Length of the interpolation in two dimensions, in units of the cube's side: long, as costs are smooth; wrong between
designs where they are not."""

_LEAST = 1e-6


class CostSurface(eqx.Module):
    """A part of log cost, as a sum of bumps.

    Args:
        level: of each fidelity.
        centres: of the bumps; padding has weight 0.
        lengths: along every column.
        weights: of the bumps, for each fidelity.
    """

    level: Float[Array, " m"]
    centres: Float[Array, "n d"]
    lengths: Float[Array, " d"]
    weights: Float[Array, "n m"]

    def __call__(self, x: Point, fidelity: Any) -> Scalar:
        """The part at (x, m); the fidelity may be traced."""
        steps = (x[None, :] - self.centres) / self.lengths[None, :]
        bumps = jnp.exp(-0.5 * jnp.sum(steps**2, axis=1))
        return self.level[fidelity] + bumps @ self.weights[:, fidelity]


CostSurfaces = tuple[CostSurface, ...]
"""Parts that are added up."""


def log_cost(surfaces: Sequence[CostSurface], x: Point, fidelity: Any) -> Scalar:
    """log cost_m(x), the sum of all parts."""
    total = surfaces[0](x, fidelity)
    for each in surfaces[1:]:
        total = total + each(x, fidelity)
    return total


def cost_surfaces(costs: ExpectedCosts) -> CostSurfaces:
    """The expected costs as functions of (x, m)."""
    declared = _declared(costs) if costs.ladder.depends_on_design else None
    if costs.model is None:
        return () if declared is None else (declared,)
    model, fidelities = costs.model, len(costs.ladder)
    level = np.asarray(model.level) + (np.log(costs.ladder.costs) if declared is None else 0.0)
    learned = _surface(level, model.centres, model.lengths, np.repeat(model.weights[:, None], fidelities, axis=1))
    return (learned,) if declared is None else (learned, declared)


def _declared(costs: ExpectedCosts) -> CostSurface:
    """Declared costs, interpolated between random designs; numbers are levels."""
    designs = sample_designs(costs.space, _SAMPLES)
    logs = np.stack([np.log(costs.declared_at(designs, m)) for m in range(len(costs.ladder))], axis=1)
    level = np.mean(logs, axis=0)
    lengths = np.full(designs.shape[1], _LENGTH * np.sqrt(max(designs.shape[1], 2) / 2))
    steps = (designs[:, None] - designs[None]) / lengths
    gram = np.exp(-0.5 * np.sum(steps**2, axis=2)) + _LEAST * np.eye(len(designs))
    return _surface(level, designs, lengths, np.linalg.solve(gram, logs - level))


def _surface(
    level: NDArray[np.float64],
    centres: NDArray[np.float64],
    lengths: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> CostSurface:
    size = bucket(max(MOST_RUNS, _SAMPLES))  # always the same: nothing is compiled again while runs are added
    return CostSurface(
        jnp.asarray(level),
        jnp.asarray(pad_rows(centres, size)),
        jnp.asarray(lengths),
        jnp.asarray(pad_rows(weights, size)),
    )


def surface_costs(
    surfaces: Sequence[CostSurface], unit_x: NDArray[np.float64], fidelity: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What the surfaces say that queries cost, rows of designs with their fidelities: for the exact ranking."""
    total = np.zeros(len(unit_x))
    for each in surfaces:
        steps = (unit_x[:, None] - np.asarray(each.centres)[None]) / np.asarray(each.lengths)
        bumps = np.exp(-0.5 * np.sum(steps**2, axis=2))
        total += np.asarray(each.level)[fidelity] + np.sum(bumps * np.asarray(each.weights)[:, fidelity].T, axis=1)
    return np.exp(total)
