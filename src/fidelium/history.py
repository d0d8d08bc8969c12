"""The frozen records everyone shares: queries, trials, and the history a strategy decides from.

Inside, fidelium always maximises: `Direction.inward` is applied where a value enters a `History`, and undone by
`Direction.outward` where an estimate leaves it; nothing else knows the direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import UnknownNameError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.space import Params, SearchSpace


class Direction(StrEnum):
    """Whether the user wants the largest or the smallest value at the target."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    @classmethod
    def of(cls, name: str) -> Direction:
        """The direction called `name`.

        Raises:
            UnknownNameError: if it is neither "maximize" nor "minimize".
        """
        try:
            return cls(name)
        except ValueError:
            raise UnknownNameError(f"direction must be 'maximize' or 'minimize', got {name!r}") from None

    @property
    def sign(self) -> float:
        """+1 to maximise, -1 to minimise."""
        return 1.0 if self is Direction.MAXIMIZE else -1.0


class TrialState(StrEnum):
    """Where a trial is in its life: queued, running, and in the end done, failed, or lost with its workers."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"

    @property
    def is_pending(self) -> bool:
        """Whether its value is still to come."""
        return self in (TrialState.QUEUED, TrialState.RUNNING)


@dataclass(frozen=True)
class Query:
    """A design and the fidelity to evaluate it at: what a strategy proposes.

    Args:
        params: valid values of all parameters.
        fidelity: position in the ladder, 0 the cheapest.
        worth: what the strategy expects of it per cost, in the unit of its acquisition; None if it does not say.
    """

    params: Params
    fidelity: int
    worth: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Trial:
    """A query with its life: handed out, then told its value or its failure.

    Args:
        number: position in the study, from 0.
        params: values of all parameters.
        fidelity: the fidelity it is evaluated at.
        state: queued, running, done, failed or lost.
        value: the observed value in the user's units, None unless done.
        reason: why it failed or was lost, or why its last attempt was given up.
        given: whether the user brought this observation, so that the study paid nothing for it.
        attempt: how many times it was started.
        worker: who runs or last ran it; None for a person or a script that asked.
        started: when its last attempt was started, in seconds since 1970.
        heartbeat: when its worker was last known to be alive, None if the worker sends none.
        finished: when it ended.
        measured_cost: what the simulator says it really cost; recorded, not counted.
    """

    number: int
    params: Params
    fidelity: Fidelity
    state: TrialState = TrialState.RUNNING
    value: float | None = None
    reason: str | None = None
    given: bool = False
    attempt: int = 1
    worker: str | None = field(default=None, compare=False)  # who and when: not what the trial is
    started: float | None = field(default=None, compare=False)
    heartbeat: float | None = field(default=None, compare=False)
    finished: float | None = field(default=None, compare=False)
    measured_cost: float | None = None

    @property
    def cost(self) -> float:
        """What the study paid for it: nothing for data the user brought."""
        return 0.0 if self.given else float(self.fidelity.cost)


@dataclass(frozen=True)
class Observations:
    """What was observed at one fidelity, as arrays, to be maximised.

    Args:
        unit_x: points of the unit cube, `(n, d)`.
        y: values times the direction's sign, `(n,)`.
    """

    unit_x: NDArray[np.float64]
    y: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.y)

    def first(self, count: int) -> Observations:
        """The first `count` of them."""
        return self if count >= len(self) else Observations(self.unit_x[:count], self.y[:count])


@dataclass(frozen=True)
class History:
    """All that has happened in a study, in the form strategies use.

    Args:
        space: the parameters.
        ladder: the fidelities.
        direction: maximise or minimise.
        trials: all trials, running and failed ones included.
        remaining: cost units the study may still spend, `inf` if nobody set a budget.
    """

    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    trials: tuple[Trial, ...] = ()
    remaining: float = math.inf

    @cached_property
    def observations(self) -> tuple[Observations, ...]:
        """Done trials per fidelity, low to high, as arrays in the maximising sign."""
        rows: list[list[Trial]] = [[] for _ in self.ladder]
        for trial in self.trials:
            if trial.state is TrialState.DONE:
                rows[self.ladder.index(trial.fidelity)].append(trial)
        return tuple(self._arrays(trials) for trials in rows)

    @cached_property
    def pending(self) -> tuple[Query, ...]:
        """Queries that are queued or running now."""
        return self._queries(TrialState.QUEUED, TrialState.RUNNING)

    @cached_property
    def failed(self) -> tuple[Query, ...]:
        """Queries that failed, or that no worker survived."""
        return self._queries(TrialState.FAILED, TrialState.LOST)

    @property
    def affordable(self) -> tuple[int, ...]:
        """Positions of the fidelities that the remaining budget still buys."""
        return tuple(m for m, cost in enumerate(self.ladder.costs) if cost <= self.remaining)

    @property
    def unreserved(self) -> tuple[int, ...]:
        """Positions of the fidelities whose cost leaves enough for one more query at the target."""
        return tuple(m for m, cost in enumerate(self.ladder.costs) if cost + self.ladder.costs[-1] <= self.remaining)

    @property
    def is_last_target_query(self) -> bool:
        """Whether after any other query the remaining budget would no longer buy one at the target."""
        return not self.unreserved and len(self.ladder) - 1 in self.affordable

    @property
    def incumbent(self) -> Trial | None:
        """The best done trial at the target fidelity, None if there is none."""
        done = [t for t in self.trials if t.state is TrialState.DONE and t.fidelity == self.ladder.target]
        return max(done, key=lambda t: self.direction.sign * (t.value or 0.0), default=None)

    def encode(self, queries: Iterable[Query]) -> NDArray[np.float64]:
        """The queries' designs as points of the unit cube, `(n, d)`."""
        points = [self.space.encode(query.params) for query in queries]
        return np.array(points).reshape(len(points), self.space.dimension)

    def asked(self, fidelity: int) -> NDArray[np.float64]:
        """Every point ever asked at this fidelity (done, running or failed), `(n, d)`."""
        name = self.ladder[fidelity]
        points = [self.space.encode(t.params) for t in self.trials if t.fidelity == name]
        return np.array(points).reshape(len(points), self.space.dimension)

    def _queries(self, *states: TrialState) -> tuple[Query, ...]:
        return tuple(Query(t.params, self.ladder.index(t.fidelity)) for t in self.trials if t.state in states)

    def _arrays(self, trials: Sequence[Trial]) -> Observations:
        unit_x = np.array([self.space.encode(t.params) for t in trials]).reshape(len(trials), self.space.dimension)
        return Observations(unit_x, self.direction.sign * np.array([float(t.value or 0.0) for t in trials]))
