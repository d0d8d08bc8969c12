"""URLs of databases: parsing, and showing them without their passwords."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from fidelium.errors import StorageError

EXAMPLES = "'sqlite:///file.db' or 'postgresql+psycopg://user:password@host/database'"

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
_SHORTEST_SECRET = 4
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
        hidden = dict.fromkeys(self._secret_options(), "***")
        return self.url.update_query_dict(hidden).render_as_string(hide_password=True)

    def without_secrets(self, text: str) -> str:
        """A text, such as an error of the driver, without the passwords of this URL."""
        secrets = [str(self.url.password or ""), *(str(self.url.query[key]) for key in self._secret_options())]
        for secret in secrets:
            if len(secret) >= _SHORTEST_SECRET:  # a shorter one is a part of many words
                text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return text

    def _secret_options(self) -> list[str]:
        return [key for key in self.url.query if "pass" in key.lower()]

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
        _check_at_signs(text, url)
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


def _check_at_signs(text: str, url: URL) -> None:
    """Refuse a second @: what stands between the two would be taken for the host, and be shown."""
    of_user = (url.username or "").count("@")
    if text.count("@") > of_user + 1:
        raise StorageError(
            "the URL of a PostgreSQL server has one '@', before the host, got more; in a password or an option write "
            "'@' as %40, ':' as %3A and '/' as %2F"
        )


def _unknown(text: str) -> StorageError:
    start = re.split("[:@/?]", text)[0][:40]  # no more than this, for a password may follow
    return StorageError(f"a storage's URL looks like {EXAMPLES}, got one that starts with {start!r}")
