"""Connections to an SQLite file: durable where it can be written, and where it cannot, for looking only."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from fidelium.errors import StorageError

TIMEOUT = 20.0
"""Seconds that SQLite waits for others before it calls the database locked."""

_DURABLE = ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON")


def connect_sqlite(file: Path, *, foreign_keys: bool) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time.

    Args:
        file: the database; it is created if it does not exist.
        foreign_keys: whether SQLite enforces them.
    """
    if is_read_only(file):
        return _connect_to_look(file)
    connection = sqlite3.connect(file, timeout=TIMEOUT, check_same_thread=False)
    return _prepared(connection, (*_DURABLE, f"foreign_keys={int(foreign_keys)}"))


def is_read_only(file: Path) -> bool:
    """Whether a file exists and cannot be written, or its journal beside it cannot: permissions, a read-only disk."""
    if not os.path.exists(file):  # also for a name that is too long
        return False
    beside = [file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm")]
    journal = os.access(file.parent, os.W_OK) or all(os.access(each, os.W_OK) for each in beside)
    return not (journal and os.access(file, os.W_OK))


def _connect_to_look(file: Path) -> sqlite3.Connection:
    """Together with others that may write to it from elsewhere; or else as a file that nobody writes.

    Raises:
        StorageError: if a process was killed and left changes in the journal, and its index is not there.
    """
    journal = file.with_name(f"{file.name}-wal")
    has_journal = journal.exists() and journal.stat().st_size > 0
    if not has_journal:
        return _open(file, "mode=ro&immutable=1")
    try:
        return _open(file, "mode=ro")
    except sqlite3.OperationalError:
        raise StorageError(
            f"the newest changes of {str(file)!r} are in {journal.name!r} beside it, which cannot be read back where "
            "nothing can be written; copy both files to another folder and look there"
        ) from None


def _open(file: Path, options: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(file))}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=TIMEOUT, check_same_thread=False)
    return _prepared(connection, ("schema_version",))  # reads, so that an error comes here


def _prepared(connection: sqlite3.Connection, pragmas: tuple[str, ...]) -> sqlite3.Connection:
    connection.isolation_level = None  # Python's driver leaves BEGIN to us
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
