"""Where the value of an evaluation is found: the rules that read it from a trial's folder.

The default is `result.json` with `{"value": 1.2}`, perhaps a measured `"cost"`, or `{"failed": "reason"}`. A file whose
first word is FAIL says that the evaluation failed, whatever the rule.
"""

from __future__ import annotations

import csv
import re
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from fidelium.errors import EvaluationError, SettingError
from fidelium.execution.measured import Measured
from fidelium.execution.process import STDOUT
from fidelium.execution.reading import finite, parse_json, read_text, short

RESULT = "result.json"
"""The result file, if no rule names another."""

_STEPS = re.compile(r'\.?([^.\[\]"]+)|\[(-?\d+)\]|\["([^"]*)"\]')


@runtime_checkable
class ResultRule(Protocol):
    """Finds the value of an ended program."""

    @property
    @abstractmethod
    def file(self) -> str:
        """The file, in the trial's folder, that the program writes its result to."""
        ...

    @abstractmethod
    def read(self, folder: Path) -> Measured:
        """The value; raises `EvaluationError` if there is none, or it is not a finite number."""
        ...


@dataclass(frozen=True)
class ResultFile:
    """`{"value": 1.2, "cost": 3.4}`, the cost optional."""

    file: str = RESULT

    def reported(self, text: str) -> str | None:
        """The reason in `{"failed": "reason"}`, None if the text is something else."""
        try:
            content = parse_json(self.file, text)
        except EvaluationError:
            return None
        return str(content["failed"]) if isinstance(content, dict) and "failed" in content else None

    def read(self, folder: Path) -> Measured:
        content = parse_json(self.file, read_text(folder / self.file))
        if not isinstance(content, dict) or "value" not in content:
            raise EvaluationError(f'{self.file} must hold {{"value": number}}, got {short(content)}')
        cost = content.get("cost")
        return Measured(finite("value", content["value"]), None if cost is None else finite("cost", cost))


@dataclass(frozen=True)
class JsonPath:
    """A number in a JSON file: `results.mass[0]`; a key with dots or brackets is written `["a.b"]`."""

    file: str
    path: str

    def __post_init__(self) -> None:
        if not self.path or _STEPS.sub("", self.path.removeprefix("$")):
            raise SettingError(f'a JSON path looks like results.mass[0] or ["a.b"], got {self.path!r}')

    def read(self, folder: Path) -> Measured:
        place = parse_json(self.file, read_text(folder / self.file))
        for step in _STEPS.finditer(self.path.removeprefix("$")):
            key = int(step[2]) if step[2] else step[3] if step[3] is not None else step[1]
            try:
                place = place[key]
            except (KeyError, IndexError, TypeError):
                raise EvaluationError(f"{self.file} has no {self.path}: no {key!r} in {short(place)}") from None
        return Measured(finite(self.path, place))


@dataclass(frozen=True)
class CsvCell:
    """A cell of a table.

    Args:
        file: the table.
        column: the name in the first row, or a position from 0 (then there is no such row); negative from the end.
        row: a position from 0, without the row of names; -1 is the last.
        delimiter: one character, or "space" for any blanks.
    """

    file: str
    column: str | int
    row: int = -1
    delimiter: str = ","

    def read(self, folder: Path) -> Measured:
        rows = self._rows(read_text(folder / self.file))
        column = self.column
        if isinstance(column, str):
            names = [name.strip() for name in rows.pop(0)] if rows else []
            if column not in names:
                raise EvaluationError(f"{self.file} has no column {column!r}, it has {short(names)}")
            column = names.index(column)
        try:
            cell = rows[self.row][column]
        except IndexError:
            raise EvaluationError(f"{self.file} has no row {self.row} with column {self.column!r}") from None
        return Measured(finite(f"row {self.row}, column {self.column!r}", cell))

    def _rows(self, text: str) -> list[list[str]]:
        if self.delimiter == "space":
            return [line.split() for line in text.splitlines() if line.strip()]
        try:
            return [row for row in csv.reader(text.splitlines(), delimiter=self.delimiter) if row]
        except csv.Error as error:
            raise EvaluationError(f"{self.file} is no table: {error}") from None


@dataclass(frozen=True)
class Pattern:
    """The first group of the last match of a regular expression; ^ and $ match at every line."""

    regex: str
    file: str = STDOUT

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.regex).groups
        except re.error as error:
            raise SettingError(f"{self.regex!r} is no regular expression: {error}") from None
        if not groups:
            raise SettingError(f"{self.regex!r} needs a group (...) around the number")

    def read(self, folder: Path) -> Measured:
        last = None
        for last in re.finditer(self.regex, read_text(folder / self.file), re.MULTILINE):  # noqa: B007
            pass
        if last is None:
            raise EvaluationError(f"nothing in {self.file} matches {self.regex!r}")
        return Measured(finite(f"what {self.regex!r} found in {self.file}", last[1]))


def reported_failure(rule: ResultRule, folder: Path) -> str | None:
    """The reason of a failure that the program itself tells in its result file, None if it tells none."""
    if rule.file == STDOUT:
        return None
    try:
        text = read_text(folder / rule.file)
    except EvaluationError:
        return None
    if found := re.match(r"\s*FAIL(?![^\s:])[:\s]*([^\n]*)", text):
        return found[1].strip() or f"{rule.file} says FAIL"
    return rule.reported(text) if isinstance(rule, ResultFile) else None
