"""Schema 4: what people say about trials, and standard errors. Never changed, so it spells everything out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no trial so far has a standard error, a note or tags, and all have the same priority."""
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.add_column(sa.Column("std", sa.Double))
        trials.add_column(sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
        trials.add_column(sa.Column("note", sa.Text))
        trials.add_column(sa.Column("tags", sa.Text))
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.alter_column("priority", existing_type=sa.Integer, existing_nullable=False, server_default=None)


def downgrade() -> None:
    """Drop them again."""
    with op.batch_alter_table("fidelium_trials") as trials:
        for name in ("std", "priority", "note", "tags"):
            trials.drop_column(name)
