"""Studies in a database, by name."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection

from fidelium.errors import StorageError, StudyExistsError
from fidelium.storage.base import StudyRecord
from fidelium.storage.memory import Clock
from fidelium.storage.sql import statements as sql
from fidelium.storage.sql.address import Address, parse_address
from fidelium.storage.sql.database import Database
from fidelium.storage.sql.schema import check_version, lock_catalogue, make_tables, version_in
from fidelium.storage.sql.study import SqlStudy
from fidelium.storage.text import checked_name, record_of, record_text, unknown_study


class SqlStorage:
    """Studies by name, in an SQLite file or on a PostgreSQL server.

    An SQLite file and the tables are made by the first `create`: looking for a study makes nothing.

    Args:
        url: `sqlite:///file.db` or `postgresql+psycopg://user:password@host/database`.
        clock: seconds since 1970; None for the server's clock, or this machine's for SQLite.
        pause: waits between two tries.

    Raises:
        StorageError: if the database cannot be opened, or its schema is another version's.
    """

    def __init__(self, url: str, clock: Clock | None = None, pause: Callable[[float], None] = time.sleep) -> None:
        self._address = parse_address(url)
        _check_folder(self._address)
        self._database = Database(self._address, clock, pause)
        self._has_tables = False
        self._look_for_tables()

    def create(self, record: StudyRecord) -> SqlStudy:
        columns = {"name": checked_name(record.name), "record": record_text(record)}
        columns |= {"version": 0, "trial_count": 0, "turn_until": 0.0}

        def work(connection: Connection) -> int:
            lock_catalogue(connection)
            if not self._has_tables:
                check_version(make_tables(connection), self._address)
            if connection.execute(sql.FIND_STUDY, {"called": record.name}).first() is not None:
                raise StudyExistsError(f"there is a study {record.name!r} already; open it, or take another name")
            connection.execute(sql.CREATE_STUDY, columns)
            return connection.execute(sql.FIND_STUDY, {"called": record.name}).one().id

        study_id = self._database.write(work)
        self._has_tables = True
        return SqlStudy(self._database, study_id, record)

    def open(self, name: str) -> SqlStudy:
        row = self._found(name)
        return SqlStudy(self._database, row[0], record_of(name, row[1]))

    def names(self) -> tuple[str, ...]:
        if not self._look_for_tables():
            return ()
        return self._database.read(lambda connection: tuple(connection.execute(sql.NAMES).scalars()))

    def delete(self, name: str) -> None:
        study_id, _ = self._found(name)

        def work(connection: Connection) -> bool:
            return connection.execute(sql.DELETE_STUDY, {"of_study": study_id}).rowcount > 0

        if not self._database.write(work):
            raise unknown_study(name, self.names())

    def close(self) -> None:
        self._database.close()

    def _found(self, name: str) -> tuple[int, str]:
        """Key and record of the study of this name."""
        if _is_name(name) and self._look_for_tables():
            row = self._database.read(lambda connection: connection.execute(sql.FIND_STUDY, {"called": name}).first())
            if row is not None:
                return row.id, row.record
        raise unknown_study(name, self.names())

    def _look_for_tables(self) -> bool:
        """Whether there are tables, of the current version; somebody else may have made them since."""
        if not self._has_tables and not self._address.is_missing:
            version = self._database.read(version_in)
            if version:
                check_version(version, self._address)
                self._has_tables = True
        return self._has_tables


def _is_name(name: str) -> bool:
    try:
        return bool(checked_name(name))
    except StorageError:
        return False


def _check_folder(address: Address) -> None:
    if address.file is None:
        return
    if not address.file.parent.is_dir():
        raise StorageError(f"storage {address}: there is no folder {str(address.file.parent)!r}; make it first")
    if address.file.is_dir():
        raise StorageError(f"storage {address}: this is a folder; give the name of a file")
