"""How Alembic runs the migrations: on the connection, and in the transaction, that `storage.sql.upgrade` gives it."""

from __future__ import annotations

from alembic import context

from fidelium.storage.sql.tables import METADATA, SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=SCHEMA.name,
    render_as_batch=True,  # SQLite changes a table by making a new one
)
with context.begin_transaction():
    context.run_migrations()
