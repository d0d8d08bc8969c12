"""The search for the best query: the worth of all fidelities at many points, then L-BFGS from the best of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from fidelium.acquisition.base import BLOCK, MOST_WHOLE, SCREENED_AT_ONCE, Candidate, in_blocks, rough, unasked
from fidelium.acquisition.feasible import climb_feasible
from fidelium.history import History
from fidelium.numerics.backend import quick_jit
from fidelium.numerics.lbfgs import ValueAndGradient
from fidelium.numerics.normal import log_improvement
from fidelium.surrogates.base import Point, Posterior, Scalar
from fidelium.surrogates.costs import CostSurfaces, cost_surfaces, log_cost, surface_costs
from fidelium.surrogates.runs import Cautious, RunMember

Worth = Callable[[Any, Any, Point, Any], Scalar]
"""What a query (x, m) is worth before its cost is counted, from the posterior, a context (a pytree), x and m."""

Member = tuple[Posterior | RunMember, Any]
"""A posterior and the context of its worth, such as samples of the target's maximum."""

SOFT = 0.05
"""How softly a worth of either sign that is divided by costs is cut off at its level, in the model's units."""


def search(
    worth: Worth,
    members: Sequence[Member],
    history: History,
    fidelities: Sequence[int],
    candidates: NDArray[np.float64],
    starts: int,
    steps: int = 30,
    *,
    log_worth: bool = False,
    together: bool = False,
    tiny: bool = False,
    hold: bool = False,
    success: Cautious | None = None,
    level: float | None = None,
) -> list[Candidate]:
    """Queries by worth per cost, best first (Algorithm 1, line 4).

    Each fidelity is climbed on its own, from its best candidates. Points found are snapped to valid designs and
    evaluated again there. Where the expected cost depends on the design, it is the worth per cost that is climbed.

    Args:
        worth: the function to maximise.
        members: posteriors and the contexts of their worths; the worths of several are averaged.
        history: for its space and ladder.
        fidelities: the fidelities to consider.
        candidates: valid designs to start from, `(n, d)`.
        starts: how many of them are climbed from, per fidelity.
        steps: evaluations at most, per fidelity.
        log_worth: whether the worth is a logarithm, or of either sign; it is then ranked by worth - log(cost).
        together: whether the worth takes a traced fidelity, so that all of them are climbed by one compiled function;
            on ladders of more than three, each from fewer starts, so that all climbs take about as long.
        tiny: whether worths may be tiny everywhere, as before any feasible design is known: the climbs then see them as
            shares of the largest one at their starts.
        hold: whether climbs leave integers and choices as they are at their starts.
        success: beliefs about success, for a worth that knows nothing of failures: it is then multiplied by the
            probability that a run at (x, m), and one of the target at x, succeed.
        level: for a worth that is not a logarithm but of either sign, where costs depend on the design: how far it is
            above this level, softly at least 0, is then divided by them.
    """
    if success is not None:
        worth, members = _if_it_succeeds(worth, log_worth), _knowing(members, success)
    surfaces = cost_surfaces(history.costs) if history.costs.depend_on_design else ()
    if surfaces:
        worth = _per_cost(worth, log_worth, level is not None)
        members = _knowing(members, surfaces, jnp.asarray(0.0 if level is None else level))
    # fidelities that share a compiled function are all evaluated, allowed or not: otherwise another one would be
    # compiled when the budget runs out
    every = tuple(range(0 if together else min(fidelities), len(history.ladder)))
    if history.space.table is not None:
        left = _left_in_table(history, fidelities)
        worths = _worths_of_table(worth, members, history, left, every, log_worth=log_worth, together=together)
        return _best_of_table(worths, history, left, every, surfaces, log_worth=log_worth)
    all_climb = len(candidates) == starts  # then there is nothing to choose, and nothing to compile for it
    screened = None
    if not all_climb:
        starts = starts_per_fidelity(starts, len(history.ladder)) if together else starts
        screen = _run_worths if _are_runs(members) else _value_worths
        screened = np.mean([screen(worth, every, together, *member, candidates) for member in members], axis=0)
        screened = _within_budget(screened, candidates, every, history)
    ranked: list[Candidate] = []
    for group in [every] if together else [(m,) for m in fidelities]:
        which = np.repeat(group, starts)
        climb = partial(_climbed, worth, None if together else group[0], which, members)
        if screened is None:
            start = np.tile(candidates, (len(group), 1))
            before = climb(start)[0]
        else:
            worths = {m: screened[:, every.index(m)] for m in group}
            best = {m: _best_distinct(candidates, _numbers(worths[m], log_worth), starts) for m in group}
            start = np.concatenate([candidates[best[m]] for m in group])
            before = np.concatenate([worths[m][best[m]] for m in group])
        seen = _as_shares(climb, float(np.max(_numbers(before, log_worth)))) if tiny else climb
        landed = history.space.snap(
            climb_feasible(history.space, seen, start, steps=steps, tolerance=1e-6, hold=hold).x
        )
        points = np.concatenate([landed, start])
        values = _numbers(np.concatenate([climb(landed)[0], before]), log_worth).tolist()
        costs = _left_to_divide_by(history, surfaces, points, np.tile(which, 2))
        for x, m, value, cost in zip(points, np.tile(which, 2).tolist(), values, costs, strict=True):
            ranked.append(Candidate(x, m, value - math.log(cost) if log_worth else value / cost))
    allowed = [candidate for candidate in ranked if candidate.fidelity in fidelities]
    return sorted(allowed, key=lambda candidate: -candidate.worth)


