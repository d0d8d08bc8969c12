"""Constrained maxima of many functions at once, by sequential quadratic programming in the unit cube.

    maximise f(x)   where all g_k(x) <= 0

Every step maximises a quadratic model of f with linear models of g_k in a trust region (Fletcher's Sl1QP; Nocedal and
Wright 2006, section 18.5),

    maximise f'p - p'Bp / 2 - w sum_k max(0, g_k + g_k' p),     |p_i| <= radius,  0 <= x + p <= 1,

and is taken if f(x) - w sum_k max(0, g_k(x)) rises. B is a damped BFGS estimate of the curvature of the Lagrangian. At
a corner of the constraints this converges quadratically, where a penalty zigzags along its narrow ridge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]

Evaluate = Callable[[Rows], tuple[Rows, Rows, Rows, Rows]]
"""f `(n,)`, its gradients `(n, d)`, g `(n, k)`, and theirs `(n, k, d)`, at points `(n, d)`."""

_LARGEST, _SMALLEST = 0.5, 1e-9
"""Trust region's radius at most, and where a row stops."""

_HARDER, _HARDEST = 3.0, 1e6
"""How much more a violation counts where a limit is worth as much as it costs to break it, up to which weight."""

_TOLERANCE = 1e-10
"""A row has arrived where a step would gain less than this."""

_HUGE = 1e6
"""In the place of anything larger, in units in which the spread of values and limits is 1."""

_QP_STEPS = 20
"""Steps of the interior-point method at most; 10 are usual."""

_QP_TOLERANCE = 1e-9


def maximise_within(evaluate: Evaluate, start: Rows, *, steps: int, radius: float = 0.1, weight: float = 3.0) -> Rows:
    """The ends of climbs from every row of `start`, feasible or nearly so where such points are found.

    Args:
        evaluate: value and constraints, and their gradients, of all rows.
        start: points of the unit cube, `(n, d)`.
        steps: calls of `evaluate` at most.
        radius: of the first trust region.
        weight: of violations at first, in units of the value; it grows where it does not suffice.
    """
    x: Rows = np.array(start, dtype=float)
    count, dimension = x.shape
    here = _Point.of(evaluate(x))
    reach: Rows = np.full(count, radius)
    weights: Rows = np.full(count, weight)
    curvature: Rows = np.broadcast_to(np.eye(dimension), (count, dimension, dimension)) * 1e-2
    bend: Rows = np.zeros_like(here.g)  # by how much g was above its linear model after a step that was not taken
    for _ in range(steps - 1):
        low, high = np.maximum(-reach[:, None], -x), np.minimum(reach[:, None], 1 - x)
        step, multipliers = quadratic_programs(curvature, here.df, here.dg, here.g + bend, weights, low, high)
        there: Rows = np.clip(x + step, 0.0, 1.0)
        new = _Point.of(evaluate(there))
        rise: Rows = np.where(new.known, new.merit(weights) - here.merit(weights), -np.inf)
        linear: Rows = here.g + np.einsum("nkd,nd->nk", here.dg, step)
        curved: Rows = 0.5 * np.einsum("nd,nde,ne->n", step, curvature, step)
        avoided: Rows = weights * (_violation(here.g) - _violation(linear + bend))
        hoped: Rows = np.einsum("nd,nd->n", here.df, step) - curved + avoided
        ratio: Rows = rise / np.maximum(hoped, 1e-15)
        taken = rise > 0
        # a step that bent limits spoil is tried again with them as they were there, before the region shrinks
        second = np.any(bend != 0, axis=1)
        again = ~taken & ~second & new.known & np.any(new.g > linear, axis=1)
        length: Rows = np.max(np.abs(step), axis=1, initial=0.0)
        shrunk = (ratio < 0.25) & ~again
        reach = np.where(shrunk, 0.3 * np.minimum(length, reach), np.where(ratio > 0.75, 2.5 * reach, reach))
        reach = np.clip(reach, _SMALLEST, _LARGEST)
        bend = np.where(again[:, None], new.g - linear, 0.0)
        curvature = _updated(curvature, there - x, here, new, multipliers)
        broken = np.max(multipliers, axis=1, initial=0.0) > 0.9 * weights
        weights = np.where(broken & (weights < _HARDEST), _HARDER * weights, weights)
        x = np.where(taken[:, None], there, x)
        here = new.where(taken, here)
        unsure = second | again | (broken & (weights < _HARDEST))
        if np.all((reach <= _SMALLEST) | ((hoped < _TOLERANCE) & ~unsure)):
            break
    return x


