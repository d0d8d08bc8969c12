"""The programs of one evaluation as they are started, and how they ended."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STDOUT, STDERR = "stdout.txt", "stderr.txt"
"""Files in the trial's folder that keep the program's output."""

MARKER = "FIDELIUM_FOLDER"
"""The variable with the trial's folder: it marks every process of an evaluation, as no folder is used twice."""


@dataclass(frozen=True)
class Step:
    """One of the programs of an evaluation.

    Args:
        argv: the program and its arguments.
        stdin: the file in the trial's folder that is its standard input, None for an empty one.
    """

    argv: Sequence[str]
    stdin: str | None = None


@dataclass(frozen=True)
class Invocation:
    """The programs to run, one after another until one fails.

    Args:
        steps: the programs.
        folder: the working directory, where the output is kept as well.
        environment: all environment variables.
        timeout: maximal run time of all programs together in seconds, None for no limit.
        grace: seconds between SIGTERM and SIGKILL.
        limit: bytes kept of the beginning and of the end of each output.
    """

    steps: Sequence[Step]
    folder: Path
    environment: Mapping[str, str]
    timeout: float | None = None
    grace: float = 5.0
    limit: int = 1_000_000


@dataclass(frozen=True)
class ExitStatus:
    """How the last program that was run ended.

    Args:
        code: the exit code, minus the signal's number if a signal ended it, None if unknown.
        seconds: the run time of all programs.
        stopped: "timeout" or "cancelled" if fidelium stopped it.
        step: the position of the program, from 0.
    """

    code: int | None
    seconds: float
    stopped: str | None = None
    step: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether it exited with 0 by itself."""
        return self.code == 0 and self.stopped is None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the program, None if it was not a signal."""
        if self.code is None or self.code >= 0:
            return None
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.code).name
        return f"signal {-self.code}"
