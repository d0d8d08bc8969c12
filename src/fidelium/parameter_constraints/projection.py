"""From a point outside to designs that meet the constraints: Newton's method, bisection, and a search over integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fidelium.catalogue import Catalogue
from fidelium.parameter_constraints.region import Region, Rows, encoded
from fidelium.parameters import Categorical, Integer

_STEPS = 25
_AIMS = (1.0, 64.0, 1e4)
"""How far inside of the edge Newton's method aims, in units of the resolution: farther if rounding leads out again."""

_LONGEST_STEP = 0.5
_DAMPING = 1e-9
_HALVINGS = 45
_MOST_MEMORY = 4_000_000


def projected(region: Region, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Designs that meet the constraints, near each row.

    First all numbers are moved, then the integers are rounded and the reals moved again.

    Returns:
        The snapped rows, and which of them meet the constraints.
    """
    start = _with_options(region, np.clip(rows, 0.0, 1.0))
    best = region.snap(start)
    good = region.met(best)
    for aim in _AIMS:
        left = np.flatnonzero(~good)
        if not len(left) or not len(region.moving):
            break
        moved = newton(region, start[left], aim, integers=True)
        if len(region.reals) < len(region.moving):
            moved = newton(region, _with_options(region, region.snap(moved)), aim, integers=False)
        best[left] = region.snap(moved)
        good[left] = region.met(best[left])
    return best, good


def newton(region: Region, rows: Rows, aim: float, *, integers: bool) -> Rows:
    """Move the numbers of each row by the least that brings all violated margins to the edge, a few times.

    Args:
        region: the constraints.
        rows: points of the cube.
        aim: how far inside of the edge to go, in units of the resolution.
        integers: whether integers move, too.
    """
    most = max(1, _MOST_MEMORY // (len(region.comparisons) + 1) ** 2)
    parts = [_newton(region, rows[i : i + most], aim, integers) for i in range(0, len(rows), most)]
    return np.concatenate(parts) if parts else rows


def _newton(region: Region, rows: Rows, aim: float, integers: bool) -> Rows:
    rows, moving = rows.copy(), region.moving
    movable = np.ones(len(moving), dtype=bool) if integers else np.isin(moving, region.reals)
    if not movable.any() or not region.comparisons:
        return rows
    left = np.arange(len(rows))
    for _ in range(_STEPS):
        x = rows[np.ix_(left, moving)]
        distances, gradients = region.distances(rows[left])
        gradients = gradients * movable
        wanted = aim * (np.sum(np.abs(gradients) * region.resolution, axis=2) + 1e-14)
        short = distances < wanted
        busy = short.any(axis=1)
        left, x, distances = left[busy], x[busy], distances[busy]
        gradients, wanted, short = gradients[busy], wanted[busy], short[busy]
        if not len(left):
            break
        step = least_step(gradients, np.where(short, wanted - distances, 0.0), short)
        # keep out of the way: columns that would leave the box, and edges that the step would cross
        blocked = ((x <= 0) & (step < 0)) | ((x >= 1) & (step > 0))
        after = distances + np.einsum("nkm,nm->nk", gradients, step)
        crossed = short | (after < wanted - 1e-12)
        if blocked.any() or (crossed & ~short).any():
            free = gradients * ~blocked[:, None, :]
            step = least_step(free, np.where(crossed, wanted - distances, 0.0), crossed)
        length = np.sqrt(np.sum(step**2, axis=1, keepdims=True))
        step = step * np.minimum(1.0, _LONGEST_STEP / np.maximum(length, 1e-300))
        rows[np.ix_(left, moving)] = np.clip(x + step, 0.0, 1.0)
    return rows


def least_step(gradients: NDArray[np.float64], gaps: Rows, active: NDArray[np.bool_]) -> Rows:
    """The shortest step with gradient . step = gap for the active margins: Gᵀ (G Gᵀ + damping)⁻¹ gap."""
    kept = gradients * active[:, :, None]
    products = np.einsum("nkm,nlm->nkl", kept, kept)
    diagonal = np.where(active, _DAMPING, 1.0)
    index = np.arange(products.shape[1])
    products[:, index, index] += diagonal
    return np.einsum("nkm,nk->nm", kept, np.linalg.solve(products, gaps[:, :, None])[:, :, 0])


def bisected(region: Region, anchors: Rows, rows: Rows) -> Rows:
    """The last design that meets the constraints on the way from the nearest anchor to each row.

    Args:
        region: the constraints.
        anchors: designs that meet them.
        rows: where to go; discrete values stay those of the anchor.
    """
    nearest = np.array([np.argmin(np.sum((anchors - row) ** 2, axis=1)) for row in rows])
    found = anchors[nearest].copy()
    reals = region.reals
    if not len(reals):
        return found
    start, end = found[:, reals], np.clip(rows[:, reals], 0.0, 1.0)
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    for halving in range(_HALVINGS):
        middle = high if halving == 0 else 0.5 * (low + high)
        tried = found.copy()
        tried[:, reals] = start + middle[:, None] * (end - start)
        tried = region.snap(tried)
        met = region.met(tried)
        found = np.where(met[:, None], tried, found)
        low, high = np.where(met, middle, low), np.where(met, high, middle)
    return found


def local_search(region: Region, rows: Rows, most: int = 64, rounds: int = 30) -> Rows:
    """Change one discrete value at a time while that reduces the violation; of the least violated rows."""
    rows = rows[np.argsort(region.violation(rows))[:most]].copy()
    violation = region.violation(rows)
    left = np.arange(len(rows))
    for _ in range(rounds):
        changes = [_changed(region, rows[left], name) for name in region.discrete]
        tried = np.concatenate([change for part in changes for change in part]).reshape(-1, len(left), region.width)
        worths = region.violation(tried.reshape(-1, region.width)).reshape(len(tried), len(left))
        best = np.argmin(worths, axis=0)
        least = worths[best, np.arange(len(left))]
        better = least < violation[left] - 1e-12
        chosen = left[better]
        rows[chosen] = tried[best[better], np.flatnonzero(better)]
        violation[chosen] = least[better]
        left = chosen[violation[chosen] > 0]
        if not len(left):
            break
    return rows


def _changed(region: Region, rows: Rows, name: str) -> list[Rows]:
    """The rows with other values of a discrete parameter: each choice, similar items, or integers up and down."""
    place, parameter = region.places[name], region.parameters[name]
    changed: list[Rows] = []
    if isinstance(parameter, Categorical):
        for code in region.options[name].codes[:20]:
            tried = rows.copy()
            tried[:, place] = encoded(parameter, np.full(len(rows), code))
            changed.append(tried)
    elif isinstance(parameter, Catalogue):
        for items in parameter.neighbours(rows[:, place], 20).T:
            tried = rows.copy()
            tried[:, place] = parameter.rows[items]
            changed.append(tried)
    elif isinstance(parameter, Integer):
        now = parameter.values(rows[:, place])[:, 0]
        for change in (-10, -3, -1, 1, 3, 10):
            tried = rows.copy()
            tried[:, place] = parameter.units(np.clip(now + change, parameter.low, parameter.high))[:, None]
            changed.append(tried)
    return changed


def _with_options(region: Region, rows: Rows) -> Rows:
    """The rows with discrete values that the constraints on them alone allow."""
    rows = rows.copy()
    for name, options in region.options.items():
        rows[:, region.places[name]] = options.nearest(rows[:, region.places[name]])
    return rows
