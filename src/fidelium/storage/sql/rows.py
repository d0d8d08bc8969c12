"""Rows of the tables to records and back. A damaged row is an error that names it, never a wrong record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from fidelium.catalogue import Catalogue
from fidelium.definition import StudyDefinition
from fidelium.errors import FideliumError, StorageError
from fidelium.fidelity import FidelityLadder
from fidelium.history import Change, Trial, TrialState
from fidelium.space import Categorical, Parameter, Params
from fidelium.storage.serialise import (
    LONGEST_NAME,
    definition_of,
    outcomes_of,
    outcomes_text,
    params_of,
    params_text,
    tags_of,
    tags_text,
)
from fidelium.storage.transitions import charged

_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError, FideliumError)
"""What reading a damaged text may raise."""


_LATEST = 1e11
"""The year 5138: no clock of ours shows more."""


@dataclass(frozen=True)
class Kind:
    """What a cell may hold.

    Args:
        expected: in words.
        fits: whether a value is of this kind.
    """

    expected: str
    fits: Callable[[Any], bool]

    def or_nothing(self) -> Kind:
        """The same, or NULL."""
        return Kind(f"{self.expected} or nothing", lambda value: value is None or self.fits(value))


WHOLE = Kind("a whole number", lambda value: isinstance(value, int))
COUNT = Kind("a whole number from 0", lambda value: isinstance(value, int) and value >= 0)
NUMBER = Kind("a finite number", lambda value: _is_finite(value))
ERROR = Kind("a finite number >= 0", lambda value: _is_finite(value) and value >= 0)
TIME = Kind("seconds since 1970", lambda value: _is_finite(value) and abs(value) < _LATEST)
NAME = Kind(f"text of up to {LONGEST_NAME} characters", lambda value: TEXT.fits(value) and len(value) <= LONGEST_NAME)
TEXT = Kind("text", lambda value: isinstance(value, str))
STATE = Kind(f"one of {', '.join(TrialState)}", lambda value: value in tuple(TrialState))


def cell(row: Any, column: str, kind: Kind, what: str) -> Any:
    """What a column of a row holds.

    Args:
        row: the row.
        column: the column's name.
        kind: what it should hold.
        what: the row, for the message.

    Raises:
        StorageError: if it holds something else.
    """
    value = getattr(row, column)
    if not kind.fits(value):
        raise damaged(what, f"{column} is {str(value)[:80]!r}, expected {kind.expected}")
    return value


def damaged(what: str, why: str) -> StorageError:
    """The error for a row that cannot be what fidelium has written."""
    return StorageError(f"{what} is damaged: {why}; restore a backup, or fix that row of the database")


def stored_definition(name: str, record: object, place: str) -> StudyDefinition:
    """The definition in a row of `fidelium_studies`.

    Args:
        name: the study's name.
        record: what the row holds.
        place: the storage, for the message.

    Raises:
        StorageError: if it is damaged.
    """
    try:
        if not isinstance(record, str):
            raise TypeError(f"{record!r} is not text")
        return definition_of(name, record)
    except _WRONG as error:
        raise damaged(f"the definition of study {name!r} in {place}", _one_line(error)) from None


def trial_of(row: Any, definition: StudyDefinition, place: str) -> Trial:
    """The trial in a row of `fidelium_trials`.

    Args:
        row: the row.
        definition: of its study.
        place: the study and its storage, for the message.

    Raises:
        StorageError: if the row is damaged.
    """
    what = f"trial {row.number} of {place}"
    state = TrialState(cell(row, "state", STATE, what))
    rungs = Kind(f"a position below {len(definition.ladder)}", lambda m: COUNT.fits(m) and m < len(definition.ladder))
    rung = definition.ladder[cell(row, "fidelity", rungs, what)]
    trial = Trial(
        number=cell(row, "number", COUNT, what),
        params=_params(cell(row, "params", TEXT, what), definition, what),
        fidelity=rung,
        state=state,
        value=cell(row, "value", NUMBER if state is TrialState.DONE else NUMBER.or_nothing(), what),
        reason=cell(row, "reason", TEXT.or_nothing(), what),
        given=row.given,
        attempt=cell(row, "attempt", COUNT, what),
        worker=cell(row, "worker", TEXT.or_nothing(), what),
        started=cell(row, "started", TIME.or_nothing(), what),
        heartbeat=cell(row, "heartbeat", TIME.or_nothing(), what),
        finished=cell(row, "finished", TIME.or_nothing(), what),
        measured_cost=cell(row, "measured_cost", NUMBER.or_nothing(), what),
        excluded=row.excluded,
        outcomes=_outcomes(cell(row, "outcomes", TEXT.or_nothing(), what), what),
        std=cell(row, "std", ERROR.or_nothing(), what),
        priority=cell(row, "priority", WHOLE, what),
        note=cell(row, "note", TEXT.or_nothing(), what),
        tags=_tags(cell(row, "tags", TEXT.or_nothing(), what), what),
        constraints=definition.constraints,
    )
    return charged(trial, rung, cell(row, "cost", NUMBER, what))


def change_of(row: Any, place: str) -> Change:
    """The change in a row of `fidelium_changes`; the arguments are those of `trial_of`.

    Raises:
        StorageError: if the row is damaged.
    """
    what = f"change {row.number} of {place}"
    texts = [cell(row, column, TEXT, what) for column in ("who", "action", "reason")]
    at, trial = cell(row, "at", TIME, what), cell(row, "trial", COUNT.or_nothing(), what)
    return Change(at, texts[0], texts[1], trial, texts[2])


def fixed_columns(trial: Trial, ladder: FidelityLadder) -> dict[str, Any]:
    """What of a trial never changes.

    Raises:
        StorageError: if a parameter's value cannot be stored.
    """
    return {
        "number": trial.number,
        "params": params_text(trial.params),
        "fidelity": ladder.index(trial.fidelity.name),
        "given": trial.given,
    }


def life_columns(trial: Trial) -> dict[str, Any]:
    """What of a trial changes during its life."""
    return {
        "state": trial.state.value,
        "value": trial.value,
        "reason": trial.reason,
        "attempt": trial.attempt,
        "worker": trial.worker,
        "started": trial.started,
        "heartbeat": trial.heartbeat,
        "finished": trial.finished,
        "measured_cost": trial.measured_cost,
        "excluded": trial.excluded,
        "outcomes": outcomes_text(trial.outcomes),
        "cost": trial.cost,
        "std": trial.std,
        "priority": trial.priority,
        "note": trial.note,
        "tags": tags_text(trial.tags),
    }


def _params(text: str, definition: StudyDefinition, what: str) -> Params:
    """The values of all parameters; they may lie outside the present bounds."""
    expected = definition.space.parameters
    try:
        params = params_of(text)
    except _WRONG as error:
        raise damaged(what, f"params is not JSON ({_one_line(error)})") from None
    if not isinstance(params, dict) or set(params) != set(expected):
        raise damaged(what, f"params is {text[:80]!r}, expected values of {list(expected)}")
    for name, value in params.items():
        if not _may_be_value(expected[name], value):
            raise damaged(what, f"parameter {name!r} is {str(value)[:80]!r}")
    return params


def _outcomes(text: str | None, what: str) -> dict[str, float]:
    """The outcomes of a trial."""
    try:
        outcomes = outcomes_of(text)
    except _WRONG as error:
        raise damaged(what, f"outcomes is not JSON ({_one_line(error)})") from None
    if not isinstance(outcomes, dict):
        raise damaged(what, f"outcomes is {str(text)[:80]!r}, expected numbers by name")
    for name, value in outcomes.items():
        if not isinstance(value, float) or not _is_finite(value):
            raise damaged(what, f"outcome {name!r} is {str(value)[:80]!r}, expected a finite number")
    return outcomes


def _tags(text: str | None, what: str) -> tuple[str, ...]:
    """The labels of a trial."""
    try:
        return tags_of(text)
    except _WRONG:
        raise damaged(what, f"tags is {str(text)[:80]!r}, expected a list of texts as JSON") from None


def _may_be_value(parameter: Parameter, value: object) -> bool:
    if isinstance(parameter, Catalogue):
        return isinstance(value, str)
    if isinstance(parameter, Categorical):
        return not isinstance(value, (dict, list))
    return not isinstance(value, bool) and _is_finite(value)  # also <= 0 where the scale became logarithmic


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
