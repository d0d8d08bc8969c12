"""Samples of f*, the target's maximum: each posterior draw of f_M as a function is maximised (Algorithm 1, line 3).

Where outcomes have limits, the value's draw is maximised over the designs where the draws of all outcomes are feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.acquisition.base import SCREENED_AT_ONCE, Designs, in_blocks, incumbents
from fidelium.acquisition.feasible import climb_feasible, climb_limited
from fidelium.history import History
from fidelium.numerics.backend import jax_key, quick_jit
from fidelium.numerics.sqp import Rows
from fidelium.randomness import Key
from fidelium.space import SearchSpace
from fidelium.surrogates.base import Paths, Point, Posterior
from fidelium.surrogates.runs import RunMember, RunPaths


@dataclass(frozen=True)
class SampledMaxima:
    """Samples of the maximum and where each was attained.

    Args:
        value: f*, in the model's units of the target, `(draws,)`.
        unit_x: the maximisers, `(draws, d)`.
    """

    value: NDArray[np.float64]
    unit_x: NDArray[np.float64]


def sample_maxima(
    posterior: Posterior, history: History, draws: int, starts: int, designs: Designs, key: Key
) -> SampledMaxima:
    """Draw the target as a function `draws` times and maximise each draw, from designs around the incumbents."""
    draw_key, pool_key = key.split(2)
    candidates = designs.around(history, incumbents(history), pool_key)
    return maximise_paths(draw_paths(posterior, jax_key(draw_key), draws), candidates, starts, space=history.space)


def maximise_paths(
    paths: Paths, candidates: NDArray[np.float64], starts: int, steps: int = 30, space: SearchSpace | None = None
) -> SampledMaxima:
    """Maximise every path: L-BFGS from its best candidates, all paths and starts in one batch.

    Args:
        paths: the draws.
        candidates: points to start from, `(n, d)`; every path takes its own best ones.
        starts: how many starts each path gets.
        steps: evaluations at most.
        space: whose constraints the maxima meet; None without constraints.
    """
    if space is not None and space.table is not None:
        return _maxima_of_table(paths, space.table)
    screened = np.asarray(_screen(paths, candidates))  # (n, draws)
    draws = screened.shape[1]
    best = np.argsort(-screened, axis=0)[:starts].T  # (draws, starts)
    which = np.repeat(np.arange(draws), starts)
    start = candidates[best.reshape(-1)]
    found = climb_feasible(space, lambda x: _paths_and_gradients(paths, which, x), start, steps=steps)
    value = found.value.reshape(draws, starts)
    winner = np.argmax(value, axis=1)
    x = found.x.reshape(draws, starts, -1)
    return SampledMaxima(value[np.arange(draws), winner], x[np.arange(draws), winner])


def _maxima_of_table(paths: Paths, table: NDArray[np.float64]) -> SampledMaxima:
    """The maxima over all designs of a table: exact."""
    values = in_blocks(partial(_screen, paths), table)  # (n, draws)
    best = np.argmax(values, axis=0)
    return SampledMaxima(values[best, np.arange(values.shape[1])], table[best])


NO_DESIGN = -1e30
"""f* of a draw in which no design is feasible: any feasible design would be better."""

_INSIDE, _RESTORATIONS = 1e-9, 4
"""How far within its limits a climb is to end, and the Newton steps that bring it there."""


def sample_feasible_maxima(
    member: RunMember, history: History, draws: int, starts: int, designs: Designs, key: Key
) -> SampledMaxima:
    """Draw value and outcomes as functions `draws` times, and maximise each value over its feasible designs.

    The value is `NO_DESIGN` where none is found; its design is then the one with the least violation.
    """
    draw_key, pool_key = key.split(2)
    candidates = designs.around(history, incumbents(history), pool_key)
    paths = _draw_runs(member, jax_key(draw_key), draws)
    return maximise_feasible(paths, candidates, starts, space=history.space)


def maximise_feasible(
    paths: RunPaths,
    candidates: NDArray[np.float64],
    starts: int,
    steps: int = 16,
    space: SearchSpace | None = None,
) -> SampledMaxima:
    """Maximise every draw of the value over the designs where the draws of all outcomes are within their limits.

    Sequential quadratic programming from the best candidates of each draw, all draws and starts in one batch; then
    Newton steps onto the feasible side. Integers and choices are those of a design.

    Args:
        paths: the draws.
        candidates: points to start from, `(n, d)`; every draw takes its own best ones.
        starts: how many starts each draw gets.
        steps: evaluations at most, as in `climb_limited`.
        space: the known constraints, None if there are none.
    """
    if space is not None and space.table is not None:
        return _feasible_maxima_of_table(paths, space.table)
    value, beyond = (np.asarray(part) for part in _screen_runs(paths, candidates))  # (n, draws)
    draws = value.shape[1]
    best = np.stack([np.lexsort((-value[:, i], beyond[:, i]))[:starts] for i in range(draws)])
    climb = _Climb(paths, np.repeat(np.arange(draws), starts), space)
    start = candidates[best.reshape(-1)]
    end = climb.restored(climb_limited(space, climb.results, start, steps=steps))
    # of every draw the best feasible design, or else the one with the least violation
    found: list[tuple[float, NDArray[np.float64]]] = []
    both = [(x, *climb.judged(x)) for x in (end, start)]
    for i in range(draws):
        rows = slice(i * starts, (i + 1) * starts)
        x, value, beyond = (np.concatenate([part[rows] for part in parts]) for parts in zip(*both, strict=True))
        top = int(np.lexsort((-value, beyond))[0])
        found.append((NO_DESIGN if beyond[top] > 0 else float(value[top]), x[top]))
    return SampledMaxima(np.array([f for f, _ in found]), np.array([at for _, at in found]))


def _feasible_maxima_of_table(paths: RunPaths, table: NDArray[np.float64]) -> SampledMaxima:
    """The same over all designs of a table: exact."""
    results = in_blocks(lambda x: np.stack(_screen_runs(paths, x), axis=2), table)  # (n, draws, 2)
    value, beyond = results[..., 0], results[..., 1]
    draws = range(value.shape[1])
    best = np.array([np.lexsort((-value[:, i], beyond[:, i]))[0] for i in draws])
    feasible = beyond[best, draws] <= 0
    return SampledMaxima(np.where(feasible, value[best, draws], NO_DESIGN), table[best])


@dataclass(frozen=True)
class _Climb:
    """Draws of a run's results as functions to climb, a draw for each row."""

    paths: RunPaths
    which: NDArray[np.int64]
    space: SearchSpace | None

    def restored(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest designs within the limits, by Newton steps of least length; not all may get there."""
        for _ in range(_RESTORATIONS):
            _, _, g, gradient = self.results(x)
            short = np.where(g > -_INSIDE, g + 2 * _INSIDE, 0.0)
            if not short.any():
                break
            slopes = np.where(short[..., None] > 0, gradient, 0.0)
            if self.space is not None:
                slopes[..., self.space.discrete] = 0.0
                slopes[..., self.space.held_columns] = 0.0
            gram = np.einsum("rkd,rld->rkl", slopes, slopes) + 1e-9 * np.eye(g.shape[1])
            x = np.clip(x - np.einsum("rkd,rk->rd", slopes, np.linalg.solve(gram, short[..., None])[..., 0]), 0.0, 1.0)
        return x if self.space is None or not self.space.constraints else self.space.repair(x)

    def judged(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The value of each row, and the sum of its violations."""
        f, _, g, _ = self.results(x)
        return f, np.sum(np.maximum(g, 0.0), axis=1)

    def results(self, x: NDArray[np.float64]) -> tuple[Rows, Rows, Rows, Rows]:
        """f and g of every row, each followed by its gradient; g is at most 0 within the limits."""
        values, gradients = (np.asarray(part) for part in _results_and_gradients(self.paths, self.which, x))
        low, high = np.asarray(self.paths.all_limits).T
        c, slope = values[:, 1:], gradients[:, 1:]
        above = c - high[None, :] >= low[None, :] - c
        g = np.where(above, c - high[None, :], low[None, :] - c)
        return values[:, 0], gradients[:, 0], g, np.where(above[..., None], slope, -slope)


@partial(quick_jit, static_argnums=2, level=1)
def _draw_runs(member: RunMember, key: jax.Array, count: int) -> RunPaths:
    return member.draw_paths(key, count)


@jax.jit
def _screen_runs(paths: RunPaths, x: Float[Array, "n d"]) -> tuple[Float[Array, "n draws"], Float[Array, "n draws"]]:
    """The values of all draws, and the sums of their violations."""

    def one(x: Point) -> tuple[Array, Array]:
        value, beyond = paths(x)
        return value, jnp.sum(beyond, axis=0)

    return jax.lax.map(one, x, batch_size=SCREENED_AT_ONCE)


@partial(quick_jit, level=1)
def _results_and_gradients(
    paths: RunPaths, draw: Array, x: Float[Array, "n d"]
) -> tuple[Float[Array, "n r"], Float[Array, "n r d"]]:
    """Value, outcomes and success of every row, according to its draw, and their gradients."""
    return jax.vmap(paths.results_and_gradients)(draw, x)


@partial(quick_jit, static_argnums=2)
def draw_paths(posterior: Posterior, key: jax.Array, count: int) -> Paths:
    """`count` draws of the target as functions, in one compiled step."""
    return posterior.draw_paths(key, count)


@jax.jit  # fully optimised, and in blocks that stay in the processor's cache: up to five times as fast
def _screen(paths: Paths, x: Float[Array, "n d"]) -> Float[Array, "n draws"]:
    return jax.lax.map(paths, x, batch_size=SCREENED_AT_ONCE)


@quick_jit
def _paths_and_gradients(paths: Paths, draw: Array, x: Float[Array, "r d"]) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda i, x: paths.at(i, x), argnums=1))(draw, x)
