"""External programs as objectives: one command per fidelity, a folder for every evaluation.

A program is started without a shell, each of its arguments as it is: a value is an argument, or a part of one, and
never code. A shell must be asked for; values then reach it through files and environment variables only.
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
from fidelium.execution.base import Measured
from fidelium.execution.output_log import last_lines
from fidelium.execution.process import STDERR, STDOUT, Ending, Start, run_guarded
from fidelium.execution.result_rules import RESULT, ResultFile, ResultRule, reported_failure
from fidelium.execution.run_folder import QUERY, Asked, new_folder, note_outcome, write_query
from fidelium.execution.substitution import GIVEN_NAMES, check_variable, fill, render
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

_SHELL = ("/bin/sh", "-c")
_VARIABLES = tuple(name for name in GIVEN_NAMES if name != "params")  # those may be too long for a variable


@dataclass(frozen=True)
class Command:
    """How a program is run, and where its result is found.

    Args:
        argv: the program and its arguments, with `{name}` for values; with `shell` the one line for the shell.
        shell: whether `argv` is a line for /bin/sh.
        timeout: seconds it may take, None for any time.
        environment: variables set in addition to fidelium's own, with `{name}` for values.
        templates: file in the trial's folder -> Jinja template it is made from.
        result: where the value is found.
        grace: seconds between SIGTERM and SIGKILL when it has to end.
        limit: bytes kept of the beginning and of the end of each of stdout and stderr.

    Raises:
        SettingError: if there is no program, a number is out of its range, or a file lies outside the trial's folder.
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
            raise SettingError("a command needs a program, got none")
        if self.shell and len(self.argv) != 1:
            raise SettingError(f"with a shell a command is one line of text, got {list(self.argv)!r}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise SettingError(f"a timeout must be a number of seconds above 0, got {self.timeout!r}")
        if self.limit < 0 or not 0 <= self.grace < math.inf:
            raise SettingError(f"limit and grace must not be negative, got {self.limit!r} and {self.grace!r}")
        if any("\0" in argument for argument in self.argv):
            raise SettingError(f"no argument can hold a NUL character, got {list(self.argv)!r}")
        for name in (*self.templates, self.result.file):
            check_inside(name)
        for name in self.environment:
            check_variable(name)

    def prepared(self, asked: Asked, folder: Path, here: Path) -> Start:
        """Render the input files and fill in the values: what is left is to start the program.

        Args:
            asked: the query.
            folder: the trial's folder.
            here: the folder of the study's file.

        Raises:
            SettingError: if a name is unknown, a value holds a NUL, or a template fails.
            OSError: if a file cannot be written.
        """
        values = self.values(asked, folder, here)
        for name, template in self.templates.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(render(template, values), encoding="utf-8")
        argv = [*_SHELL, *self.argv] if self.shell else [fill(argument, values) for argument in self.argv]
        given = {f"FIDELIUM_{name.upper()}": fill(f"{{{name}}}", values) for name in _VARIABLES}
        own = {name: fill(value, values) for name, value in self.environment.items()}
        return Start(argv, folder, {**os.environ, **given, **own}, self.timeout, self.grace, self.limit)

    def values(self, asked: Asked, folder: Path, here: Path) -> dict[str, Any]:
        """The value of every name that arguments, variables and templates may use."""
        result = RESULT if self.result.file == STDOUT else self.result.file
        return {
            **asked.params,
            **asked.as_json(),
            **{name: str(folder / file) for name, file in (("query", QUERY), ("result", result))},
            "folder": str(folder),
            "here": str(here),
            "python": sys.executable,
        }


def check_inside(name: str) -> None:
    """Refuse a file's name that leads out of the trial's folder.

    Raises:
        SettingError: if it does.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SettingError(f"expected a file inside the trial's folder, got {name!r}")


@dataclass(frozen=True)
class ExternalProgram:
    """Evaluates trials by running commands. It can be pickled, and used by any number of threads and processes.

    Args:
        commands: fidelity's name -> its command, low to high.
        runs: the folder that gets a folder for every attempt of a trial.
        here: what `{here}` stands for: the folder of the study's file.
    """

    commands: Mapping[str, Command]
    runs: Path
    here: Path

    def run(self, trial: Trial, cancelled: Event | None = None) -> Measured:
        """Evaluate a trial.

        Args:
            trial: its number and attempt name the folder.
            cancelled: once set, the program and all it has started is ended.

        Raises:
            EvaluationError: if there is no value, with the reason; also if it was cancelled.
            FidelityError: if there is no command for the trial's fidelity.
        """
        command, position = self._command(trial.fidelity)
        return evaluate(command, Asked.of(trial, position), self.runs, self.here, cancelled)

    def _command(self, fidelity: Fidelity) -> tuple[Command, int]:
        names = list(self.commands)
        if fidelity.name not in names:
            raise FidelityError(f"no command for fidelity {fidelity.name!r}; there are {', '.join(map(repr, names))}")
        return self.commands[fidelity.name], names.index(fidelity.name)


def evaluate(command: Command, asked: Asked, runs: Path, here: Path, cancelled: Event | None = None) -> Measured:
    """Make a folder, run the command in it, and read the value.

    Raises:
        EvaluationError: if there is no value, with the reason.
    """
    folder = new_folder(runs.absolute(), asked)
    ending: Ending | None = None
    try:
        write_query(folder, asked)
        ending = run_guarded(command.prepared(asked, folder, here.absolute()), cancelled)
        measured = _measured(command, ending, folder)
    except (EvaluationError, SettingError, OSError, UnicodeError) as error:
        reason = _reason(error)
        note_outcome(folder, _outcome(ending, {"failed": reason}))
        raise EvaluationError(reason) from error
    note_outcome(folder, _outcome(ending, {"value": measured.value, "cost": measured.cost}))
    return measured


def _measured(command: Command, ending: Ending, folder: Path) -> Measured:
    if ending.stopped == "cancelled":
        raise EvaluationError(f"cancelled after {ending.seconds:.3g} s")
    if ending.stopped == "timeout":
        raise EvaluationError(f"timed out after {command.timeout:g} s{_says(folder)}")
    told = reported_failure(command.result, folder)
    if ending.code != 0:
        raise EvaluationError(f"{_how(ending)}{f': {told}' if told else _says(folder)}")
    if told is not None:
        raise EvaluationError(told)
    try:
        return command.result.read(folder)
    except EvaluationError as error:
        raise EvaluationError(f"{error}{_says(folder)}") from error


def _how(ending: Ending) -> str:
    if ending.code is None:
        return "the process that guards it was killed"
    return f"exit code {ending.code}" if ending.code >= 0 else f"killed by {ending.signal}"


def _says(folder: Path) -> str:
    """The last lines of stderr, if there are any."""
    lines = last_lines(folder / STDERR)
    return f"; stderr ends with: {lines}" if lines else ""


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot write to the trial's folder: {error.strerror or error}"
    if isinstance(error, UnicodeError):
        return f"a value cannot be written as text: {error}"
    return str(error)


def _outcome(ending: Ending | None, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `outcome.json`."""
    if ending is None:  # it was never started, or its output could not be kept
        return dict(answer)
    return {
        "exit_code": ending.code if ending.signal is None else None,
        "signal": ending.signal,
        "seconds": round(ending.seconds, 3),
        "stopped": ending.stopped,
        **answer,
    }
