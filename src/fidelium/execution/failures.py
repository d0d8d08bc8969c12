"""What a finished run means: a value, a failed trial with its reason, or a fault of the set-up.

A fault of the set-up is not a property of the design: a program that is not there, a full disk. It stops the run, and
the trial is queued again. Evidence that only a program's own output gives (exit code 127 with "not found") counts for
the first attempts of a trial, so that no program can stop a study for ever.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path

from fidelium.errors import EvaluationError, SetupError, UnreadableResultError
from fidelium.execution.base import Measurement, failed_at
from fidelium.execution.invocation import STDERR, ExitStatus, Invocation
from fidelium.execution.output_log import last_lines
from fidelium.execution.reasons import storable
from fidelium.execution.result_rules import ResultFile, ResultRule, reported_failure
from fidelium.execution.run_folder import RunRequest, disk_error

_ATTEMPTS = 3
"""Attempts of a trial in which a failure of its program may be put down to the set-up."""

_PROBE_BYTES = 1 << 16
"""A disk that does not take this much is full."""

_FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))

_NOT_FOUND = re.compile(r"(?i)not found|no such file|permission denied|cannot execute|exec format|is a directory")


def read_result(rule: ResultRule, status: ExitStatus, invocation: Invocation) -> Measurement:
    """The value of a run, with the outcomes that the rule finds.

    Raises:
        EvaluationError: if the run failed, or its value is missing or bad.
    """
    folder = invocation.folder
    if status.stopped == "cancelled":
        raise EvaluationError(f"cancelled after {status.seconds:.3g} s")
    if status.stopped == "timeout":
        raise EvaluationError(
            f"{_step(status, invocation)}timed out after {invocation.timeout:g} s{stderr_tail(folder)}"
        )
    reported = reported_failure(rule, folder)
    if status.code != 0:
        what = f"{_step(status, invocation)}{_exit_text(status)}"
        raise _failed(f"{what}{f': {reported}' if reported else stderr_tail(folder)}", rule, folder)
    if reported is not None:
        raise _failed(reported, rule, folder)
    try:
        return rule.read(folder)
    except EvaluationError as error:
        raise type(error)(f"{error}{stderr_tail(folder)}") from error


def classified(
    error: Exception, request: RunRequest, folder: Path, status: ExitStatus | None, *, prepared: bool = True
) -> EvaluationError | SetupError:
    """The error that a failed run ends with, its text storable.

    Args:
        error: what went wrong.
        request: what was to be evaluated.
        folder: the trial's folder.
        status: how the program ended, None if it was not started or its output could not be written.
        prepared: whether all input was written, so that the program could start.
    """
    if isinstance(error, OSError):
        fault = disk_error(error, folder)
        filled_by_the_program = prepared and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return EvaluationError(str(fault)) if filled_by_the_program and request.attempt > _ATTEMPTS else fault
    if isinstance(error, UnicodeError):
        return EvaluationError(storable(f"a value cannot be written as text: {error}"))
    reason = storable(str(error))
    if not isinstance(error, EvaluationError):
        return SetupError(reason)
    stopped = status is not None and status.stopped == "cancelled"
    if not stopped and request.attempt <= _ATTEMPTS and (fault := _fault(reason, folder, status)):
        return fault
    failure = type(error)(reason)
    failure.cost = error.cost
    if isinstance(failure, UnreadableResultError):
        failure.folder = str(folder)
    return failure


def _failed(reason: str, rule: ResultRule, folder: Path) -> EvaluationError:
    """The failure of a run, with the cost that its result file reports."""
    return failed_at(reason, rule.content(folder) if isinstance(rule, ResultFile) else None)


def stderr_tail(folder: Path) -> str:
    """The last lines of stderr, empty if there are none."""
    lines = last_lines(folder / STDERR)
    return f"; stderr ends with: {lines}" if lines else ""


def _fault(reason: str, folder: Path, status: ExitStatus | None) -> SetupError | None:
    """The fault of the set-up that explains a failure, if there is one."""
    if (full := full_disk(folder.parent)) is not None:
        return SetupError(f"{full}; the program ended with: {reason}")
    output = last_lines(folder / STDERR)
    if any(text in output for text in _FULL):
        return SetupError(f"a disk is full: free some space and run again; the program ended with: {reason}")
    if status is not None and status.code in (126, 127) and _NOT_FOUND.search(output):  # as shells say it
        return SetupError(f"a program cannot be started; install it, or correct the command: {reason}")
    return None


def full_disk(folder: Path) -> str | None:
    """What to say if the disk of a folder is full or cannot be written any more, None if it has room."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:  # has no name, so nothing is left behind
            file.write(bytes(_PROBE_BYTES))
            file.flush()
    except OSError as error:
        return str(disk_error(error, folder)) if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else None
    return None


def _exit_text(status: ExitStatus) -> str:
    if status.code is None:
        return "its guard process was killed"
    return f"exit code {status.code}" if status.code >= 0 else f"killed by {status.signal}"


def _step(status: ExitStatus, invocation: Invocation) -> str:
    """Which of several programs ended the run, empty if there is only one."""
    count = len(invocation.steps)
    return "" if count == 1 else f"step {status.step + 1} of {count} ({invocation.steps[status.step].argv[0]}): "
