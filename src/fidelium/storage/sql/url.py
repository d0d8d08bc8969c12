"""URLs of databases: parsing, and showing them without their passwords."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from fidelium.errors import StorageError

EXAMPLES = "'sqlite:///file.db' or 'postgresql+psycopg://user:password@host/database'"

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
_SQLITE = ("sqlite", "sqlite+pysqlite")


@dataclass(frozen=True)
class Address:
    """Where a database is.

    Args:
        url: what SQLAlchemy connects to.
        file: the file of an SQLite database, None for a server.
    """

    url: URL
    file: Path | None

    def __str__(self) -> str:
        """The URL without its password."""
        hidden = {key: "***" for key in self.url.query if "pass" in key.lower()}
        return self.url.update_query_dict(hidden).render_as_string(hide_password=True)

    @property
    def is_missing(self) -> bool:
        """Whether there is no such file; for a server only a connection can tell."""
        return self.file is not None and not os.path.exists(self.file)  # also for a name that is too long


def parse_address(text: str) -> Address:
    """The address in a URL.

    Raises:
        StorageError: if it is not a URL of SQLite or PostgreSQL.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # a port that is not a number is a ValueError
        raise _unknown(text) from None
    if url.drivername in _SQLITE:
        return _sqlite(url)
    if url.drivername in _POSTGRES:
        return Address(url.set(drivername="postgresql+psycopg"), None)
    raise _unknown(text)


def _sqlite(url: URL) -> Address:
    name = url.database or ":memory:"
    if url.host:
        raise StorageError("an SQLite URL has three slashes, four for an absolute path, as in 'sqlite:///file.db'")
    if name == ":memory:" or name.startswith("file:"):
        raise StorageError("an SQLite storage is a file, 'sqlite:///file.db'; for a study in memory use storage=None")
    if url.query:
        raise StorageError(f"an SQLite URL takes no options, got {', '.join(map(repr, url.query))}; remove them")
    file = Path(name).absolute()  # the program may change its working directory later
    return Address(url.set(drivername="sqlite", database=str(file)), file)


def _unknown(text: str) -> StorageError:
    start = text.split(":")[0][:40]  # no more than this, for a password may follow
    return StorageError(f"a storage's URL looks like {EXAMPLES}, got one that starts with {start!r}")
