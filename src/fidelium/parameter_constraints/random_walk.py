"""A random walk in a set that leaves the uniform distribution on it as it is.

The set is given by a function that accepts rows of a region. The steps are

- along the difference of two other designs, or any direction, to a uniformly random point of the set on that line
  (hit-and-run, by shrinking the interval as slice sampling does): differences lie in a thin set as it does;
- by exactly such a difference, which leads from one discrete value to another where numbers must follow;
- to another value of one discrete parameter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fidelium.parameter_constraints.region import Region, Rows
from fidelium.parameters import Integer

Accepts = Callable[[Rows], NDArray[np.bool_]]
"""Whether each snapped row is in the set."""

_SHRINKS = 60


def walk(
    region: Region,
    accepts: Accepts,
    generator: np.random.Generator,
    rows: Rows,
    others: Rows,
    steps: int,
    *,
    linear: bool = True,
) -> Rows:
    """Move every row by random steps.

    Args:
        region: the parameters.
        accepts: the set.
        generator: of the steps.
        rows: where to begin, in the set.
        others: rows of the set along whose differences they move.
        steps: how many.
        linear: whether the set meets the linear constraints of the region, so that lines are cut at their edges.
    """
    if linear and region.is_polytope:
        return _walk_in_polytope(region, accepts, generator, rows, others, steps)
    has_reals, names = bool(len(region.reals)), region.discrete
    for step in range(steps):
        if has_reals:
            direction = _directions(generator, len(rows), others[:, region.reals])
            rows = _slice(region, accepts, generator, rows, direction, linear)
        if names and (step % 2 == 0 or not has_reals):
            first, second = (others[generator.integers(len(others), size=len(rows))] for _ in range(2))
            rows = _jump(region, accepts, generator, rows, first, second)
            rows = _refresh(region, accepts, generator, rows, names[int(generator.integers(len(names)))])
    return rows


def _directions(generator: np.random.Generator, count: int, others: Rows) -> NDArray[np.float64]:
    """Directions of lines: differences of two other rows, some along an axis, some anywhere."""
    first, second = (others[generator.integers(len(others), size=count)] for _ in range(2))
    direction = first - second
    random = generator.normal(size=direction.shape)
    axis = np.zeros(direction.shape)
    axis[np.arange(count), generator.integers(direction.shape[1], size=count)] = 1.0
    kind = generator.random((count, 1))
    same = np.all(direction == 0, axis=1, keepdims=True)
    return np.where(same | (kind < 0.15), random, np.where(kind < 0.3, axis, direction))


def _walk_in_polytope(
    region: Region, accepts: Accepts, generator: np.random.Generator, rows: Rows, others: Rows, steps: int
) -> Rows:
    """The same between flat edges, whose intersections with a line are known; values are snapped at the end."""
    offsets, normals = region.edges
    x = rows
    for _ in range(steps):
        direction = _directions(generator, len(x), others)
        margins, rises = np.maximum(x @ normals.T + offsets, 0.0), direction @ normals.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cuts = -margins / rises
            low = np.max(np.where(rises > 0, cuts, -np.inf), axis=1)
            high = np.min(np.where(rises < 0, cuts, np.inf), axis=1)
            at = low + (high - low) * generator.random(len(x))
        x = x + np.where(np.isfinite(at), at, 0.0)[:, None] * direction
    return taken(region, accepts, rows, np.clip(x, 0.0, 1.0), np.ones(len(x), dtype=bool))


def _slice(
    region: Region,
    accepts: Accepts,
    generator: np.random.Generator,
    rows: Rows,
    direction: NDArray[np.float64],
    linear: bool,
) -> Rows:
    """A random point of the set on the line through each row, by shrinking the interval that the box leaves."""
    rows, reals = rows.copy(), region.reals
    x = rows[:, reals]
    low, high = region.interval(rows, direction, linear=linear)
    left = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (high > low))
    for _ in range(_SHRINKS):
        if not len(left):
            break
        at = low[left] + (high[left] - low[left]) * generator.random(len(left))
        tried = rows[left]
        tried[:, reals] = x[left] + at[:, None] * direction[left]
        tried = region.snap(tried)
        met = accepts(tried)
        rows[left[met]] = tried[met]
        left, at = left[~met], at[~met]
        low[left], high[left] = np.where(at < 0, at, low[left]), np.where(at < 0, high[left], at)
    return rows


def _jump(
    region: Region, accepts: Accepts, generator: np.random.Generator, rows: Rows, first: Rows, second: Rows
) -> Rows:
    """Each row moved by the difference of two others, if it then meets the constraints.

    A choice becomes that of `first` where it is that of `second`. So every jump has one back, of the same probability.
    """
    moved, inside, ratio = rows.copy(), np.ones(len(rows), dtype=bool), np.ones(len(rows))
    reals = region.reals
    moved[:, reals] += first[:, reals] - second[:, reals]
    inside &= np.all((moved[:, reals] >= 0) & (moved[:, reals] <= 1), axis=1)
    for name in region.discrete:
        place, parameter = region.places[name], region.parameters[name]
        if isinstance(parameter, Integer):
            before, up, down = (parameter.values(each[:, place])[:, 0] for each in (rows, first, second))
            after = before + up - down
            inside &= (after >= parameter.low) & (after <= parameter.high)
            after = np.clip(after, parameter.low, parameter.high)
            ratio *= parameter.shares(after) / parameter.shares(before)
            moved[:, place] = parameter.units(after)[:, None]
        else:
            same = np.all(rows[:, place] == second[:, place], axis=1)
            moved[:, place] = np.where(same[:, None], first[:, place], rows[:, place])
    return taken(region, accepts, rows, moved, inside & (generator.random(len(rows)) < ratio))


def _refresh(region: Region, accepts: Accepts, generator: np.random.Generator, rows: Rows, name: str) -> Rows:
    """Another value of a discrete parameter, if the row then meets the constraints."""
    moved, place = rows.copy(), region.places[name]
    if name in region.options:
        moved[:, place] = region.options[name].draw(generator, len(rows))
    else:
        moved[:, place] = region.parameters[name].snap(generator.random((len(rows), 1)))
    return taken(region, accepts, rows, moved, np.ones(len(rows), dtype=bool))


def taken(region: Region, accepts: Accepts, rows: Rows, moved: Rows, wanted: NDArray[np.bool_]) -> Rows:
    """The rows moved where that is wanted and stays in the set."""
    moved = region.snap(moved)
    wanted = wanted & accepts(moved)
    return np.where(wanted[:, None], moved, rows)
