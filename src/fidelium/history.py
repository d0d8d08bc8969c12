"""Frozen records: queries, trials, and the history from which a strategy chooses the next query.

Strategies and surrogates always maximise. Trials hold values in the user's units; `History.observations` multiplies
them by `Direction.sign`, and `Study` multiplies a model's predictions by it again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fidelium.constraints import OutcomeConstraint
from fidelium.costs.learned import MeasuredRuns, learn_costs
from fidelium.errors import FidelityError, UnknownNameError
from fidelium.expected_costs import ExpectedCosts
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.space import Params, SearchSpace

Used = tuple[bool, ...]
"""Whether a fidelity uses each column of the unit cube."""

UNUSED = 0.5
"""What a model sees in the columns that a fidelity does not use."""


def as_seen(used: Used | None, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points `(..., d)` as a fidelity sees them: columns that it does not use are all the same."""
    return unit_x if used is None else np.where(np.array(used), unit_x, UNUSED)


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


NOT_RUN, VANISHED, CANCELLED = "not run: ", "the worker vanished: ", "cancelled after "
"""How the reasons of failed trials start that say nothing about the design."""

_LEAST_COST = 1e-9
"""Costs below this share of the declared one, 0 among them, count as so much for the model of costs."""

_TIMED_OUT = re.compile(r"(step \d+ of \d+ \(.*?\): )?timed out after ")


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
        measured_cost: the actual cost of all its attempts, as the simulator reports it or by the clock; None if it was
            not measured. It is what a study of measured costs pays; others record it only.
        charged: what the study paid for it, or expects to pay, if that is not what its fidelity costs now.
        excluded: whether a person has excluded it: it stays in the record and its cost counts, but not its value.
        outcomes: what else a done trial gave, by name, in the user's units.
        std: standard error of the value, as the simulator says it; None if it says none.
        priority: among queued trials the one with the largest is started first.
        note: what a person wrote about it.
        tags: short labels that a person gave it, in order, each once.
        constraints: the study's, by which the outcomes are judged.
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
    outcomes: Mapping[str, float] = field(default_factory=dict)
    std: float | None = None
    priority: int = 0
    note: str | None = None
    tags: tuple[str, ...] = ()
    constraints: tuple[OutcomeConstraint, ...] = field(default=(), compare=False, repr=False)

    @property
    def cost(self) -> float:
        """What the study paid for it, or, until it ends, expects to pay: 0 for observations that the user added."""
        if self.given:
            return 0.0
        return self.fidelity.cost_of(self.params) if self.charged is None else float(self.charged)

    @property
    def is_unstarted(self) -> bool:
        """Whether it is queued and was never started."""
        return self.state is TrialState.QUEUED and self.attempt == 0

    @property
    def is_observation(self) -> bool:
        """Whether its value counts: it is done and not excluded."""
        return self.state is TrialState.DONE and not self.excluded

    @property
    def feasible(self) -> bool | None:
        """Whether its outcomes, at its own fidelity, meet all constraints; None if that is not known."""
        if self.state is not TrialState.DONE or any(each.name not in self.outcomes for each in self.constraints):
            return None
        return all(each.meets(self.outcomes[each.name]) for each in self.constraints)

    @property
    def violations(self) -> dict[str, float]:
        """How far each violated outcome is beyond its limit, in its own units."""
        known = [each for each in self.constraints if each.name in self.outcomes]
        found = {each.name: each.violation(self.outcomes[each.name]) for each in known}
        return {name: beyond for name, beyond in found.items() if beyond > 0}

    @property
    def design_failed(self) -> bool:
        """Whether it failed because of its design, as far as its reason says, and a model of success may learn it."""
        reason = self.reason or ""
        environment = reason.startswith((NOT_RUN, VANISHED, CANCELLED))
        return self.state is TrialState.FAILED and not self.excluded and not environment

    @property
    def timed_out(self) -> bool:
        """Whether it failed because its time was up."""
        return self.state is TrialState.FAILED and _TIMED_OUT.match(self.reason or "") is not None


