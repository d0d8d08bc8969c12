"""Climbing within limits: known constraints (`climb_feasible`), or functions with gradients (`climb_limited`).

With known constraints alone, the maximum is found by an augmented Lagrangian (Nocedal and Wright 2006, eq. 17.65), each
round of which is a climb in the box,

    maximise f(x) - sum_k (s_k² - λ_k²) / (2 μ),     s_k = max(0, λ_k - μ g_k(x)),     then λ_k = s_k,

with margins g_k scaled by the norm of their gradient at the start of the round. Its end is then moved onto the feasible
side of the edge by Newton's method (`SearchSpace.repair`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fidelium.numerics.lbfgs import Maxima, Rows, ValueAndGradient, maximise_rows
from fidelium.numerics.sqp import Evaluate, maximise_within
from fidelium.parameter_constraints.projection import least_step
from fidelium.space import SearchSpace

_ROUNDS = 6
_DEPTH = 0.02
"""Where the first round ends, beyond the edge, about: its penalty balances the slope of f there."""

_NEIGHBOURS = 6
"""Items that are tried around each place."""

_NEAR = 1e-3
"""Distance from an active edge from which Newton's method leads onto it."""

_CLOSE = 1e-7
"""Distance beyond the edge, as a share of the box, that Newton's method is left to make up for."""


def climb_feasible(
    space: SearchSpace | None,
    value_and_gradient: ValueAndGradient,
    start: Rows,
    *,
    steps: int = 50,
    tolerance: float = 1e-7,
    hold: bool = False,
) -> Maxima:
    """Climb from every row of `start` to a maximum over the designs that meet the constraints.

    Args:
        space: the constraints; without any, or if it is None, this is `maximise_rows` in the unit cube.
        value_and_gradient: the function to maximise, as in `maximise_rows`.
        start: designs that meet the constraints, `(rows, d)`.
        steps: calls of `value_and_gradient` at most in the box; constraints that are active take up to three times as
            many.
        tolerance: as in `maximise_rows`.
        hold: whether integers and choices stay as they are.

    Returns:
        The best point of each row; with constraints, a snapped one that meets them, never below its start.
    """
    if hold and space is not None and len(space.discrete):
        value_and_gradient = _held(value_and_gradient, space.discrete)
    if space is not None and space.held:
        value_and_gradient = _held(value_and_gradient, space.held_columns)
    if space is not None and space.catalogues:
        return _climb_items(space, value_and_gradient, start, steps, tolerance)
    return _climb(space, value_and_gradient, start, steps, tolerance)


def _climb(
    space: SearchSpace | None, value_and_gradient: ValueAndGradient, start: Rows, steps: int, tolerance: float
) -> Maxima:
    """As `climb_feasible`, wherever the columns lead."""
    if space is None or not space.constraints:
        return maximise_rows(value_and_gradient, start, 0.0, 1.0, steps=steps, tolerance=tolerance)
    begin = space.repair(start)
    value, gradient = (np.asarray(part, dtype=float) for part in value_and_gradient(begin))
    end = space.repair(_ascend(space, value_and_gradient, begin, gradient, steps, tolerance))
    reached = np.asarray(value_and_gradient(end)[0], dtype=float)
    rose = np.nan_to_num(reached, nan=-np.inf) > np.nan_to_num(value, nan=-np.inf)
    return Maxima(np.where(rose[:, None], end, begin), np.where(rose, reached, value))


