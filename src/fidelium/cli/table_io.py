"""Tables of trials, designs and observations: CSV, Parquet and JSON out, CSV checked cell by cell in."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fidelium.cli.output import listed
from fidelium.cli.summary import trial_json
from fidelium.errors import FidelityError, ObservationError, SettingError, SpaceError
from fidelium.fidelity import FidelityLadder
from fidelium.history import Trial
from fidelium.space import Categorical, Integer, Parameter, Params, SearchSpace, column_names
from fidelium.storage.base import StudyRecord


def parse_design(space: SearchSpace, texts: Sequence[str]) -> Params:
    """A design from texts like "angle=0.5".

    Raises:
        SettingError: if a text is not like that, or names a parameter twice.
        SpaceError: if the design is not valid.
    """
    cells: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name.strip() in cells:
            raise SettingError(f"a parameter must look like name=value, each name once, got {text!r}")
        cells[name.strip()] = value
    if unknown := [name for name in cells if name not in space.parameters]:
        raise SpaceError(f"unknown parameter {', '.join(map(repr, unknown))}; this space has {list(space.names)}")
    return space.validate({name: parse_value(space.parameters[name], text) for name, text in cells.items()})


def parse_value(parameter: Parameter, text: str) -> Any:
    """The value that a text stands for.

    Raises:
        SpaceError: if it stands for none that the parameter may have.
    """
    if isinstance(parameter, Categorical):
        return _choice(parameter, text)
    try:
        value = float(text)
    except ValueError:
        what = "a whole number" if isinstance(parameter, Integer) else "a number"
        raise SpaceError(f"expected {what}, got {text!r}") from None
    return parameter.validate(value)


def _choice(parameter: Categorical, text: str) -> Any:
    """The choice that prints like this; blanks around it mean nothing unless a choice has them."""
    for candidate in (text, text.strip()):
        alike = [choice for choice in parameter.choices if str(choice) == candidate]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise SpaceError(f"{', '.join(map(repr, alike))} all look like {text!r}; use choices that look different")
    raise SpaceError(f"expected one of {', '.join(map(repr, map(str, parameter.choices)))}, got {text!r}")


MISTAKES = 20
"""Mistakes that are listed at most."""


@dataclass(frozen=True)
class Observed:
    """A row of data that the user has."""

    params: Params
    fidelity: str
    value: float


@dataclass
class _Sheet:
    """A file with its mistakes so far.

    Args:
        path: the file.
        space: the parameters, each in its column of an exported file or in one of its own name.
        observed: the other columns that are needed.
        columns: the name that fidelium uses -> the file's header, where they differ.
        mistakes: sentences with line and column.
    """

    path: Path
    space: SearchSpace
    observed: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows with the numbers of their last lines.

        Raises:
            SettingError: if the file cannot be read, or a column is missing.
        """
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream, strict=True)
                headers = next(reader, [])
                self._locate(headers)
                self._check(headers)
                for cells in filter(None, reader):
                    if len(cells) == len(headers):
                        yield reader.line_num, dict(zip(headers, cells, strict=True))
                    else:
                        found = f"expected {len(headers)} cells, got {len(cells)}"
                        self.mistakes.append(f"line {reader.line_num}: {found}")
        except OSError as error:
            raise SettingError(f"cannot read {str(self.path)!r}: {error.strerror}") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise SettingError(f"{str(self.path)!r} is not a CSV file in UTF-8: {error}") from None

    def cell(self, row: Mapping[str, str], name: str) -> str:
        """The cell of a row that holds `name`."""
        return row[self.header(name)]

    def header(self, name: str) -> str:
        """What the file calls `name`."""
        return self.columns.get(name, name)

    def blame(self, line: int, name: str, error: Exception) -> None:
        """Note a mistake."""
        self.mistakes.append(f"line {line}, column {self.header(name)!r}: {error}")

    def finish(self) -> None:
        """Complain about all mistakes.

        Raises:
            SettingError: if there are any.
        """
        if self.mistakes:
            lines = "\n  ".join(listed(self.mistakes, MISTAKES))
            raise SettingError(f"nothing was taken from {str(self.path)!r}:\n  {lines}")

    @cached_property
    def parameters(self) -> dict[str, str]:
        """What fidelium calls the column of each parameter."""
        return exported_columns(self.space)

    def _locate(self, headers: list[str]) -> None:
        """Find the parameters: where the user says, in the column that `export` writes, or in one of their own name."""
        said = {
            name if name in self.observed else self.parameters.get(name, name): it for name, it in self.columns.items()
        }
        taken = {said.get(name, name) for name in self.observed}
        own = {column: name for name, column in self.parameters.items() if column not in headers and name not in taken}
        self.columns = own | said

    def _check(self, headers: list[str]) -> None:
        needed = [*self.parameters.values(), *self.observed]
        if missing := [self.header(name) for name in needed if self.header(name) not in headers]:
            raise SettingError(
                f"{str(self.path)!r} has no column {', '.join(map(repr, missing))}; its columns are "
                f"{', '.join(map(repr, headers)) or 'none'}; say which is which with --column name=header"
            )
        if len(set(headers)) < len(headers):
            raise SettingError(f"the columns of {str(self.path)!r} must have different names, got {headers}")


def read_designs(path: Path, space: SearchSpace) -> list[Params]:
    """The designs in the rows of a file; other columns than the parameters' mean nothing.

    Raises:
        SettingError: if the file cannot be read, or anything in it is wrong: all of it is listed.
    """
    sheet = _Sheet(path, space)
    found = [_design(sheet, line, row) for line, row in sheet.rows()]
    sheet.finish()
    return [params for params in found if params is not None]


