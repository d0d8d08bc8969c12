"""Errors of the database translated: one sentence that says what happened and what to do."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from fidelium.errors import StorageError, StorageUnavailableError
from fidelium.storage.sql.url import Address

_CONFLICTS = ("SQLITE_BUSY", "SQLITE_LOCKED", "40001", "40P01", "55P03")
"""Nothing was done because of others: busy, locked, serialisation failure, deadlock, lock not available."""

_RESTARTS = ("57P01", "57P02", "57P03")
"""The server is shut down, crashed, or starting."""

_LOSSES = ("08", *_RESTARTS)
"""The connection is gone: connection exceptions, and the same."""

_PASSING = ("SQLITE_FULL", "SQLITE_IOERR", "53")
"""What may work later beside these: a full disk, a disk that fails, a server without memory or free connections."""

_ADVICE = {
    "SQLITE_BUSY": "another program has held it for too long; end that program, or copy the file and use the copy",
    "SQLITE_LOCKED": "another program has held it for too long; end that program, or copy the file and use the copy",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its folder exists and is writable",
    "SQLITE_READONLY": "the file is not writable; change its permissions and those of its folder",
    "SQLITE_PERM": "the file is not accessible; change its permissions and those of its folder",
    "SQLITE_NOTADB": "the file is not an SQLite database; use another file",
    "SQLITE_CORRUPT": "the file is damaged; restore a backup, or recover what is left with 'sqlite3 FILE .recover'",
    "SQLITE_FULL": "the disk is full; free some space and run again, what was stored before is safe",
    "SQLITE_IOERR": "the disk cannot be read or written; check that it is not full and works, then run again",
    "28": "the server refuses the user or the password; fix them in the URL",
    "3D000": "the server has no such database; create it with 'createdb', or fix the name in the URL",
    "42501": "the user lacks permission; ask the server's owner for the right to create and write tables",
    "42P01": "a table is missing; run 'fidelium storage upgrade' with this URL",
    "25006": "the server is read-only; use the address of a writable one",
    "53100": "the server's disk is full; free some space there and run again, what was stored before is safe",
    "53300": "the server has too many connections; end some programs, or raise its max_connections",
}
"""By the start of SQLite's or PostgreSQL's error code."""

_DAMAGED = ("no such table", "no such column", "Could not decode to UTF-8")
"""What SQLite says of tables that are there only in part, with its most general code or none."""

_IN_WORDS = {"password": "28", "authentication": "28", 'role "': "28", "does not exist": "3D000", "too many": "53300"}
"""While connecting, PostgreSQL gives no code: the first phrase found in its message decides."""

_RESTARTING = (
    "refused",
    "Is the server running",
    "starting up",
    "shutting down",
    "not yet accepting",
    "recovery mode",
    "closed the connection unexpectedly",
    "reset by peer",
)
"""What a server, or its host, says to a new connection while it restarts."""

_UNREACHABLE = "the server cannot be reached; check that it runs, and fix host and port in the URL"


def code_of(error: SQLAlchemyError) -> str:
    """SQLite's or PostgreSQL's code of an error, "" if it has none."""
    origin = error.orig if isinstance(error, DBAPIError) else None
    return str(getattr(origin, "sqlite_errorname", None) or getattr(origin, "sqlstate", None) or "")


def is_conflict(error: SQLAlchemyError) -> bool:
    """Whether a conflict with others was the cause, so that the whole transaction can be retried."""
    return code_of(error).startswith(_CONFLICTS)


def is_restart(error: SQLAlchemyError) -> bool:
    """Whether a server refuses a connection as it does while it restarts; not if the URL is wrong in another way."""
    said = str(getattr(error, "orig", ""))
    return code_of(error).startswith(_RESTARTS) or (
        _is_refused_connection(error) and any(words in said for words in _RESTARTING)
    )


def is_loss(error: SQLAlchemyError) -> bool:
    """Whether the server cannot be reached, or not any more."""
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return lost or code_of(error).startswith(_LOSSES) or _is_refused_connection(error)


def explained(error: SQLAlchemyError, where: Address) -> StorageError:
    """The error with what to do about it, and without passwords."""
    advice = _advice(error)
    said = where.without_secrets(" ".join(str(getattr(error, "orig", None) or error).split()))[:300]
    passing = is_conflict(error) or is_loss(error) or code_of(error).startswith(_PASSING)
    kind = StorageUnavailableError if passing else StorageError
    return kind(f"storage {where}: {advice} ({said})" if advice else f"storage {where} failed: {said}")


def _advice(error: SQLAlchemyError) -> str | None:
    code = code_of(error)
    if code == "SQLITE_ERROR" and any(words in str(getattr(error, "orig", "")) for words in _DAMAGED):
        return "the tables are damaged; restore a backup"
    if _is_refused_connection(error):
        said = str(getattr(error, "orig", ""))
        code = next((found for words, found in _IN_WORDS.items() if words in said), "")
        return _ADVICE.get(code, _UNREACHABLE)
    if code.startswith(_LOSSES) or (isinstance(error, DBAPIError) and error.connection_invalidated):
        return _UNREACHABLE
    return next((advice for start, advice in _ADVICE.items() if code.startswith(start)), None)


def _is_refused_connection(error: SQLAlchemyError) -> bool:
    """Whether psycopg could not connect: an operational error without a code."""
    origin = error.orig if isinstance(error, DBAPIError) else None
    return type(origin).__name__ in ("OperationalError", "ConnectionTimeout") and not code_of(error)
