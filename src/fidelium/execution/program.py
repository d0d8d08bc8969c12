"""External programs as objectives: the commands of each fidelity, one folder per evaluation.

A program is started without a shell, so a value is an argument or a part of one, and never code. A shell is opt-in, and
then values are passed in files and environment variables only. What goes wrong is either the evaluation's
(`EvaluationError`: a failed trial) or the set-up's (`SetupError`: nothing more can be run).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any

from fidelium.errors import EvaluationError, FidelityError, SettingError, SetupError
from fidelium.execution.base import Measurement
from fidelium.execution.failures import classified, read_result
from fidelium.execution.process import MARKER, STDOUT, ExitStatus, Invocation, Step, run_guarded
from fidelium.execution.result_rules import RESULT, ResultFile, ResultRule
from fidelium.execution.run_folder import QUERY, RunRequest, create_run_folder, write_outcome, write_query
from fidelium.execution.substitution import RESERVED_NAMES, check_variable_name, fill
from fidelium.execution.templates import render
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

_SHELL = ("/bin/sh", "-c")
_VARIABLES = tuple(name for name in RESERVED_NAMES if name != "params")  # params may be too long for a variable


@dataclass(frozen=True)
class Command:
    """How to run a program, or several one after another, and where to find the result.

    Args:
        argv: the program and its arguments, with `{name}` for values; with `shell`, a single line for the shell.
        shell: run `argv[0]` by /bin/sh.
        stdin: the file in the trial's folder that is its standard input, None for an empty one.
        then: programs that are run after it, in the same folder, until one fails.
        timeout: maximal run time of all programs together in seconds, None for no limit.
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
    stdin: str | None = None
    then: tuple[Step, ...] = ()
    timeout: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, Path] = field(default_factory=dict)
    result: ResultRule = ResultFile()
    grace: float = 5.0
    limit: int = 1_000_000

    @property
    def steps(self) -> tuple[Step, ...]:
        """All programs, in their order."""
        return (Step(self.argv, self.stdin), *self.then)

    def __post_init__(self) -> None:
        for step in self.steps:
            if not step.argv or not step.argv[0]:
                raise SettingError(f"a command needs a program, got {list(step.argv)!r}")
            if any("\0" in argument for argument in step.argv):
                raise SettingError(f"an argument cannot contain a NUL character, got {list(step.argv)!r}")
        if self.shell and (len(self.argv) != 1 or self.then):
            raise SettingError(f"with a shell the command must be one line of text, got {list(self.argv)!r}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise SettingError(f"timeout must be a finite number of seconds above 0, got {self.timeout!r}")
        if self.limit < 0 or not 0 <= self.grace < math.inf:
            raise SettingError(
                f"limit and grace must be finite and not negative, got {self.limit!r} and {self.grace!r}"
            )
        inputs = [step.stdin for step in self.steps if step.stdin is not None]
        for name in (*self.templates, self.result.file, *inputs):
            check_inside_folder(name)
        for name in self.environment:
            check_variable_name(name)

    def prepare(self, request: RunRequest, folder: Path, here: Path, withheld: Collection[str] = ()) -> Invocation:
        """Render the input files and fill in the values.

        Args:
            request: the query.
            folder: the trial's folder.
            here: the folder of the study's file.
            withheld: variables of fidelium's own environment that the programs do not get.

        Raises:
            SettingError: if a name is unknown.
            SetupError: if a template is wrong.
            EvaluationError: if a value contains a NUL, or the arithmetic of a template fails.
            OSError: if a file cannot be written.
        """
        values = self.values(request, folder, here)
        for name, template in self.templates.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(render(template, values), encoding="utf-8")
        inherited = {name: value for name, value in os.environ.items() if name not in withheld}
        built_in = {f"FIDELIUM_{name.upper()}": fill(f"{{{name}}}", values) for name in _VARIABLES}
        configured = {name: fill(value, values) for name, value in self.environment.items()}
        environment = {**inherited, **built_in, **configured, MARKER: str(folder)}
        return Invocation(self._filled(values), folder, environment, self.timeout, self.grace, self.limit)

    def _filled(self, values: Mapping[str, Any]) -> list[Step]:
        if self.shell:
            return [Step([*_SHELL, *self.argv], self.stdin)]
        return [Step([fill(argument, values) for argument in step.argv], step.stdin) for step in self.steps]

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
        withheld: names of variables of fidelium's own environment that the programs do not get, such as PGPASSWORD.
    """

    commands: Mapping[str, Command]
    runs: Path
    here: Path
    withheld: frozenset[str] = frozenset()

    def run(self, trial: Trial, cancelled: Event | None = None) -> Measurement:
        """Evaluate a trial.

        Args:
            trial: its number and attempt name the folder.
            cancelled: once set, the program and all processes it has started are ended.

        Raises:
            EvaluationError: if it failed or was cancelled, with the reason.
            UnreadableResultError: if the program succeeded, but the result rule finds nothing.
            SetupError: if it failed for a reason that is not the design's.
            FidelityError: if the trial's fidelity has no command.
        """
        command, position = self.command_of(trial.fidelity)
        request = RunRequest.of(trial, position)
        folder = create_run_folder(self.runs.absolute(), request)
        status: ExitStatus | None = None
        try:
            write_query(folder, request)
            invocation = command.prepare(request, folder, self.here.absolute(), self.withheld)
            status = run_guarded(invocation, cancelled)
            measured = read_result(command.result, status, invocation)
        except (EvaluationError, SetupError, SettingError, OSError, UnicodeError) as error:
            failure = classified(error, request, folder, status)
            write_outcome(folder, _outcome(status, {"failed": str(failure)}))
            raise failure from error
        write_outcome(folder, _outcome(status, {"value": measured.value, "cost": measured.cost}))
        return measured

    def command_of(self, fidelity: Fidelity) -> tuple[Command, int]:
        """The command of a fidelity, and its position in the ladder.

        Raises:
            FidelityError: if it has none.
        """
        names = list(self.commands)
        if fidelity.name not in names:
            known = ", ".join(map(repr, names))
            raise FidelityError(f"no command for fidelity {fidelity.name!r}; there are commands for {known}")
        return self.commands[fidelity.name], names.index(fidelity.name)


def check_inside_folder(name: str) -> None:
    """Check that a path stays inside the trial's folder.

    Raises:
        SettingError: if it does not.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SettingError(f"expected a file inside the trial's folder, got {name!r}")


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
