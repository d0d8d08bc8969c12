"""Transactions on one database: each succeeds or changes nothing, and is retried where that is safe.

A storage has one connection, used by one thread at a time. It is closed before the process forks, so that parent and
child open their own and never share a connection.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Double, Engine, QueuePool, cast, create_engine, event, extract, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from fidelium.errors import StorageError, UnsureError
from fidelium.storage.memory import Clock
from fidelium.storage.sql.errors import explained, is_conflict, is_loss, is_restart
from fidelium.storage.sql.sqlite import connect_sqlite, is_read_only
from fidelium.storage.sql.url import Address

Result = TypeVar("Result")
Work = Callable[[Connection], Result]
"""What is done inside a transaction; it may be repeated from its beginning."""

PAUSES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds before each retry: a server may restart meanwhile."""

_SERVER_OPTIONS = {"connect_timeout": 10, "application_name": "fidelium"}
"""Defaults that the URL may override."""

_ONE_CONNECTION: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
_SERVER_NOW = select(cast(extract("epoch", func.clock_timestamp()), Double))
_WRITES = "fidelium_writes"


class Database:
    """One database, safe to use from any thread, before and after a fork.

    Args:
        address: where it is.
        clock: seconds since 1970; None for the server's clock, or this machine's for SQLite.
        pause: waits before a retry.
        foreign_keys: whether SQLite enforces them; not in a migration, which replaces whole tables.

    Raises:
        StorageError: if the driver for this kind of database is not installed.
    """

    def __init__(
        self,
        address: Address,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
        foreign_keys: bool = True,
    ) -> None:
        self.address = address
        self._clock = time.time if clock is None and address.file is not None else clock
        self._pause = pause
        self._lock = threading.Lock()  # held during every transaction, and while the process forks
        self._engine = _engine(address, foreign_keys)
        self._was_reached = False
        self._closed = False
        weakref.finalize(self, _disconnect, self._engine)
        _ALL.add(self)

    def read(self, work: Work[Result]) -> Result:
        """What `work` finds.

        Raises:
            StorageError: if the database cannot be read.
        """
        return self._run(work, writes=False)

    def write(self, work: Work[Result]) -> Result:
        """What `work` returns, once everything it wrote is durable; nothing is written if it raises.

        Raises:
            StorageError: if the database cannot be written.
            UnsureError: if the connection was lost at the end, when it cannot be known whether everything or nothing
                was written.
        """
        return self._run(work, writes=True)

    def now(self, connection: Connection) -> float:
        """The time by the storage's clock."""
        if self._clock is not None:
            return self._clock()
        return float(connection.execute(_SERVER_NOW).scalar_one())

    def close(self) -> None:
        """Close the connection; the database cannot be used afterwards."""
        with self._lock:
            self._closed = True
            self._engine.dispose()

    def before_fork(self) -> None:
        """Wait for the transaction that runs, keep others from starting, and close the connection."""
        self._lock.acquire()
        self._engine.dispose()

    def after_fork(self) -> None:
        """Continue, in the parent and in the child."""
        self._lock.release()

    def _run(self, work: Work[Result], *, writes: bool) -> Result:
        pauses = iter(PAUSES)
        while True:
            with self._lock:  # not while pausing: other threads can go on, or close the database
                if self._closed:
                    raise StorageError(f"storage {self.address} was closed; open it again")
                try:
                    return self._once(work, writes)
                except SQLAlchemyError as error:
                    pause = next(pauses, None)
                    if pause is None or not self._may_try_again(error):
                        raise explained(error, self.address) from None
                except UnicodeDecodeError:  # SQLite quotes what it found where a name should be
                    raise StorageError(f"storage {self.address}: the file is damaged; restore a backup") from None
            self._pause(pause)

    def _once(self, work: Work[Result], writes: bool) -> Result:
        if self.address.file is not None and is_read_only(self.address.file):
            self._engine.dispose()  # what was opened before may have been opened as a file that nobody writes
        with self._engine.connect() as connection:  # leaving without a commit rolls back
            self._was_reached = True
            transaction = connection.execution_options(**{_WRITES: writes}).begin()
            result = work(connection)
            try:
                transaction.commit()
            except DBAPIError as error:
                if writes and is_loss(error):
                    raise self._unsure() from None
                raise
            return result

    def _may_try_again(self, error: SQLAlchemyError) -> bool:
        """If others were in the way, or a server is away that was there before or restarts: else the URL is wrong."""
        return is_conflict(error) or (is_loss(error) and self._was_reached) or is_restart(error)

    def _unsure(self) -> UnsureError:
        return UnsureError(
            f"storage {self.address}: the connection was lost while writing, so the last change may be stored or not; "
            "look at the study, and continue from its state"
        )


def _disconnect(engine: Engine) -> None:
    """Close the connections of an engine that nobody uses any more; `dispose` would also make new ones possible."""
    engine.pool.dispose()


def _engine(address: Address, foreign_keys: bool = True) -> Engine:
    file = address.file
    options = {name: value for name, value in _SERVER_OPTIONS.items() if name not in address.url.query}
    try:
        if file is not None:
            connect = partial(connect_sqlite, file, foreign_keys=foreign_keys)
            engine = create_engine(address.url, creator=connect, isolation_level="SERIALIZABLE", **_ONE_CONNECTION)
        else:
            engine = create_engine(
                address.url, connect_args=options, isolation_level="READ COMMITTED", **_ONE_CONNECTION
            )
    except ImportError:
        raise StorageError(
            f"storage {address} needs psycopg; install it with: pip install 'fidelium[postgres]'"
        ) from None
    except SQLAlchemyError as error:
        raise explained(error, address) from None
    if file is not None:
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the lock immediately: one that reads first could not write after another has written."""
    writes = connection.get_execution_options().get(_WRITES, True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_ALL: weakref.WeakSet[Database] = weakref.WeakSet()
_FORKING: list[Database] = []


def _before_fork() -> None:
    _FORKING[:] = list(_ALL)
    for database in _FORKING:
        database.before_fork()


def _after_fork() -> None:
    for database in _FORKING:
        database.after_fork()
    _FORKING.clear()


if os.name == "posix":
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
