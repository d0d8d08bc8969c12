"""Runs one external program: guarded, with a timeout and with its output kept in bounded files.

The program runs below a small guard process (`guard.py`). When the guard's standard input closes, the guard ends the
program and all processes it has started. fidelium closes it on a timeout or when cancelled, and the kernel closes it if
fidelium is killed.
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

STDOUT, STDERR = "stdout.txt", "stderr.txt"
"""Files in the trial's folder that keep the program's output."""

_GUARD = Path(__file__).with_name("guard.py")

_GUARD_TIMEOUT = 10.0
"""Seconds beyond the grace time that the guard may take to end all processes."""

_POLL_INTERVAL = 0.1
"""Seconds between checks of the `cancelled` event."""

_DRAIN_TIMEOUT = 1.0
"""Seconds to wait for the rest of the output after the guard has exited: an escaped process may hold the pipe open."""


@dataclass(frozen=True)
class Invocation:
    """A program to run.

    Args:
        argv: the program and its arguments.
        folder: the working directory, where the output is kept as well.
        environment: all environment variables.
        timeout: maximal run time in seconds, None for no limit.
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
class ExitStatus:
    """How a program ended.

    Args:
        code: the exit code, minus the signal's number if a signal ended it, None if unknown.
        seconds: the run time.
        stopped: "timeout" or "cancelled" if fidelium stopped it.
    """

    code: int | None
    seconds: float
    stopped: str | None = None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the program, None if it was not a signal."""
        if self.code is None or self.code >= 0:
            return None
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.code).name
        return f"signal {-self.code}"


def run_guarded(invocation: Invocation, cancelled: Event | None = None) -> ExitStatus:
    """Run a program to its end; no process it has started survives, whatever happens.

    Raises:
        EvaluationError: if it cannot be started.
        OSError: if its output cannot be written.
    """
    began = time.monotonic()
    with (
        BoundedLog(invocation.folder / STDOUT, invocation.limit) as out,
        BoundedLog(invocation.folder / STDERR, invocation.limit) as err,
        _guard(invocation) as (guard, report),
    ):
        deadline = began + (invocation.timeout or math.inf)
        monitor = _Monitor(guard, report, invocation.grace, deadline, cancelled)
        monitor.run(out, err)
    return _exit_status(monitor, invocation, time.monotonic() - began)


@dataclass
class _Monitor:
    """Watches a running program: its output, the guard's report, the deadline and the `cancelled` event.

    Args:
        guard: the guard process; closing its standard input ends the program.
        report: the pipe that the guard reports to.
        grace: seconds between SIGTERM and SIGKILL.
        deadline: when to stop the program, by the monotonic clock; infinity for never.
        cancelled: stops the program once set.
        stopped: why the program was stopped, "timeout" or "cancelled".
        reported: what the guard has reported so far.
    """

    guard: subprocess.Popen[bytes]
    report: IO[bytes]
    grace: float
    deadline: float
    cancelled: Event | None
    stopped: str | None = None
    reported: bytes = b""

    def run(self, out: BoundedLog, err: BoundedLog) -> None:
        """Read until the program has exited and its output has ended."""
        with selectors.DefaultSelector() as selector:
            for source, log in ((self.guard.stdout, out), (self.guard.stderr, err), (self.report, None)):
                assert source is not None
                selector.register(source, selectors.EVENT_READ, log)
            while self.report in _sources(selector):
                self._read(selector, self._pause())
                if self.stopped is None:
                    self._stop_if_due()
                elif time.monotonic() >= self.deadline:  # the guard hangs, too
                    break
            self._drain(selector)

    def _pause(self) -> float | None:
        """Seconds until the next check of the deadline or of `cancelled`, None for no limit."""
        left = max(self.deadline - time.monotonic(), 0.0)
        if self.cancelled is not None and self.stopped is None:
            return min(left, _POLL_INTERVAL)
        return None if math.isinf(left) else left

    def _read(self, selector: selectors.BaseSelector, pause: float | None) -> None:
        for key, _ in selector.select(pause):
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fileobj)
            elif key.data is None:
                self.reported += data
            else:
                key.data.write(data)

    def _stop_if_due(self) -> None:
        """Tell the guard to end the program if it timed out or was cancelled."""
        if self.cancelled is not None and self.cancelled.is_set():
            self.stopped = "cancelled"
        elif time.monotonic() >= self.deadline:
            self.stopped = "timeout"
        else:
            return
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        self.deadline = time.monotonic() + self.grace + _GUARD_TIMEOUT

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """After the guard has exited, read what is left in the pipes, even if a process holds them open."""
        deadline = time.monotonic() + _DRAIN_TIMEOUT
        while selector.get_map() and time.monotonic() < deadline:
            self._read(selector, max(deadline - time.monotonic(), 0.0))


def _sources(selector: selectors.BaseSelector) -> list[Any]:
    return [key.fileobj for key in selector.get_map().values()]


@contextlib.contextmanager
def _guard(invocation: Invocation) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The guard and the pipe it reports to; the guard is ended on exit."""
    read_end, write_end = os.pipe()
    with open(read_end, "rb", buffering=0) as report:
        try:
            guard = _spawn_guard(invocation, write_end)
        finally:
            os.close(write_end)
        with guard:
            try:
                yield guard, report
            finally:
                _end_guard(guard, invocation.grace)


def _spawn_guard(invocation: Invocation, report: int) -> subprocess.Popen[bytes]:
    settings = [str(os.getpid()), str(report), str(invocation.grace)]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), *settings, *invocation.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=invocation.folder,
            env=dict(invocation.environment),
            pass_fds=[report],
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise EvaluationError(_start_failure(invocation.argv[0], error.errno or 0)) from None


def _end_guard(guard: subprocess.Popen[bytes], grace: float) -> None:
    """Let the guard end all processes and exit."""
    assert guard.stdin is not None
    guard.stdin.close()
    try:
        guard.wait(grace + _GUARD_TIMEOUT)
    except subprocess.TimeoutExpired:  # it hangs in the kernel, or is suspended
        guard.kill()


def _exit_status(monitor: _Monitor, invocation: Invocation, seconds: float) -> ExitStatus:
    """The exit status from the guard's report.

    Raises:
        EvaluationError: if the program could not be started.
    """
    events = {line.split()[0]: line.split()[1:] for line in monitor.reported.decode().splitlines()}
    if "error" in events:
        raise EvaluationError(_start_failure(invocation.argv[0], int(events["error"][0])))
    if "exited" in events:
        return ExitStatus(int(events["exited"][0]), float(events["exited"][1]), monitor.stopped)
    if "started" in events:  # the guard itself was killed
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(events["started"][0]), signal.SIGKILL)
    return ExitStatus(None, seconds, monitor.stopped)


def _start_failure(program: str, code: int) -> str:
    """Why a program cannot be started, and what to do."""
    reasons = {
        errno.ENOENT: "not found; install it, give its full path, or check the first line of the script",
        errno.EACCES: "permission denied; make it executable (chmod +x)",
        errno.ENOEXEC: "not an executable format; a script needs a first line such as #!/bin/sh",
        errno.E2BIG: "its arguments are too many or too long; let it read query.json instead",
    }
    return f"cannot start {program!r}: {reasons.get(code, os.strerror(code))}"
