"""The commands of a study file: top-level keys merged with those of each fidelity, and validated."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from fidelium.config.schema import FidelitySection, ProgramSection, ResultSection, StudySection
from fidelium.config.yaml_document import Document
from fidelium.constraints import check_outcome_name
from fidelium.errors import SettingError
from fidelium.execution.command import Command, check_inside_folder
from fidelium.execution.invocation import Step
from fidelium.execution.outcomes import STD
from fidelium.execution.program import ExternalProgram
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import RESULT, CsvCell, JsonPath, Pattern, ResultFile, ResultRule
from fidelium.execution.run_folder import QUERY
from fidelium.execution.substitution import (
    RESERVED_NAMES,
    check_placeholders,
    check_shell_command,
    check_variable_name,
    escape,
)
from fidelium.execution.templates import check_template
from fidelium.space import SearchSpace


def program_of(document: Document, study: StudySection, space: SearchSpace, storage: str) -> ExternalProgram:
    """The external program that a study file describes.

    Args:
        document: the file.
        study: its content.
        space: the parameters.
        storage: the URL of the storage, whose password no program gets.

    Raises:
        ConfigError: for the first error in commands, templates, variables and result rules.
    """
    here = document.path.absolute().parent
    described = {f"{name}.{each}" for name, catalogue in space.catalogues.items() for each in catalogue.descriptors}
    known = {*space.names, *RESERVED_NAMES, *described, *(["descriptors"] if described else [])}
    commands = {
        fidelity.name: _CommandBuilder(document, here, known, study, fidelity, position).command()
        for position, fidelity in enumerate(study.fidelities)
    }
    tables = {name: catalogue.table for name, catalogue in space.catalogues.items()}
    return ExternalProgram(commands, here / study.runs, here, secret_variables(storage, os.environ), tables)


def secret_variables(storage: str, environment: Mapping[str, str]) -> frozenset[str]:
    """The names of the environment variables that hold the password of the storage, or say where it is."""
    if not storage.startswith("postgres"):
        return frozenset()
    parts = urlsplit(storage)
    passwords = {parts.password, *(value for key, value in parse_qsl(parts.query) if "pass" in key.lower())}
    secrets = {text for password in passwords if password for text in (password, unquote(password))}
    return frozenset({"PGPASSWORD", "PGPASSFILE"}) | {
        name
        for name, value in environment.items()
        if storage in value or value in secrets or any(f":{secret}@" in value for secret in secrets)
    }


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
            templates = self._templates()
            first, *then = self._steps(templates)
            return Command(
                argv=tuple(first.argv),
                shell=bool(self._section("shell")[1].shell),
                stdin=first.stdin,
                then=tuple(then),
                timeout=self._section("timeout")[1].timeout,
                environment=self._environment(),
                templates=templates,
                result=self._result(),
                outcomes=self._outcomes(),
                grace=self._section("grace")[1].grace,
                limit=self._section("output_limit")[1].output_limit,
            )

    def _section(self, key: str) -> tuple[tuple[str | int, ...], ProgramSection]:
        """The key path and the section that sets `key`: the fidelity's if it does, else the study's."""
        if key in self.fidelity.model_fields_set or key not in self.study.model_fields_set:
            return ("fidelities", self.position, key), self.fidelity
        return (key,), self.study

    def _steps(self, templates: Collection[str]) -> list[Step]:
        key_path, section = self._section("command")
        command, shell = section.command, bool(self._section("shell")[1].shell)
        if command is None:
            raise self.document.error_at(
                key_path, "is missing; add command: [program, argument] here or at the top level"
            )
        if shell != isinstance(command, str):
            expected = "one line of text with shell: true" if shell else "a list, or shell: true for a line of text"
            got = command if isinstance(command, str) else [step.argv for step in command]
            raise self.document.error_at(key_path, f"expected {expected}; got {got!r}")
        with self.document.errors_at(*key_path):
            if isinstance(command, str):
                check_shell_command(command, self.known)
                return [Step((command,), self._stdin(None, 1, templates))]
            for argument in (argument for step in command for argument in step.argv):
                check_placeholders(argument, self.known)
        return [
            Step(
                self._absolute_paths(step.argv),
                self._stdin(step.stdin, len(command), templates if not position else None),
            )
            for position, step in enumerate(command)
        ]

    def _stdin(self, own: str | None, count: int, templates: Collection[str] | None) -> str | None:
        """The file that is the standard input of a command.

        Args:
            own: the file that the command itself names.
            count: how many commands there are.
            templates: the files that exist when it starts; None if an earlier command may write others.

        Raises:
            ConfigError: if it is not one of the files, or given for several commands at once.
        """
        (key_path, section), name = self._section("stdin"), own
        if section.stdin is not None:
            if count > 1:
                raise self.document.error_at(
                    key_path, "which of the commands reads it? write - {command: [program], stdin: FILE} for that one"
                )
            name = section.stdin
        else:
            key_path = self._section("command")[0]
        if name is None:
            return None
        with self.document.errors_at(*key_path):
            check_inside_folder(name)
        if templates is not None and name not in {*templates, QUERY}:
            raise self.document.error_at(
                key_path, f"no file {name!r} in the trial's folder; make it with templates: {{{name}: TEMPLATE}}"
            )
        return name

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
        return self._checked_rule(key_path, section.result or ResultSection.model_validate({}))

    def _outcomes(self) -> dict[str, ResultRule]:
        """The rules of outcomes, of the study and of the fidelity, which overrides it by name."""
        rules: dict[str, ResultRule] = {}
        for key_path, section in self._sections("outcomes"):
            for name, rule in section.outcomes.items():
                with self.document.errors_at(*key_path, name):
                    if name != STD:
                        check_outcome_name(name)
                    if name in self.study.parameters:
                        raise SettingError(f"{name!r} is a parameter, so an outcome cannot have this name; rename it")
                    if not rule.model_fields_set:
                        raise SettingError("expected where to find it, such as {file: out.txt, regex: 'stress = (.*)'}")
                rules[name] = self._checked_rule((*key_path, name), rule)
        return rules

    def _checked_rule(self, key_path: tuple[str | int, ...], section: ResultSection) -> ResultRule:
        with self.document.errors_at(*key_path):
            rule = _rule(section, self.here)
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
