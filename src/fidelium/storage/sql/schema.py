"""The version of the tables: read without Alembic, refused if it is not ours, written for a new database."""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select, text

from fidelium.errors import StorageError
from fidelium.storage.sql.address import Address
from fidelium.storage.sql.tables import METADATA, SCHEMA

CURRENT = 1
"""The schema this version of fidelium writes: the newest file in `storage/migrations/versions`."""

_LOCK_KEY = 6_344_725_261_019
"""Any number: who makes tables or studies on a server holds the advisory lock of this number."""


def version_in(connection: Connection) -> int:
    """The version of the schema, 0 if there is none.

    Raises:
        StorageError: if it is no number.
    """
    if not inspect(connection).has_table(SCHEMA.name):
        return 0
    version = connection.execute(select(SCHEMA.c.version_num)).scalar()
    if version is not None and not version.isdigit():
        raise StorageError(f"the table {SCHEMA.name} holds {version!r}, which is no version of fidelium's; mend it")
    return int(version or 0)


def check_version(version: int, address: Address) -> None:
    """Only the current version is read or written.

    Raises:
        StorageError: if it is an older or a newer one.
    """
    if version < CURRENT:
        raise StorageError(
            f"storage {address} was written by an older fidelium (schema {version}, this one has {CURRENT}); "
            f"make a backup, then run: fidelium storage upgrade {address}"
        )
    if version > CURRENT:
        raise StorageError(
            f"storage {address} was written by a newer fidelium (schema {version}, this one knows {CURRENT}); "
            "update fidelium: pip install --upgrade fidelium"
        )


def make_tables(connection: Connection) -> int:
    """Make the tables of the current version if there are none; the catalogue must be locked.

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
    """Let nobody else make tables or studies until the transaction ends; a writer of SQLite is alone anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
