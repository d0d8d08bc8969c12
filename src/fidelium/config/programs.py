"""The commands of a study file: top-level keys merged with those of each fidelity, and validated."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fidelium.config.schema import FidelitySection, ProgramSection, ResultSection, StudySection
from fidelium.config.yaml_document import Document
from fidelium.execution.program import Command, ExternalProgram, check_inside_folder
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import RESULT, CsvCell, JsonPath, Pattern, ResultFile, ResultRule
from fidelium.execution.substitution import (
    RESERVED_NAMES,
    check_placeholders,
    check_shell_command,
    check_variable_name,
    escape,
)
from fidelium.execution.templates import check_template


def program_of(document: Document, study: StudySection, parameters: Collection[str]) -> ExternalProgram:
    """The external program that a study file describes.

    Raises:
        ConfigError: for the first error in commands, templates, variables and result rules.
    """
    here = document.path.absolute().parent
    known = {*parameters, *RESERVED_NAMES}
    commands = {
        fidelity.name: _CommandBuilder(document, here, known, study, fidelity, position).command()
        for position, fidelity in enumerate(study.fidelities)
    }
    return ExternalProgram(commands, here / study.runs, here)


@dataclass(frozen=True)
class _CommandBuilder:
    """Builds the command of one fidelity."""

    document: Document
    here: Path
    known: Collection[str]
    study: StudySection
    fidelity: FidelitySection
    position: int

    def command(self) -> Command:
        with self.document.errors_at(*self._section("command")[0]):
            return Command(
                argv=self._argv(),
                shell=bool(self._section("shell")[1].shell),
                timeout=self._section("timeout")[1].timeout,
                environment=self._environment(),
                templates=self._templates(),
                result=self._result(),
                grace=self._section("grace")[1].grace,
                limit=self._section("output_limit")[1].output_limit,
            )

    def _section(self, key: str) -> tuple[tuple[str | int, ...], ProgramSection]:
        """The key path and the section that sets `key`: the fidelity's if it does, else the study's."""
        if key in self.fidelity.model_fields_set or key not in self.study.model_fields_set:
            return ("fidelities", self.position, key), self.fidelity
        return (key,), self.study

    def _argv(self) -> tuple[str, ...]:
        key_path, section = self._section("command")
        command, shell = section.command, bool(self._section("shell")[1].shell)
        if command is None:
            raise self.document.error_at(
                key_path, "is missing; add command: [program, argument] here or at the top level"
            )
        if shell != isinstance(command, str):
            expected = "one line of text with shell: true" if shell else "a list, or shell: true for a line of text"
            raise self.document.error_at(key_path, f"expected {expected}; got {command!r}")
        with self.document.errors_at(*key_path):
            for argument in [command] if isinstance(command, str) else command:
                check_shell_command(argument, self.known) if shell else check_placeholders(argument, self.known)
        return (command,) if isinstance(command, str) else self._absolute_paths(command)

    def _absolute_paths(self, command: list[str]) -> tuple[str, ...]:
        """Make arguments that name files next to the study file absolute: the program runs in the trial's folder.

        The program itself is looked up on the PATH unless it contains a slash.
        """
        absolute = [escape(str(self.here / name)) if _is_file(self.here, name) else name for name in command]
        return (absolute[0] if "/" in command[0] else command[0], *absolute[1:])

    def _environment(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        for key_path, section in self._sections("environment"):
            for name, value in section.environment.items():
                with self.document.errors_at(*key_path, name):
                    check_variable_name(name)
                    check_placeholders(value, self.known)
                variables[name] = value
        return variables

    def _templates(self) -> dict[str, Path]:
        templates: dict[str, Path] = {}
        for key_path, section in self._sections("templates"):
            for name, template in section.templates.items():
                with self.document.errors_at(*key_path, name):
                    check_inside_folder(name)
                    check_template(self.here / template, self.known)
                templates[name] = self.here / template
        return templates

    def _sections(self, key: str) -> list[tuple[tuple[str | int, ...], ProgramSection]]:
        """The key path and the section of the study, then of the fidelity, which overrides it."""
        return [((key,), self.study), (("fidelities", self.position, key), self.fidelity)]

    def _result(self) -> ResultRule:
        key_path, section = self._section("result")
        with self.document.errors_at(*key_path):
            rule = _rule(section.result or ResultSection.model_validate({}), self.here)
            check_inside_folder(rule.file)
        if isinstance(rule, PythonFunction):
            with self.document.errors_at(*key_path, "python"):
                rule.check()
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
