"""L-BFGS in a box, for many starting points at once.

Each row is its own search with its own curvature pairs and step length; what they share is the call: one compiled
value-and-gradient of all rows per step. The box is kept by projection, with the variables held at a bound left out of
the quasi-Newton direction (Bertsekas 1982).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
ValueAndGradient = Callable[[Rows], tuple[Any, Any]]
"""Values `(rows,)` and gradients `(rows, d)` at points `(rows, d)`, as NumPy or JAX arrays."""

_ARMIJO = 1e-4
_SHRINK = 0.3
_MOST_HALVINGS = 12


@dataclass(frozen=True)
class Maxima:
    """Where each row ended.

    Args:
        x: the best point of every row, `(rows, d)`.
        value: its value, `(rows,)`.
    """

    x: Rows
    value: Rows

    @property
    def best(self) -> int:
        """The row with the highest value."""
        return int(np.argmax(self.value))


def maximise_rows(
    value_and_gradient: ValueAndGradient,
    start: Rows,
    lower: Rows | float,
    upper: Rows | float,
    *,
    steps: int = 50,
    memory: int = 8,
    tolerance: float = 1e-7,
) -> Maxima:
    """Climb from every row of `start` to a maximum within the box.

    Args:
        value_and_gradient: the function to maximise. A row's value may depend on that row alone. A value that is not
            finite counts as worse than any other.
        start: the starting points, `(rows, d)`.
        lower: lower bounds, broadcast against a row.
        upper: upper bounds.
        steps: calls of `value_and_gradient` at most, the first one included.
        memory: curvature pairs kept per row.
        tolerance: a row rests when its projected gradient, or the gain of its last step, is this small.

    Returns:
        The best point each row has seen.
    """
    x = np.clip(np.asarray(start, dtype=float), lower, upper)
    value, gradient = _evaluate(value_and_gradient, x)
    pairs: list[_Pair] = []
    resting = np.zeros(len(x), dtype=bool)
    step_length = np.ones(len(x))
    halvings = np.zeros(len(x), dtype=int)
    direction = _direction(x, gradient, pairs, lower, upper)
    for _ in range(steps - 1):
        resting |= np.max(np.abs(np.clip(x + gradient, lower, upper) - x), axis=1) < tolerance
        if resting.all():
            break
        step = np.where(resting, 0.0, step_length)[:, None] * direction
        trial_x = np.clip(x + step, lower, upper)
        trial_value, trial_gradient = _evaluate(value_and_gradient, trial_x)
        move = trial_x - x
        accepted = (trial_value >= value + _ARMIJO * np.sum(gradient * move, axis=1)) & ~resting
        with np.errstate(invalid="ignore"):  # a row that never was finite
            rose = np.nan_to_num(trial_value - value, nan=0.0)
        # a rejected row tries a shorter step next time; one that was rejected too often rests
        halvings = np.where(accepted, 0, halvings + 1)
        step_length = np.where(accepted, 1.0, step_length * _SHRINK)
        resting |= halvings > _MOST_HALVINGS
        resting |= accepted & (rose <= tolerance * np.maximum(1.0, np.abs(value)) * 1e-3)
        keep = accepted[:, None]
        # pairs of rows that did not move are zero, and are skipped by the two-loop recursion
        pairs.append(_Pair.of(np.where(keep, move, 0.0), np.where(keep, gradient - trial_gradient, 0.0)))
        if len(pairs) > memory:
            del pairs[0]
        x = np.where(keep, trial_x, x)
        value = np.where(accepted, trial_value, value)
        gradient = np.where(keep, trial_gradient, gradient)
        direction = np.where(keep | (halvings == 0)[:, None], _direction(x, gradient, pairs, lower, upper), direction)
    return Maxima(x, value)


def _evaluate(value_and_gradient: ValueAndGradient, x: Rows) -> tuple[Rows, Rows]:
    value, gradient = value_and_gradient(x)
    value, gradient = np.asarray(value, dtype=float), np.asarray(gradient, dtype=float)
    usable = np.isfinite(value) & np.all(np.isfinite(gradient), axis=1)
    return np.where(usable, value, -np.inf), np.where(usable[:, None], gradient, 0.0)


@dataclass(frozen=True)
class _Pair:
    """A step of every row and the fall of its gradient, with what the two-loop recursion needs of them.

    Args:
        s: the steps.
        y: the falls of the gradient.
        curved: rows in which the function is curved downwards along the step; the others do not count.
        rho: 1 / (s . y).
        scale: (s . y) / (y . y), nan in rows that do not count.
    """

    s: Rows
    y: Rows
    curved: NDArray[np.bool_]
    rho: Rows
    scale: Rows

    @staticmethod
    def of(s: Rows, y: Rows) -> _Pair:
        """The pair of these steps and falls."""
        sy, yy = _dot(s, y), _dot(y, y)
        curved = sy > 1e-10 * np.sqrt(np.maximum(yy * _dot(s, s), 1e-300))
        rho = np.where(curved, 1 / np.where(curved, sy, 1.0), 0.0)
        return _Pair(s, y, curved, rho, np.where(curved, sy / np.where(curved, yy, 1.0), np.nan))

    def on(self, free: NDArray[np.bool_]) -> _Pair:
        """The pair of the free variables alone."""
        return _Pair.of(np.where(free, self.s, 0.0), np.where(free, self.y, 0.0))


def _dot(a: Rows, b: Rows) -> Rows:
    return np.add.reduce(a * b, axis=1)


def _direction(x: Rows, gradient: Rows, pairs: list[_Pair], lower: Rows | float, upper: Rows | float) -> Rows:
    """The quasi-Newton direction of each row, by the two-loop recursion on its free variables."""
    free = ~(((x <= lower) & (gradient < 0)) | ((x >= upper) & (gradient > 0)))
    q = np.where(free, gradient, 0.0)
    if not pairs:
        return _first_step(q, lower, upper)
    used = list(reversed(pairs)) if free.all() else [pair.on(free) for pair in reversed(pairs)]
    steps: list[Rows] = []
    scale = np.full(len(x), np.nan)
    for pair in used:
        scale = np.where(np.isnan(scale) & pair.curved, pair.scale, scale)
        a = pair.rho * _dot(pair.s, q)
        q = q - a[:, None] * pair.y
        steps.append(a)
    unscaled = np.isnan(scale)
    direction = np.where(unscaled, 1.0, scale)[:, None] * q
    if unscaled.any():
        direction = np.where(unscaled[:, None], _first_step(q, lower, upper), direction)
    for pair, a in zip(reversed(used), reversed(steps), strict=True):
        b = pair.rho * _dot(pair.y, direction)
        direction = direction + (a - b)[:, None] * pair.s
    uphill = _dot(direction, gradient) > 0
    if not uphill.all():
        direction = np.where(uphill[:, None], direction, _first_step(q, lower, upper))
    return np.where(free, direction, 0.0)


def _first_step(gradient: Rows, lower: Rows | float, upper: Rows | float) -> Rows:
    """Along the gradient, for lack of curvature: a tenth of the box at most."""
    width = 0.1 * np.broadcast_to(np.asarray(upper, dtype=float) - np.asarray(lower, dtype=float), gradient.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        longest = np.max(np.where(np.isfinite(width), np.abs(gradient) / width, np.abs(gradient)), axis=1)
    return gradient / np.maximum(longest, 1.0)[:, None]
