"""The processes that the harness starts for a study, and starts again when they were killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.processes import MARK
from tests.chaos.simulator import CREW, LEDGER

FIDELIUM = str(Path(sys.executable).with_name("fidelium"))

CHOOSERS = ("runner", "worker")
"""Roles that end by themselves once the study has ended."""


@dataclass
class Member:
    """A process of the crew.

    Args:
        role: "runner", "worker", "dask-worker" or "dask-scheduler".
        name: the role and a number that is never used again.
        arguments: the command.
        process: the process itself.
        errors: the file of its stderr.
        killed: whether the harness has killed it.
    """

    role: str
    name: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes]
    errors: Path
    killed: bool = False

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def complaint(self) -> str:
        """What it wrote to stderr."""
        return self.errors.read_text(errors="replace")


@dataclass
class Crew:
    """All processes of one study.

    Args:
        folder: where the study is; also the mark of its processes.
        cache: where compiled programs are kept.
        members: those that are to be alive.
        gone: those that have ended, and were noted.
    """

    folder: Path
    cache: Path
    members: list[Member] = field(default_factory=list)
    gone: list[Member] = field(default_factory=list)
    is_closed: bool = False

    def start(self, role: str, arguments: Sequence[str]) -> Member:
        """Start a process; it and its descendants carry the study's mark.

        Raises:
            InterruptedError: if the study was given up.
        """
        if self.is_closed:
            raise InterruptedError(f"no more {role} for {self.folder}")
        name = f"{role}-{len(self.members) + len(self.gone)}"
        errors = self.folder / f"{name}.err"
        variables = {
            MARK: str(self.folder),
            CREW: name,
            LEDGER: str(self.folder / "ledger"),
            "FIDELIUM_CACHE_DIR": str(self.cache),
            "PYTHONFAULTHANDLER": "1",
            "PJRT_NPROC": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=self.folder,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        member = Member(role, name, arguments, process, errors)
        self.members.append(member)
        return member

    def remove(self, member: Member) -> None:
        """Note that a process has ended."""
        self.members.remove(member)
        self.gone.append(member)

    def named(self, name: str) -> Member | None:
        """The member of this name, None if it is gone."""
        return next((member for member in self.members if member.name == name), None)

    def alive(self, *roles: str) -> list[Member]:
        """Living members with these roles."""
        return [member for member in self.members if member.role in roles and member.is_alive]