def _climb_items(
    space: SearchSpace, value_and_gradient: ValueAndGradient, start: Rows, steps: int, tolerance: float
) -> Maxima:
    """As `climb_feasible` in a space with catalogues: every end has items, and is never below its start.

    Between items there is nothing, so items and other columns take turns: the others climb for the items at hand; a
    climb of all columns shows where better items may be; the nearest ones there, and the neighbours of those at hand,
    are tried.
    """
    columns = np.concatenate(
        [np.arange(space.places[name].start, space.places[name].stop) for name in space.catalogues]
    )
    held, few = _held(value_and_gradient, columns), max(4, steps // 3)
    best = _climb(space, held, start, few, tolerance)
    for relaxed in (True, False):
        towards = _climb(space, value_and_gradient, best.x, few, tolerance).x if relaxed else best.x
        best = _better_items(space, value_and_gradient, best, towards)
        best = _climb(space, held, best.x, few, tolerance)
    return best


def _better_items(space: SearchSpace, value_and_gradient: ValueAndGradient, best: Maxima, towards: Rows) -> Maxima:
    """The rows, each with the best of the items nearest to where it would go."""
    x, value = best.x.copy(), np.nan_to_num(np.asarray(best.value, dtype=float), nan=-np.inf)
    for name, catalogue in space.catalogues.items():
        place = space.places[name]
        for items in catalogue.neighbours(towards[:, place], _NEIGHBOURS).T:
            tried = x.copy()
            tried[:, place] = catalogue.rows[items]
            reached = np.nan_to_num(np.asarray(value_and_gradient(tried)[0], dtype=float), nan=-np.inf)
            rose = (reached > value) & space.meets(tried)
            x, value = np.where(rose[:, None], tried, x), np.where(rose, reached, value)
    return Maxima(x, value)


def climb_limited(space: SearchSpace | None, evaluate: Evaluate, start: Rows, *, steps: int) -> Rows:
    """Climb from every row of `start` to a maximum within limits that are functions with gradients, too.

    Integers and choices may be anything in between at first, then they are rounded and held. That may lead out of the
    limits; so the rows are also climbed with those of their starts, and the better end is taken.

    Args:
        space: whose integers and choices, and known constraints, designs have; None: there are none.
        evaluate: value and limits, as in `maximise_within`.
        start: valid designs, `(rows, d)`.
        steps: calls of `evaluate` at most; with integers two and a third times as many.
    """
    within = evaluate if space is None or not space.constraints else _with_known(space, evaluate)
    if space is not None and space.held:
        within = _held_limits(within, space.held_columns)
    if space is None or not len(space.discrete):
        return maximise_within(within, start, steps=steps)
    held, most = _held_limits(within, space.discrete), max(2, steps // 3)
    rounded = space.repair(maximise_within(within, start, steps=most))
    ends = [maximise_within(held, x, steps=steps) for x in (rounded, start)]
    (value, beyond), (other_value, other_beyond) = (_judged(within, x) for x in ends)
    first = (beyond < other_beyond - _CLOSE) | ((beyond <= other_beyond + _CLOSE) & (value >= other_value))
    return np.where(first[:, None], *ends)


def _judged(evaluate: Evaluate, x: Rows) -> tuple[Rows, Rows]:
    """The value of each row, and the sum of its violations."""
    value, _, beyond, _ = evaluate(x)
    return value, np.sum(np.maximum(beyond, 0.0), axis=1)


def _with_known(space: SearchSpace, evaluate: Evaluate) -> Evaluate:
    """The same function, with the known constraints among the limits."""

    def both(x: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        value, gradient, limits, slopes = evaluate(x)
        margins, known = space.margins(x)
        return value, gradient, np.concatenate([limits, -margins], axis=1), np.concatenate([slopes, -known], axis=1)

    return both


def _held_limits(evaluate: Evaluate, columns: NDArray[np.int64]) -> Evaluate:
    """The same function, flat along some columns."""

    def held(x: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        value, gradient, limits, slopes = evaluate(x)
        gradient, slopes = np.array(gradient), np.array(slopes)
        gradient[:, columns] = 0.0
        slopes[..., columns] = 0.0
        return value, gradient, limits, slopes

    return held


def _held(value_and_gradient: ValueAndGradient, columns: NDArray[np.int64]) -> ValueAndGradient:
    """The same function, flat along some columns."""

    def held(x: Rows) -> tuple[Rows, Rows]:
        value, gradient = (np.array(part, dtype=float) for part in value_and_gradient(x))
        gradient[:, columns] = 0.0
        return value, gradient

    return held


def _ascend(
    space: SearchSpace, value_and_gradient: ValueAndGradient, x: Rows, gradient: Rows, steps: int, tolerance: float
) -> Rows:
    """The rounds of the augmented Lagrangian, from feasible rows."""
    slope = np.sqrt(np.sum(np.nan_to_num(gradient) ** 2, axis=1))
    steep = np.maximum(slope, np.maximum(0.1 * np.max(slope), 1e-12))
    weight = (steep / _DEPTH)[:, None]
    pull = np.zeros((len(x), 1))
    before = np.inf
    for number in range(_ROUNDS):
        _, gradients = space.margins(x)
        norms = np.sqrt(np.sum(gradients**2, axis=2))
        scale = np.maximum(norms, np.maximum(1e-3 * np.max(norms, axis=0), 1e-100))

        def penalised(x: Rows, pull: Rows = pull, weight: Rows = weight, scale: Rows = scale) -> tuple[Rows, Rows]:
            value, gradient = (np.array(part, dtype=float) for part in value_and_gradient(x))
            gradient[:, space.constrained_choices] = 0.0
            margins, gradients = space.margins(x)
            force = np.maximum(0.0, pull - weight * margins / scale)
            value -= np.sum((force**2 - pull**2) / (2 * weight), axis=1)
            return value, gradient + np.einsum("nk,nkd->nd", force / scale, gradients)

        most = steps if number == 0 else max(10, steps // 3)
        x = maximise_rows(penalised, x, 0.0, 1.0, steps=most, tolerance=tolerance).x
        margins = space.margins(x)[0] / scale
        violation = np.max(np.maximum(-margins, 0.0), axis=1, keepdims=True, initial=0.0)
        pull = np.maximum(0.0, pull - weight * margins)
        settled = (np.abs(margins) < _CLOSE) | (pull == 0.0)
        if np.all(violation < _CLOSE) and np.all(settled):
            break
        weight = np.where(violation > 0.25 * before, 5 * weight, weight)
        before = violation
    return _onto_edges(space, x, pull > 0.0)


def _onto_edges(space: SearchSpace, x: Rows, active: NDArray[np.bool_]) -> Rows:
    """Newton's method onto the edges that hold the climb back, from either side; only where they are near."""
    for _ in range(3):
        margins, gradients = space.margins(x)
        norms = np.maximum(np.sqrt(np.sum(gradients**2, axis=2)), 1e-100)
        gaps = -margins / norms
        near = active & (np.abs(gaps) < _NEAR)
        x = np.clip(x + least_step(gradients / norms[:, :, None], np.where(near, gaps, 0.0), near), 0.0, 1.0)
    return x
