"""Frozen records: queries, trials, and the history from which a strategy chooses the next query.

Strategies and surrogates always maximise. Trials hold values in the user's units; `History.observations` multiplies
them by `Direction.sign`, and `Study` multiplies a model's predictions by it again.
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
    """Whether to find the largest or the smallest value at the target."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    @classmethod
    def of(cls, name: str) -> Direction:
        """The direction of this name.

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
    """The state of a trial: queued, running, then done, failed, or lost if its workers died."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"

    @property
    def is_pending(self) -> bool:
        """Whether the trial is queued or running."""
        return self in (TrialState.QUEUED, TrialState.RUNNING)


@dataclass(frozen=True)
class Query:
    """A design and the fidelity to evaluate it at: what a strategy proposes.

    Args:
        params: valid values of all parameters.
        fidelity: position in the ladder, 0 the cheapest.
        worth: acquisition value per cost, None if the strategy does not compute one.
    """

    params: Params
    fidelity: int
    worth: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Trial:
    """A query with its state and, once evaluated, its value or its failure.

    Args:
        number: position in the study, from 0.
        params: values of all parameters.
        fidelity: the fidelity it is evaluated at.
        state: queued, running, done, failed or lost.
        value: the observed value in the user's units, None unless done.
        reason: why it failed or was lost, or why its last attempt ended without a result.
        given: whether the user added this observation, at no cost to the study.
        attempt: number of times it was started.
        worker: the worker that runs or last ran it, None after a manual `ask`.
        started: start of the last attempt, in seconds since 1970.
        heartbeat: last sign of life of the worker, None if it sends no heartbeats.
        finished: when it ended.
        measured_cost: the actual cost reported by the simulator; recorded, not counted.
        charged: what the study paid for it, if that is not what its fidelity costs now.
        excluded: whether a person has excluded it: it stays in the record and its cost counts, but not its value.
    """

    number: int
    params: Params
    fidelity: Fidelity
    state: TrialState = TrialState.RUNNING
    value: float | None = None
    reason: str | None = None
    given: bool = False
    attempt: int = 1
    worker: str | None = field(default=None, compare=False)  # bookkeeping, not part of equality
    started: float | None = field(default=None, compare=False)
    heartbeat: float | None = field(default=None, compare=False)
    finished: float | None = field(default=None, compare=False)
    measured_cost: float | None = None
    charged: float | None = None
    excluded: bool = False

    @property
    def cost(self) -> float:
        """What the study paid for it: 0 for observations that the user added."""
        if self.given:
            return 0.0
        return float(self.fidelity.cost if self.charged is None else self.charged)

    @property
    def is_observation(self) -> bool:
        """Whether its value counts: it is done and not excluded."""
        return self.state is TrialState.DONE and not self.excluded


@dataclass(frozen=True)
class Change:
    """What a person has changed in a study afterwards.

    Args:
        at: when, in seconds since 1970.
        who: who did it.
        action: "exclude", "restore", "retry" or "correct" a trial, or "redefine" the study.
        trial: the trial's number, None if the change is not about one.
        reason: why, and what was there before if it is no longer stored elsewhere.
    """

    at: float
    who: str
    action: str
    trial: int | None
    reason: str


@dataclass(frozen=True)
class Observations:
    """Observations at one fidelity as arrays, to be maximised.

    Args:
        unit_x: points of the unit cube, `(n, d)`; some may be outside after the bounds were narrowed.
        y: values times the direction's sign, `(n,)`.
    """

    unit_x: NDArray[np.float64]
    y: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def inside(self) -> Observations:
        """The observations in the unit cube."""
        rows = np.all((self.unit_x >= 0) & (self.unit_x <= 1), axis=1)
        return self if rows.all() else Observations(self.unit_x[rows], self.y[rows])

    def first(self, count: int) -> Observations:
        """The first `count` observations."""
        return self if count >= len(self) else Observations(self.unit_x[:count], self.y[:count])


