"""`fidelium export` and `fidelium import`: trials to a file, and existing observations from one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fidelium.cli.locate import existing_name, find, open_storage_of, open_store, study_in
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import counted, print_json, truncated
from fidelium.errors import SettingError
from fidelium.text import visible


def export(
    where: Where,
    file: Annotated[Path, typer.Argument(help="File to write, in the format of its suffix: .csv, .json or .parquet.")],
    name: Name = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write all trials to a CSV, JSON or Parquet file."""
    from fidelium.cli.table_io import write_table

    if os.path.exists(file) and not overwrite:  # False for a name that is too long: writing says so
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
    outcome: Annotated[
        list[str] | None,
        typer.Option(help="Column to read as an outcome that no constraint names; may be repeated.", metavar="NAME"),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Import the valid rows, and list those that are not.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add existing observations to a study.

    Columns named like the outcomes of the study's constraints are read, too, and every row must have them. --outcome
    reads further ones. A column std holds the standard errors of the values, if there is one; a cell may be empty. All
    other columns are ignored.

    All rows are checked first, and nothing is imported unless all are valid; with --skip-bad, the valid ones are. Rows
    that were imported before are skipped.
    """
    from fidelium.cli.table_io import MAX_ERRORS, listed, read_observations
    from fidelium.constraints import check_outcome_name
    from fidelium.study.transfer import add_missing
    from fidelium.trial_table import parameter_columns

    found = find(where, name)
    with open_storage_of(found) as storage:
        if found.file is not None:
            definition = found.file.definition
        else:
            definition = storage.open(existing_name(storage, found)).definition
        space, ladder = definition.space, definition.ladder
        if fidelity is not None:
            ladder.index(fidelity)
        for each in outcome or []:
            check_outcome_name(each)
            if each in space.parameters:
                raise SettingError(f"{each!r} is a parameter, so an outcome cannot have this name; rename its column")
        named = [*(limit.name for limit in definition.constraints), *(outcome or [])]
        names = dict.fromkeys([*space.names, *parameter_columns(space).values(), "fidelity", "value", "std", *named])
        headers = _headers(column or [], list(names))
        observed, bad = read_observations(
            file,
            space,
            ladder,
            fidelity,
            headers,
            outcomes=outcome or [],
            constraints=definition.constraints,
            skip_bad=skip_bad,
        )
        study = study_in(storage, found, create=True)  # only now: an invalid file creates nothing
        new = add_missing(study, observed)
    if as_json:
        skipped = [{"line": row.line, "errors": row.errors} for row in bad]
        known = len(observed) - new
        print_json({"rows": len(observed), "imported": new, "known": known, "skipped": skipped})
        return
    known = f", {len(observed) - new} were imported before" if new < len(observed) else ""
    skipped = f"; {counted(len(bad), 'bad row')} skipped:" if bad else ""
    typer.echo(f"{counted(new, 'observation')} imported from {file}{known}{skipped}")
    for line in truncated(listed(bad), MAX_ERRORS):
        typer.echo(f"  {visible(line)}")


def _headers(texts: list[str], names: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, equals, header = text.partition("=")
        if not equals or name not in names:
            raise SettingError(f"--column must look like name=header, with a name from {names}, got {text!r}")
        headers[name] = header
    return headers