def _knowing(members: Sequence[Member], *more: Any) -> list[Member]:
    """The members, whose contexts hold more than before."""
    return [(each, (context, *more)) for each, context in members]


MOST_RANKED = 64
"""Designs of a table that are ranked, of each fidelity."""


def _worths_of_table(
    worth: Worth,
    members: Sequence[Member],
    history: History,
    left: Mapping[int, NDArray[np.int64]],
    every: tuple[int, ...],
    *,
    log_worth: bool,
    together: bool,
) -> NDArray[np.float64]:
    """The worth of the designs of a space that lists all of them, at every fidelity, `(n, m)`.

    Of a long table, all are compared by one member of an ensemble, and the best of these by all members; the others
    rank last.

    Args:
        worth: as in `search`.
        members: as in `search`.
        history: for its space and budget.
        left: for every fidelity to consider, the positions of the designs that may be asked.
        every: the fidelities that are evaluated.
        log_worth: as in `search`.
        together: as in `search`.
    """
    table = history.space.table
    assert table is not None
    screen = _run_worths if _are_runs(members) else _value_worths

    def worths(members: Sequence[Member], x: NDArray[np.float64]) -> NDArray[np.float64]:
        each = [in_blocks(partial(screen, worth, every, together, *member), x) for member in members]
        return _numbers(_within_budget(np.mean(each, axis=0), x, every, history), log_worth)

    if len(table) <= MOST_WHOLE:
        return worths(members, table)
    first, context = members[0]
    guess = worths([(rough(first), context)], table)
    rows = np.unique(np.concatenate([_top(guess[:, every.index(m)], some, BLOCK // 2) for m, some in left.items()]))
    found = np.full(guess.shape, np.finfo(float).min)
    found[rows] = worths(members, table[rows])
    return found


def _best_of_table(
    worths: NDArray[np.float64],
    history: History,
    left: Mapping[int, NDArray[np.int64]],
    every: tuple[int, ...],
    surfaces: CostSurfaces,
    *,
    log_worth: bool,
) -> list[Candidate]:
    """The best queries of a space whose designs are all listed, of those that are left."""
    table = history.space.table
    assert table is not None
    ranked: list[Candidate] = []
    for m, some in left.items():
        column = worths[:, every.index(m)]
        rows = _top(column, some, MOST_RANKED)
        costs = _left_to_divide_by(history, surfaces, table[rows], np.full(len(rows), m))
        for row, cost in zip(rows.tolist(), costs, strict=True):
            value = float(column[row])
            ranked.append(Candidate(table[row], m, value - math.log(cost) if log_worth else value / cost))
    return sorted(ranked, key=lambda candidate: -candidate.worth)


def _left_in_table(history: History, fidelities: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """For every fidelity, the positions of the designs that were not asked yet; all, if none is new anywhere."""
    assert history.space.table is not None
    left = {m: np.flatnonzero(unasked(history, m)) for m in fidelities}
    every = np.arange(len(history.space.table))
    return left if any(len(rows) for rows in left.values()) else dict.fromkeys(fidelities, every)  # the caller decides


def _top(worths: NDArray[np.float64], rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` best of these rows."""
    return rows[np.argsort(-worths[rows], kind="stable")[:count]]


def starts_per_fidelity(starts: int, fidelities: int) -> int:
    """How many climbs each fidelity gets: `starts` for up to three, so many in all for more, at least two each."""
    return starts if fidelities <= 3 else min(starts, max(2, -(-3 * starts // fidelities)))


def _climbed(
    worth: Worth,
    fidelity: int | None,
    which: NDArray[np.int64],
    members: Sequence[Member],
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Worth and gradient of every row, averaged over the members."""
    compiled = _run_and_gradient if _are_runs(members) else _value_and_gradient
    each = [compiled(worth, fidelity, which, *member, x) for member in members]
    return np.mean([value for value, _ in each], axis=0), np.mean([gradient for _, gradient in each], axis=0)


def _are_runs(members: Sequence[Member]) -> bool:
    """Whether the worth is computed from several results of a run, and not from its value alone."""
    return isinstance(members[0][0], RunMember)


@cache  # the same function for the same worth: it is compiled once
def _if_it_succeeds(worth: Worth, log_worth: bool) -> Worth:
    """A worth times the probability that a run at (x, m) and one of the target at x succeed."""

    def weighed(posterior: Any, context: tuple[Any, Cautious], x: Point, fidelity: Any) -> Scalar:
        own, success = context
        value, (here, target, _) = worth(posterior, own, x, fidelity), success.pair(x, fidelity)
        log_weight = jnp.log(here * target) + success.log_caution(x, fidelity)
        return value + log_weight if log_worth else value * jnp.exp(log_weight)

    return weighed


@cache
def _per_cost(worth: Worth, log_worth: bool, signed: bool) -> Worth:
    """A worth divided by the expected cost of (x, m)."""

    def divided(posterior: Any, context: tuple[Any, CostSurfaces, Scalar], x: Point, fidelity: Any) -> Scalar:
        own, surfaces, level = context
        value, dear = worth(posterior, own, x, fidelity), log_cost(surfaces, x, fidelity)
        value = log_improvement((value - level) / SOFT) if signed else value
        return value - dear if log_worth else value * jnp.exp(-dear)

    return divided


def _left_to_divide_by(
    history: History, surfaces: CostSurfaces, points: NDArray[np.float64], fidelities: NDArray[np.int64]
) -> list[float]:
    """The expected cost of every query; where it was divided by already, by how much that was wrong."""
    typical = history.costs.typical
    if not surfaces:
        return [typical[m] for m in fidelities.tolist()]
    exact = np.empty(len(points))
    for m in np.unique(fidelities).tolist():
        exact[fidelities == m] = history.costs.at(points[fidelities == m], m)
    return (exact / surface_costs(surfaces, points, fidelities)).tolist()


def _within_budget(
    worths: NDArray[np.float64], candidates: NDArray[np.float64], fidelities: Sequence[int], history: History
) -> NDArray[np.float64]:
    """The worths `(n, m)`, not a number where the expected cost exceeds the remaining budget: such rank last."""
    if not history.costs.depend_on_design or math.isinf(history.remaining):
        return worths
    paid = np.stack([history.pays_for(candidates, m) for m in fidelities], axis=1)
    return np.where(paid, worths, np.nan)


def _as_shares(climb: ValueAndGradient, largest: float) -> ValueAndGradient:
    """A worth and its gradient in units of a largest worth."""
    unit = largest if largest > 0 else 1.0

    def share(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        value, gradient = climb(x)
        return value / unit, gradient / unit

    return share


def _numbers(worths: NDArray[np.float64], log_worth: bool) -> NDArray[np.float64]:
    """Replace NaN so that the candidate ranks last."""
    return np.nan_to_num(worths, nan=np.finfo(float).min if log_worth else 0.0)


def _best_distinct(x: NDArray[np.float64], worths: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Positions of the `count` best different points, best first, and the same again where there are fewer."""
    order = np.argsort(-worths)
    _, first = np.unique(x[order], axis=0, return_index=True)
    return np.resize(order[np.sort(first)], count)


def _at_each(
    worth: Worth,
    fidelities: Sequence[int],
    together: bool,
    posterior: Posterior | RunMember,
    context: Any,
    x: Point,
) -> Float[Array, " m"]:
    """The worth of a design at every fidelity."""
    if together:
        return jax.vmap(lambda m: worth(posterior, context, x, m))(jnp.asarray(fidelities))
    return jnp.stack([worth(posterior, context, x, m) for m in fidelities])


@partial(quick_jit, static_argnums=(0, 1, 2))
def _value_worths(
    worth: Worth, fidelities: Sequence[int], together: bool, posterior: Posterior, context: Any, x: Float[Array, "n d"]
) -> Float[Array, "n m"]:
    return jax.vmap(lambda x: _at_each(worth, fidelities, together, posterior, context, x))(x)


@partial(quick_jit, static_argnums=(0, 1, 2), level=1)
def _run_worths(
    worth: Worth, fidelities: Sequence[int], together: bool, member: RunMember, context: Any, x: Float[Array, "n d"]
) -> Float[Array, "n m"]:
    """The same with several results, in blocks that stay in the processor's cache."""

    def one(x: Point) -> Float[Array, " m"]:
        return _at_each(worth, fidelities, together, member, context, x)

    return jax.lax.map(one, x, batch_size=SCREENED_AT_ONCE)


def _climbed_rows(
    worth: Worth,
    fidelity: int | None,
    fidelities: Int[np.ndarray | Array, " r"],
    posterior: Posterior | RunMember,
    context: Any,
    x: Float[Array, "r d"],
) -> tuple[Float[Array, " r"], Float[Array, "r d"]]:
    """The worth of every row and its gradient, at one fidelity for all rows or, if that is None, at the row's own."""

    def one(x: Point, m: Int[Array, ""]) -> Scalar:
        return worth(posterior, context, x, m if fidelity is None else fidelity)

    return jax.vmap(jax.value_and_grad(one))(x, fidelities)


_value_and_gradient = quick_jit(_climbed_rows, static_argnums=(0, 1))
_run_and_gradient = quick_jit(_climbed_rows, static_argnums=(0, 1), level=1)