@dataclass(frozen=True)
class History:
    """The trials of a study in the form that strategies use.

    Args:
        space: the parameters.
        ladder: the fidelities.
        direction: maximise or minimise.
        trials: all trials, including running and failed ones.
        remaining: remaining budget, `inf` without a budget.
    """

    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    trials: tuple[Trial, ...] = ()
    remaining: float = math.inf

    @cached_property
    def observations(self) -> tuple[Observations, ...]:
        """Done trials that are not excluded, per fidelity, low to high, as arrays to be maximised.

        After the bounds were narrowed, those not too far outside are among them (`SearchSpace.place`).
        """
        rows: list[list[tuple[Trial, NDArray[np.float64]]]] = [[] for _ in self.ladder]
        for trial, point in self._placed:
            if trial.is_observation:
                rows[self.ladder.index(trial.fidelity.name)].append((trial, point))
        return tuple(self._arrays(placed) for placed in rows)

    @cached_property
    def valid(self) -> tuple[NDArray[np.bool_], ...]:
        """For every fidelity, which observations are of valid designs, within the bounds and known constraints."""
        if not self.space.constraints:
            return tuple(np.all((seen.unit_x >= 0) & (seen.unit_x <= 1), axis=1) for seen in self.observations)
        rows: list[list[bool]] = [[] for _ in self.ladder]  # by their own values: snapped ones may be beyond an edge
        for trial, _ in self._placed:
            if trial.is_observation:
                rows[self.ladder.index(trial.fidelity.name)].append(self.space.contains(trial.params))
        return tuple(np.array(each, dtype=bool) for each in rows)

    @cached_property
    def inside(self) -> tuple[Observations, ...]:
        """The observations of valid designs: they may be recommended or asked again."""
        return tuple(
            seen if rows.all() else Observations(seen.unit_x[rows], seen.y[rows])
            for seen, rows in zip(self.observations, self.valid, strict=True)
        )

    @cached_property
    def pending(self) -> tuple[Query, ...]:
        """Queries that are queued or running."""
        return self._queries(TrialState.QUEUED, TrialState.RUNNING)

    @cached_property
    def failed(self) -> tuple[Query, ...]:
        """Queries that failed or were lost, without excluded ones."""
        return self._queries(TrialState.FAILED, TrialState.LOST)

    @property
    def affordable(self) -> tuple[int, ...]:
        """Positions of the fidelities whose cost is within the remaining budget."""
        return tuple(m for m, cost in enumerate(self.ladder.costs) if cost <= self.remaining)

    @property
    def unreserved(self) -> tuple[int, ...]:
        """Positions of the fidelities whose cost leaves enough budget for another query at the target."""
        return tuple(m for m, cost in enumerate(self.ladder.costs) if cost + self.ladder.costs[-1] <= self.remaining)

    @property
    def is_last_target_query(self) -> bool:
        """Whether a query at the target is affordable now, but not after any other query."""
        return not self.unreserved and len(self.ladder) - 1 in self.affordable

    @property
    def incumbent(self) -> Trial | None:
        """The best done trial at the target, not excluded and valid now; None if there is none."""
        target = self.ladder.target.name
        done = [t for t in self.trials if t.is_observation and t.fidelity.name == target]
        ranked = sorted(done, key=lambda t: self.direction.sign * (t.value or 0.0), reverse=True)
        return next((trial for trial in ranked if self.space.contains(trial.params)), None)

    def best_trial_at(self, unit_x: NDArray[np.float64]) -> Trial | None:
        """The best trial that observed this design, a point of the unit cube, at the target; None if there is none."""
        target = self.ladder.target.name
        there = [t for t, point in self._placed if t.fidelity.name == target and np.array_equal(point, unit_x)]
        seen = [t for t in there if t.is_observation]
        return max(seen, key=lambda t: self.direction.sign * (t.value or 0.0), default=None)

    def encode(self, queries: Iterable[Query]) -> NDArray[np.float64]:
        """The queries' designs as points of the unit cube, `(n, d)`."""
        points = [self.space.encode(query.params) for query in queries]
        return np.array(points).reshape(len(points), self.space.dimension)

    def asked(self, fidelity: int) -> NDArray[np.float64]:
        """All points queried at this fidelity, in any state, `(n, d)`; not those far outside the bounds."""
        name = self.ladder[fidelity].name
        points = [point for trial, point in self._placed if trial.fidelity.name == name]
        return np.array(points).reshape(len(points), self.space.dimension)

    @cached_property
    def _placed(self) -> tuple[tuple[Trial, NDArray[np.float64]], ...]:
        """The trials with their points, without those that have none or one far outside of the present bounds."""
        placed = ((trial, self.space.place(trial.params)) for trial in self.trials)
        return tuple((trial, point) for trial, point in placed if point is not None)

    def _queries(self, *states: TrialState) -> tuple[Query, ...]:
        found = [trial for trial in self.trials if trial.state in states and not trial.excluded]
        return tuple(
            Query(trial.params, self.ladder.index(trial.fidelity.name))
            for trial in found
            if self.space.place(trial.params) is not None
        )

    def _arrays(self, placed: Sequence[tuple[Trial, NDArray[np.float64]]]) -> Observations:
        unit_x = np.array([point for _, point in placed]).reshape(len(placed), self.space.dimension)
        y = np.array([float(trial.value or 0.0) for trial, _ in placed])
        return Observations(unit_x, self.direction.sign * y)
