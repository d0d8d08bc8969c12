"""Runs external programs one after another: guarded, with a timeout and with their output kept in bounded files.

The program runs below a small guard process (`guard.py`). When the guard's standard input closes, the guard ends the
program and all processes it has started. fidelium closes it on a timeout or when cancelled, and the kernel closes it if
fidelium is killed. If the program kills its guard, fidelium ends what it has started.
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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import IO, Any

from fidelium.errors import EvaluationError, SetupError
from fidelium.execution.invocation import MARKER, STDERR, STDOUT, ExitStatus, Invocation
from fidelium.execution.output_log import BoundedLog
from fidelium.execution.run_folder import open_regular

_GUARD = Path(__file__).with_name("guard.py")

_GUARD_TIMEOUT = 10.0
"""Seconds beyond the grace time that the guard may take to end all processes."""

_POLL_INTERVAL = 0.1
"""Seconds between checks of the `cancelled` event."""

_LONGEST_PAUSE = 1.0
"""Most seconds between checks that the guard is not suspended."""

_DRAIN_TIMEOUT = 1.0
"""Seconds to wait for the rest of the output after the guard has exited: an escaped process may hold the pipe open."""


def run_guarded(invocation: Invocation, cancelled: Event | None = None) -> ExitStatus:
    """Run the programs until one fails; no process they have started survives, whatever happens.

    Raises:
        SetupError: if a program cannot be started.
        EvaluationError: if that is because of what an earlier program or the design did.
        OSError: if the output cannot be written.
    """
    deadline = time.monotonic() + (invocation.timeout or math.inf)
    status = ExitStatus(0, 0.0)
    with (
        BoundedLog(invocation.folder / STDOUT, invocation.limit) as out,
        BoundedLog(invocation.folder / STDERR, invocation.limit) as err,
    ):
        for position in range(len(invocation.steps)):
            before = status.seconds
            status = _run_step(invocation, position, deadline, cancelled, out, err)
            status = replace(status, seconds=before + status.seconds)
            if not status.succeeded:
                break
    return status


def _run_step(
    invocation: Invocation, position: int, deadline: float, cancelled: Event | None, out: BoundedLog, err: BoundedLog
) -> ExitStatus:
    began = time.monotonic()
    with _guard(invocation, position) as (guard, report):
        monitor = _Monitor(guard, report, invocation.grace, deadline, cancelled)
        monitor.run(out, err)
    return _exit_status(monitor, invocation, position, time.monotonic() - began)


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
                self._resume_guard()
                if self.stopped is None:
                    self._stop_if_due()
                elif time.monotonic() >= self.deadline:  # the guard hangs, too
                    break
            self._drain(selector)

    def _pause(self) -> float:
        """Seconds until the next check of the deadline, of `cancelled` and of the guard."""
        left = max(self.deadline - time.monotonic(), 0.0)
        return min(left, _POLL_INTERVAL if self.cancelled is not None and self.stopped is None else _LONGEST_PAUSE)

    def _resume_guard(self) -> None:
        """Let the guard continue if the program has suspended it: it would never report."""
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitid(os.P_PID, self.guard.pid, os.WSTOPPED | os.WNOHANG) is not None:
                os.kill(self.guard.pid, signal.SIGCONT)

    def _read(self, selector: selectors.BaseSelector, pause: float) -> None:
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
def _guard(invocation: Invocation, position: int) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The guard of a step and the pipe it reports to; the guard is ended on exit."""
    with _standard_input(invocation, position) as stdin:
        read_end, write_end = os.pipe()
        with open(read_end, "rb", buffering=0) as report:
            try:
                guard = _spawn_guard(invocation, position, write_end, stdin)
            finally:
                os.close(write_end)
            with guard:
                try:
                    yield guard, report
                finally:
                    _end_guard(guard, invocation)


