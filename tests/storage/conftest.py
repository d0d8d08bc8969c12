"""Places for studies: memory, SQLite files, and schemas of a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fidelium.storage.base import Storage
from fidelium.storage.memory import MemoryStorage


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/study.db"
    return request.getfixturevalue("new_database")()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path, clock: Hand) -> Iterator[Callable[[], Storage]]:
    """Opens a place of each kind, again each time; what was opened is closed in the end."""
    if request.param == "memory":
        memory = MemoryStorage(clock)
        yield lambda: memory
        return
    from fidelium.storage.sql.storage import SqlStorage

    sqlite = request.param == "sqlite"
    place = f"sqlite:///{tmp_path}/study.db" if sqlite else request.getfixturevalue("new_database")()
    opened: list[SqlStorage] = []

    def open_place() -> SqlStorage:
        opened.append(SqlStorage(place, clock))
        return opened[-1]

    yield open_place
    for storage in opened:
        storage.close()
