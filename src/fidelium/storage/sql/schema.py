"""The version of the tables: read without Alembic, refused if it is not ours, written for a new database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, text

from fidelium.errors import StorageError
from fidelium.storage.sql.database import Database
from fidelium.storage.sql.tables import METADATA, SCHEMA, STUDIES
from fidelium.storage.sql.url import Address, parse_address

CURRENT = 4
"""The schema this version of fidelium writes: the newest file in `storage/migrations/versions`."""

_LOCK_KEY = 6_344_725_261_019
"""The advisory lock that is held on a server while tables or studies are created; any number will do."""


_VERSION = re.compile("[0-9]{1,9}")


def version_in(connection: Connection) -> int:
    """The version of the schema, 0 if there is none.

    Raises:
        StorageError: if it is not a number.
    """
    if not inspect(connection).has_table(SCHEMA.name):
        return 0
    versions = connection.execute(select(SCHEMA.c.version_num)).scalars().all()
    if not versions and not inspect(connection).has_table(STUDIES.name):
        return 0
    if len(versions) != 1 or not isinstance(versions[0], str) or not _VERSION.fullmatch(versions[0]):
        held = ", ".join(map(repr, versions))[:80] or "nothing"
        raise StorageError(f"the table {SCHEMA.name} holds {held}, which is not a version of fidelium; fix it")
    return int(versions[0])


def check_version(version: int, address: Address) -> None:
    """Only the current version is read or written.

    Raises:
        StorageError: if it is an older or a newer one.
    """
    if version < CURRENT:
        raise StorageError(
            f"storage {address} was written by an older fidelium (schema {version}, this one has {CURRENT}); "
            f"back it up, then run: fidelium storage upgrade {address}"
        )
    if version > CURRENT:
        raise StorageError(
            f"storage {address} was written by a newer fidelium (schema {version}, this one knows {CURRENT}); "
            "update fidelium: pip install --upgrade fidelium"
        )


def make_tables(connection: Connection) -> int:
    """Create the tables of the current version if there are none; the catalogue must be locked.

    Returns:
        The version there is now.
    """
    version = version_in(connection)
    if version:
        return version
    METADATA.create_all(connection)
    connection.execute(insert(SCHEMA).values(version_num=str(CURRENT)))
    return CURRENT


def lock_catalogue(connection: Connection) -> None:
    """Keep others from creating tables or studies until the transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})


MIGRATIONS = Path(__file__).parent.parent / "migrations"


def read_schema_version(url: str) -> int:
    """See `fidelium.storage.schema_version`."""
    with _existing(url) as database:
        return database.read(version_in)


def upgrade_tables(url: str) -> tuple[int, int]:
    """See `fidelium.storage.upgrade`."""
    with _existing(url) as database:
        before = database.read(version_in)
        if before > CURRENT:
            check_version(before, database.address)
        database.write(migrate)
        return before, database.read(version_in)


def migrate(connection: Connection, version: str = "head") -> None:
    """Run all migrations that are missing, up to a version."""
    from alembic import command
    from alembic.config import Config

    lock_catalogue(connection)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


@contextmanager
def _existing(url: str) -> Iterator[Database]:
    address = parse_address(url)
    if address.is_missing:
        raise StorageError(f"there is no file {str(address.file)!r}; pass the URL of an existing database")
    database = Database(address, foreign_keys=False)  # or SQLite would delete all trials with a replaced table
    try:
        yield database
    finally:
        database.close()
