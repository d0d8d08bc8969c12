"""Where studies are kept: in memory, in an SQLite file, or on a PostgreSQL server; `base` has the contract.

SQLAlchemy is imported for a database only, and Alembic for an upgrade only.
"""

from __future__ import annotations

from fidelium.errors import StorageError
from fidelium.storage.base import Action, Annotation, Result, Storage, StudyStore
from fidelium.storage.memory import MemoryStorage

__all__ = ["Action", "Annotation", "Result", "Storage", "StudyStore", "open_storage", "schema_version", "upgrade"]


def open_storage(url: str | None) -> Storage:
    """The storage at a URL.

    A database that does not exist yet is created with the first study in it, not by opening it.

    Args:
        url: `sqlite:///file.db`, `postgresql+psycopg://user@host/database`, or None for a new one in memory.

    Raises:
        StorageError: if the URL is not one of these, the database cannot be opened, or its schema version differs.
    """
    if url is None:
        return MemoryStorage()
    _check_is_text(url)
    from fidelium.storage.sql.storage import SqlStorage

    return SqlStorage(url)


def upgrade(url: str) -> tuple[int, int]:
    """Upgrade the tables of a database to this version of fidelium.

    Returns:
        The schema version before (0 if there were no tables) and after.

    Raises:
        StorageError: if there is no such database, or a newer fidelium has written it.
    """
    _check_is_text(url)
    from fidelium.storage.sql.schema import upgrade_tables

    return upgrade_tables(url)


def schema_version(url: str) -> int:
    """The version of the schema of a database, 0 if it has no tables of fidelium.

    Raises:
        StorageError: if there is no such database, or it cannot be read.
    """
    _check_is_text(url)
    from fidelium.storage.sql.schema import read_schema_version

    return read_schema_version(url)


def _check_is_text(url: object) -> None:
    if not isinstance(url, str):
        raise StorageError(f"a storage is a URL like 'sqlite:///file.db', or None for memory, got {type(url).__name__}")
