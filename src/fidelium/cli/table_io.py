"""Tables of trials, designs and observations: written as CSV, JSON or Parquet, read and checked as CSV."""

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

from fidelium.cli.output import truncated
from fidelium.definition import StudyDefinition
from fidelium.errors import FidelityError, ObservationError, SettingError, SpaceError
from fidelium.fidelity import FidelityLadder
from fidelium.history import Trial
from fidelium.space import Categorical, Integer, Parameter, Params, SearchSpace, column_names

MAX_ERRORS = 20
"""Maximal number of errors listed for a file."""

_LEADING_COLUMNS = ("number", "state", "fidelity", "cost", "value")
_TRAILING_COLUMNS = ("measured_cost", "given", "attempt", "worker", "started", "finished", "reason")


@dataclass(frozen=True)
class ObservationRow:
    """An observation read from a file."""

    params: Params
    fidelity: str
    value: float


def read_observations(
    path: Path, space: SearchSpace, ladder: FidelityLadder, fidelity: str | None, columns: Mapping[str, str]
) -> list[ObservationRow]:
    """The observations in a CSV file; exported rows whose `state` is not `done` are skipped.

    Args:
        path: the file.
        space: the parameters, one column each.
        ladder: the fidelities.
        fidelity: the fidelity of all rows, None to read it from the column `fidelity`.
        columns: fidelium's name -> the file's header, where they differ.

    Raises:
        SettingError: if the file cannot be read or is not valid; all errors are listed.
    """
    reader = _CsvReader(path, space, ("value",) if fidelity is not None else ("fidelity", "value"), columns)
    found: list[ObservationRow | None] = []
    for line, row in reader.rows():
        is_parameter = "state" in map(reader.header, reader.parameters.values())
        if is_parameter or row.get("state", "done") == "done":
            found.append(_parse_observation(reader, line, row, ladder, fidelity))
    reader.raise_errors()
    return [observation for observation in found if observation is not None]


def read_designs(path: Path, space: SearchSpace) -> list[Params]:
    """The designs in a CSV file; columns that are not parameters are ignored.

    Raises:
        SettingError: if the file cannot be read or is not valid; all errors are listed.
    """
    reader = _CsvReader(path, space)
    found = [_parse_row(reader, line, row) for line, row in reader.rows()]
    reader.raise_errors()
    return [params for params in found if params is not None]


def parse_design(space: SearchSpace, texts: Sequence[str]) -> Params:
    """The design given by strings such as "angle=0.5", one per parameter.

    Raises:
        SettingError: if a string has another form, or a parameter is given twice.
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
    return space.validate({name: _parse_cell(space.parameters[name], text) for name, text in cells.items()})


def write_table(path: Path, definition: StudyDefinition, trials: Sequence[Trial]) -> None:
    """Write trials in the format given by the file's suffix. The file appears only once it is complete.

    Raises:
        SettingError: if the suffix is unknown, an extra is missing, or the file cannot be written.
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise SettingError(f"the file's suffix must be one of {', '.join(writers)}, got {str(path)!r}")
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        _write_and_rename(write, partial, path, definition, trials)
    except OSError as error:
        raise SettingError(f"cannot write {str(path)!r}: {error.strerror}") from None


def exported_columns(space: SearchSpace) -> dict[str, str]:
    """The column of each parameter; one named like another column gets the prefix `params_`, as in `to_dataframe`."""
    return column_names(space, (*_LEADING_COLUMNS, *_TRAILING_COLUMNS))