def read_observations(
    path: Path, space: SearchSpace, ladder: FidelityLadder, fidelity: str | None, columns: Mapping[str, str]
) -> list[Observed]:
    """The observations in the rows of a file; rows whose `state` is not `done`, as exported ones, have none.

    Args:
        path: the file.
        space: the parameters, a column each.
        ladder: the fidelities.
        fidelity: the fidelity of all rows; None if there is a column `fidelity`.
        columns: the name that fidelium uses -> the file's header, where they differ.

    Raises:
        SettingError: if the file cannot be read, or anything in it is wrong: all of it is listed.
    """
    sheet = _Sheet(path, space, ("value",) if fidelity is not None else ("fidelity", "value"), columns)
    found: list[Observed | None] = []
    for line, row in sheet.rows():
        is_parameter = "state" in map(sheet.header, sheet.parameters.values())
        if is_parameter or row.get("state", "done") == "done":
            found.append(_observed(sheet, line, row, ladder, fidelity))
    sheet.finish()
    return [each for each in found if each is not None]


def _observed(
    sheet: _Sheet, line: int, row: Mapping[str, str], ladder: FidelityLadder, fidelity: str | None
) -> Observed | None:
    params = _design(sheet, line, row)
    name, value = fidelity, None
    try:
        name = ladder[ladder.index(sheet.cell(row, "fidelity").strip() if name is None else name)].name
    except FidelityError as error:
        sheet.blame(line, "fidelity", error)
    try:
        value = _finite(sheet.cell(row, "value"))
    except ObservationError as error:
        sheet.blame(line, "value", error)
    return None if params is None or name is None or value is None else Observed(params, name, value)


def _design(sheet: _Sheet, line: int, row: Mapping[str, str]) -> Params | None:
    """The row's design, None if a cell is wrong, and then it is blamed."""
    params: Params = {}
    for name, column in sheet.parameters.items():
        try:
            params[name] = parse_value(sheet.space.parameters[name], sheet.cell(row, column))
        except SpaceError as error:
            sheet.blame(line, column, error)
    return params if len(params) == len(sheet.parameters) else None


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ObservationError(f"expected a finite number, got {text!r}")
    return value + 0.0  # storages know one zero only


_BEFORE = ("number", "state", "fidelity", "cost", "value")
_AFTER = ("measured_cost", "given", "attempt", "worker", "started", "finished", "reason")


def write_table(path: Path, record: StudyRecord, trials: Sequence[Trial]) -> None:
    """Write trials in the form that the file's ending says. The file appears when it is complete.

    Raises:
        SettingError: if the ending is unknown, an extra is missing, or the file cannot be written.
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise SettingError(f"the file's ending must be one of {', '.join(writers)}, got {str(path)!r}")
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        _write_and_rename(write, partial, path, record, trials)
    except OSError as error:
        raise SettingError(f"cannot write {str(path)!r}: {error.strerror}") from None


def _write_and_rename(
    write: Callable[[Path, StudyRecord, Sequence[Trial]], None],
    partial: Path,
    path: Path,
    record: StudyRecord,
    trials: Sequence[Trial],
) -> None:
    try:
        write(partial, record, trials)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def exported_columns(space: SearchSpace) -> dict[str, str]:
    """The column of each parameter: one called like another column gets the prefix `params_`, as in `to_dataframe`."""
    return column_names(space, (*_BEFORE, *_AFTER))


def flat(record: StudyRecord, trial: Trial) -> dict[str, Any]:
    """A trial as a row."""
    content = trial_json(trial)
    return (
        {name: content[name] for name in _BEFORE}
        | {column: trial.params[name] for name, column in exported_columns(record.space).items()}
        | {name: content[name] for name in _AFTER}
    )


def _write_csv(path: Path, record: StudyRecord, trials: Sequence[Trial]) -> None:
    """Numbers are written so that they come back as the same bits."""
    rows = [flat(record, trial) for trial in _spelled(trials)]
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        writer = csv.DictWriter(stream, [*_BEFORE, *exported_columns(record.space).values(), *_AFTER])
        writer.writeheader()
        writer.writerows(rows)


def _spelled(trials: Sequence[Trial]) -> Iterator[Trial]:
    """The choice None as a word, for an empty cell is no choice."""
    for trial in trials:
        yield replace(trial, params={name: "None" if each is None else each for name, each in trial.params.items()})


def _write_json(path: Path, record: StudyRecord, trials: Sequence[Trial]) -> None:
    fidelities = [{"name": rung.name, "cost": rung.cost} for rung in record.ladder]
    study = {"name": record.name, "direction": str(record.direction), "strategy": record.strategy, "seed": record.seed}
    content = {**study, "fidelities": fidelities, "trials": [trial_json(trial) for trial in trials]}
    path.write_text(json.dumps(content, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def _write_parquet(path: Path, record: StudyRecord, trials: Sequence[Trial]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise SettingError("Parquet needs the extra 'parquet': pip install 'fidelium[parquet]'") from None
    rows = [flat(record, trial) for trial in trials]
    columns = list(rows[0]) if rows else []
    parquet.write_table(pa.table({name: _column([row[name] for row in rows]) for name in columns}), path)


def _column(values: list[Any]) -> list[Any]:
    """A column of one type: choices of different types become text."""
    kinds = {type(value) for value in values if value is not None}
    return values if len(kinds) <= 1 or kinds == {int, float} else [None if v is None else str(v) for v in values]
