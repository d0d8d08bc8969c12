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

from fidelium.catalogue import Catalogue
from fidelium.cli.output import truncated
from fidelium.constraints import OutcomeConstraint
from fidelium.costs.declared import formula_text
from fidelium.definition import StudyDefinition
from fidelium.errors import FidelityError, ObservationError, SettingError, SpaceError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Trial
from fidelium.numbers import parse_decimal
from fidelium.space import Categorical, Integer, Parameter, Params, SearchSpace
from fidelium.storage.annotations import checked_note, checked_tag, parsed_priority
from fidelium.study.steering import Wish
from fidelium.trial_table import ObservationRow, TrialTable, parameter_columns, trial_record

STD = "std"
"""The column of standard errors, which a file need not have."""

MAX_ERRORS = 20
"""Maximal number of errors listed for a file."""


@dataclass(frozen=True)
class BadRow:
    """A row of a file that is not valid.

    Args:
        line: its last line in the file, from 1.
        errors: what is wrong, for each cell that is.
    """

    line: int
    errors: tuple[str, ...]


def read_observations(
    path: Path,
    space: SearchSpace,
    ladder: FidelityLadder,
    fidelity: str | None,
    columns: Mapping[str, str],
    *,
    outcomes: Sequence[str] = (),
    constraints: Sequence[OutcomeConstraint] = (),
    skip_bad: bool = False,
) -> tuple[list[ObservationRow], list[BadRow]]:
    """The observations in a CSV file; exported rows that are not `done`, or `excluded`, are left out.

    Args:
        path: the file.
        space: the parameters, one column each.
        ladder: the fidelities.
        fidelity: the fidelity of all rows, None to read it from the column `fidelity`.
        columns: fidelium's name -> the file's header, where they differ. The column `std`, of standard errors, is read
            if the file has it; an empty cell is none.
        outcomes: names of outcomes to read, one column each; an empty cell is none.
        constraints: the study's: the outcomes that they name are read, too, and every row must have them.
        skip_bad: whether rows that are not valid are returned instead of refusing the file.

    Returns:
        The observations, and the bad rows that were skipped.

    Raises:
        SettingError: if the file cannot be read, lacks a column, or has a bad row that is not to be skipped; all errors
            are listed.
    """
    limited = [each.name for each in constraints]
    named = list(dict.fromkeys([*limited, *outcomes]))
    observed = ("value",) if fidelity is not None else ("fidelity", "value")
    if STD in columns and STD not in space.parameters:  # else it is read if the file has it
        observed = (*observed, STD)
    reader = _CsvReader(path, space, (*observed, *named), columns)
    found: list[ObservationRow | None] = []
    for line, row in reader.rows():
        if reader.own(row, "state", "done") == "done" and reader.own(row, "excluded", "False") != "True":
            observation = _parse_observation(reader, line, row, ladder, fidelity)
            given, std = _parse_outcomes(reader, line, row, named, limited), _parse_std(reader, line, row)
            valid = None if observation is None or given is None or line in reader.errors else observation
            found.append(None if valid is None else replace(valid, outcomes=given, std=std))
    if not skip_bad:
        reader.raise_errors()
    return [observation for observation in found if observation is not None], reader.bad_rows()


def read_designs(path: Path, space: SearchSpace) -> list[Params]:
    """The designs in a CSV file; columns that are not parameters are ignored.

    Raises:
        SettingError: if the file cannot be read or is not valid; all errors are listed.
    """
    reader = _CsvReader(path, space)
    found = [_parse_row(reader, line, row) for line, row in reader.rows()]
    reader.raise_errors()
    return [params for params in found if params is not None]


def read_wishes(path: Path, definition: StudyDefinition, otherwise: Wish) -> list[Wish]:
    """The designs to be queued in a CSV file: a column per parameter, and `fidelity`, `priority`, `note` or `tags`.

    Args:
        path: the file.
        definition: of the study.
        otherwise: the fidelity, priority, note and tags of rows whose cells are empty, or where there is no column.

    Raises:
        SettingError: if the file cannot be read or is not valid; all errors are listed.
    """
    reader = _CsvReader(path, definition.space)
    found: list[Wish] = []
    for line, row in reader.rows():
        params = _parse_row(reader, line, row)
        cells = {name: reader.own(row, name, "").strip() for name in ("fidelity", "priority", "note", "tags")}
        wish = replace(otherwise, params=params or {}, note=cells["note"] or otherwise.note)
        for name, parse in (("fidelity", str), ("priority", parsed_priority), ("tags", _parse_tags)):
            try:
                wish = replace(wish, **{name: parse(cells[name])}) if cells[name] else wish
                if name == "fidelity" and wish.fidelity is not None:
                    definition.ladder.index(wish.fidelity)
            except (FidelityError, SettingError) as error:
                reader.add_error(line, name if cells[name] else None, error)
        try:
            checked_note(wish.note)
            if params is not None:
                definition.space.validate(params)
        except (SettingError, SpaceError) as error:
            reader.add_error(line, None, error)
        found.append(wish)
    reader.raise_errors()
    return found


