"""URLs and databases that do not work: one clear sentence, no password in it, and nothing of SQLAlchemy outside."""

from __future__ import annotations

import socket
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy.exc import DBAPIError

from fidelium.errors import StorageError, StorageUnavailableError
from fidelium.storage import open_storage
from fidelium.storage.sql import database as databases
from fidelium.storage.sql import sqlite
from fidelium.storage.sql.errors import is_restart
from fidelium.storage.sql.storage import SqlStorage
from fidelium.storage.sql.url import parse_address
from fidelium.testing.storage_cases import make_definition, make_trial

EXAMPLES = r"looks like 'sqlite:///file.db' or 'postgresql\+psycopg://user:password@host/database'"


def complaint(url) -> str:
    """The one sentence about a URL that does not work."""
    with pytest.raises(StorageError) as caught:
        open_storage(url).create(make_definition("s"))
    assert caught.value.__cause__ is None
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    return str(caught.value)


def test_no_url_is_a_memory_of_its_own_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, another = open_storage(None), open_storage(None)
    one.create(make_definition("s"))
    assert (one.names(), another.names()) == (("s",), ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    ["", "plate.db", "mysql://root:secret@host/db", "postgresql+psycopg2://u:secret@h/d", "postgresql//u:secret@h/d"],
)
def test_other_urls_are_refused_with_examples(url):
    with pytest.raises(StorageError, match=EXAMPLES):
        open_storage(url)
    complaint(url)


def test_a_url_is_a_text():
    assert "got PosixPath" in complaint(Path("plate.db")) or "got WindowsPath" in complaint(Path("plate.db"))


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"]
)
def test_sqlite_in_memory_is_refused_with_a_hint(url):
    assert "for a study in memory use storage=None" in complaint(url)


def test_misspelt_sqlite_urls_are_refused():
    assert "three slashes, four for an absolute path" in complaint("sqlite://plate.db")
    assert "no options, got 'timeout'" in complaint("sqlite:///plate.db?timeout=3")


def test_relative_paths_outlive_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = open_storage("sqlite:///study.db")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    storage.create(make_definition("s"))
    storage.close()
    assert (tmp_path / "study.db").exists()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_spelling_of_postgresql(scheme, new_database):
    storage = open_storage(scheme + new_database().removeprefix("postgresql"))
    storage.create(make_definition("s"))
    assert storage.names() == ("s",)
    storage.close()


def test_passwords_are_hidden():
    url = "postgresql://me:secret@host/db?password=secret&sslpassword=secret"
    assert "secret" not in str(parse_address(url))
    assert parse_address(url).url.password == "secret"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:p@secret@host/db",
        "postgresql://me:p@x/secret@host/db",
        "postgresql://me:p?a@secret@host/db",
        "postgresql://me:p@secret?x=1@host/db",
        "postgresql://me:p@secret:5432@host/db",
        "postgresql://me:pw@host/db?password=a@secret",
    ],
)
def test_a_second_at_sign_is_refused_with_advice_and_nothing_of_the_password(url):
    message = complaint(url)
    assert "write '@' as %40" in message or "looks like" in message
    assert "host/db" not in message


@pytest.mark.parametrize("password", ["se:cret", "se/cret", "se%40cret", "se?cret", "se#cret"])
def test_other_signs_in_a_password_are_understood_and_hidden(password):
    address = parse_address(f"postgresql://me:{password}@host/db")
    assert (address.url.host, address.url.database) == ("host", "db")
    assert address.url.password == password.replace("%40", "@")
    assert "cret" not in str(address)


def test_a_user_may_hold_an_at_sign():
    address = parse_address("postgresql://me@corp:secret@host/db")
    assert (address.url.username, address.url.password, address.url.host) == ("me@corp", "secret", "host")


def test_what_the_driver_says_is_quoted_without_passwords():
    address = parse_address("postgresql://me:s%40cret@host/db?sslpassword=topsecret")
    said = "cannot use s@cret or s%40cret with topsecret"
    assert address.without_secrets(said) == "cannot use *** or *** with ***"


@pytest.mark.parametrize("url", ["me:secret@host/db", "p@secret@host/db", b"postgresql://me:secret@host/db"])
def test_what_is_not_a_url_is_not_repeated(url):
    said = complaint(url)
    assert "sqlite:///" in said  # what to write instead
    assert "me:" not in said


def test_a_folder_that_does_not_exist(tmp_path):
    assert "there is no folder" in complaint(f"sqlite:///{tmp_path}/missing/study.db")


