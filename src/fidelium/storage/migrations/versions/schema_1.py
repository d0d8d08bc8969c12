"""Schema 1: studies and trials. A released migration is never changed, so it spells everything out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "fidelium_studies",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("trial_count", sa.Integer, nullable=False),
        sa.Column("turn_holder", sa.String(255)),
        sa.Column("turn_until", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="fidelium_studies_key"),
        sa.UniqueConstraint("name", name="fidelium_studies_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "fidelium_trials",
        sa.Column("study_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("params", sa.Text, nullable=False),
        sa.Column("fidelity", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("reason", sa.Text),
        sa.Column("given", sa.Boolean, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(255)),
        sa.Column("started", sa.Double),
        sa.Column("heartbeat", sa.Double),
        sa.Column("finished", sa.Double),
        sa.Column("measured_cost", sa.Double),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "number", name="fidelium_trials_key"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["fidelium_studies.id"], name="fidelium_trials_study", ondelete="CASCADE"
        ),
    )
    op.create_index("fidelium_trials_by_version", "fidelium_trials", ["study_id", "version"])
    op.create_index("fidelium_trials_by_state", "fidelium_trials", ["study_id", "state", "number"])


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("fidelium_trials")
    op.drop_table("fidelium_studies")
