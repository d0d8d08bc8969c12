"""Trials as a file: CSV and Parquet with a column per parameter, JSON with everything in its place."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fidelium.cli.summary import trial_json
from fidelium.errors import SettingError
from fidelium.history import Trial
from fidelium.storage.base import StudyRecord

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


def flat(record: StudyRecord, trial: Trial) -> dict[str, Any]:
    """A trial as a row; a parameter called like another column gets the prefix `params_`, as in `to_dataframe`."""
    content = trial_json(trial)
    names = {name: f"params_{name}" if name in (*_BEFORE, *_AFTER) else name for name in record.space.names}
    return (
        {name: content[name] for name in _BEFORE}
        | {column: trial.params[name] for name, column in names.items()}
        | {name: content[name] for name in _AFTER}
    )


def _write_csv(path: Path, record: StudyRecord, trials: Sequence[Trial]) -> None:
    """Numbers are written so that they come back as the same bits."""
    rows = [flat(record, trial) for trial in _spelled(trials)]
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [*_BEFORE, *record.space.names, *_AFTER])
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
