"""Steering a study: designs that a person wants to be run, priorities, notes and tags, each with its audit line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fidelium.definition import StudyDefinition
from fidelium.errors import BudgetError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.snapshot import Snapshot
from fidelium.storage.annotations import checked_note, checked_priority, checked_tag
from fidelium.storage.base import Annotation, StudyStore
from fidelium.study.repair import find, user_name
from fidelium.study.trial import LiveTrial


@dataclass(frozen=True)
class Wish:
    """A design that a person wants to be run.

    Args:
        params: values of all parameters.
        fidelity: a fidelity or its name; the target if None.
        priority: queued trials of a higher one are started first.
        note: what to remember about it.
        tags: short labels.
    """

    params: Mapping[str, Any]
    fidelity: str | Fidelity | None = None
    priority: int = 0
    note: str | None = None
    tags: Sequence[str] = ()


def queued_trial(of: StudyDefinition, wish: Wish) -> Trial:
    """The trial of a wish, not yet stored.

    Raises:
        SpaceError: if the design is outside of the bounds or violates a parameter constraint.
        FidelityError: if the fidelity is unknown.
        SettingError: if the priority, the note or a tag is not valid.
    """
    rung = of.ladder.target if wish.fidelity is None else of.ladder[of.ladder.index(wish.fidelity)]
    return Trial(
        0,
        of.space.validate(wish.params),
        rung,
        TrialState.QUEUED,
        priority=checked_priority(wish.priority),
        note=checked_note(wish.note),
        tags=tuple(map(checked_tag, wish.tags)),
        constraints=of.constraints,
    )


def enqueue_all(
    store: StudyStore, definition: StudyDefinition, wishes: Sequence[Wish], budget: float, who: str | None = None
) -> tuple[Trial, ...]:
    """Queue designs, all or none.

    Args:
        store: the study.
        definition: what it is now.
        wishes: the designs.
        budget: what the study may spend in total; they must fit into what is left.
        who: who does it; this login and host if None.

    Raises:
        BudgetError: if they do not fit; nothing changes.
        FideliumError: as `queued_trial`.
    """
    now = Snapshot(definition, store.trials(), budget)  # refuses a budget that is not a number
    trials = [_charged(queued_trial(definition, wish), now) for wish in wishes]
    try:
        return store.enqueue(trials, user_name() if who is None else who, now.budget)
    except BudgetError as error:
        raise BudgetError(f"{error}; nothing was queued: raise the budget first") from None


def _charged(trial: Trial, now: Snapshot) -> Trial:
    """A trial that reserves what it is expected to cost."""
    costs = now.history.costs
    if costs.are_declared:
        return trial
    return replace(trial, charged=costs.of(trial.params, costs.ladder.index(trial.fidelity.name)))


def annotate(
    store: StudyStore, trial: LiveTrial | Trial | int, annotation: Annotation, text: str, who: str | None
) -> Trial:
    """Write on a trial.

    Raises:
        TrialError: if the study has no such trial, or it does not allow it; nothing changes.
        SettingError: if the text is not valid.
    """
    number = find(store.trials(), trial).number
    return store.annotate(number, annotation, text, user_name() if who is None else who)


def annotate_all(store: StudyStore, numbers: Sequence[int], annotation: Annotation, text: str) -> list[Trial]:
    """Write the same on several trials, by their numbers; on none if one of them does not allow it.

    Raises:
        TrialError: if one of them does not exist, or does not allow it.
        SettingError: if the text is not valid.
    """
    from fidelium.storage.transitions import annotated

    unique, trials, who = list(dict.fromkeys(numbers)), store.trials(), user_name()
    for number in unique:
        annotated(find(trials, number), annotation, text)
    return [store.annotate(number, annotation, text, who) for number in unique]


def waiting_text(now: Snapshot) -> str | None:
    """Which queued trials wait for a larger budget, in a sentence; None if there are none."""
    if not now.waiting:
        return None
    numbers = ", ".join(str(trial.number) for trial in now.waiting[:8]) + (", ..." if len(now.waiting) > 8 else "")
    count = "1 queued trial waits" if len(now.waiting) == 1 else f"{len(now.waiting)} queued trials wait"
    cheapest = min(trial.cost for trial in now.waiting)
    which = "it costs" if len(now.waiting) == 1 else "the cheapest costs"
    left = max(0.0, now.remaining) if math.isfinite(now.remaining) else now.budget
    return f"{count} for a larger budget ({numbers}): {which} {cheapest:g}, and {left:g} is left"
