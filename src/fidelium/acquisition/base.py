"""What an acquisition is: it ranks the queries that could be asked next, given a posterior."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.history import History
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.base import Posterior
from fidelium.surrogates.ensemble import Ensemble
from fidelium.surrogates.runs import RunPosterior

BLOCK = 512
"""Rows of a table of designs that are evaluated at once."""

MOST_WHOLE = 2048
"""Designs of a table that are all evaluated by all members of an ensemble; of longer tables, the best by one member."""

SCREENED_AT_ONCE = 32
"""Candidates per block of a screening."""


@dataclass(frozen=True)
class Candidate:
    """A query with its worth.

    Args:
        unit_x: a valid design, as a point of the unit cube.
        fidelity: position in the ladder.
        worth: what it is ranked by, usually its gain divided by its cost.
    """

    unit_x: NDArray[np.float64]
    fidelity: int
    worth: float


@runtime_checkable
class Scaled(Protocol):
    """A posterior, or one of a run's results, with the units of its value."""

    @abstractmethod
    def scales(self) -> tuple[Scale, ...]:
        """The units of the value at each fidelity."""
        ...


@runtime_checkable
class Acquisition(Protocol):
    """Ranks queries; pure, with the same answer for the same posterior, history and key."""

    @abstractmethod
    def rank(
        self, posterior: Posterior | RunPosterior, history: History, fidelities: Sequence[int], key: Key
    ) -> list[Candidate]:
        """Queries at these fidelities, the best first; at least one.

        Raises:
            SettingError: if the posterior lacks something that this acquisition needs.
        """
        ...


def require_protocol(posterior: Posterior, protocol: Any, need: str) -> Any:
    """The posterior, if it has what an acquisition needs beyond `Posterior`.

    Args:
        posterior: what was learned.
        protocol: what it must be.
        need: who needs what, for the error.

    Raises:
        SettingError: if it does not follow the protocol.
    """
    if not isinstance(posterior, protocol):
        raise SettingError(f"{need}, got a {type(posterior).__name__}; observation_gain works with any surrogate")
    return posterior


@dataclass(frozen=True)
class Designs:
    """Starting points of a search over designs.

    Args:
        pool: random designs.
        local: designs near given centres, at distances from 0.001 to 0.1.
        starts: how many of all these are climbed from, per fidelity.
    """

    pool: int = 512
    local: int = 96
    starts: int = 8

    def around(self, history: History, centres: NDArray[np.float64], key: Key) -> NDArray[np.float64]:
        """The designs, the centres among them, `(pool + local, d)`."""
        generator = key.generator()
        uniform = history.space.sample(generator, self.pool)
        if not self.local:
            return uniform
        if not len(centres):
            return np.concatenate([uniform, history.space.sample(generator, self.local)])
        around = centres[np.arange(self.local) % len(centres)]
        radius = 10 ** generator.uniform(-3, -1, size=(self.local, 1))
        radius[: min(len(centres), self.local)] = 0.0
        return np.concatenate([uniform, history.space.repair(around + radius * generator.normal(size=around.shape))])


def incumbents(history: History) -> NDArray[np.float64]:
    """The best designs seen within the present bounds, target first, one per fidelity that has been observed.

    With constraints, the best feasible ones, or those nearest to feasible. In a slice of the space where nothing was
    observed, the designs there that are nearest to those of the whole.
    """
    if history.space.held and not any(len(seen) for seen in history.inside):
        return history.space.repair(incumbents(history.whole))
    both = zip(reversed(history.inside), reversed(history.order), strict=True)
    seen = [o.unit_x[order[0]] for o, order in both if len(o)]
    return np.array(seen).reshape(len(seen), history.space.dimension)


def best_target_value(posterior: Scaled, history: History) -> float | None:
    """The best feasible value observed at the target within the present bounds, in the model's units.

    Less its standard error, where that is known. None if there is none.
    """
    y = history.inside[-1].sure_y[history.feasible[-1]]
    return float(np.max(posterior.scales()[-1].inward(y))) if len(y) else None


def in_blocks(evaluate: Callable[[NDArray[np.float64]], Any], unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
    """A function of rows, evaluated in blocks of one size: one compilation for tables of any length."""
    if not len(unit_x):
        return np.asarray(evaluate(np.zeros((BLOCK, unit_x.shape[1]))))[:0]
    starts = range(0, len(unit_x), BLOCK)
    parts = [np.asarray(evaluate(pad_rows(unit_x[start : start + BLOCK], BLOCK))) for start in starts]
    return np.concatenate(parts)[: len(unit_x)]


def rough(posterior: Any) -> Any:
    """A posterior that takes less time to evaluate: the first member of an ensemble."""
    return posterior.first() if isinstance(posterior, Ensemble) else posterior


def unasked(history: History, fidelity: int) -> NDArray[np.bool_]:
    """Which designs of the space's table have not been asked at a fidelity."""
    assert history.space.table is not None
    asked = {row.tobytes() for row in history.asked(fidelity)}
    listed = history.seen(fidelity, history.space.table)
    return np.array([row.tobytes() not in asked for row in listed], dtype=bool)


def marginals_at(
    posterior: Posterior, unit_x: NDArray[np.float64]
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Mean and variance of f_m at every design, a row of `unit_x`; padded, so that more designs do not recompile."""
    means, variances = _marginals(posterior, pad_rows(unit_x, bucket(len(unit_x))))
    return np.asarray(means)[: len(unit_x)], np.asarray(variances)[: len(unit_x)]


@jax.jit
def _marginals(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    return jax.vmap(posterior.marginals)(x)