def _parse_tags(text: str) -> tuple[str, ...]:
    return tuple(checked_tag(tag) for tag in text.split(","))


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
    return space.within_bounds(
        {name: parse_value_of(space.parameters[name], name, text) for name, text in cells.items()}
    )


def parse_value_of(parameter: Parameter, name: str, text: str) -> Any:
    """The value of a parameter given as text.

    Raises:
        SpaceError: if the text is not a valid value; the message names the parameter.
    """
    try:
        return _parse_cell(parameter, text)
    except SpaceError as error:
        raise SpaceError(f"parameter {name!r}: {error}") from None


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


@dataclass
class _CsvReader:
    """Reads a CSV file and collects the errors in it.

    Args:
        path: the file.
        space: the parameters, each in the column that `export` writes or in a column of its own name.
        observed: other required columns.
        columns: fidelium's name -> the file's header, where they differ; None if the user cannot set them.
        errors: one message per error, by the row's last line.
    """

    path: Path
    space: SearchSpace
    observed: Sequence[str] = ()
    columns: Mapping[str, str] | None = None
    errors: dict[int, list[str]] = field(default_factory=dict)
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
                        self.errors.setdefault(reader.line_num, []).append(message)
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

    def own(self, row: Mapping[str, str], name: str, otherwise: str) -> str:
        """The cell in a column of an exported file; `otherwise` if there is none, or it is another column's header."""
        used = map(self.header, (*self.parameters.values(), *self.observed))
        return otherwise if name in used else row.get(name, otherwise)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Name of each parameter -> name of its column in an exported file."""
        return {name: _written(column) for name, column in parameter_columns(self.space).items()}

    def add_error(self, line: int, name: str | None, error: Exception) -> None:
        """Add an error in a cell, or in a row if there is no name."""
        message = str(error) if name is None else f"column {self.header(name)!r}: {error}"
        self.errors.setdefault(line, []).append(message)

    def bad_rows(self) -> list[BadRow]:
        """The rows with errors."""
        return [BadRow(line, tuple(errors)) for line, errors in self.errors.items()]

    def raise_errors(self) -> None:
        """Raise all errors together.

        Raises:
            SettingError: if there are any.
        """
        if self.errors:
            lines = "\n  ".join(truncated(listed(self.bad_rows()), MAX_ERRORS))
            raise SettingError(f"{str(self.path)!r} has errors; nothing was read:\n  {lines}")

    def _find_headers(self, headers: list[str]) -> dict[str, str]:
        """Column name -> header: as given by the user, else as exported, else the parameter's own name."""
        given = {
            name if name in self.observed else self.parameters.get(name, name): header
            for name, header in (self.columns or {}).items()
        }
        used = {given.get(name, name) for name in self.observed}
        own = {
            column: _written(name)
            for name, column in self.parameters.items()
            if column not in headers and name not in used
        }
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


def listed(rows: Sequence[BadRow]) -> list[str]:
    """A line for each error."""
    return [
        f"line {row.line}{', ' if error.startswith('column') else ': '}{error}" for row in rows for error in row.errors
    ]


def _parse_observation(
    reader: _CsvReader,
    line: int,
    row: Mapping[str, str],
    ladder: FidelityLadder,
    fidelity: str | None,
) -> ObservationRow | None:
    """The observation in a row; None, with an error added, if a cell is not valid."""
    params = _parse_row(reader, line, row)
    if params is not None and (violated := _violation(reader.space, params)) is not None:
        reader.add_error(line, None, violated)
        params = None
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


def _parse_outcomes(
    reader: _CsvReader, line: int, row: Mapping[str, str], names: Sequence[str], required: Sequence[str]
) -> dict[str, float] | None:
    """The outcomes in a row; None, with an error added, if a cell is not valid or a required one is empty."""
    found: dict[str, float] = {}
    valid = True
    for name in names:
        text = reader.cell(row, name)
        if not text.strip() and name not in required:
            continue
        try:
            found[name] = _parse_finite(text)
        except ObservationError as error:
            reader.add_error(line, name, error)
            valid = False
    return found if valid else None


