"""Processes that belong to a study under fire: found by a mark in their environment, killed by their own handle."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "CHAOS_STUDY"
"""The variable that all processes of a study inherit; its value is the study's folder."""


@dataclass(frozen=True)
class Process:
    """A living process of a study.

    Args:
        pid: its number.
        role: "guard", "simulator", or the role that the harness gave to what it has started.
        crew: which process of the harness it descends from.
        number: the trial that it runs, None if it runs none.
        attempt: the attempt of that trial.
    """

    pid: int
    role: str
    crew: str
    number: int | None = None
    attempt: int | None = None


def marked(mark: str) -> list[Process]:
    """All living processes of a study."""
    return [found for pid in _pids() if (found := _look(pid, mark)) is not None]


def kill(process: Process, mark: str) -> bool:
    """Send SIGKILL, if the process is still the one that was found; returns whether it was."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if _look(process.pid, mark) != process:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _look(pid: int, mark: str) -> Process | None:
    """What a process is, None if it has ended or is not marked."""
    folder = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        variables = _variables((folder / "environ").read_bytes())
        if variables.get(MARK) != mark or _has_ended(folder):
            return None
        command = (folder / "cmdline").read_bytes()
        role = "guard" if b"guard.py\0" in command else "simulator" if b"simulator.py\0" in command else ""
        number, attempt = variables.get("FIDELIUM_NUMBER"), variables.get("FIDELIUM_ATTEMPT")
        crew = variables.get("CHAOS_CREW", "")
        return Process(
            pid,
            role or crew.rpartition("-")[0],
            crew,
            int(number) if number and role else None,
            int(attempt) if attempt and role else None,
        )
    return None


def _has_ended(folder: Path) -> bool:
    state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
    return state in (b"Z", b"X")


def _variables(environment: bytes) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in environment.decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs}
