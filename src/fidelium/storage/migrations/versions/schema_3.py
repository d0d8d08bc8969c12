"""Schema 3: the outcomes of a trial, named results beside its value. Never changed, so it spells everything out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no trial so far has outcomes."""
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.add_column(sa.Column("outcomes", sa.Text))


def downgrade() -> None:
    """Drop it again."""
    with op.batch_alter_table("fidelium_trials") as trials:
        trials.drop_column("outcomes")