def _parse_std(reader: _CsvReader, line: int, row: Mapping[str, str]) -> float | None:
    """The standard error in a row, None if there is none; with an error added if the cell is not valid."""
    text = reader.cell(row, STD) if STD in reader.observed else reader.own(row, STD, "")
    if not text.strip():
        return None
    value = parse_decimal(text)
    if value is None or not 0 <= value < math.inf:
        reader.add_error(line, STD, ObservationError(f"a standard error is a finite number >= 0, got {text!r}"))
        return None
    return value


def _violation(space: SearchSpace, params: Params) -> SpaceError | None:
    """Which constraint a design violates, if any."""
    try:
        space.validate(params)
    except SpaceError as error:
        return error
    return None


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
    if isinstance(parameter, Catalogue):
        return parameter.validate(text if text in parameter.table else _as_written(parameter, text))
    if isinstance(parameter, Categorical):
        return _parse_choice(parameter, text)
    value = parse_decimal(text)
    if value is None:
        expected = "a whole number" if isinstance(parameter, Integer) else "a number"
        raise SpaceError(f"expected {expected}, got {text!r}")
    return parameter.validate(value)


def _as_written(parameter: Catalogue, text: str) -> str:
    """The item whose name is written as `text`, without surrounding whitespace; the text itself if there is none."""
    stripped = text.strip()
    return next((item for item in parameter.choices if _written(item) in (text, stripped)), stripped)


def _parse_choice(parameter: Categorical, text: str) -> Any:
    """The choice written as `text`; surrounding whitespace is ignored unless a choice has it."""
    for candidate in (text, text.strip()):
        matches = [choice for choice in parameter.choices if _written(str(choice)) == candidate]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SpaceError(f"{text!r} is ambiguous: it could be {' or '.join(map(repr, matches))}; rename a choice")
    raise SpaceError(f"expected one of {', '.join(map(repr, map(str, parameter.choices)))}, got {text!r}")


def _written(text: str) -> str:
    """A text as it is written into a file: lone surrogates, which UTF-8 has not, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _parse_finite(text: str) -> float:
    value = parse_decimal(text)
    if value is None or not math.isfinite(value):
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
    table = TrialTable.of(definition.space, trials, definition.constraints)
    rows = [table.row(trial) for trial in _with_none_as_text(trials)]
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        writer = csv.DictWriter(stream, table.columns)
        writer.writeheader()
        writer.writerows(rows)


def _write_json(path: Path, definition: StudyDefinition, trials: Sequence[Trial]) -> None:
    fidelities = [
        {"name": rung.name, "cost": _declared(rung), **({} if rung.inputs is None else {"inputs": list(rung.inputs)})}
        for rung in definition.ladder
    ]
    study = {
        "name": definition.stored_name,
        "direction": str(definition.direction),
        "strategy": definition.strategy_name,
        "seed": definition.seed,
        **({"cost": definition.cost} if definition.measures_costs else {}),
        **({"constraints": [str(each) for each in definition.constraints]} if definition.constraints else {}),
    }
    content = {**study, "fidelities": fidelities, "trials": [trial_record(trial) for trial in trials]}
    path.write_text(json.dumps(content, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def _declared(rung: Fidelity) -> float | str:
    """The declared cost: a number, or the text of what it is computed by."""
    return rung.cost if isinstance(rung.cost, (int, float)) else formula_text(rung.cost)


def _write_parquet(path: Path, definition: StudyDefinition, trials: Sequence[Trial]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise SettingError("Parquet needs the extra 'parquet': pip install 'fidelium[parquet]'") from None
    table = TrialTable.of(definition.space, trials, definition.constraints)
    rows = [table.row(trial) for trial in trials]
    columns = {_written(name): _parquet_column([row[name] for row in rows]) for name in table.columns}
    parquet.write_table(pa.table(columns), path)


def _with_none_as_text(trials: Sequence[Trial]) -> Iterator[Trial]:
    """The trials with the choice None as the text "None", since an empty cell is not a choice."""
    for trial in trials:
        params = {name: "None" if value is None else value for name, value in trial.params.items()}
        yield replace(trial, params=params)


def _parquet_column(values: list[Any]) -> list[Any]:
    """A column of one type: values of different types become text."""
    types = {type(value) for value in values if value is not None}
    if str not in types and (len(types) <= 1 or types == {int, float}):
        return values
    return [None if value is None else _written(str(value)) for value in values]
