"""Result rules: how the value of an evaluation is read from a trial's folder.

The default is `result.json` with `{"value": 1.2}`, perhaps a measured `"cost"`, or `{"failed": "reason"}`; others are a
cell of a table, a JSON path, a regular expression, or a Python function of the user. A file whose first word is FAIL
says that the evaluation failed, whatever the rule. Whatever is in a file, the answer is a number or a reason.
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
from fidelium.execution.base import Measured
from fidelium.execution.process import STDOUT

_LARGEST = 64_000_000
"""Bytes of a file that are read at most."""


def read_text(path: Path) -> str:
    """The text of a file that a program wrote: a plain file of bounded size, whatever its bytes.

    Raises:
        EvaluationError: if there is none.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a named pipe must not block us
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise EvaluationError(f"{path.name} is no plain file")
            if status.st_size > _LARGEST:
                raise EvaluationError(f"{path.name} has {status.st_size} bytes, more than {_LARGEST}")
            return file.read(_LARGEST).decode("utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise EvaluationError(f"the program wrote no {path.name}") from None
    except OSError as error:
        raise EvaluationError(f"cannot read {path.name}: {error.strerror}") from None


def finite(what: str, value: Any) -> float:
    """The value as a finite float; text may have Fortran's exponent (1.5D+03).

    Raises:
        EvaluationError: if it is none.
    """
    if isinstance(value, str):
        value = re.sub(r"(?<=[\d.])[dD](?=[+-]?\d+\s*$)", "e", value)
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None:
        raise EvaluationError(f"{what} is {short(value)}, not a number")
    if not math.isfinite(number):
        raise EvaluationError(f"{what} is {number}, not a finite number")
    return number


def parse_json(name: str, text: str) -> Any:
    """The content of a JSON file.

    Raises:
        EvaluationError: if it is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{name} is not JSON: {error}; it starts with {short(text)}") from None


def short(value: Any) -> str:
    """How a value prints, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


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


@dataclass(frozen=True)
class PythonFunction:
    """Calls a function with the trial's folder (a `Path`); it returns the value, or the value and the measured cost.

    Args:
        source: a file that ends in .py, or a module that can be imported.
        function: the function's name.
    """

    source: str
    function: str

    @classmethod
    def of(cls, text: str) -> PythonFunction:
        """The function that `source:function` names.

        Raises:
            SettingError: if the text is something else.
        """
        source, colon, function = text.rpartition(":")
        if not colon or not source or not function.isidentifier():
            raise SettingError(f"a Python function is named file.py:function or module:function, got {text!r}")
        return cls(source, function)

    @property
    def is_file(self) -> bool:
        """Whether the function is in a file, not in a module that can be imported."""
        return self.source.endswith(".py")

    @property
    def file(self) -> str:
        return RESULT

    def read(self, folder: Path) -> Measured:
        try:
            answer = self._load()(folder)
        except Exception as error:  # the user's code: whatever it raises is the reason of a failed trial
            raise EvaluationError(f"{self.source}:{self.function} failed: {_place(error)}") from error
        value, cost = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        name = f"what {self.function} returned"
        return Measured(_number(name, value), None if cost is None else _number(f"{name} as cost", cost))

    def _load(self) -> Callable[[Path], Any]:
        if not self.is_file:
            return getattr(importlib.import_module(self.source), self.function)
        name = f"fidelium_postprocess_{Path(self.source).stem}"
        spec = importlib.util.spec_from_file_location(name, self.source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look for their module there
        spec.loader.exec_module(module)
        return getattr(module, self.function)


def _number(name: str, value: Any) -> float:
    """A number, also one of NumPy."""
    return finite(name, value.item() if getattr(value, "shape", None) == () else value)


def _place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