@dataclass(frozen=True)
class _Point:
    """What `Evaluate` gives, all finite, and which rows were so from the beginning."""

    f: Rows
    df: Rows
    g: Rows
    dg: Rows
    known: NDArray[np.bool_]

    @staticmethod
    def of(found: tuple[Rows, Rows, Rows, Rows]) -> _Point:
        f, df, g, dg = (_finite(part) for part in found)
        return _Point(f, df, g, dg, np.isfinite(found[0]) & np.all(np.isfinite(found[2]), axis=1))

    def merit(self, weights: Rows) -> Rows:
        """The value less what the violations count."""
        return self.f - weights * _violation(self.g)

    def where(self, taken: NDArray[np.bool_], other: _Point) -> _Point:
        """Rows of this where they are taken, of the other elsewhere."""
        row, rows = taken[:, None], taken[:, None, None]
        return _Point(
            np.where(taken, self.f, other.f),
            np.where(row, self.df, other.df),
            np.where(row, self.g, other.g),
            np.where(rows, self.dg, other.dg),
            np.where(taken, self.known, other.known),
        )


def _finite(rows: Rows) -> Rows:
    """Numbers that can be computed with in the place of those that cannot."""
    return np.clip(np.nan_to_num(rows, nan=0.0), -_HUGE, _HUGE)


def _violation(g: Rows) -> Rows:
    return np.sum(np.maximum(g, 0.0), axis=1)


def _updated(curvature: Rows, step: Rows, old: _Point, new: _Point, multipliers: Rows) -> Rows:
    """Powell's damped BFGS update, with the change of the gradient of sum_k m_k g_k - f."""
    change: Rows = np.einsum("nk,nkd->nd", multipliers, new.dg - old.dg) - (new.df - old.df)
    bent = np.einsum("nde,ne->nd", curvature, step)
    expected, seen = np.einsum("nd,nd->n", step, bent), np.einsum("nd,nd->n", step, change)
    short = seen < 0.2 * expected
    damping = np.where(short, 0.8 * expected / np.where(short, expected - seen, 1.0), 1.0)[:, None]
    change = damping * change + (1 - damping) * bent
    seen = np.einsum("nd,nd->n", step, change)
    usable = (expected > 1e-20) & (seen > 1e-20)
    expected, seen = np.where(usable, expected, 1.0), np.where(usable, seen, 1.0)
    updated = (
        curvature
        - np.einsum("nd,ne->nde", bent, bent) / expected[:, None, None]
        + np.einsum("nd,ne->nde", change, change) / seen[:, None, None]
    )
    return np.where(usable[:, None, None], updated, curvature)


def quadratic_programs(
    curvature: Rows, gradient: Rows, slopes: Rows, g: Rows, weight: Rows, low: Rows, high: Rows
) -> tuple[Rows, Rows]:
    """Maximise c'p - p'Bp / 2 - w sum_k max(0, g_k + a_k'p), low <= p <= high, for every row.

    With s_k = max(0, g_k + a_k'p) as variables these are convex quadratic programs, which Mehrotra's predictor and
    corrector solve (Nocedal and Wright 2006, section 16.6).

    Returns:
        p `(n, d)`, and the multipliers of g `(n, k)`, between 0 and w.
    """
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-12)
    # in units in which the box is [-1, 1]; limits that cannot be reached there are moved to where they still cannot be
    a = slopes * half[:, None, :]
    reach = np.sum(np.abs(a), axis=2)
    programs = _Programs(
        a,
        np.maximum(g + np.einsum("nkd,nd->nk", slopes, middle), -1.5 * reach - 1e-3),
        curvature * half[:, :, None] * half[:, None, :],
        (gradient - np.einsum("nde,ne->nd", curvature, middle)) * half,
        weight[:, None],
    )
    p, multipliers = programs.solved()
    return np.clip(middle + half * p, low, high), np.clip(multipliers, 0.0, weight[:, None])


