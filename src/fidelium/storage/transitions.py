"""The transitions of a trial as pure functions: what each method of a `StudyStore` does to it, and what it refuses.

Every storage uses these, so that trials behave the same everywhere; a storage adds atomicity and durability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from fidelium.definition import StudyDefinition
from fidelium.errors import BudgetError, ObservationError, SettingError, TrialError
from fidelium.fidelity import Fidelity
from fidelium.history import Change, Trial, TrialState
from fidelium.numbers import exact_sum, remainder
from fidelium.snapshot import reserving
from fidelium.storage.annotations import checked_note, checked_priority, checked_tag, parsed_priority
from fidelium.storage.base import Action, Annotation, Result
from fidelium.storage.serialise import bounded_reason, checked_name

ENQUEUE, STOP = "enqueue", "stop"
"""What a `Change` calls a trial that was added to the queue, and a rule that stopped the study."""

_CLOCK_STEP = 1.0
"""Seconds by which a clock may be set back in daily life without a turn being taken for an old one."""


def is_next(trial: Trial, count: int) -> bool:
    """Whether a trial's number is the next one of a study with `count` trials; False if it is taken.

    Raises:
        TrialError: if its number would leave a gap.
    """
    if not 0 <= trial.number <= count:
        raise TrialError(f"the next trial must have number {count}, got {trial.number}; numbers have no gaps")
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


def fits(counts: Mapping[float, int], budget: float) -> bool:
    """Whether the budget pays for trials of these costs."""
    return remainder(budget, exact_sum(counts)) >= 0


def committed(counts: Mapping[float, int], unstarted: Sequence[Trial], budget: float) -> Mapping[float, int]:
    """How many trials of each cost count against a budget: those that wait for a larger one do not.

    Args:
        counts: the trials that were started or given.
        unstarted: the queued trials that were never started.
        budget: what all may cost together.
    """
    reserved = Counter(trial.cost for trial in reserving(unstarted, exact_sum(counts), budget))
    return Counter(counts) + reserved if reserved else counts


def first_to_start(
    queued: Sequence[Trial], counts: Mapping[float, int], budget: float, accepts: Callable[[Trial], bool]
) -> Trial | None:
    """The queued trial to start next; None if there is none that is accepted and paid for.

    Args:
        queued: all of them.
        counts: how many of all other trials, and of those queued again, there are of each cost.
        budget: what all may cost together.
        accepts: which trials may be started.
    """
    paid = {trial.number for trial in reserving(filter(_is_unstarted, queued), exact_sum(counts), budget)}
    may = [trial for trial in queued if (trial.attempt or trial.number in paid) and accepts(trial)]
    return min(may, key=lambda trial: (-trial.priority, trial.number), default=None)


def _is_unstarted(trial: Trial) -> bool:
    return trial.is_unstarted


def entered(trial: Trial, definition: StudyDefinition, beating: bool, now: float) -> Trial:
    """A trial as it is when it is added to a study.

    Raises:
        ObservationError: if it is finished and its value does not fit its state.
        StorageError: if its worker's name cannot be stored.
    """
    given = dict(trial.outcomes) if trial.state is TrialState.DONE else {}
    fresh = replace(trial, params=dict(trial.params), outcomes=given, started=None, heartbeat=None, finished=None)
    fresh = replace(fresh, excluded=False, constraints=definition.constraints)
    fresh = charged(fresh, trial.fidelity, trial.cost)
    if trial.note is not None or trial.tags or trial.priority:
        tags = tuple(dict.fromkeys(map(checked_tag, trial.tags)))
        fresh = replace(fresh, priority=checked_priority(trial.priority), note=checked_note(trial.note), tags=tags)
    if trial.worker is not None:
        checked_name(trial.worker, "a worker's name")
    if trial.state is TrialState.QUEUED:
        return replace(fresh, value=None, reason=None, measured_cost=None, std=None, attempt=0, worker=None)
    if trial.state is TrialState.RUNNING:
        heartbeat = now if beating and trial.worker is not None else None
        unknown = replace(fresh, value=None, reason=None, measured_cost=None, std=None)
        return replace(unknown, attempt=1, started=now, heartbeat=heartbeat)
    if trial.state is TrialState.LOST:
        return replace(fresh, value=None, reason=bounded_reason(trial.reason), std=None, finished=now)
    result = Result(trial.state, trial.value, trial.reason, trial.measured_cost, given, trial.std)
    return ended(replace(fresh, measured_cost=None), result, now, measured=definition.measures_costs)


def redefined(trial: Trial, definition: StudyDefinition) -> Trial:
    """A trial as it is under a new definition: it keeps what the study paid for it."""
    fidelity = definition.ladder[definition.ladder.index(trial.fidelity.name)]
    return replace(charged(trial, fidelity, trial.cost), constraints=definition.constraints)


def charged(trial: Trial, fidelity: Fidelity, cost: float) -> Trial:
    """A trial at a fidelity as it is defined now, with what the study paid for it."""
    now = trial.given or (not fidelity.depends_on_design and cost == fidelity.cost)
    return replace(trial, fidelity=fidelity, charged=None if now else cost)


def claimed(trial: Trial, worker: str | None, now: float) -> Trial:
    """A queued trial started by a worker, or, without a heartbeat, by a person or script."""
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
    """Whether this worker runs the trial and sends heartbeats."""
    return trial.state is TrialState.RUNNING and trial.worker == worker and trial.heartbeat is not None


def is_ahead(trial: Trial, now: float) -> bool:
    """Whether the heartbeat of a running trial lies in the future: the clock was set back."""
    return trial.state is TrialState.RUNNING and trial.heartbeat is not None and trial.heartbeat > now


def alive(trial: Trial, now: float) -> Trial:
    """A trial whose worker has sent a heartbeat."""
    return replace(trial, heartbeat=now)


def ended(trial: Trial, result: Result, now: float, *, measured: bool = False) -> Trial:
    """A trial whose evaluation has ended.

    Args:
        trial: the trial.
        result: how it ended.
        now: the time.
        measured: whether it costs what was measured, earlier attempts included; what was expected if that is not known.
    """
    cost = _number(result.measured_cost)
    if measured:
        trial, cost = _paid(trial, cost)
    return replace(
        trial,
        state=result.state,
        value=_number(result.value),
        reason=bounded_reason(result.reason),
        measured_cost=cost,
        outcomes={name: float(value) + 0.0 for name, value in result.outcomes.items()},
        std=_number(result.std),
        finished=now,
    )


def given_back(trial: Trial, reason: str | None, measured_cost: float | None = None) -> Trial:
    """A running trial, queued again.

    Args:
        trial: the trial.
        reason: why.
        measured_cost: what the attempt took that is given up, if the study pays for it: this is kept, and added to what
            is expected of the next attempt.
    """
    if measured_cost is not None:
        trial = charged(trial, trial.fidelity, trial.cost + measured_cost)
        trial = replace(trial, measured_cost=_number((trial.measured_cost or 0.0) + measured_cost))
    return replace(trial, state=TrialState.QUEUED, heartbeat=None, reason=bounded_reason(reason))


def _paid(trial: Trial, cost: float | None) -> tuple[Trial, float | None]:
    """A trial with what the study pays for it, and what all its attempts took, if the last one took `cost`."""
    before = trial.measured_cost
    if cost is None or trial.given:
        return trial, before if cost is None else cost
    total = (before or 0.0) + cost
    return charged(trial, trial.fidelity, total), total


def is_abandoned(trial: Trial, silent_for: float, dead: Collection[str], now: float) -> bool:
    """Whether a trial is running and its worker is dead."""
    if trial.state is not TrialState.RUNNING:
        return False
    silent = trial.heartbeat is not None and now - trial.heartbeat > silent_for
    return silent or (trial.worker is not None and trial.worker in dead)


def taken_away(trial: Trial, dead: Collection[str], retries: int, now: float) -> Trial:
    """A trial of a dead worker: queued again, or lost if it was started more than `retries` times."""
    if trial.worker in dead or trial.heartbeat is None:
        reason = f"worker {trial.worker} has ended"
    else:
        reason = f"worker {trial.worker} was silent for {now - trial.heartbeat:.0f} s"
    if trial.attempt > retries:
        lost = f"{reason} in attempt {trial.attempt}; not retried"
        return replace(trial, state=TrialState.LOST, reason=bounded_reason(lost), finished=now)
    return given_back(trial, reason)


def known(trial: Trial | None, number: int, count: int) -> Trial:
    """The trial.

    Args:
        trial: the trial of this number, None if there is none.
        number: its number.
        count: how many trials the study has.

    Raises:
        TrialError: if there is none.
    """
    if trial is None:
        raise TrialError(f"there is no trial {number}; the study has {count}, numbered from 0")
    return trial


def owned(trial: Trial | None, number: int, attempt: int, count: int) -> Trial:
    """The trial, if it is running in this attempt, or queued again after it: nobody has started it since.

    Args:
        trial: the trial of this number, None if there is none.
        number: its number.
        attempt: the attempt that should be the last one.
        count: how many trials the study has.

    Raises:
        TrialError: if it is not.
    """
    trial = known(trial, number, count)
    if not trial.state.is_pending or trial.attempt == 0:
        raise TrialError(f"trial {number} is {trial.state}, not running; nothing was changed")
    if trial.attempt != attempt:
        raise TrialError(
            f"trial {number} is in attempt {trial.attempt}, not {attempt}: its worker counted as dead and it was "
            "restarted; discard this result"
        )
    return trial


def amended(
    trial: Trial, action: Action, reason: str | None, result: Result | None, now: float, *, measured: bool = False
) -> Trial:
    """A trial that a person has changed.

    Where costs are measured, one that is run again keeps what it took, and as much again is reserved, at least what is
    declared; a corrected one costs what the result says, or else what it took.

    Raises:
        TrialError: if it is in a state in which this cannot be done.
        ObservationError: if the result is missing, or not a done one.
    """
    if action is Action.CORRECT and (result is None or result.state is not TrialState.DONE):
        raise ObservationError(f"a trial is corrected with a value, got {result!r}")
    check_amendable(trial, action)
    if action is Action.RETRY:
        again = replace(trial, value=None, measured_cost=None, outcomes={}, std=None, finished=None, excluded=False)
        if measured and trial.measured_cost is not None:
            reserved = max(trial.measured_cost, trial.fidelity.cost_of(trial.params))
            again = charged(again, trial.fidelity, reserved)
            return given_back(again, reason or None, trial.measured_cost)
        return given_back(again, reason or None)
    if action is Action.CORRECT and result is not None:
        if measured and result.measured_cost is None and trial.measured_cost is not None:
            result = replace(result, measured_cost=trial.measured_cost)
        fresh = replace(trial, measured_cost=None) if measured else trial
        return ended(fresh, result, now, measured=measured)
    return replace(trial, excluded=action is Action.EXCLUDE)


def check_amendable(trial: Trial, action: Action) -> None:
    """Refuse what cannot be done to a trial in its state.

    Raises:
        TrialError: if it cannot be done.
    """
    refusal = _refusal(trial, action)
    if refusal is not None:
        raise TrialError(f"cannot {action} trial {trial.number}: {refusal}; nothing was changed")


def _refusal(trial: Trial, action: Action) -> str | None:
    """Why this cannot be done to the trial, None if it can."""
    state = trial.state
    if state is TrialState.RUNNING:
        return "it is running; wait for its end, or end it with 'tell'"
    if action is Action.EXCLUDE:
        if state is TrialState.QUEUED:
            return "it is queued, so it has no value yet"
        return "it is excluded already" if trial.excluded else None
    if action is Action.RESTORE:
        return None if trial.excluded else "it is not excluded"
    if action is Action.RETRY and trial.given:
        return "it is data that was given, so there is nothing to run"
    if state is TrialState.DONE and not (action is Action.RETRY and trial.excluded):
        return f"it is done, with value {trial.value!r}; exclude it first if that is wrong"
    if state is TrialState.QUEUED and (action is Action.RETRY or not trial.attempt):
        return "it is queued already" if action is Action.RETRY else "it has not been started yet"
    return None


def change_record(before: Trial, action: Action, who: str, reason: str | None, now: float) -> Change:
    """The record of a change of a trial; it keeps what the change overwrites."""
    texts = [reason] if reason else []
    if action in (Action.RETRY, Action.CORRECT):
        value = f" with value {before.value!r}" if before.value is not None else ""
        value += "" if before.std is None else f" (standard error {before.std!r})"
        value += "".join(f", {name} {outcome!r}" for name, outcome in before.outcomes.items())
        because = f": {before.reason}" if before.reason else ""
        texts.append(f"[before: {before.state}{value}{because}]")
    return Change(now, who, action.value, before.number, bounded_reason(" ".join(texts)) or "")


def enqueued(
    trials: Sequence[Trial], count: int, counts: Mapping[float, int], budget: float, definition: StudyDefinition
) -> list[Trial]:
    """Trials as they are when a person adds them to the queue of a study.

    Args:
        trials: to be added, in this order.
        count: how many trials the study has.
        counts: how many trials of each cost count against the budget.
        budget: what all trials together may cost.
        definition: of the study.

    Raises:
        BudgetError: if one of them costs more than what is left.
        SettingError: if a priority, a note or a tag is not valid.
    """
    added: list[Trial] = []
    for number, trial in enumerate(trials, count):
        check_budget(trial, counts, budget)
        counts = Counter(counts) + Counter([trial.cost])
        added.append(entered(replace(trial, number=number, state=TrialState.QUEUED), definition, False, 0.0))
    return added


def enqueue_record(trial: Trial, who: str, now: float) -> Change:
    """The record of a trial that a person added to the queue."""
    more = f", priority {trial.priority}" if trial.priority else ""
    note = f": {trial.note}" if trial.note else ""
    return Change(now, who, ENQUEUE, trial.number, bounded_reason(f"at {trial.fidelity.name}{more}{note}") or "")


def annotated(trial: Trial, annotation: Annotation, text: str) -> Trial:
    """A trial that a person has written on; the same if nothing changes.

    Raises:
        TrialError: if it has no such tag, or is to get a priority and is not queued.
        SettingError: if the text is not a valid note, tag or priority.
    """
    if annotation is Annotation.NOTE:
        return replace(trial, note=checked_note(text))
    if annotation is Annotation.PRIORITISE:
        if trial.state is not TrialState.QUEUED:
            raise TrialError(
                f"cannot prioritise trial {trial.number}: it is {trial.state}, and only queued trials wait for their "
                "turn; nothing was changed"
            )
        return replace(trial, priority=checked_priority(parsed_priority(text)))
    tag = checked_tag(text)
    if annotation is Annotation.TAG:
        return trial if tag in trial.tags else replace(trial, tags=(*trial.tags, tag))
    if tag not in trial.tags:
        has = ", ".join(map(repr, trial.tags)) or "none"
        raise TrialError(f"trial {trial.number} has no tag {tag!r}; it has {has}; nothing was changed")
    return replace(trial, tags=tuple(each for each in trial.tags if each != tag))


def annotation_record(before: Trial, after: Trial, annotation: Annotation, who: str, text: str, now: float) -> Change:
    """The record of what a person wrote on a trial; it keeps what is overwritten."""
    if annotation is Annotation.NOTE:
        old = f"[before: {before.note}]" if before.note else ""
        text = " ".join(part for part in (after.note or "removed", old) if part)
    elif annotation is Annotation.PRIORITISE:
        text = f"{after.priority} [before: {before.priority}]"
    return Change(now, who, annotation.value, before.number, bounded_reason(text) or "")


def stop_record(who: str, reason: str, now: float) -> Change:
    """The record of a rule that has stopped the study."""
    return Change(now, who, STOP, None, bounded_reason(reason) or "")


def check_redefinition(stored: StudyDefinition, new: StudyDefinition) -> None:
    """Refuse a definition that stored trials do not fit: they know their fidelity by its position.

    Raises:
        SettingError: if the name of the study, of a parameter or of a fidelity differs.
    """
    for what, old, wanted in (
        ("name", stored.stored_name, new.stored_name),
        ("parameters", list(stored.space.parameters), list(new.space.parameters)),
        ("fidelities", list(stored.ladder.names), list(new.ladder.names)),
    ):
        if old != wanted:
            raise SettingError(f"a study keeps its {what}: {old!r} are stored, got {wanted!r}; create a new study")


def may_take_turn(
    holder: str, current: str | None, until: float, now: float, seconds: float, has_ended: Callable[[str], bool]
) -> bool:
    """Whether the turn is free, expired, the holder's own, a dead one's, or was taken before the clock was set back."""
    if current is None or current == holder or until <= now:
        return True
    return until - now > seconds + _CLOCK_STEP or has_ended(current)


def _number(value: float | None) -> float | None:
    """A plain float; 0.0 for -0.0, as SQLite has only one zero."""
    return None if value is None else float(value) + 0.0