@dataclass(frozen=True)
class Change:
    """What a person has changed in a study afterwards.

    Args:
        at: when, in seconds since 1970.
        who: who did it.
        action: "enqueue", "exclude", "restore", "retry", "correct", "note", "tag", "untag" or "prioritise" a trial, or
            "redefine" the study; "stop": a rule stopped it.
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
        std: standard error of each value, `(n,)`, NaN where it is not known; None: of none.
        used: whether the fidelity uses each column of the cube, None if it uses all: values do not depend on others.
    """

    unit_x: NDArray[np.float64]
    y: NDArray[np.float64]
    std: NDArray[np.float64] | None = None
    used: Used | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def inside(self) -> Observations:
        """The observations in the unit cube."""
        rows = np.all((self.unit_x >= 0) & (self.unit_x <= 1), axis=1)
        return self if rows.all() else self.rows(rows)

    def first(self, count: int) -> Observations:
        """The first `count` observations."""
        return self if count >= len(self) else self.rows(slice(count))

    def rows(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Observations:
        """Some of the observations, by their positions."""
        std = None if self.std is None else self.std[chosen]
        return Observations(self.unit_x[chosen], self.y[chosen], std, self.used)

    @property
    def digest(self) -> bytes:
        """All that a model learns from, as bytes: of equal observations they are the same."""
        errors = b"" if self.std is None else self.std.tobytes()
        used = b"" if self.used is None else repr(self.used).encode()
        return self.unit_x.tobytes() + self.y.tobytes() + errors + used

    @property
    def seen_x(self) -> NDArray[np.float64]:
        """The points as the fidelity sees them: columns that it does not use are 0.5 (`(n, d)`)."""
        return as_seen(self.used, self.unit_x)

    @property
    def sure_y(self) -> NDArray[np.float64]:
        """The values, less their standard errors where these are known: by them the best one is judged."""
        return self.y if self.std is None else self.y - np.where(np.isnan(self.std), 0.0, self.std)


@dataclass(frozen=True)
class History:
    """The trials of a study in the form that strategies use.

    Args:
        space: the parameters.
        ladder: the fidelities.
        direction: maximise or minimise.
        trials: all trials, including running and failed ones.
        remaining: remaining budget, `inf` without a budget.
        constraints: limits of outcomes at the target.
        failures_teach: whether a model of success learns from failed trials.
        timeouts_teach: whether trials whose time was up count as failures of their design.
        measured_costs: whether runs cost what was measured, and not what is declared.
    """

    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    trials: tuple[Trial, ...] = ()
    remaining: float = math.inf
    constraints: tuple[OutcomeConstraint, ...] = ()
    failures_teach: bool = True
    timeouts_teach: bool = True
    measured_costs: bool = False

    @cached_property
    def whole(self) -> History:
        """The same trials in the whole space, if this is about a slice of it."""
        return self if self.space.slice_of is None else replace(self, space=self.space.slice_of)

    @cached_property
    def used(self) -> tuple[Used | None, ...]:
        """For every fidelity, whether it uses each column of the unit cube; None if it uses all."""
        return tuple(self.space.columns_of(rung.inputs) for rung in self.ladder)

    @cached_property
    def observations(self) -> tuple[Observations, ...]:
        """Done trials that are not excluded, per fidelity, low to high, as arrays to be maximised.

        After the bounds were narrowed, those not too far outside are among them (`SearchSpace.place`).
        """
        return tuple(self._arrays(*part) for part in zip(self._observed, self.used, strict=True))

    @cached_property
    def outcomes(self) -> tuple[tuple[Observations, ...], ...]:
        """For every constraint, its outcome in the same trials, per fidelity, in the user's units and sign."""
        return tuple(
            tuple(
                Observations(
                    seen.unit_x,
                    np.array([trial.outcomes[each.name] for trial, _ in placed], dtype=float),
                    used=seen.used,
                )
                for seen, placed in zip(self.observations, self._observed, strict=True)
            )
            for each in self.constraints
        )

    @cached_property
    def feasible(self) -> tuple[NDArray[np.bool_], ...]:
        """For every fidelity, which observations within the present bounds (`inside`) meet all constraints there."""
        found: list[NDArray[np.bool_]] = []
        for m, seen in enumerate(self.inside):
            met = np.ones(len(seen), dtype=bool)
            for each, outcome in zip(self.constraints, self.outcomes, strict=True):
                y = outcome[m].y[self.valid[m]]
                met &= (y >= each.lower) & (y <= each.upper)
            found.append(met)
        return tuple(found)

    @cached_property
    def order(self) -> tuple[NDArray[np.int64], ...]:
        """For every fidelity, the observations of `inside` from the best on: feasible ones by value, then the others.

        Values count less their standard errors, where these are known.

        Infeasible ones are ordered by the sum of their violations, each in units of its outcome's spread.
        """
        both = zip(self.inside, self._violations, strict=True)
        return tuple(np.lexsort((-seen.sure_y, beyond)) for seen, beyond in both)

    @cached_property
    def _violations(self) -> tuple[NDArray[np.float64], ...]:
        totals: list[NDArray[np.float64]] = []
        for m, seen in enumerate(self.inside):
            total = np.zeros(len(seen))
            for each, outcome in zip(self.constraints, self.outcomes, strict=True):
                y = outcome[m].y[self.valid[m]]
                beyond = np.maximum(np.maximum(each.lower - y, y - each.upper), 0.0)
                total += beyond / max(float(np.std(y)) if len(y) else 0.0, np.finfo(float).tiny)
            totals.append(total)
        return tuple(totals)

    @cached_property
    def successes(self) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]:
        """For every fidelity, the designs that were run with success, and those that failed, `(n, d)` each."""
        rows: list[tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]] = [([], []) for _ in self.ladder]
        for trial, point in self._placed:
            m = self.ladder.index(trial.fidelity.name)
            if trial.is_observation:
                rows[m][0].append(point)
            elif self._teaches(trial):
                rows[m][1].append(point)
        return tuple(
            tuple(np.array(points).reshape(len(points), self.space.dimension) for points in pair)  # type: ignore[misc]
            for pair in rows
        )

    def recent_failures(self, count: int) -> int:
        """How many of the last `count` trials that ended failed because of their design."""
        ended = [trial for trial in self.trials if not trial.given and not trial.state.is_pending]
        return sum(self._teaches(trial) for trial in ended[-count:])

    @property
    def learns_success(self) -> bool:
        """Whether there is a failure that a model of success may learn from."""
        return self.failures_teach and any(len(failed) for _, failed in self.successes)

    @cached_property
    def valid(self) -> tuple[NDArray[np.bool_], ...]:
        """For every fidelity, which observations are of valid designs, within the bounds and known constraints."""
        if not self.space.constraints and not self.space.held:
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
            seen if rows.all() else seen.rows(rows) for seen, rows in zip(self.observations, self.valid, strict=True)
        )

    @cached_property
    def pending(self) -> tuple[Query, ...]:
        """Queries that are queued or running."""
        return self._queries(TrialState.QUEUED, TrialState.RUNNING)

    @cached_property
    def failed(self) -> tuple[Query, ...]:
        """Queries that failed or were lost, without excluded ones."""
        return self._queries(TrialState.FAILED, TrialState.LOST)

    @cached_property
    def unexplained(self) -> tuple[Query, ...]:
        """Queries that ended without a value for a reason that a model of success does not learn from."""
        return self._queries_of(
            trial
            for trial in self.trials
            if trial.state is TrialState.LOST
            or (trial.state is TrialState.FAILED and not (self.failures_teach and self._teaches(trial)))
        )

    @cached_property
    def costs(self) -> ExpectedCosts:
        """What runs are expected to cost: what is declared, or what was learned from those that were measured."""
        runs = self._measured_runs if self.measured_costs else None
        model = learn_costs(runs, len(self.ladder)) if runs is not None and len(runs) else None
        return ExpectedCosts(self.space, self.ladder, model)

    @property
    def _measured_runs(self) -> MeasuredRuns:
        """Runs that came to their end in one attempt: a crash says little about what a run takes."""
        rows: list[tuple[NDArray[np.float64], int, float]] = []
        for trial, point in self._placed:
            if trial.is_observation and not trial.given and trial.attempt == 1 and trial.measured_cost is not None:
                try:
                    declared = trial.fidelity.cost_of(trial.params)
                except FidelityError:  # the design is outside of the present bounds, and has no cost there
                    continue
                ratio = max(trial.measured_cost / declared, _LEAST_COST)
                rows.append((point, self.ladder.index(trial.fidelity.name), math.log(ratio)))
        points = np.array([point for point, _, _ in rows]).reshape(len(rows), self.space.dimension)
        fidelity = np.array([m for _, m, _ in rows], dtype=np.int64)
        return MeasuredRuns(points, fidelity, np.array([ratio for _, _, ratio in rows], dtype=float))

    def pays_for(self, unit_x: NDArray[np.float64], fidelity: int) -> NDArray[np.bool_]:
        """Which designs, rows of the unit cube, have an expected cost within the remaining budget."""
        if not self.costs.depend_on_design:
            return np.full(len(unit_x), self.costs.typical[fidelity] <= self.remaining)
        return self.costs.at(unit_x, fidelity) <= self.remaining

    @property
    def affordable(self) -> tuple[int, ...]:
        """Positions of the fidelities of which a run, of some design at least, is expected to fit into the budget."""
        return tuple(m for m, cost in enumerate(self.costs.cheapest) if cost <= self.remaining)

    @property
    def target_cost(self) -> float:
        """What a run of the target is expected to cost: at the best design, where costs depend on the design."""
        if self.costs.depend_on_design:
            for seen, order in zip(reversed(self.inside), reversed(self.order), strict=True):
                if len(seen):
                    return float(self.costs.at(seen.unit_x[order[:1]], len(self.ladder) - 1)[0])
        return self.costs.typical[-1]

    @property
    def unreserved(self) -> tuple[int, ...]:
        """Positions of the fidelities whose cost leaves enough budget for another query at the target."""
        reserve = self.target_cost
        return tuple(m for m, cost in enumerate(self.costs.cheapest) if cost + reserve <= self.remaining)

    @property
    def is_last_target_query(self) -> bool:
        """Whether a query at the target is affordable now, but not after any other query."""
        return not self.unreserved and len(self.ladder) - 1 in self.affordable

    @property
    def incumbent(self) -> Trial | None:
        """The best feasible trial at the target, not excluded and valid now; None if there is none."""
        target = self.ladder.target.name
        done = [t for t in self.trials if self._is_candidate(t) and t.fidelity.name == target]
        ranked = sorted(done, key=lambda t: self.direction.sign * (t.value or 0.0), reverse=True)
        return next((trial for trial in ranked if self.space.contains(trial.params)), None)

    def _is_candidate(self, trial: Trial) -> bool:
        """Whether a trial is an observation that meets all constraints."""
        return trial.is_observation and all(
            each.name in trial.outcomes and each.meets(trial.outcomes[each.name]) for each in self.constraints
        )

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
        """All points queried at this fidelity, in any state, `(n, d)`; not those far outside the bounds.

        As the fidelity sees them: two that differ in what it ignores are the same query.
        """
        name = self.ladder[fidelity].name
        points = [point for trial, point in self._placed if trial.fidelity.name == name]
        return self.seen(fidelity, np.array(points).reshape(len(points), self.space.dimension))

    def seen(self, fidelity: int, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points `(..., d)` as a fidelity sees them: columns that it ignores are all the same."""
        return as_seen(self.used[fidelity], unit_x)

    @cached_property
    def _observed(self) -> tuple[tuple[tuple[Trial, NDArray[np.float64]], ...], ...]:
        """The observations of each fidelity with their points; with constraints, only those with all their outcomes."""
        rows: list[list[tuple[Trial, NDArray[np.float64]]]] = [[] for _ in self.ladder]
        for trial, point in self._placed:
            if trial.is_observation and all(each.name in trial.outcomes for each in self.constraints):
                rows[self.ladder.index(trial.fidelity.name)].append((trial, point))
        return tuple(tuple(placed) for placed in rows)

    @cached_property
    def _placed(self) -> tuple[tuple[Trial, NDArray[np.float64]], ...]:
        """The trials with their points, without those that have none or one far outside of the present bounds."""
        placed = ((trial, self.space.place(trial.params)) for trial in self.trials)
        return tuple((trial, point) for trial, point in placed if point is not None)

    def _teaches(self, trial: Trial) -> bool:
        """Whether a trial failed because of its design."""
        return trial.design_failed and (self.timeouts_teach or not trial.timed_out)

    def _queries(self, *states: TrialState) -> tuple[Query, ...]:
        return self._queries_of(trial for trial in self.trials if trial.state in states)

    def _queries_of(self, trials: Iterable[Trial]) -> tuple[Query, ...]:
        return tuple(
            Query(trial.params, self.ladder.index(trial.fidelity.name))
            for trial in trials
            if not trial.excluded and self.space.place(trial.params) is not None
        )

    def _arrays(self, placed: Sequence[tuple[Trial, NDArray[np.float64]]], used: Used | None) -> Observations:
        unit_x = np.array([point for _, point in placed]).reshape(len(placed), self.space.dimension)
        y = np.array([float(trial.value or 0.0) for trial, _ in placed])
        std = np.array([math.nan if trial.std is None else trial.std for trial, _ in placed])
        known = None if np.isnan(std).all() else std
        return Observations(unit_x, self.direction.sign * y, known, used)