@dataclass
class _CsvReader:
    """Reads a CSV file and collects the errors in it.

    Args:
        path: the file.
        space: the parameters, each in the column that `export` writes or in a column of its own name.
        observed: other required columns.
        columns: fidelium's name -> the file's header, where they differ; None if the user cannot set them.
        errors: one message per error, with line and column.
    """

    path: Path
    space: SearchSpace
    observed: Sequence[str] = ()
    columns: Mapping[str, str] | None = None
    errors: list[str] = field(default_factory=list)
    _headers: dict[str, str] = field(default_factory=dict, init=False)

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows, each with the number of its last line.

        Raises:
            SettingError: if the file cannot be read, or a column is missing.
        """
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream, strict=True)
                headers = next(reader, [])
                self._headers = self._find_headers(headers)
                self._check_headers(headers)
                for cells in filter(None, reader):
                    if len(cells) == len(headers):
                        yield reader.line_num, dict(zip(headers, cells, strict=True))
                    else:
                        message = f"expected {len(headers)} cells, got {len(cells)}"
                        self.errors.append(f"line {reader.line_num}: {message}")
        except OSError as error:
            raise SettingError(f"cannot read {str(self.path)!r}: {error.strerror}") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise SettingError(f"{str(self.path)!r} is not a CSV file in UTF-8: {error}") from None

    def cell(self, row: Mapping[str, str], name: str) -> str:
        """The cell of a row in the column of `name`."""
        return row[self.header(name)]

    def header(self, name: str) -> str:
        """The file's header for `name`."""
        return self._headers.get(name, name)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Name of each parameter -> name of its column in an exported file."""
        return exported_columns(self.space)

    def add_error(self, line: int, name: str, error: Exception) -> None:
        """Add an error in a cell."""
        self.errors.append(f"line {line}, column {self.header(name)!r}: {error}")

    def raise_errors(self) -> None:
        """Raise all errors together.

        Raises:
            SettingError: if there are any.
        """
        if self.errors:
            lines = "\n  ".join(truncated(self.errors, MAX_ERRORS))
            raise SettingError(f"{str(self.path)!r} has errors; nothing was read:\n  {lines}")

    def _find_headers(self, headers: list[str]) -> dict[str, str]:
        """Column name -> header: as given by the user, else as exported, else the parameter's own name."""
        given = {
            name if name in self.observed else self.parameters.get(name, name): header
            for name, header in (self.columns or {}).items()
        }
        used = {given.get(name, name) for name in self.observed}
        own = {column: name for name, column in self.parameters.items() if column not in headers and name not in used}
        return own | given

    def _check_headers(self, headers: list[str]) -> None:
        required = [*self.parameters.values(), *self.observed]
        if missing := [self.header(name) for name in required if self.header(name) not in headers]:
            advice = "" if self.columns is None else "; use --column name=header for other headers"
            raise SettingError(
                f"{str(self.path)!r} has no column {', '.join(map(repr, missing))}; its columns are "
                f"{', '.join(map(repr, headers)) or 'none'}{advice}"
            )
        if len(set(headers)) < len(headers):
            raise SettingError(f"the columns of {str(self.path)!r} must have different names, got {headers}")


def _parse_observation(
    reader: _CsvReader,
    line: int,
    row: Mapping[str, str],
    ladder: FidelityLadder,
    fidelity: str | None,
) -> ObservationRow | None:
    """The observation in a row; None, with an error added, if a cell is not valid."""
    params = _parse_row(reader, line, row)
    name, value = fidelity, None
    try:
        name = ladder[ladder.index(reader.cell(row, "fidelity").strip() if name is None else name)].name
    except FidelityError as error:
        reader.add_error(line, "fidelity", error)
    try:
        value = _parse_finite(reader.cell(row, "value"))
    except ObservationError as error:
        reader.add_error(line, "value", error)
    return None if params is None or name is None or value is None else ObservationRow(params, name, value)


def _parse_row(reader: _CsvReader, line: int, row: Mapping[str, str]) -> Params | None:
    """The design in a row; None, with an error added, if a cell is not valid."""
    params: Params = {}
    for name, column in reader.parameters.items():
        try:
            params[name] = _parse_cell(reader.space.parameters[name], reader.cell(row, column))
        except SpaceError as error:
            reader.add_error(line, column, error)
    return params if len(params) == len(reader.parameters) else None


