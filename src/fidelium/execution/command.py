"""The command of a fidelity: which programs to run with which input, and where to find the result.

A program is started without a shell, so a value is an argument or a part of one, and never code. A shell is opt-in, and
then values are passed in files and environment variables only.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from fidelium.errors import SettingError
from fidelium.execution.invocation import MARKER, STDOUT, Invocation, Step
from fidelium.execution.result_rules import RESULT, ResultFile, ResultRule
from fidelium.execution.run_folder import QUERY, RunRequest
from fidelium.execution.substitution import RESERVED_NAMES, check_variable_name, fill, placeholders
from fidelium.execution.templates import Item, render

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|(ba|da|z|k)?sh|perl|ruby|Rscript|julia|node")
_SCRIPT = re.compile(r"[^-/][^\s]*\.\w+")
"""An argument that is a relative path; a file next to the study's file has an absolute one by now."""

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
        outcomes: how to read outcomes that the result does not hold, by name.
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
    outcomes: Mapping[str, ResultRule] = field(default_factory=dict)
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
        for name in (*self.templates, self.result.file, *(rule.file for rule in self.outcomes.values()), *inputs):
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
        for name, text in self.decks(values).items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        inherited = {name: value for name, value in os.environ.items() if name not in withheld}
        built_in = {f"FIDELIUM_{name.upper()}": fill(f"{{{name}}}", values) for name in _VARIABLES}
        configured = {name: fill(value, values) for name, value in self.environment.items()}
        environment = {**inherited, **built_in, **configured, MARKER: str(folder)}
        return Invocation(self._filled(values), folder, environment, self.timeout, self.grace, self.limit)

    def decks(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The input files made from templates, by their name in the trial's folder.

        Raises:
            SetupError: if a template is wrong.
            EvaluationError: if its arithmetic fails with these values.
        """
        return {name: render(template, values) for name, template in self.templates.items()}

    def _filled(self, values: Mapping[str, Any]) -> list[Step]:
        if self.shell:
            return [Step([*_SHELL, *self.argv], self.stdin)]
        return [Step([fill(argument, values) for argument in step.argv], step.stdin) for step in self.steps]

    def values(self, request: RunRequest, folder: Path, here: Path) -> dict[str, Any]:
        """The values of all names that arguments, variables and templates can use."""
        result = RESULT if self.result.file == STDOUT else self.result.file
        params, described = _with_descriptors(request)
        return {
            **params,
            **described,
            **request.as_json(),
            "params": params,
            **{name: str(folder / file) for name, file in (("query", QUERY), ("result", result))},
            "folder": str(folder),
            "here": str(here),
            "python": sys.executable,
        }


def _with_descriptors(request: RunRequest) -> tuple[dict[str, Any], dict[str, float]]:
    """The parameters, with items of catalogues as `Item`, and each descriptor by its name, `parameter.descriptor`."""
    items = {name: Item(request.params[name], each) for name, each in request.descriptors.items()}
    described = {f"{name}.{each}": value for name, own in request.descriptors.items() for each, value in own.items()}
    return {**request.params, **items}, described


def missing_programs(command: Command, here: Path) -> Iterator[str]:
    """The programs and scripts of a command that are not on this machine."""
    if command.shell:
        return
    fixed = {"here": str(here), "python": sys.executable}
    for position, step in enumerate(command.steps):
        argv = [fill(each, fixed) if set(placeholders(each)) <= set(fixed) else None for each in step.argv]
        program, script = argv[0], argv[1] if len(argv) > 1 else None
        if program is not None and (problem := _missing_program(program, position, command, here)):
            yield problem
        if (
            program is not None
            and script is not None
            and _INTERPRETER.fullmatch(Path(program).name)
            and _SCRIPT.fullmatch(script)
            and script not in command.templates
            and position == 0  # an earlier program may write it
        ):
            yield f"{script} is not a file in {here}; correct the command, or its path"


def _missing_program(program: str, position: int, command: Command, here: Path) -> str | None:
    path = Path(program)
    if "/" not in program:
        search = command.environment.get("PATH", os.environ.get("PATH", os.defpath))
        found = bool(placeholders(search)) or shutil.which(program, path=search) is not None
        return None if found else f"{program} is not on the PATH; install it, or give its full path"
    if not path.is_absolute():  # files next to the study's file have absolute paths by now
        made = position > 0 or program.removeprefix("./") in command.templates
        return None if made else f"{program} is not a file in {here}; correct the command, or its path"
    if path.is_dir():
        return f"{program} is a folder, not a program"
    if not path.exists():
        return f"{program} does not exist; correct the command, or its path"
    return None if os.access(path, os.X_OK) else f"{program} is not executable; chmod +x it"


def check_inside_folder(name: str) -> None:
    """Check that a path stays inside the trial's folder.

    Raises:
        SettingError: if it does not.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SettingError(f"expected a file inside the trial's folder, got {name!r}")
