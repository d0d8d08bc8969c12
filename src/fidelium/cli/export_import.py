"""`fidelium export` and `fidelium import`: trials to a file, and existing observations from one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.locate import existing_name, find, open_storage_of, open_store, study_in
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import counted, print_json
from fidelium.errors import SettingError

if TYPE_CHECKING:
    from fidelium.cli.table_io import ObservationRow
    from fidelium.study import Study


def export(
    where: Where,
    file: Annotated[Path, typer.Argument(help="File to write, in the format of its suffix: .csv, .json or .parquet.")],
    name: Name = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write all trials to a CSV, JSON or Parquet file."""
    from fidelium.cli.table_io import write_table

    if file.exists() and not overwrite:
        raise SettingError(f"{str(file)!r} already exists; choose another name, or add --overwrite")
    with open_store(find(where, name)) as store:
        definition, trials = store.definition, store.trials()
    write_table(file, definition, trials)
    typer.echo(f"{counted(len(trials), 'trial')} written to {file}")


def import_(
    where: Where,
    file: Annotated[Path, typer.Argument(help="CSV file with columns for the parameters, fidelity and value.")],
    name: Name = None,
    fidelity: Annotated[str | None, typer.Option(help="Fidelity of all rows, if there is no such column.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Header to use for a name; may be repeated.", metavar="NAME=HEADER")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add existing observations to a study.

    All rows are checked first, and nothing is imported unless all are valid. Rows that were imported before are
    skipped.
    """
    from fidelium.cli.table_io import exported_columns, read_observations

    found = find(where, name)
    with open_storage_of(found) as storage:
        if found.file is not None:
            definition = found.file.definition
        else:
            definition = storage.open(existing_name(storage, found)).definition
        space, ladder = definition.space, definition.ladder
        if fidelity is not None:
            ladder.index(fidelity)
        names = dict.fromkeys([*space.names, *exported_columns(space).values(), "fidelity", "value"])
        observed = read_observations(file, space, ladder, fidelity, _headers(column or [], list(names)))
        study = study_in(storage, found, create=True, take_up=True)  # only now: an invalid file creates nothing
        new = _without_imported(study, observed)
        for row in new:
            study.add_observation(row.params, row.fidelity, row.value)
    if as_json:
        print_json({"rows": len(observed), "imported": len(new), "known": len(observed) - len(new)})
        return
    known = f", {len(observed) - len(new)} were imported before" if len(new) < len(observed) else ""
    typer.echo(f"{counted(len(new), 'observation')} imported from {file}{known}")


def _headers(texts: list[str], names: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, equals, header = text.partition("=")
        if not equals or name not in names:
            raise SettingError(f"--column must look like name=header, with a name from {names}, got {text!r}")
        headers[name] = header
    return headers


def _without_imported(study: Study, observed: list[ObservationRow]) -> list[ObservationRow]:
    """The rows that the study does not have yet, so that an interrupted import can be repeated."""
    given = [(trial.params, trial.fidelity.name, trial.value) for trial in study.trials if trial.given]
    known = {repr(row) for row in given}  # repr, since the choices True and 1 are equal in Python
    return [row for row in observed if repr((row.params, row.fidelity, row.value)) not in known]
