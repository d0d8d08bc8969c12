"""The tables: studies, trials, changes by people, and the schema's version. Changes need migrations (docs/storage.md).

Every study has a version, one more with every write that changes trials, and every trial carries the version of its
last change, so that a reader asks only for what is newer than what it has.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from fidelium.history import TrialState
from fidelium.storage.serialise import LONGEST_NAME

METADATA = MetaData()

STUDIES = Table(
    "fidelium_studies",
    METADATA,
    Column("id", Integer, nullable=False),
    Column("name", String(LONGEST_NAME), nullable=False),
    Column("record", Text, nullable=False),  # JSON
    Column("version", BigInteger, nullable=False),
    Column("trial_count", Integer, nullable=False),
    Column("turn_holder", String(LONGEST_NAME)),
    Column("turn_until", Double, nullable=False),
    PrimaryKeyConstraint("id", name="fidelium_studies_key"),
    UniqueConstraint("name", name="fidelium_studies_name"),
    sqlite_autoincrement=True,  # the number of a deleted study is not given to another
)

TRIALS = Table(
    "fidelium_trials",
    METADATA,
    Column("study_id", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("params", Text, nullable=False),  # JSON
    Column("fidelity", Integer, nullable=False),  # position in the ladder
    Column("state", String(16), nullable=False),
    Column("value", Double),
    Column("reason", Text),
    Column("given", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("worker", String(LONGEST_NAME)),
    Column("started", Double),
    Column("heartbeat", Double),
    Column("finished", Double),
    Column("measured_cost", Double),
    Column("version", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),  # what the study was charged; 0 if given
    Column("excluded", Boolean, nullable=False),
    Column("outcomes", Text),  # JSON; NULL if there are none
    Column("std", Double),
    Column("priority", Integer, nullable=False),
    Column("note", Text),
    Column("tags", Text),  # JSON; NULL if there are none
    PrimaryKeyConstraint("study_id", "number", name="fidelium_trials_key"),
    ForeignKeyConstraint(["study_id"], ["fidelium_studies.id"], name="fidelium_trials_study", ondelete="CASCADE"),
    Index("fidelium_trials_by_version", "study_id", "version"),
    Index("fidelium_trials_by_state", "study_id", "state", "number"),
)

CHANGES = Table(
    "fidelium_changes",
    METADATA,
    Column("study_id", Integer, nullable=False),
    Column("number", Integer, nullable=False),  # 0, 1, 2, ... within the study
    Column("at", Double, nullable=False),
    Column("who", String(LONGEST_NAME), nullable=False),
    Column("action", String(16), nullable=False),
    Column("trial", Integer),
    Column("reason", Text, nullable=False),
    PrimaryKeyConstraint("study_id", "number", name="fidelium_changes_key"),
    ForeignKeyConstraint(["study_id"], ["fidelium_studies.id"], name="fidelium_changes_study", ondelete="CASCADE"),
)

SCHEMA = Table(
    "fidelium_schema",  # Alembic's version table, under our name
    METADATA,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="fidelium_schema_pkc"),
)


_STUDY, _TRIAL, _CHANGE = STUDIES.c, TRIALS.c, CHANGES.c
_OF_STUDY = _TRIAL.study_id == bindparam("of_study")
_RUNNING = _TRIAL.state == TrialState.RUNNING.value

CREATE_STUDY = insert(STUDIES)
FIND_STUDY = select(_STUDY.id, _STUDY.record).where(_STUDY.name == bindparam("called"))
NAMES = select(_STUDY.name).order_by(_STUDY.id)
DELETE_STUDY = delete(STUDIES).where(_STUDY.id == bindparam("of_study"))  # its trials and changes go with it

TRIAL_COUNT = select(_STUDY.trial_count).where(_STUDY.id == bindparam("of_study"))
RECORD = select(_STUDY.record).where(_STUDY.id == bindparam("of_study"))
LOCK_STUDY = (  # SQLite knows no FOR UPDATE and leaves it out: BEGIN IMMEDIATE has locked everything
    select(_STUDY.version, _STUDY.trial_count, _STUDY.turn_holder, _STUDY.turn_until)
    .where(_STUDY.id == bindparam("of_study"))
    .with_for_update()
)
UPDATE_STUDY = update(STUDIES).where(_STUDY.id == bindparam("of_study"))

ADD_TRIAL = insert(TRIALS)
TRIAL = select(TRIALS).where(_OF_STUDY, _TRIAL.number == bindparam("of_number"))
_WAS_STARTED = or_(_TRIAL.state != TrialState.QUEUED.value, _TRIAL.attempt > 0)  # or given
COSTS = select(_TRIAL.cost, func.count().label("runs")).where(_OF_STUDY).group_by(_TRIAL.cost)
STARTED_COSTS = select(_TRIAL.cost, func.count().label("runs")).where(_OF_STUDY, _WAS_STARTED).group_by(_TRIAL.cost)
QUEUED = (
    select(TRIALS)
    .where(_OF_STUDY, _TRIAL.state == TrialState.QUEUED.value)
    .order_by(_TRIAL.priority.desc(), _TRIAL.number)
)
FIRST_QUEUED = QUEUED.limit(1)
RUNNING = select(TRIALS).where(_OF_STUDY, _RUNNING).order_by(_TRIAL.number)
UPDATE_TRIAL = update(TRIALS).where(_OF_STUDY, _TRIAL.number == bindparam("of_number"))
BEAT = (
    update(TRIALS)
    .where(_OF_STUDY, _RUNNING, _TRIAL.worker == bindparam("by_worker"), _TRIAL.heartbeat.is_not(None))
    .values(heartbeat=bindparam("now"), version=bindparam("new_version"))  # a heartbeat is a change like any other
)
NEWER_TRIALS = (
    select(TRIALS, _STUDY.version.label("newest"))
    .join(STUDIES, _STUDY.id == _TRIAL.study_id)
    .where(_OF_STUDY, _TRIAL.version > bindparam("seen"))
    .order_by(_TRIAL.number)
)

ADD_CHANGE = insert(CHANGES)
CHANGES_OF_STUDY = select(CHANGES).where(_CHANGE.study_id == bindparam("of_study")).order_by(_CHANGE.number)
CHANGE_COUNT = select(func.count()).where(_CHANGE.study_id == bindparam("of_study"))