def test_a_folder_is_no_file(tmp_path):
    assert "this is a folder; pass the name of a file" in complaint(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("no database at all, but long enough to have a header of its own\n" * 20)
    before = file.read_bytes()
    assert "the file is not an SQLite database" in complaint(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_database_that_may_not_be_written(tmp_path):
    storage = SqlStorage(f"sqlite:///{tmp_path}/study.db")
    store = storage.create(make_definition("s"))
    storage._database.read(lambda connection: connection.exec_driver_sql("PRAGMA query_only=ON"))
    with pytest.raises(StorageError, match="the file is not writable; change its permissions") as caught:
        store.add(make_trial(0))
    assert not isinstance(caught.value, StorageUnavailableError)  # waiting does not help
    assert store.trials() == ()
    storage.close()


def test_a_missing_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    message = complaint("postgresql://me:secret@localhost/db")
    assert "needs psycopg; install it with: pip install 'fidelium[postgres]'" in message


def test_a_server_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "PAUSES", (0.01,))
    assert "the server cannot be reached" in complaint("postgresql://me:secret@127.0.0.1:1/db")
    assert "the server cannot be reached" in complaint(f"postgresql://me:secret@/db?host={quote(str(tmp_path))}")


def test_a_database_user_or_password_that_is_wrong(postgres):
    host = postgres.partition("?")[2]
    assert "the server has no such database" in complaint(f"postgresql://postgres@/missing?{host}")
    assert "refuses the user or the password" in complaint(f"postgresql://nobody:secret@/postgres?{host}")
    demand_password(postgres, "locked", "right")
    assert "refuses the user or the password" in complaint(f"postgresql://locked:secret@/postgres?{host}")
    assert "the user lacks permission" in complaint(f"postgresql://locked:right@/postgres?{host}")


def demand_password(postgres: str, user: str, password: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'".encode())
        ((rules,),) = connection.execute("SHOW hba_file").fetchall()
        Path(rules).write_text(f"local all {user} scram-sha-256\n" + Path(rules).read_text())
        connection.execute("SELECT pg_reload_conf()")


def test_a_locked_database_is_waited_for_and_then_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "TIMEOUT", 0.01)
    pauses: list[float] = []
    storage = SqlStorage(f"sqlite:///{tmp_path}/study.db", pause=pauses.append)
    store = storage.create(make_definition("s"))
    with closing(sqlite3.connect(tmp_path / "study.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailableError, match="another program has held it for too long"):
            store.add(make_trial(0))
        assert tuple(pauses) == databases.PAUSES
        assert store.trials() == ()  # reading goes on meanwhile
        storage._database._pause = lambda seconds: other.execute("ROLLBACK") and None
        assert store.add(make_trial(0)) is not None
    storage.close()


@pytest.fixture
def server_storage(new_database):
    """A storage on the server, the pauses it made, and a way to end its connection."""
    import psycopg

    url = new_database()
    pauses: list[float] = []
    storage = SqlStorage(url, pause=pauses.append)

    def end_connection() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            statement = (
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = 'fidelium' AND pid <> pg_backend_pid()"
            )
            other.execute(statement)

    yield storage, pauses, end_connection
    storage.close()


def test_a_lost_connection_is_made_again(server_storage):
    storage, pauses, end_connection = server_storage
    store = storage.create(make_definition("s"))
    end_connection()
    assert store.add(make_trial(0)) is not None
    assert pauses == [databases.PAUSES[0]]
    end_connection()
    assert [trial.number for trial in store.trials()] == [0]


def test_a_connection_lost_in_the_last_moment_is_not_tried_again(server_storage):
    storage, pauses, end_connection = server_storage
    store = storage.create(make_definition("s"))
    with pytest.raises(StorageError, match="the last change may be stored or not; look at the study"):
        storage._database.write(lambda connection: store._lock(connection) and end_connection())
    assert pauses == []
    assert store.trials() == ()


def test_a_server_that_stays_away_is_given_up(server_storage):
    storage, pauses, _ = server_storage
    store = storage.create(make_definition("s"))
    storage._database._engine.dispose()
    storage._database._engine = databases._engine(parse_address("postgresql://me:secret@127.0.0.1:1/db"))
    with pytest.raises(StorageUnavailableError, match="the server cannot be reached"):
        store.trials()
    assert tuple(pauses) == databases.PAUSES


class Relay:
    """A port of this machine that refuses, says that it is starting up, or passes on to the real server."""

    STARTING = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"

    def __init__(self, socket_file: Path) -> None:
        self._socket_file = socket_file
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def open(self, starting: int = 0) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, args=(listener, starting), daemon=True).start()

    def _serve(self, listener: socket.socket, starting: int) -> None:
        while True:
            client = listener.accept()[0]
            if starting > 0:
                starting -= 1
                client.recv(10_000)
                client.sendall(b"E" + (len(self.STARTING) + 4).to_bytes(4, "big") + self.STARTING)
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._socket_file))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


@pytest.fixture
def relay(new_database):
    """A relay to the server, and the URL of an empty place through it."""
    url = parse_address(new_database()).url
    folder = url.query["host"]
    made = Relay(Path(str(folder)) / ".s.PGSQL.5432")
    options = quote(str(url.query["options"]))
    return made, f"postgresql://postgres@127.0.0.1:{made.port}/postgres?sslmode=disable&options={options}"


@pytest.mark.parametrize("starting", [0, 2])
def test_a_process_started_while_the_server_restarts_waits_for_it(relay, starting):
    server, url = relay
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            server.open(starting)

    storage = SqlStorage(url, pause=pause)
    assert storage.create(make_definition("s")).add(make_trial(0)) is not None
    assert tuple(pauses) == databases.PAUSES[: 2 + starting]
    storage.close()


def test_a_server_that_stops_during_the_first_words_with_it_is_waited_for():
    import psycopg.errors

    said = psycopg.errors.AdminShutdown("terminating connection due to administrator command")
    assert is_restart(DBAPIError("select pg_catalog.version()", {}, said))
    assert not is_restart(DBAPIError("select 1", {}, psycopg.errors.UndefinedTable("no such table")))
    killed = (
        "connection failed: server closed the connection unexpectedly; this probably means it terminated abnormally"
    )
    assert is_restart(DBAPIError("", {}, psycopg.OperationalError(killed)))


def test_a_wrong_database_user_or_host_is_not_tried_again(postgres):
    host = postgres.partition("?")[2]
    pauses: list[float] = []
    for url in (f"postgresql://postgres@/missing?{host}", "postgresql://me:secret@no-such-host.invalid/db"):
        with pytest.raises(StorageError):
            SqlStorage(url, pause=pauses.append)
    assert pauses == []


def test_a_closed_storage_is_refused(url):
    storage = open_storage(url)
    store = storage.create(make_definition("s"))
    storage.close()
    with pytest.raises(StorageError, match="was closed; open it again"):
        store.trials()
