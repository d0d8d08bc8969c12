"""External programs for the tests: each test writes its own as a small script."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from fidelium.execution.base import Measurement
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.fidelity import Fidelity
from fidelium.history import Trial


class Lab:
    """Runs scripts as trials in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def run(
        self,
        argv: tuple[str, ...],
        params: dict[str, Any] | None = None,
        cancelled: Event | None = None,
        fidelity: str = "fine",
        attempt: int = 1,
        **settings: Any,
    ) -> Measurement:
        """Evaluate trial 7 with a command."""
        program = ExternalProgram({fidelity: Command(argv, **settings)}, self.runs, self.folder)
        return program.run(Trial(7, params or {}, Fidelity(fidelity, cost=10), attempt=attempt), cancelled)

    def python(self, text: str, *arguments: str, **settings: Any) -> Measurement:
        """Evaluate trial 7 with a Python script."""
        script = self.folder / "program.py"
        script.write_text(text)
        return self.run(("{python}", "-S", str(script), *arguments), **settings)

    def shell(self, line: str, **settings: Any) -> Measurement:
        """Evaluate trial 7 with a shell command."""
        return self.run((line,), shell=True, **settings)

    @property
    def trial(self) -> Path:
        """The folder of the only attempt."""
        (folder,) = self.runs.iterdir()
        return folder


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Waits until `expected` processes have created a file named by their pid in `$PIDS`; returns those still alive."""
    folder = tmp_path / "pids"
    folder.mkdir()
    monkeypatch.setenv("PIDS", str(folder))

    def find(expected: int) -> list[int]:
        until = time.monotonic() + 10
        while len(list(folder.iterdir())) < expected and time.monotonic() < until:
            time.sleep(0.02)
        pids = [int(path.name) for path in folder.iterdir()]
        assert len(pids) == expected
        return [pid for pid in pids if _is_alive(pid)]

    return find


def _is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
