"""Result rules: how the value of an evaluation is read from a trial's folder.

The default is `result.json` with `{"value": 1.2}` and optionally a measured `"cost"`, or `{"failed": "reason"}`. The
alternatives are a table cell, a JSON path, a regular expression and a user's Python function. With every rule, a result
file whose first word is FAIL marks the evaluation as failed. Any content gives either a finite number or a reason.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import math
import os
import re
import stat
import sys
import traceback
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fidelium.errors import EvaluationError, SettingError
from fidelium.execution.base import Measurement
from fidelium.execution.process import STDOUT

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
        """The value; raises `EvaluationError` if it is missing or not a finite number."""
        ...


@dataclass(frozen=True)
class ResultFile:
    """A JSON file with `{"value": 1.2, "cost": 3.4}`; the cost is optional."""

    file: str = RESULT

    def failure_reason(self, text: str) -> str | None:
        """The reason in `{"failed": "reason"}`, None for any other text."""
        try:
            content = _parse_json(self.file, text)
        except EvaluationError:
            return None
        return str(content["failed"]) if isinstance(content, dict) and "failed" in content else None

    def read(self, folder: Path) -> Measurement:
        content = _parse_json(self.file, _read_text(folder / self.file))
        if not isinstance(content, dict) or "value" not in content:
            raise EvaluationError(f'{self.file} must contain {{"value": number}}, got {_short(content)}')
        cost = content.get("cost")
        return Measurement(
            parse_number("value", content["value"]), None if cost is None else parse_number("cost", cost)
        )


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
                value = value[key]
            except (KeyError, IndexError, TypeError):
                raise EvaluationError(f"{self.file} has no {self.path}: no {key!r} in {_short(value)}") from None
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
                raise EvaluationError(f"{self.file} has no column {column!r}; its columns are {_short(names)}")
            column = names.index(column)
        try:
            cell = rows[self.row][column]
        except IndexError:
            raise EvaluationError(f"{self.file} has no row {self.row} with column {self.column!r}") from None
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
            raise EvaluationError(f"nothing in {self.file} matches {self.regex!r}")
        return Measurement(parse_number(f"the match of {self.regex!r} in {self.file}", last[1]))


@dataclass(frozen=True)
class PythonFunction:
    """A Python function that gets the trial's folder (a `Path`) and returns the value, or the value and the cost.

    Args:
        source: a file ending in .py, or the name of an importable module.
        function: the name of the function.
    """

    source: str
    function: str

    @classmethod
    def of(cls, text: str) -> PythonFunction:
        """The function given as `source:function`.

        Raises:
            SettingError: if the text has another form.
        """
        source, colon, function = text.rpartition(":")
        if not colon or not source or not function.isidentifier():
            raise SettingError(f"expected file.py:function or module:function, got {text!r}")
        return cls(source, function)

    @property
    def is_file(self) -> bool:
        """Whether the source is a file, not a module."""
        return self.source.endswith(".py")

    @property
    def file(self) -> str:
        return RESULT

    def read(self, folder: Path) -> Measurement:
        try:
            result = self._load()(folder)
        except Exception as error:  # user code may raise anything; it becomes the reason of the failed trial
            raise EvaluationError(f"{self.source}:{self.function} failed: {_describe(error)}") from error
        value, cost = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        return Measurement(
            _plain_number(f"the return value of {self.function}", value),
            None if cost is None else _plain_number(f"the cost returned by {self.function}", cost),
        )

    def _load(self) -> Callable[[Path], Any]:
        if not self.is_file:
            return getattr(importlib.import_module(self.source), self.function)
        name = f"fidelium_postprocess_{Path(self.source).stem}"
        spec = importlib.util.spec_from_file_location(name, self.source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look up their module there
        spec.loader.exec_module(module)
        return getattr(module, self.function)


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
        EvaluationError: if it does not exist, is not a regular file, is too large or cannot be read.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # do not block on a named pipe
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise EvaluationError(f"{path.name} is not a regular file")
            if status.st_size > _MAX_BYTES:
                raise EvaluationError(f"{path.name} has {status.st_size} bytes; the limit is {_MAX_BYTES}")
            return file.read(_MAX_BYTES).decode("utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise EvaluationError(f"the program wrote no {path.name}") from None
    except OSError as error:
        raise EvaluationError(f"cannot read {path.name}: {error.strerror}") from None


def parse_number(name: str, value: Any) -> float:
    """The value as a finite float; strings may use Fortran exponents (1.5D+03).

    Raises:
        EvaluationError: if it is not a finite number.
    """
    if isinstance(value, str):
        value = re.sub(r"(?<=[\d.])[dD](?=[+-]?\d+\s*$)", "e", value)
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None:
        raise EvaluationError(f"{name} is {_short(value)}, not a number")
    if not math.isfinite(number):
        raise EvaluationError(f"{name} is {number}, not a finite number")
    return number


def _parse_json(name: str, text: str) -> Any:
    """The content of a JSON file.

    Raises:
        EvaluationError: if the text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{name} is not JSON: {error}; it starts with {_short(text)}") from None


def _short(value: Any) -> str:
    """The repr of a value, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _plain_number(name: str, value: Any) -> float:
    """As `parse_number`, also for NumPy scalars."""
    return parse_number(name, value.item() if getattr(value, "shape", None) == () else value)


def _describe(error: Exception) -> str:
    """The error with the file and the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
