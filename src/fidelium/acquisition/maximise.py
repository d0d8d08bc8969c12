"""The search for the best query: gains of all fidelities over many points, then L-BFGS from the best of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.acquisition.entropy import Gain
from fidelium.numerics.backend import QUICK_TO_COMPILE
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.space import SearchSpace
from fidelium.surrogates.base import Posterior


@dataclass(frozen=True)
class Candidate:
    """A query with its worth.

    Args:
        unit_x: a point of the unit cube that stands for a valid design.
        fidelity: position in the ladder.
        gain_per_cost: its gain divided by its cost.
    """

    unit_x: NDArray[np.float64]
    fidelity: int
    gain_per_cost: float


def search(
    gain: Gain,
    posterior: Posterior,
    f_star: NDArray[np.float64],
    space: SearchSpace,
    costs: Sequence[float],
    fidelities: Sequence[int],
    candidates: NDArray[np.float64],
    starts: int,
    steps: int = 30,
) -> list[Candidate]:
    """Queries by gain per cost, best first (Algorithm 1, line 4).

    Each fidelity is climbed on its own, from its best candidates. What comes back stands for valid designs: points are
    snapped, and judged again where they landed.

    Args:
        gain: the gain of a query at every fidelity.
        posterior: what is known.
        f_star: draws of the target's maximum.
        space: the parameters.
        costs: cost of every fidelity.
        fidelities: the fidelities to consider.
        candidates: valid designs to start from, `(n, d)`.
        starts: how many of them are climbed from, per fidelity.
        steps: evaluations at most, per fidelity.
    """
    worth: list[Candidate] = []
    screened = np.asarray(_gains(gain, len(costs), posterior, f_star, candidates))
    for m in fidelities:
        best = _best_distinct(candidates, np.nan_to_num(screened[:, m]), starts)
        climb = partial(_gain_and_gradient, gain, m, posterior, f_star)
        found = maximise_rows(climb, candidates[best], 0.0, 1.0, steps=steps, tolerance=1e-6)
        landed = space.snap(found.x)
        points = np.concatenate([landed, candidates[best]])
        gains = np.concatenate([np.asarray(climb(landed)[0]), screened[best, m]])
        worth += [Candidate(x, m, float(np.nan_to_num(g)) / costs[m]) for x, g in zip(points, gains, strict=True)]
    return sorted(worth, key=lambda candidate: -candidate.gain_per_cost)


def _best_distinct(x: NDArray[np.float64], gains: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the `count` best different points, best first, and the same again where there are fewer."""
    order = np.argsort(-gains)
    _, first = np.unique(x[order], axis=0, return_index=True)
    return np.resize(order[np.sort(first)], count)


@partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK_TO_COMPILE)
def _gains(
    gain: Gain, count: int, posterior: Posterior, f_star: Float[Array, " s"], x: Float[Array, "n d"]
) -> Float[Array, "n m"]:
    return jax.vmap(lambda x: jnp.stack([gain(posterior, f_star, x, m) for m in range(count)]))(x)


@partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK_TO_COMPILE)
def _gain_and_gradient(
    gain: Gain, fidelity: int, posterior: Posterior, f_star: Float[Array, " s"], x: Float[Array, "r d"]
) -> tuple[Float[Array, " r"], Float[Array, "r d"]]:
    return jax.vmap(jax.value_and_grad(lambda x: gain(posterior, f_star, x, fidelity)))(x)
