"""The commands of a study's file: what is said at the top and at a fidelity, put together and checked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fidelium.config.schema import FidelitySection, ProgramSection, ResultSection, StudySection
from fidelium.config.yaml_document import Document
from fidelium.execution.program import Command, ExternalProgram, check_inside_folder
from fidelium.execution.result_rules import RESULT, CsvCell, JsonPath, Pattern, PythonFunction, ResultFile, ResultRule
from fidelium.execution.substitution import (
    RESERVED_NAMES,
    check_placeholders,
    check_shell_command,
    check_template,
    check_variable_name,
    escape,
)


def program_of(document: Document, study: StudySection, parameters: Collection[str]) -> ExternalProgram:
    """The program of a study.

    Raises:
        ConfigError: for the first mistake in commands, templates, variables and rules.
    """
    here = document.path.absolute().parent
    known = {*parameters, *RESERVED_NAMES}
    commands = {
        fidelity.name: _Maker(document, here, known, study, fidelity, position).command()
        for position, fidelity in enumerate(study.fidelities)
    }
    return ExternalProgram(commands, here / study.runs, here)


@dataclass(frozen=True)
class _Maker:
    """Makes the command of one fidelity."""

    document: Document
    here: Path
    known: Collection[str]
    study: StudySection
    fidelity: FidelitySection
    position: int

    def command(self) -> Command:
        with self.document.blamed(*self._said("command")[0]):
            return Command(
                argv=self._line(),
                shell=bool(self._said("shell")[1].shell),
                timeout=self._said("timeout")[1].timeout,
                environment=self._environment(),
                templates=self._templates(),
                result=self._result(),
                grace=self._said("grace")[1].grace,
                limit=self._said("output_limit")[1].output_limit,
            )

    def _said(self, key: str) -> tuple[tuple[str | int, ...], ProgramSection]:
        """Where a setting is said, and the section that says it: the fidelity's own, or the study's."""
        if key in self.fidelity.model_fields_set or key not in self.study.model_fields_set:
            return ("fidelities", self.position, key), self.fidelity
        return (key,), self.study

    def _line(self) -> tuple[str, ...]:
        place, section = self._said("command")
        line, shell = section.command, bool(self._said("shell")[1].shell)
        if line is None:
            raise self.document.mistake(place, "is missing; add command: [program, argument], here or at the top")
        if shell != isinstance(line, str):
            expected = "a line of text, as shell is true" if shell else "a list, or shell: true for a line of text"
            raise self.document.mistake(place, f"expected {expected}; got {line!r}")
        with self.document.blamed(*place):
            for argument in [line] if isinstance(line, str) else line:
                check_shell_command(argument, self.known) if shell else check_placeholders(argument, self.known)
        return (line,) if isinstance(line, str) else self._whole_paths(line)

    def _whole_paths(self, line: list[str]) -> tuple[str, ...]:
        """A program runs in its trial's folder: an argument that names a file beside the study's is made whole.

        The program itself is looked for on the PATH, unless there is a slash in it.
        """
        whole = [escape(str(self.here / name)) if _is_file(self.here, name) else name for name in line]
        return (whole[0] if "/" in line[0] else line[0], *whole[1:])

    def _environment(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        for place, section in self._both("environment"):
            for name, value in section.environment.items():
                with self.document.blamed(*place, name):
                    check_variable_name(name)
                    check_placeholders(value, self.known)
                variables[name] = value
        return variables

    def _templates(self) -> dict[str, Path]:
        templates: dict[str, Path] = {}
        for place, section in self._both("templates"):
            for name, template in section.templates.items():
                with self.document.blamed(*place, name):
                    check_inside_folder(name)
                    check_template(self.here / template, self.known)
                templates[name] = self.here / template
        return templates

    def _both(self, key: str) -> list[tuple[tuple[str | int, ...], ProgramSection]]:
        """The study's section, then the fidelity's own, which wins."""
        return [((key,), self.study), (("fidelities", self.position, key), self.fidelity)]

    def _result(self) -> ResultRule:
        place, section = self._said("result")
        with self.document.blamed(*place):
            rule = _rule(section.result or ResultSection.model_validate({}), self.here)
            check_inside_folder(rule.file)
        if isinstance(rule, PythonFunction) and rule.is_file and not Path(rule.source).is_file():
            raise self.document.mistake((*place, "python"), f"there is no file {rule.source!r}")
        return rule


def _rule(section: ResultSection, here: Path) -> ResultRule:
    if section.python is not None:
        function = PythonFunction.of(section.python)
        return PythonFunction(str(here / function.source), function.function) if function.is_file else function
    if section.regex is not None:
        return Pattern(section.regex) if section.file is None else Pattern(section.regex, section.file)
    if section.json_path is not None:
        return JsonPath(section.file or RESULT, section.json_path)
    if section.column is not None:
        return CsvCell(section.file or RESULT, section.column, section.row, section.delimiter)
    return ResultFile(section.file or RESULT)


def _is_file(here: Path, name: str) -> bool:
    try:
        return bool(name) and (here / name).is_file()
    except (OSError, ValueError):  # too long, or a NUL
        return False
