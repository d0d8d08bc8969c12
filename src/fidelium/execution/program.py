"""External programs as objectives: one command per fidelity, one folder per evaluation.

A program is started without a shell, so a value is an argument or a part of one, and never code. A shell is opt-in, and
then values are passed in files and environment variables only.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any

from fidelium.errors import EvaluationError, FidelityError, SettingError
from fidelium.execution.base import Measurement
from fidelium.execution.output_log import last_lines
from fidelium.execution.process import STDERR, STDOUT, ExitStatus, Invocation, run_guarded
from fidelium.execution.result_rules import RESULT, ResultFile, ResultRule, reported_failure
from fidelium.execution.run_folder import QUERY, RunRequest, create_run_folder, write_outcome, write_query
from fidelium.execution.substitution import RESERVED_NAMES, check_variable_name, fill, render
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

_SHELL = ("/bin/sh", "-c")
_VARIABLES = tuple(name for name in RESERVED_NAMES if name != "params")  # params may be too long for a variable


@dataclass(frozen=True)
class Command:
    """How to run a program, and where to find its result.

    Args:
        argv: the program and its arguments, with `{name}` for values; with `shell`, a single line for the shell.
        shell: run `argv[0]` by /bin/sh.
        timeout: maximal run time in seconds, None for no limit.
        environment: variables added to the current environment, with `{name}` for values.
        templates: file in the trial's folder -> Jinja template that it is rendered from.
        result: how to read the value.
        grace: seconds between SIGTERM and SIGKILL when the program is stopped.
        limit: bytes kept of the beginning and of the end of each of stdout and stderr.

    Raises:
        SettingError: if there is no program, a number is out of range, or a file is outside the trial's folder.
    """

    argv: tuple[str, ...]
    shell: bool = False
    timeout: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, Path] = field(default_factory=dict)
    result: ResultRule = ResultFile()
    grace: float = 5.0
    limit: int = 1_000_000

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise SettingError(f"a command needs a program, got {list(self.argv)!r}")
        if self.shell and len(self.argv) != 1:
            raise SettingError(f"with a shell the command must be one line of text, got {list(self.argv)!r}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise SettingError(f"timeout must be a finite number of seconds above 0, got {self.timeout!r}")
        if self.limit < 0 or not 0 <= self.grace < math.inf:
            raise SettingError(
                f"limit and grace must be finite and not negative, got {self.limit!r} and {self.grace!r}"
            )
        if any("\0" in argument for argument in self.argv):
            raise SettingError(f"an argument cannot contain a NUL character, got {list(self.argv)!r}")
        for name in (*self.templates, self.result.file):
            check_inside_folder(name)
        for name in self.environment:
            check_variable_name(name)

    def prepare(self, request: RunRequest, folder: Path, here: Path) -> Invocation:
        """Render the input files and fill in the values.

        Args:
            request: the query.
            folder: the trial's folder.
            here: the folder of the study's file.

        Raises:
            SettingError: if a name is unknown, a value contains a NUL, or a template fails.
            OSError: if a file cannot be written.
        """
        values = self.values(request, folder, here)
        for name, template in self.templates.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(render(template, values), encoding="utf-8")
        argv = [*_SHELL, *self.argv] if self.shell else [fill(argument, values) for argument in self.argv]
        built_in = {f"FIDELIUM_{name.upper()}": fill(f"{{{name}}}", values) for name in _VARIABLES}
        configured = {name: fill(value, values) for name, value in self.environment.items()}
        return Invocation(argv, folder, {**os.environ, **built_in, **configured}, self.timeout, self.grace, self.limit)

    def values(self, request: RunRequest, folder: Path, here: Path) -> dict[str, Any]:
        """The values of all names that arguments, variables and templates can use."""
        result = RESULT if self.result.file == STDOUT else self.result.file
        return {
            **request.params,
            **request.as_json(),
            **{name: str(folder / file) for name, file in (("query", QUERY), ("result", result))},
            "folder": str(folder),
            "here": str(here),
            "python": sys.executable,
        }


@dataclass(frozen=True)
class ExternalProgram:
    """Evaluates trials by running commands. It is picklable, and safe to use from several threads and processes.

    Args:
        commands: name of the fidelity -> its command, low to high.
        runs: the parent folder of the trials' folders.
        here: the value of `{here}`: the folder of the study's file.
    """

    commands: Mapping[str, Command]
    runs: Path
    here: Path

    def run(self, trial: Trial, cancelled: Event | None = None) -> Measurement:
        """Evaluate a trial.

        Args:
            trial: its number and attempt name the folder.
            cancelled: once set, the program and all processes it has started are ended.

        Raises:
            EvaluationError: if it failed or was cancelled, with the reason.
            FidelityError: if the trial's fidelity has no command.
        """
        command, position = self._command(trial.fidelity)
        return run_command(command, RunRequest.of(trial, position), self.runs, self.here, cancelled)

    def _command(self, fidelity: Fidelity) -> tuple[Command, int]:
        names = list(self.commands)
        if fidelity.name not in names:
            known = ", ".join(map(repr, names))
            raise FidelityError(f"no command for fidelity {fidelity.name!r}; there are commands for {known}")
        return self.commands[fidelity.name], names.index(fidelity.name)


def run_command(
    command: Command, request: RunRequest, runs: Path, here: Path, cancelled: Event | None = None
) -> Measurement:
    """Create a folder, run the command in it, and read the value.

    Raises:
        EvaluationError: if it failed, with the reason.
    """
    folder = create_run_folder(runs.absolute(), request)
    status: ExitStatus | None = None
    try:
        write_query(folder, request)
        status = run_guarded(command.prepare(request, folder, here.absolute()), cancelled)
        measured = _read_result(command, status, folder)
    except (EvaluationError, SettingError, OSError, UnicodeError) as error:
        reason = _failure_reason(error)
        write_outcome(folder, _outcome(status, {"failed": reason}))
        raise EvaluationError(reason) from error
    write_outcome(folder, _outcome(status, {"value": measured.value, "cost": measured.cost}))
    return measured


def check_inside_folder(name: str) -> None:
    """Check that a path stays inside the trial's folder.

    Raises:
        SettingError: if it does not.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SettingError(f"expected a file inside the trial's folder, got {name!r}")


