"""Every statement on studies and trials, and the rows they take and give.

Bound values are called otherwise than columns (`of_study`, `of_number`, `by_worker`, `called`), as SQLAlchemy wants it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, bindparam, delete, insert, select, update

from fidelium.fidelity import FidelityLadder
from fidelium.history import Trial, TrialState
from fidelium.storage.sql.tables import STUDIES, TRIALS
from fidelium.storage.text import params_of, params_text

_STUDY, _TRIAL = STUDIES.c, TRIALS.c
_OF_STUDY = _TRIAL.study_id == bindparam("of_study")
_RUNNING = _TRIAL.state == TrialState.RUNNING.value

CREATE_STUDY = insert(STUDIES)
FIND_STUDY = select(_STUDY.id, _STUDY.record).where(_STUDY.name == bindparam("called"))
NAMES = select(_STUDY.name).order_by(_STUDY.id)
DELETE_STUDY = delete(STUDIES).where(_STUDY.id == bindparam("of_study"))  # its trials go with it

STUDY_EXISTS = select(_STUDY.id).where(_STUDY.id == bindparam("of_study"))
LOCK_STUDY = (  # SQLite knows no FOR UPDATE and leaves it out: BEGIN IMMEDIATE has locked everything
    select(_STUDY.version, _STUDY.trial_count, _STUDY.turn_holder, _STUDY.turn_until)
    .where(_STUDY.id == bindparam("of_study"))
    .with_for_update()
)
UPDATE_STUDY = update(STUDIES).where(_STUDY.id == bindparam("of_study"))

ADD_TRIAL = insert(TRIALS)
TRIAL = select(TRIALS).where(_OF_STUDY, _TRIAL.number == bindparam("of_number"))
FIRST_QUEUED = select(TRIALS).where(_OF_STUDY, _TRIAL.state == TrialState.QUEUED.value).order_by(_TRIAL.number).limit(1)
RUNNING = select(TRIALS).where(_OF_STUDY, _RUNNING).order_by(_TRIAL.number)
UPDATE_TRIAL = update(TRIALS).where(_OF_STUDY, _TRIAL.number == bindparam("of_number"))
BEAT = (
    update(TRIALS)
    .where(_OF_STUDY, _RUNNING, _TRIAL.worker == bindparam("by_worker"), _TRIAL.heartbeat.is_not(None))
    .values(heartbeat=bindparam("now"), version=bindparam("new_version"))  # a heartbeat is a change like any other
)
CHANGES = select(TRIALS).where(_OF_STUDY, _TRIAL.version > bindparam("seen")).order_by(_TRIAL.number)


def trial_of(row: Row[Any], ladder: FidelityLadder) -> Trial:
    """The trial in a row."""
    return Trial(
        number=row.number,
        params=params_of(row.params),
        fidelity=ladder[row.fidelity],
        state=TrialState(row.state),
        value=row.value,
        reason=row.reason,
        given=row.given,
        attempt=row.attempt,
        worker=row.worker,
        started=row.started,
        heartbeat=row.heartbeat,
        finished=row.finished,
        measured_cost=row.measured_cost,
    )


def fixed_columns(trial: Trial, ladder: FidelityLadder) -> dict[str, Any]:
    """What of a trial never changes.

    Raises:
        StorageError: if a parameter's value cannot be stored.
    """
    return {
        "number": trial.number,
        "params": params_text(trial.params),
        "fidelity": ladder.index(trial.fidelity),
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
    }
