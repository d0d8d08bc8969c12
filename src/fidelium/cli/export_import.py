"""`fidelium export` and `fidelium import`: trials out to a file, and old data in from one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.locate import find, start_study, store_of
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import counted, print_json
from fidelium.errors import SettingError

if TYPE_CHECKING:
    from fidelium.cli.table_io import Observed
    from fidelium.study import Study


def export(
    where: Where,
    file: Annotated[Path, typer.Argument(help="File to write: its ending, .csv, .json or .parquet, says how.")],
    name: Name = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
) -> None:
    """Write all trials to a CSV, JSON or Parquet file."""
    from fidelium.cli.table_io import write_table

    if file.exists() and not overwrite:
        raise SettingError(f"{str(file)!r} is there already; choose another name, or add --overwrite")
    store = store_of(find(where, name))
    trials = store.trials()
    write_table(file, store.record, trials)
    typer.echo(f"{counted(len(trials), 'trial')} written to {file}")


def import_(
    where: Where,
    file: Annotated[Path, typer.Argument(help="CSV file with a column for each parameter, fidelity and value.")],
    name: Name = None,
    fidelity: Annotated[str | None, typer.Option(help="The fidelity of all rows, if there is no such column.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Another header, as name=header; may be repeated.", metavar="NAME=HEADER")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a study observations that exist already.

    All rows are checked first, and nothing is imported unless all of them are good. Rows that were imported before are
    left out.
    """
    from fidelium.cli.table_io import exported_columns, read_observations

    place = find(where, name)
    described = place.file or store_of(place).record
    space, ladder = described.space, described.ladder
    if fidelity is not None:
        ladder.index(fidelity)
    names = dict.fromkeys([*space.names, *exported_columns(space).values(), "fidelity", "value"])
    observed = read_observations(file, space, ladder, fidelity, _headers(column or [], list(names)))
    study = start_study(place)
    new = _unknown(study, observed)
    for each in new:
        study.add_observation(each.params, each.fidelity, each.value)
    if as_json:
        print_json({"rows": len(observed), "imported": len(new), "known": len(observed) - len(new)})
        return
    known = f", {len(observed) - len(new)} were known already" if len(new) < len(observed) else ""
    typer.echo(f"{counted(len(new), 'observation')} imported from {file}{known}")


def _headers(texts: list[str], names: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, equals, header = text.partition("=")
        if not equals or name not in names:
            raise SettingError(f"--column must look like name=header with a name of {names}, got {text!r}")
        headers[name] = header
    return headers


def _unknown(study: Study, observed: list[Observed]) -> list[Observed]:
    """What the study was not given before: so an import that was interrupted can be repeated."""
    given = [(trial.params, trial.fidelity.name, trial.value) for trial in study.trials if trial.given]
    known = {repr(each) for each in given}  # with the types, since the choices True and 1 are equal in Python
    return [each for each in observed if repr((each.params, each.fidelity, each.value)) not in known]