@dataclass(frozen=True)
class _Programs:
    """Minimise p'Qp / 2 - c'p + w sum(s) where C (p, s) <= b, that is a p + g <= s, 0 <= s, p <= 1 and -p <= 1.

    Args:
        a: slopes of the limits, `(n, k, d)`.
        g: the limits at p = 0, `(n, k)`.
        q: Q, `(n, d, d)`.
        c: `(n, d)`.
        w: `(n, 1)`.
    """

    a: Rows
    g: Rows
    q: Rows
    c: Rows
    w: Rows

    def solved(self) -> tuple[Rows, Rows]:
        """p, and the multipliers of the limits."""
        n, k, d = self.a.shape
        size = np.maximum(np.max(np.abs(self.c), axis=1, initial=0.0), 1e-12)[:, None]  # units of the value
        worst = np.max(np.abs(self.g), axis=1, initial=1e-3)[:, None]
        p: Rows = np.zeros((n, d))
        s: Rows = np.maximum(self.g, 0.0) + worst
        bound = np.concatenate([-self.g, np.zeros((n, k)), np.ones((n, 2 * d))], axis=1)
        slack: Rows = np.maximum(bound - self._times(p, s), 1e-3)
        half = np.broadcast_to(0.5 * self.w, (n, k))
        dual: Rows = np.concatenate([half, half, np.broadcast_to(size, (n, 2 * d))], axis=1)
        for _ in range(_QP_STEPS):
            gap = np.mean(slack * dual, axis=1, keepdims=True)
            if np.all(gap <= _QP_TOLERANCE * size):
                break
            left = self._times(p, s) + slack - bound
            force = self._transposed(dual)
            residuals = (np.einsum("nde,ne->nd", self.q, p) - self.c + force[0], self.w + force[1], left)
            inverse = self._inverse(dual / slack, size)
            # straight to the solution first: how far one gets tells how much to keep away from the bounds
            _, change, dual_change = self._newton(slack, dual, residuals, inverse, -slack * dual)
            share, dual_share = _longest(slack, change), _longest(dual, dual_change)
            after = np.mean((slack + share * change) * (dual + dual_share * dual_change), axis=1, keepdims=True)
            aim = np.minimum(after / np.maximum(gap, 1e-300), 1.0) ** 3 * gap - slack * dual - change * dual_change
            (dp, ds), change, dual_change = self._newton(slack, dual, residuals, inverse, aim)
            share, dual_share = 0.995 * _longest(slack, change), 0.995 * _longest(dual, dual_change)
            p, s = p + share * dp, s + share * ds
            # finished rows are computed with the others: kept away from 0, so that all quotients are finite
            slack = np.maximum(slack + share * change, 1e-11)
            dual = np.maximum(dual + dual_share * dual_change, 1e-11 * size)
        return p, dual[:, :k]

    def _times(self, p: Rows, s: Rows) -> Rows:
        """C (p, s)."""
        return np.concatenate([np.einsum("nkd,nd->nk", self.a, p) - s, -s, p, -p], axis=1)

    def _transposed(self, rows: Rows) -> tuple[Rows, Rows]:
        """C' rows, for p and for s."""
        limits, signs, upper, lower = self._parts(rows)
        return np.einsum("nkd,nk->nd", self.a, limits) + upper - lower, -limits - signs

    def _parts(self, rows: Rows) -> list[Rows]:
        """Rows of C: of the limits, the signs of s, the upper and the lower ends of the box."""
        _, k, d = self.a.shape
        return np.split(rows, [k, 2 * k, 2 * k + d], axis=1)

    def _inverse(self, ratio: Rows, size: Rows) -> Rows:
        """The inverse of Q + C' diag(ratio) C after s, whose block is diagonal, has been eliminated."""
        limits, signs, upper, lower = self._parts(ratio)
        scaled = self.a * (limits * signs / (limits + signs))[:, :, None]
        matrix = self.q + np.matmul(self.a.transpose(0, 2, 1), scaled)
        diagonal = np.arange(matrix.shape[1])
        matrix[:, diagonal, diagonal] += upper + lower + 1e-12 * size
        return np.linalg.inv(matrix)

    def _newton(
        self, slack: Rows, dual: Rows, residuals: tuple[Rows, Rows, Rows], inverse: Rows, aim: Rows
    ) -> tuple[tuple[Rows, Rows], Rows, Rows]:
        """The changes of (p, s), of the slacks and the multipliers after which slack * dual has changed by `aim`."""
        ratio = dual / slack
        fixed = aim / slack + ratio * residuals[2]
        force = self._transposed(fixed)
        for_p, for_s = -residuals[0] - force[0], -residuals[1] - force[1]
        limits, signs, _, _ = self._parts(ratio)
        share = limits / (limits + signs)
        dp = np.einsum("nde,ne->nd", inverse, for_p + np.einsum("nkd,nk->nd", self.a, share * for_s))
        ds = for_s / (limits + signs) + share * np.einsum("nkd,nd->nk", self.a, dp)
        change = -residuals[2] - self._times(dp, ds)
        return (dp, ds), change, aim / slack - ratio * change


def _longest(values: Rows, changes: Rows) -> Rows:
    """The largest share of the changes, at most 1, after which no value is negative, `(n, 1)`."""
    falls = changes < 0
    shares = np.where(falls, -values / np.where(falls, changes, -1.0), np.inf)
    return np.min(shares, axis=1, initial=1.0)[:, None]
