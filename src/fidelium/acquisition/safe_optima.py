"""The best designs that are feasible by a margin: the highest mean where every limit is so many deviations away.

Where the model is sure, these are the optimum itself, at the corner of its active limits: a worth that is discounted
by the probability of being feasible has a narrow ridge there, along which climbs hardly get on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jax.scipy.special import logit
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.stats import norm

from fidelium.acquisition.feasible import climb_limited
from fidelium.numerics.backend import quick_jit
from fidelium.numerics.sqp import Rows
from fidelium.space import SearchSpace
from fidelium.surrogates.base import Point, Success
from fidelium.surrogates.runs import RunMember

_STEPS = 16
_FAR = 1e3
"""A limit farther away than this, in spreads of its outcome, does not hold a climb back."""


def safe_optima(
    members: Sequence[RunMember], space: SearchSpace, start: NDArray[np.float64], margins: Sequence[float]
) -> NDArray[np.float64]:
    """Designs of the highest mean where all outcomes, by all members, are within their limits by a margin.

    Args:
        members: beliefs about the results of a run.
        space: of the designs.
        start: valid designs to climb from, `(n, d)`.
        margins: in standard deviations of the outcomes.

    Returns:
        The end of every climb, `(margins * n, d)`, valid designs; not all need to have their margin.
    """
    climb = _Climb(members, np.repeat(margins, len(start)))
    return space.repair(climb_limited(space, climb.results, np.tile(start, (len(margins), 1)), steps=_STEPS))


@dataclass(frozen=True)
class _Climb:
    """The members' means and outcomes as functions to climb, with a margin for each row."""

    members: Sequence[RunMember]
    margins: NDArray[np.float64]

    def results(self, x: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        """The mean of the members' means, and how far the outcomes are from their margins, and all gradients."""
        values: list[Rows] = []
        slopes: list[Rows] = []
        beyond: list[Rows] = []
        rises: list[Rows] = []
        for member in self.members:
            (mean, std), (mean_slope, std_slope) = (
                [np.asarray(part) for part in parts] for parts in _at_target(member, x)
            )
            values.append(mean[:, 0])
            slopes.append(mean_slope[:, 0])
            need, need_slope = self.margins[:, None] * std[:, 1:], self.margins[:, None, None] * std_slope[:, 1:]
            low, high = np.asarray(member.limits).T
            for limit, sign in ((high, 1.0), (low, -1.0)):
                some = np.abs(limit) < _FAR
                beyond.append(sign * (mean[:, 1:] - limit)[:, some] + need[:, some])
                rises.append(sign * mean_slope[:, 1:][:, some] + need_slope[:, some])
        success = self.members[0].success
        if success is not None:
            odds, slope = (np.asarray(part) for part in _success_odds(success, x))
            least = np.maximum(norm.cdf(self.margins), float(success.least))
            beyond.append((np.log(least / (1 - least)) - odds)[:, None])
            rises.append(-slope[:, None])
        limits, limit_slopes = (np.concatenate(part, axis=1) for part in (beyond, rises))
        return np.mean(values, axis=0), np.mean(slopes, axis=0), limits, limit_slopes


Both = tuple[Float[Array, "n r"], Float[Array, "n r"]]


@partial(quick_jit, level=1)
def _at_target(member: RunMember, x: Float[Array, "n d"]) -> tuple[Both, tuple[Array, Array]]:
    """Means and standard deviations of all results, and their gradients."""
    return jax.vmap(lambda x: (member.at_target(x), jax.jacfwd(member.at_target)(x)))(x)


@partial(quick_jit, level=1)
def _success_odds(success: Success, x: Float[Array, "n d"]) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """The log odds of success at the target, and their gradients."""

    def odds(x: Point) -> Array:
        return logit(success.probabilities(x)[-1])

    return jax.vmap(jax.value_and_grad(odds))(x)
