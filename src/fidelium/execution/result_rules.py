"""Result rules: how the value of an evaluation is read from a trial's folder.

The default is `result.json` with `{"value": 1.2}` and optionally a measured `"cost"`, the standard error of the value
`"std"` and any outcomes, or `{"failed": "reason"}`. The alternatives are a table cell, a JSON path, a regular
expression and a user's Python function (`python_function.py`).
With every rule, a result file whose first word is FAIL marks the evaluation as failed. Any content gives a finite
number or a reason. A rule that finds nothing, rather than something bad, raises `UnreadableResultError`.
"""

from __future__ import annotations

import csv
import json
import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fidelium.constraints import is_outcome_name
from fidelium.errors import EvaluationError, SettingError, UnreadableResultError
from fidelium.execution.base import Measurement, failure_text, parse_number
from fidelium.execution.invocation import STDOUT
from fidelium.execution.reasons import shown
from fidelium.execution.run_folder import open_regular
from fidelium.numbers import as_number

RESULT = "result.json"
"""The default result file."""

_PATH_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(-?\d+)\]|\["([^"]*)"\]')

_MAX_BYTES = 64_000_000
"""Largest result file that is read."""


@runtime_checkable
class ResultRule(Protocol):
    """Reads the value after the program has exited."""

    @property
    @abstractmethod
    def file(self) -> str:
        """The result file, relative to the trial's folder."""
        ...

    @abstractmethod
    def read(self, folder: Path) -> Measurement:
        """The value.

        Raises:
            UnreadableResultError: if there is nothing where the rule looks.
            EvaluationError: if there is something else than a finite number.
        """
        ...


@dataclass(frozen=True)
class ResultFile:
    """A JSON file with `{"value": 1.2, "cost": 3.4, "std": 0.02, "stress": 1.5e8}`; all but the value is optional.

    All numbers under other names are outcomes. Texts, lists and names that no outcome may have are ignored.
    """

    file: str = RESULT

    def failure_reason(self, text: str) -> str | None:
        """The reason in `{"failed": "reason"}`, None if the program reports no failure."""
        try:
            content = _parse_json(self.file, text)
        except EvaluationError:
            return None
        return failure_text(content.get("failed")) if isinstance(content, dict) else None

    def read(self, folder: Path) -> Measurement:
        content = _parse_json(self.file, _read_text(folder / self.file))
        if not isinstance(content, dict) or "value" not in content:
            raise UnreadableResultError(f'{self.file} must contain {{"value": number}}, got {shown(content)}')
        return replace(Measurement.of_fields(content), outcomes=_numbers_in(content))

    def content(self, folder: Path) -> object:
        """What is in the file, None if it cannot be read."""
        try:
            return _parse_json(self.file, _read_text(folder / self.file))
        except EvaluationError:
            return None

    def refused(self, folder: Path, name: str) -> str | None:
        """Why the outcome of this name, which was not read, is not one; None if it is not in the file."""
        content = _parse_json(self.file, _read_text(folder / self.file))
        if not isinstance(content, dict) or name not in content:
            return None
        return f"the outcome {name!r}, which a constraint names, is {shown(content[name])}, not a finite number"


@dataclass(frozen=True)
class JsonPath:
    """A number in a JSON file, at a path such as `results.mass[0]`; quote keys with dots or brackets: `["a.b"]`."""

    file: str
    path: str

    def __post_init__(self) -> None:
        if not self.path or _PATH_STEP.sub("", self.path.removeprefix("$")):
            raise SettingError(f'a JSON path must look like results.mass[0] or ["a.b"], got {self.path!r}')

    def read(self, folder: Path) -> Measurement:
        value = _parse_json(self.file, _read_text(folder / self.file))
        for step in _PATH_STEP.finditer(self.path.removeprefix("$")):
            key = int(step[2]) if step[2] else step[3] if step[3] is not None else step[1]
            try:
                if isinstance(value, str):  # a letter of a text is not an element
                    raise TypeError
                value = value[key]
            except (KeyError, IndexError, TypeError):
                raise UnreadableResultError(f"{self.file} has no {self.path}: no {key!r} in {shown(value)}") from None
        return Measurement(parse_number(self.path, value))