def _read_result(command: Command, status: ExitStatus, folder: Path) -> Measurement:
    if status.stopped == "cancelled":
        raise EvaluationError(f"cancelled after {status.seconds:.3g} s")
    if status.stopped == "timeout":
        raise EvaluationError(f"timed out after {command.timeout:g} s{_stderr_tail(folder)}")
    reported = reported_failure(command.result, folder)
    if status.code != 0:
        raise EvaluationError(f"{_exit_text(status)}{f': {reported}' if reported else _stderr_tail(folder)}")
    if reported is not None:
        raise EvaluationError(reported)
    try:
        return command.result.read(folder)
    except EvaluationError as error:
        raise EvaluationError(f"{error}{_stderr_tail(folder)}") from error


def _exit_text(status: ExitStatus) -> str:
    if status.code is None:
        return "its guard process was killed"
    return f"exit code {status.code}" if status.code >= 0 else f"killed by {status.signal}"


def _stderr_tail(folder: Path) -> str:
    """The last lines of stderr, empty if there are none."""
    lines = last_lines(folder / STDERR)
    return f"; stderr ends with: {lines}" if lines else ""


def _failure_reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot write to the trial's folder: {error.strerror or error}"
    if isinstance(error, UnicodeError):
        return f"a value cannot be written as text: {error}"
    return str(error)


def _outcome(status: ExitStatus | None, result: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `outcome.json`."""
    if status is None:  # it was not started, or its output could not be written
        return dict(result)
    return {
        "exit_code": status.code if status.signal is None else None,
        "signal": status.signal,
        "seconds": round(status.seconds, 3),
        "stopped": status.stopped,
        **result,
    }
