"""One program from its start to its end: guarded, timed, with its output kept in bounded files.

The program runs below a small guard process (`guard.py`). Whoever closes the guard's standard input ends the program
with everything it has started: we do so at a timeout or when cancelled, the kernel does so when we are killed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, Any

from fidelium.errors import EvaluationError
from fidelium.execution.output_log import BoundedLog

GUARD_PATIENCE = 10.0
"""Seconds beyond the grace time that the guard gets to end everything."""

_TICK = 0.1
"""Seconds between looks at the `cancelled` event."""

_DRAIN = 1.0
"""Seconds to wait for the end of the output after the guard has ended: an escaped process may hold the pipe open."""


@dataclass
class Follower:
    """Follows one program: its output, the guard's report, the clock, and whether it is cancelled.

    Args:
        guard: the guard process; closing its standard input ends the program.
        report: what the guard reports to.
        grace: seconds that the guard gives the program to end.
        until: when the program has to end, by the monotonic clock; infinity for never.
        cancelled: once set, the program has to end.
        stopped: why it had to end, "timeout" or "cancelled".
        said: what the guard has reported.
    """

    guard: subprocess.Popen[bytes]
    report: IO[bytes]
    grace: float
    until: float
    cancelled: Event | None
    stopped: str | None = None
    said: bytes = b""

    def follow(self, out: BoundedLog, err: BoundedLog) -> None:
        """Read until the program and its output have ended."""
        with selectors.DefaultSelector() as selector:
            for source, log in ((self.guard.stdout, out), (self.guard.stderr, err), (self.report, None)):
                assert source is not None
                selector.register(source, selectors.EVENT_READ, log)
            while self.report in _sources(selector):
                self._read(selector, self._pause())
                if self.stopped is None:
                    self._stop_if_due()
                elif time.monotonic() >= self.until:  # even the guard hangs
                    break
            self._drain(selector)

    def _pause(self) -> float | None:
        """Seconds until there is something to look at besides the pipes, None for never."""
        left = max(self.until - time.monotonic(), 0.0)
        if self.cancelled is not None and self.stopped is None:
            return min(left, _TICK)
        return None if math.isinf(left) else left

    def _read(self, selector: selectors.BaseSelector, pause: float | None) -> None:
        for key, _ in selector.select(pause):
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fileobj)
            elif key.data is None:
                self.said += data
            else:
                key.data.write(data)

    def _stop_if_due(self) -> None:
        """Let the guard end everything, if the time is over or somebody wants it."""
        if self.cancelled is not None and self.cancelled.is_set():
            self.stopped = "cancelled"
        elif time.monotonic() >= self.until:
            self.stopped = "timeout"
        else:
            return
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        self.until = time.monotonic() + self.grace + GUARD_PATIENCE

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """The guard has ended: read what is left in the pipes, but wait for nobody who holds them open."""
        until = time.monotonic() + _DRAIN
        while selector.get_map() and time.monotonic() < until:
            self._read(selector, max(until - time.monotonic(), 0.0))


def _sources(selector: selectors.BaseSelector) -> list[Any]:
    return [key.fileobj for key in selector.get_map().values()]


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
