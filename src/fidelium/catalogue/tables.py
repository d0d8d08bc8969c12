"""Tables as catalogues: CSV files and pandas DataFrames, a row per item."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

from fidelium.errors import SpaceError
from fidelium.numbers import parse_decimal

_MOST_BYTES = 256 * 2**20


def items_of_csv(
    path: str | PathLike[str], item: str | None, descriptors: Sequence[str] | None
) -> dict[str, dict[str, float]]:
    """The items in a CSV file with a header.

    Args:
        path: of the file.
        item: the column of the names, the first one if it is None.
        descriptors: the columns of numbers; None: all others that hold any number.

    Raises:
        SpaceError: if the file cannot be read or is not a catalogue, with the line.
    """
    where = Path(path).name
    header, rows = _read(Path(path))
    names, wanted = _columns(where, header, header[0] if item is None else item, descriptors)
    if descriptors is None:
        wanted = [name for name in wanted if any(parse_decimal(row[name]) is not None for _, row in rows)]
        if not wanted:
            raise SpaceError(f"{where}: no column beside {names!r} holds numbers; a catalogue needs descriptors")
    found: dict[str, dict[str, float]] = {}
    for line, row in rows:
        name = row[names].strip()
        if not name:
            raise SpaceError(f"{where}, line {line}: the item has no name in column {names!r}")
        if name in found:
            raise SpaceError(f"{where}, line {line}: the item {name!r} is there twice; rename or remove one")
        found[name] = {each: _cell(where, line, name, each, row[each]) for each in wanted}
    return found


def items_of_dataframe(frame: Any, item: str | None, descriptors: Sequence[str] | None) -> dict[Any, dict[str, Any]]:
    """The items in a pandas DataFrame; as `items_of_csv`, with the index as names if `item` is None.

    Raises:
        SpaceError: if it is not a catalogue.
    """
    table: Mapping[Any, list[Any]] = frame.to_dict("list")
    names, wanted = _columns("the table", list(table), item, descriptors)
    labels = list(frame.index) if names is None else table[names]
    if descriptors is None:
        wanted = [each for each in wanted if any(isinstance(cell, (int, float)) for cell in table[each])]
    found: dict[Any, dict[str, Any]] = {}
    for position, label in enumerate(labels):
        if label in found:
            raise SpaceError(f"the item {label!r} is in the table twice; rename or remove one")
        cells = {str(each): table[each][position] for each in wanted}
        missing = [each for each, cell in cells.items() if isinstance(cell, float) and math.isnan(cell)]
        if missing:
            raise SpaceError(f"the descriptor {missing[0]!r} of item {str(label)!r} is missing; {_ADVICE}")
        found[label] = cells
    return found


_ADVICE = "fill it in, or name the descriptors to use without it"


def _columns(where: str, header: Sequence[Any], item: Any, descriptors: Sequence[str] | None) -> tuple[Any, list[Any]]:
    """The column of the names, and those of the descriptors."""
    if isinstance(descriptors, str):
        raise SpaceError(f"descriptors must be a list of columns, got {descriptors!r}")
    for name in ([] if item is None else [item]) + list(descriptors or ()):
        if name not in header:
            near = get_close_matches(str(name), [str(each) for each in header], 1)
            advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(str, header))}"
            raise SpaceError(f"{where}: there is no column {name!r}; {advice}")
    if descriptors is not None and item in descriptors:
        raise SpaceError(f"{where}: column {item!r} holds the names, and cannot be a descriptor as well")
    return item, [name for name in header if name != item] if descriptors is None else list(descriptors)


def _read(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The header, and the rows that are not blank with their lines."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SpaceError(f"the catalogue {str(path)!r} is larger than {_MOST_BYTES >> 20} MB")
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise SpaceError(f"cannot read the catalogue {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpaceError(f"the catalogue {str(path)!r} is not UTF-8 text") from None
    except csv.Error as error:
        raise SpaceError(f"the catalogue {str(path)!r} is not CSV: {error}") from None
    if len(header) < 2:
        raise SpaceError(
            f"{path.name}: expected a header with a column of names and one of numbers, with commas between"
        )
    if twice := [name for i, name in enumerate(header) if name in header[:i]]:
        raise SpaceError(f"{path.name}: the column {twice[0]!r} is there twice; rename one")
    for line, row in rows:
        if len(row) != len(header):
            raise SpaceError(f"{path.name}, line {line}: expected {len(header)} cells as in the header, got {len(row)}")
    return header, [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def _cell(where: str, line: int, item: str, descriptor: str, text: str) -> float:
    """A number in a cell; a whole one stays whole."""
    number = parse_decimal(text)
    if number is not None and math.isfinite(number):
        plain = text.strip().lstrip("+-")
        return int(text) if plain.isascii() and plain.isdigit() and abs(number) < 2**53 else number
    if not text.strip() or text.strip().lower() in ("nan", "na", "n/a", "null", "none"):
        raise SpaceError(f"{where}, line {line}: the descriptor {descriptor!r} of item {item!r} is missing; {_ADVICE}")
    what = f"{where}, line {line}: the descriptor {descriptor!r} of item {item!r}"
    raise SpaceError(f"{what} must be a finite number, got {text.strip()[:80]!r}")
