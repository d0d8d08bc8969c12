"""The search for the best query: the worth of all fidelities over many points, then L-BFGS from the best of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.acquisition.base import Candidate
from fidelium.history import History
from fidelium.numerics.compiling import QUICK_TO_COMPILE
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.surrogates.base import Point, Posterior, Scalar

Worth = Callable[[Posterior, Any, Point, int], Scalar]
"""What a query (x, m) is worth before its cost is counted, from the posterior, a context (a pytree), x and m."""


def search(
    worth: Worth,
    posterior: Posterior,
    context: Any,
    history: History,
    fidelities: Sequence[int],
    candidates: NDArray[np.float64],
    starts: int,
    steps: int = 30,
    *,
    log_worth: bool = False,
) -> list[Candidate]:
    """Queries by worth per cost, best first (Algorithm 1, line 4).

    Each fidelity is climbed on its own, from its best candidates. What comes back stands for valid designs: points are
    snapped, and judged again where they landed.

    Args:
        worth: what to climb.
        posterior: what is known.
        context: what else the worth depends on, such as draws of the target's maximum.
        history: its space and ladder say what is valid and what it costs.
        fidelities: the fidelities to consider.
        candidates: valid designs to start from, `(n, d)`.
        starts: how many of them are climbed from, per fidelity.
        steps: evaluations at most, per fidelity.
        log_worth: whether the worth is a logarithm, or of either sign; it is then ranked by worth - log(cost).
    """
    ranked: list[Candidate] = []
    costs = history.ladder.costs
    lowest = min(fidelities)  # and all above, allowed or not: else another function to compile as the budget runs out
    all_climb = len(candidates) == starts  # then nothing need be compiled to choose among them
    screened = None if all_climb else np.asarray(_worths(worth, lowest, len(costs), posterior, context, candidates))
    for m in fidelities:
        climb = partial(_worth_and_gradient, worth, m, posterior, context)
        before = np.asarray(climb(candidates)[0]) if screened is None else screened[:, m - lowest]
        best = _best_distinct(candidates, _numbers(before, log_worth), starts)
        found = maximise_rows(climb, candidates[best], 0.0, 1.0, steps=steps, tolerance=1e-6)
        landed = history.space.snap(found.x)
        points = np.concatenate([landed, candidates[best]])
        values = _numbers(np.concatenate([np.asarray(climb(landed)[0]), before[best]]), log_worth)
        per_cost = [v - math.log(costs[m]) if log_worth else v / costs[m] for v in values.tolist()]
        ranked += [Candidate(x, m, v) for x, v in zip(points, per_cost, strict=True)]
    return sorted(ranked, key=lambda candidate: -candidate.worth)


def _numbers(worths: NDArray[np.float64], log_worth: bool) -> NDArray[np.float64]:
    """Worths with a number in place of what is none: a worth of nothing."""
    return np.nan_to_num(worths, nan=np.finfo(float).min if log_worth else 0.0)


def _best_distinct(x: NDArray[np.float64], worths: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the `count` best different points, best first, and the same again where there are fewer."""
    order = np.argsort(-worths)
    _, first = np.unique(x[order], axis=0, return_index=True)
    return np.resize(order[np.sort(first)], count)


@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=QUICK_TO_COMPILE)
def _worths(
    worth: Worth, lowest: int, count: int, posterior: Posterior, context: Any, x: Float[Array, "n d"]
) -> Float[Array, "n m"]:
    return jax.vmap(lambda x: jnp.stack([worth(posterior, context, x, m) for m in range(lowest, count)]))(x)


@partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK_TO_COMPILE)
def _worth_and_gradient(
    worth: Worth, fidelity: int, posterior: Posterior, context: Any, x: Float[Array, "r d"]
) -> tuple[Float[Array, " r"], Float[Array, "r d"]]:
    return jax.vmap(jax.value_and_grad(lambda x: worth(posterior, context, x, fidelity)))(x)