@contextlib.contextmanager
def _standard_input(invocation: Invocation, position: int) -> Iterator[int | None]:
    """The descriptor of a step's standard input, None for an empty one.

    Raises:
        EvaluationError: if the file is not there.
    """
    name = invocation.steps[position].stdin
    if name is None:
        yield None
        return
    try:
        file = open_regular(invocation.folder / name)
    except OSError as error:
        raise EvaluationError(
            f"cannot read {name}, the standard input of step {position + 1}: {error.strerror}"
        ) from None
    with file:
        yield file.fileno()


def _spawn_guard(invocation: Invocation, position: int, report: int, stdin: int | None) -> subprocess.Popen[bytes]:
    argv = invocation.steps[position].argv
    settings = [os.getpid(), report, invocation.grace, -1 if stdin is None else stdin]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), *map(str, settings), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=invocation.folder,
            env=dict(invocation.environment),
            pass_fds=[report] if stdin is None else [report, stdin],
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        if error.errno in _PROGRAMS_FAULT and position > 0:
            raise EvaluationError(f"the trial's folder is gone before step {position + 1}: {error.strerror}") from None
        raise _start_error(invocation, position, error.errno or 0) from None


def _end_guard(guard: subprocess.Popen[bytes], invocation: Invocation) -> None:
    """Let the guard end all processes and exit; end them here if it does not."""
    assert guard.stdin is not None
    guard.stdin.close()
    try:
        guard.wait(invocation.grace + _GUARD_TIMEOUT)
    except subprocess.TimeoutExpired:  # it hangs in the kernel, or is suspended
        guard.kill()
        guard.wait()
    if guard.returncode != 0:
        kill_marked(invocation.environment.get(MARKER, ""))


def kill_marked(folder: str) -> None:
    """Kill all processes of an evaluation, which its folder in their environment marks, also daemons (on Linux)."""
    mark = f"{MARKER}={folder}".encode(errors="surrogateescape")
    until = time.monotonic() + _GUARD_TIMEOUT
    while folder and (pids := _marked(mark)) and time.monotonic() < until:  # a process may just fork another one
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> list[int]:
    """The living processes of this user with this text in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if mark in entry.read_bytes().split(b"\0") and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
    return found


def _exit_status(monitor: _Monitor, invocation: Invocation, position: int, seconds: float) -> ExitStatus:
    """The exit status from the guard's report.

    Raises:
        SetupError: if the program could not be started.
        EvaluationError: if that is because of what an earlier program or the design did.
    """
    events = {line.split()[0]: line.split()[1:] for line in monitor.reported.decode().splitlines()}
    if "error" in events:
        raise _start_error(invocation, position, int(events["error"][0]))
    if "exited" in events:
        return ExitStatus(int(events["exited"][0]), float(events["exited"][1]), monitor.stopped, position)
    if "started" in events:  # the guard itself was killed
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(events["started"][0]), signal.SIGKILL)
    return ExitStatus(None, seconds, monitor.stopped, position)


_PROGRAMS_FAULT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC)
"""Errors that an earlier step can cause, if what is to be started is in the trial's folder."""

_DESIGNS_FAULT = (errno.E2BIG, errno.ENAMETOOLONG)
"""Errors that come from the length of a value."""


def _start_error(invocation: Invocation, position: int, code: int) -> EvaluationError | SetupError:
    """Why a program cannot be started, and what to do."""
    program = invocation.steps[position].argv[0]
    reasons = {
        errno.ENOENT: "not found; install it, give its full path, or check the first line of the script",
        errno.EACCES: "permission denied; make it executable (chmod +x)",
        errno.ENOEXEC: "not an executable format; a script needs a first line such as #!/bin/sh",
        errno.E2BIG: "its arguments are too many or too long; let it read query.json instead",
        **{
            resource: f"{os.strerror(resource)}; use fewer workers or raise the machine's limits"
            for resource in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
        },
    }
    message = f"cannot start {program!r}: {reasons.get(code, os.strerror(code))}"
    made_by_a_step = position > 0 and "/" in program and not os.path.isabs(program) and code in _PROGRAMS_FAULT
    return EvaluationError(message) if code in _DESIGNS_FAULT or made_by_a_step else SetupError(message)