def _parse_cell(parameter: Parameter, text: str) -> Any:
    """The value of a parameter given as text.

    Raises:
        SpaceError: if the text is not a valid value.
    """
    if isinstance(parameter, Categorical):
        return _parse_choice(parameter, text)
    try:
        value = float(text)
    except ValueError:
        expected = "a whole number" if isinstance(parameter, Integer) else "a number"
        raise SpaceError(f"expected {expected}, got {text!r}") from None
    return parameter.validate(value)


def _parse_choice(parameter: Categorical, text: str) -> Any:
    """The choice written as `text`; surrounding whitespace is ignored unless a choice has it."""
    for candidate in (text, text.strip()):
        matches = [choice for choice in parameter.choices if str(choice) == candidate]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SpaceError(f"{text!r} is ambiguous: it could be {' or '.join(map(repr, matches))}; rename a choice")
    raise SpaceError(f"expected one of {', '.join(map(repr, map(str, parameter.choices)))}, got {text!r}")


def _parse_finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ObservationError(f"expected a finite number, got {text!r}")
    return value + 0.0  # storages do not distinguish -0.0 from 0.0


def _write_and_rename(
    write: Callable[[Path, StudyDefinition, Sequence[Trial]], None],
    partial: Path,
    path: Path,
    definition: StudyDefinition,
    trials: Sequence[Trial],
) -> None:
    try:
        write(partial, definition, trials)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write_csv(path: Path, definition: StudyDefinition, trials: Sequence[Trial]) -> None:
    """Write CSV; floats are written with enough digits to be read back exactly."""
    rows = [_trial_row(definition, trial) for trial in _with_none_as_text(trials)]
    columns = [*_LEADING_COLUMNS, *exported_columns(definition.space).values(), *_TRAILING_COLUMNS]
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        writer.writerows(rows)


def _write_json(path: Path, definition: StudyDefinition, trials: Sequence[Trial]) -> None:
    fidelities = [{"name": rung.name, "cost": rung.cost} for rung in definition.ladder]
    study = {
        "name": definition.stored_name,
        "direction": str(definition.direction),
        "strategy": definition.strategy_name,
        "seed": definition.seed,
    }
    content = {**study, "fidelities": fidelities, "trials": [trial_json(trial) for trial in trials]}
    path.write_text(json.dumps(content, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def _write_parquet(path: Path, definition: StudyDefinition, trials: Sequence[Trial]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise SettingError("Parquet needs the extra 'parquet': pip install 'fidelium[parquet]'") from None
    rows = [_trial_row(definition, trial) for trial in trials]
    columns = list(rows[0]) if rows else []
    parquet.write_table(pa.table({name: _parquet_column([row[name] for row in rows]) for name in columns}), path)


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial for programs: everything that is known of it."""
    return {
        "number": trial.number,
        "state": str(trial.state),
        "params": trial.params,
        "fidelity": trial.fidelity.name,
        "cost": trial.cost,
        "value": trial.value,
        "reason": trial.reason,
        "given": trial.given,
        "attempt": trial.attempt,
        "worker": trial.worker,
        "started": trial.started,
        "finished": trial.finished,
        "measured_cost": trial.measured_cost,
    }


def _trial_row(definition: StudyDefinition, trial: Trial) -> dict[str, Any]:
    """A trial as a row of a table."""
    content = trial_json(trial)
    return (
        {name: content[name] for name in _LEADING_COLUMNS}
        | {column: trial.params[name] for name, column in exported_columns(definition.space).items()}
        | {name: content[name] for name in _TRAILING_COLUMNS}
    )


def _with_none_as_text(trials: Sequence[Trial]) -> Iterator[Trial]:
    """The trials with the choice None as the text "None", since an empty cell is not a choice."""
    for trial in trials:
        params = {name: "None" if value is None else value for name, value in trial.params.items()}
        yield replace(trial, params=params)


def _parquet_column(values: list[Any]) -> list[Any]:
    """A column of one type: values of different types become text."""
    types = {type(value) for value in values if value is not None}
    return values if len(types) <= 1 or types == {int, float} else [None if v is None else str(v) for v in values]
