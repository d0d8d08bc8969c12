"""The tables: studies, their trials, and the version of the schema. A change here needs a migration (docs/storage.md).

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
)

from fidelium.storage.text import LONGEST_NAME

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
    PrimaryKeyConstraint("study_id", "number", name="fidelium_trials_key"),
    ForeignKeyConstraint(["study_id"], ["fidelium_studies.id"], name="fidelium_trials_study", ondelete="CASCADE"),
    Index("fidelium_trials_by_version", "study_id", "version"),
    Index("fidelium_trials_by_state", "study_id", "state", "number"),
)

SCHEMA = Table(
    "fidelium_schema",  # Alembic's version table, under our name
    METADATA,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="fidelium_schema_pkc"),
)
