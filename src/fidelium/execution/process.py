"""One program from its start to its end: guarded, timed, with its output kept in bounded files.

The program runs below a small guard process (`guard.py`). Whoever closes the guard's standard input ends the program
with everything it has started: we do so at a timeout or when cancelled, the kernel does so when we are killed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from fidelium.errors import EvaluationError
from fidelium.execution.bounded import BoundedLog
from fidelium.execution.following import GUARD_PATIENCE, Follower

STDOUT, STDERR = "stdout.txt", "stderr.txt"
"""The files, in a trial's folder, that keep what a program prints."""

_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True)
class Start:
    """What to start.

    Args:
        argv: the program and its arguments.
        folder: where it runs, and where its output is kept.
        environment: all its environment variables.
        timeout: seconds it may take, None for any time.
        grace: seconds between SIGTERM and SIGKILL.
        limit: bytes kept of the beginning and of the end of each output.
    """

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    timeout: float | None = None
    grace: float = 5.0
    limit: int = 1_000_000


@dataclass(frozen=True)
class Ending:
    """How a program ended.

    Args:
        code: its exit code, minus the signal's number if a signal ended it, None if nobody knows.
        seconds: how long it ran.
        stopped: "timeout" or "cancelled" if it was made to end.
    """

    code: int | None
    seconds: float
    stopped: str | None = None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        if self.code is None or self.code >= 0:
            return None
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.code).name
        return f"signal {-self.code}"


def run_guarded(start: Start, cancelled: Event | None = None) -> Ending:
    """Run a program to its end; nothing of it lives on, whatever happens.

    Raises:
        EvaluationError: if it cannot be started.
        OSError: if its output cannot be written.
    """
    began = time.monotonic()
    with (
        BoundedLog(start.folder / STDOUT, start.limit) as out,
        BoundedLog(start.folder / STDERR, start.limit) as err,
        _guard(start) as (guard, report),
    ):
        follower = Follower(guard, report, start.grace, began + (start.timeout or math.inf), cancelled)
        follower.follow(out, err)
    return _ending(follower, start, time.monotonic() - began)


@contextlib.contextmanager
def _guard(start: Start) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The guard, with the pipe it reports to; at the end, whatever the reason, it is gone."""
    read_end, write_end = os.pipe()
    with open(read_end, "rb", buffering=0) as report:
        try:
            guard = _spawn(start, write_end)
        finally:
            os.close(write_end)
        with guard:
            try:
                yield guard, report
            finally:
                _close(guard, start.grace)


def _spawn(start: Start, report: int) -> subprocess.Popen[bytes]:
    settings = [str(os.getpid()), str(report), str(start.grace)]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), *settings, *start.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=start.folder,
            env=dict(start.environment),
            pass_fds=[report],
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise EvaluationError(_unable(start.argv[0], error.errno or 0)) from None


def _close(guard: subprocess.Popen[bytes], grace: float) -> None:
    """Let the guard end everything and go."""
    assert guard.stdin is not None
    guard.stdin.close()
    try:
        guard.wait(grace + GUARD_PATIENCE)
    except subprocess.TimeoutExpired:  # it hangs in the kernel, or was stopped
        guard.kill()


def _ending(follower: Follower, start: Start, seconds: float) -> Ending:
    """What the guard said, as a record.

    Raises:
        EvaluationError: if the program could not be started.
    """
    said = {line.split()[0]: line.split()[1:] for line in follower.said.decode().splitlines()}
    if "unable" in said:
        raise EvaluationError(_unable(start.argv[0], int(said["unable"][0])))
    if "ended" in said:
        return Ending(int(said["ended"][0]), float(said["ended"][1]), follower.stopped)
    if "started" in said:  # the guard itself was killed
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(said["started"][0]), signal.SIGKILL)
    return Ending(None, seconds, follower.stopped)


def _unable(program: str, number: int) -> str:
    """Why a program cannot be started, and what to do."""
    advice = {
        errno.ENOENT: "not found; install it, give its whole path, or check the first line of the script",
        errno.EACCES: "not allowed to run; make it executable (chmod +x)",
        errno.ENOEXEC: "is no program; a script needs a first line such as #!/bin/sh",
        errno.E2BIG: "got too many or too long arguments; let it read query.json instead",
    }
    return f"program {program!r} {advice.get(number, f'cannot be started: {os.strerror(number)}')}"
