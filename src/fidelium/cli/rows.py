"""Tables of designs and observations in CSV files, checked cell by cell: all mistakes are found at once."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fidelium.cli.designs import parse_value
from fidelium.cli.words import listed
from fidelium.errors import FidelityError, ObservationError, SettingError, SpaceError
from fidelium.fidelity import FidelityLadder
from fidelium.space import Params, SearchSpace

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
        columns: the name that fidelium uses -> the file's header, where they differ.
        mistakes: sentences with line and column.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def rows(self, needed: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows with the numbers of their last lines.

        Raises:
            SettingError: if the file cannot be read, or a column is missing.
        """
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream, strict=True)
                headers = next(reader, [])
                self._check(headers, needed)
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

    def _check(self, headers: list[str], needed: list[str]) -> None:
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
    sheet = _Sheet(path)
    found = [_design(sheet, line, row, space) for line, row in sheet.rows(list(space.names))]
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
    sheet = _Sheet(path, columns)
    needed = [*space.names, "value"] if fidelity is not None else [*space.names, "fidelity", "value"]
    found: list[Observed | None] = []
    for line, row in sheet.rows(needed):
        if "state" in space.names or row.get("state", "done") == "done":
            found.append(_observed(sheet, line, row, space, ladder, fidelity))
    sheet.finish()
    return [each for each in found if each is not None]


def _observed(
    sheet: _Sheet, line: int, row: Mapping[str, str], space: SearchSpace, ladder: FidelityLadder, fidelity: str | None
) -> Observed | None:
    params = _design(sheet, line, row, space)
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


def _design(sheet: _Sheet, line: int, row: Mapping[str, str], space: SearchSpace) -> Params | None:
    """The row's design, None if a cell is wrong, and then it is blamed."""
    params: Params = {}
    for name, parameter in space.parameters.items():
        try:
            params[name] = parse_value(parameter, sheet.cell(row, name))
        except SpaceError as error:
            sheet.blame(line, name, error)
    return params if len(params) == len(space.names) else None


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ObservationError(f"expected a finite number, got {text!r}")
    return value + 0.0  # storages know one zero only