@dataclass(frozen=True)
class CsvCell:
    """A cell of a text table.

    Args:
        file: the table.
        column: a name in the header row, or a position from 0 in a table without a header; negative from the end.
        row: a position from 0, not counting the header; negative from the end.
        delimiter: one character, or "space" for any whitespace.
    """

    file: str
    column: str | int
    row: int = -1
    delimiter: str = ","

    def read(self, folder: Path) -> Measurement:
        rows = self._rows(_read_text(folder / self.file))
        column = self.column
        if isinstance(column, str):
            names = [name.strip() for name in rows.pop(0)] if rows else []
            if column not in names:
                raise UnreadableResultError(f"{self.file} has no column {column!r}; its columns are {shown(names)}")
            column = names.index(column)
        try:
            cell = rows[self.row][column]
        except IndexError:
            raise UnreadableResultError(f"{self.file} has no row {self.row} with column {self.column!r}") from None
        return Measurement(parse_number(f"row {self.row}, column {self.column!r}", cell))

    def _rows(self, text: str) -> list[list[str]]:
        if self.delimiter == "space":
            return [line.split() for line in text.splitlines() if line.strip()]
        try:
            return [row for row in csv.reader(text.splitlines(), delimiter=self.delimiter) if row]
        except csv.Error as error:
            raise EvaluationError(f"{self.file} is not a valid table: {error}") from None


@dataclass(frozen=True)
class Pattern:
    """The first group of the last match of a regular expression; ^ and $ match at line boundaries."""

    regex: str
    file: str = STDOUT

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.regex).groups
        except re.error as error:
            raise SettingError(f"{self.regex!r} is not a valid regular expression: {error}") from None
        if not groups:
            raise SettingError(f"{self.regex!r} needs a group (...) around the number")

    def read(self, folder: Path) -> Measurement:
        last = None
        for last in re.finditer(self.regex, _read_text(folder / self.file), re.MULTILINE):  # noqa: B007
            pass
        if last is None:
            raise UnreadableResultError(f"nothing in {self.file} matches {self.regex!r}")
        return Measurement(parse_number(f"the match of {self.regex!r} in {self.file}", last[1]))


def _numbers_in(content: dict[str, Any]) -> dict[str, float]:
    """The outcomes in a result file: numbers, also NaN and infinite ones, with a name that an outcome may have."""
    found: dict[str, float] = {}
    for name, value in content.items():
        number = as_number(value)
        if number is not None and is_outcome_name(name):
            found[name] = number
    return found


def reported_failure(rule: ResultRule, folder: Path) -> str | None:
    """The failure reason that the program itself wrote to its result file, None if it did not."""
    if rule.file == STDOUT:
        return None
    try:
        text = _read_text(folder / rule.file)
    except EvaluationError:
        return None
    if match := re.match(r"\s*FAIL(?![^\s:])[:\s]*([^\n]*)", text):
        return match[1].strip() or f"{rule.file} says FAIL"
    return rule.failure_reason(text) if isinstance(rule, ResultFile) else None


def _read_text(path: Path) -> str:
    """The text of a result file; bytes that are not UTF-8 are replaced.

    Raises:
        UnreadableResultError: if it does not exist.
        EvaluationError: if it is not a regular file, is too large or cannot be read.
    """
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableResultError(f"the program wrote no {path.name}") from None
    except OSError as error:
        raise EvaluationError(f"cannot read {path.name}: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise EvaluationError(f"{path.name} has more than {_MAX_BYTES} bytes, the limit of a result file")
    return data.decode("utf-8-sig", errors="replace")


def _parse_json(name: str, text: str) -> Any:
    """The content of a JSON file.

    Raises:
        EvaluationError: if the text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{name} is not JSON: {error}; it starts with {shown(text)}") from None
