"""Schema 2: what each trial cost, excluded trials, changes by people. Never changed, so it spells everything out."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, fill them from the studies' definitions, make the table of changes."""
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.add_column(sa.Column("cost", sa.Double))
        trials.add_column(sa.Column("excluded", sa.Boolean))
    _fill()
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.alter_column("cost", existing_type=sa.Double, nullable=False)
        trials.alter_column("excluded", existing_type=sa.Boolean, nullable=False)
    op.create_table(
        "fidelium_changes",
        sa.Column("study_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("trial", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "number", name="fidelium_changes_key"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["fidelium_studies.id"], name="fidelium_changes_study", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("fidelium_changes")
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.drop_column("excluded")
        trials.drop_column("cost")


def _fill() -> None:
    """A trial has cost what its fidelity costs in its study's definition, or nothing if it was given."""
    connection = op.get_bind()
    connection.execute(sa.text("UPDATE fidelium_trials SET cost = 0, excluded = :no"), {"no": False})
    fill = sa.text(
        "UPDATE fidelium_trials SET cost = :cost WHERE study_id = :study AND fidelity = :fidelity AND given = :no"
    )
    for study, record in connection.execute(sa.text("SELECT id, record FROM fidelium_studies")).all():
        for fidelity, cost in enumerate(_costs(record)):
            connection.execute(fill, {"cost": cost, "study": study, "fidelity": fidelity, "no": False})


def _costs(record: str) -> list[float]:
    """The costs in a definition; none in a damaged one, which cannot be opened anyway."""
    try:
        return [float(cost) for _, cost in json.loads(record)["fidelities"]]
    except (ValueError, TypeError, KeyError):
        return []
