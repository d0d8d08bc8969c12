"""The life of a trial as pure functions: what each method of a `StudyStore` makes of a trial, and what it refuses.

Every storage goes through these, so that a trial lives the same life everywhere; a storage only adds that it happens
at once, and lasts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fidelium.errors import BudgetError, TrialError
from fidelium.history import Trial, TrialState
from fidelium.numbers import exact_sum, remainder
from fidelium.storage.base import Outcome
from fidelium.storage.serialise import bounded_reason, checked_name


def is_next(trial: Trial, count: int) -> bool:
    """Whether a trial is the next one of a study that has `count`; not if its number is taken.

    Raises:
        TrialError: if its number would leave a gap.
    """
    if not 0 <= trial.number <= count:
        raise TrialError(f"the next trial has number {count}, got {trial.number}; numbers have no gaps")
    return trial.number == count


def check_budget(trial: Trial, counts: Mapping[float, int], budget: float) -> None:
    """Refuse a trial that the rest of the budget does not pay for.

    Args:
        trial: the trial to add.
        counts: how many trials there are of each cost.
        budget: what all trials together may cost.

    Raises:
        BudgetError: if its cost exceeds what is left.
    """
    left = remainder(budget, exact_sum(counts))
    if trial.cost > left:
        raise BudgetError(
            f"a run at {trial.fidelity.name!r} costs {trial.cost:g}, but only {max(left, 0.0):g} of the budget of "
            f"{budget:g} is left"
        )


def entered(trial: Trial, beating: bool, now: float) -> Trial:
    """A trial as it is when it is added.

    Raises:
        ObservationError: if it is finished and its value does not fit its state.
        StorageError: if its worker's name cannot be stored.
    """
    fresh = replace(trial, params=dict(trial.params), started=None, heartbeat=None, finished=None)
    if trial.worker is not None:
        checked_name(trial.worker, "a worker's name")
    if trial.state is TrialState.QUEUED:
        return replace(fresh, value=None, reason=None, measured_cost=None, attempt=0, worker=None)
    if trial.state is TrialState.RUNNING:
        heartbeat = now if beating and trial.worker is not None else None
        return replace(fresh, value=None, reason=None, measured_cost=None, attempt=1, started=now, heartbeat=heartbeat)
    if trial.state is TrialState.LOST:
        return replace(fresh, value=None, reason=bounded_reason(trial.reason), finished=now)
    return ended(fresh, Outcome(trial.state, trial.value, trial.reason, trial.measured_cost), now)


def claimed(trial: Trial, worker: str | None, now: float) -> Trial:
    """A queued trial that a worker has started, or, without a heartbeat, somebody who has no name."""
    return replace(
        trial,
        state=TrialState.RUNNING,
        reason=None,
        attempt=trial.attempt + 1,
        worker=worker,
        started=now,
        heartbeat=None if worker is None else now,
    )


def is_beating(trial: Trial, worker: str) -> bool:
    """Whether a trial is run by this worker, who sends heartbeats."""
    return trial.state is TrialState.RUNNING and trial.worker == worker and trial.heartbeat is not None


def alive(trial: Trial, now: float) -> Trial:
    """A trial whose worker has given a sign of life."""
    return replace(trial, heartbeat=now)


def ended(trial: Trial, outcome: Outcome, now: float) -> Trial:
    """A trial whose evaluation has ended."""
    return replace(
        trial,
        state=outcome.state,
        value=_number(outcome.value),
        reason=bounded_reason(outcome.reason),
        measured_cost=_number(outcome.measured_cost),
        finished=now,
    )


def given_back(trial: Trial, reason: str | None) -> Trial:
    """A running trial that is queued again."""
    return replace(trial, state=TrialState.QUEUED, heartbeat=None, reason=bounded_reason(reason))


def is_abandoned(trial: Trial, silent_for: float, dead: Collection[str], now: float) -> bool:
    """Whether the worker of a running trial has vanished."""
    if trial.state is not TrialState.RUNNING:
        return False
    silent = trial.heartbeat is not None and now - trial.heartbeat > silent_for
    return silent or (trial.worker is not None and trial.worker in dead)


def taken_away(trial: Trial, dead: Collection[str], retries: int, now: float) -> Trial:
    """An abandoned trial: queued again, or lost if it was started more than `retries` times."""
    if trial.worker in dead or trial.heartbeat is None:
        reason = f"worker {trial.worker} has ended"
    else:
        reason = f"worker {trial.worker} was silent for {now - trial.heartbeat:.0f} s"
    if trial.attempt > retries:
        lost = f"{reason} in attempt {trial.attempt}; not tried again"
        return replace(trial, state=TrialState.LOST, reason=bounded_reason(lost), finished=now)
    return given_back(trial, reason)


def owned(trial: Trial | None, number: int, attempt: int, count: int) -> Trial:
    """The trial, if it is running in this attempt.

    Args:
        trial: the trial of this number, None if there is none.
        number: its number.
        attempt: the attempt that is claimed to be the current one.
        count: how many trials the study has.

    Raises:
        TrialError: if it is not.
    """
    if trial is None:
        raise TrialError(f"there is no trial {number}; the study has {count}, numbered from 0")
    if trial.state is not TrialState.RUNNING:
        raise TrialError(f"trial {number} is not running but {trial.state}; nothing was changed")
    if trial.attempt != attempt:
        raise TrialError(
            f"trial {number} is in attempt {trial.attempt}, not {attempt}: it was taken from this worker and started "
            "again; drop this result"
        )
    return trial


def may_take_turn(holder: str, current: str | None, until: float, now: float) -> bool:
    """Whether the turn is free, over, or the holder's own."""
    return current is None or current == holder or until <= now


def _number(value: float | None) -> float | None:
    """A plain float; 0.0 for -0.0, for SQLite knows one zero only."""
    return None if value is None else float(value) + 0.0
