"""Repairing a study: what a person changes afterwards, each with who, when and why in the record."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fidelium.errors import TrialError
from fidelium.history import Trial
from fidelium.snapshot import Snapshot
from fidelium.storage.base import Action, Result, StudyStore
from fidelium.storage.serialise import LONGEST_NAME, bounded_reason
from fidelium.storage.transitions import check_amendable
from fidelium.study.choosing import Chooser
from fidelium.study.trial import Expectation, LiveTrial


def user_name() -> str:
    """Who runs this program, as login@host, in a form that any storage accepts."""
    try:
        login = getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user in this container
        login = f"user {os.getuid()}" if os.name == "posix" else "unknown"
    return (bounded_reason(f"{login}@{socket.gethostname()}") or "unknown")[:LONGEST_NAME]


def amend(
    store: StudyStore,
    trial: LiveTrial | Trial | int,
    action: Action,
    reason: str,
    who: str | None,
    result: Result | None = None,
) -> Trial:
    """Change a finished trial, and record it.

    Raises:
        TrialError: if the study has no such trial, or it is in a state in which this cannot be done; nothing changes.
    """
    number = find(store.trials(), trial).number
    return store.amend(number, action, user_name() if who is None else who, reason or None, result)


def amend_all(store: StudyStore, numbers: Iterable[int], action: Action, reason: str) -> list[Trial]:
    """Change several trials, by their numbers; none if one of them does not allow it.

    Raises:
        TrialError: if one of them does not exist, or is in a state in which this cannot be done.
    """
    unique, trials, who = list(dict.fromkeys(numbers)), store.trials(), user_name()
    for number in unique:
        check_amendable(find(trials, number), action)
    return [store.amend(number, action, who, reason or None) for number in unique]


def expected_without(chooser: Chooser, now: Snapshot, records: Sequence[Trial]) -> tuple[Expectation, ...]:
    """What a model without some finished trials expects of each of them.

    Raises:
        TrialError: if one of them is not finished.
    """
    for trial in records:
        if trial.state.is_pending:
            raise TrialError(f"trial {trial.number} is {trial.state}: there is nothing to compare yet")
    left_out = {trial.number for trial in records}
    rest = tuple(trial for trial in now.finished if trial.number not in left_out)
    history = replace(now, trials=rest).history
    points = [history.space.place(trial.params) for trial in records]
    if not any(trial.is_observation for trial in rest) or all(point is None for point in points):
        return tuple(Expectation(trial.number, trial.value) for trial in records)
    model, found = chooser.fitted(history, len(rest)), list[Expectation]()
    for trial, point in zip(records, points, strict=True):
        if point is None:
            found.append(Expectation(trial.number, trial.value))
            continue
        mean, std = model.predict(point[None], history.ladder.index(trial.fidelity.name))
        expected = history.direction.sign * float(mean[0])
        found.append(Expectation(trial.number, trial.value, expected, float(std[0])))
    return tuple(found)


def find(trials: tuple[Trial, ...], trial: LiveTrial | Trial | int) -> Trial:
    """The present record of a trial, from the trial, an older record of it, or its number.

    Raises:
        TrialError: if it is not one of these trials.
    """
    number = trial.number if isinstance(trial, (LiveTrial, Trial)) else trial
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(trials):
        raise TrialError(f"this study has no trial {trial!r}; it has {len(trials)}, numbered from 0")
    record = trials[number]
    given = (record.params, record.fidelity.name)
    if not isinstance(trial, int) and (trial.params, trial.fidelity.name) != given:
        raise TrialError(f"this trial {number} belongs to another study")
    return record
