"""Migrations: bring an older database up to the current schema, with Alembic, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from fidelium.errors import StorageError
from fidelium.storage.sql.address import parse_address
from fidelium.storage.sql.database import Database
from fidelium.storage.sql.schema import CURRENT, check_version, lock_catalogue, version_in

MIGRATIONS = Path(__file__).parent.parent / "migrations"


def schema_version(url: str) -> int:
    """See `fidelium.storage.schema_version`."""
    with _existing(url) as database:
        return database.read(version_in)


def upgrade(url: str) -> tuple[int, int]:
    """See `fidelium.storage.upgrade`."""
    with _existing(url) as database:
        before = database.read(version_in)
        if before > CURRENT:
            check_version(before, database.address)
        database.write(migrate)
        return before, database.read(version_in)


def migrate(connection: Connection) -> None:
    """Run all migrations that are missing."""
    from alembic import command
    from alembic.config import Config

    lock_catalogue(connection)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _existing(url: str) -> Iterator[Database]:
    address = parse_address(url)
    if address.is_missing:
        raise StorageError(f"there is no file {str(address.file)!r}; give the URL of a database that exists")
    database = Database(address, foreign_keys=False)  # or SQLite would delete all trials with a replaced table
    try:
        yield database
    finally:
        database.close()
