"""`fidelium storage`: look after the databases that studies are kept in."""

from __future__ import annotations

from typing import Annotated

import typer

from fidelium.cli.locate import existing_name, find, open_storage_of
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import console, counted, examples, grid, print_json, visible

storage = typer.Typer(help="Look after the databases that studies are kept in.", no_args_is_help=False)


@storage.command(epilog=examples("fidelium storage info study.yaml", "fidelium storage info sqlite:///study.db --json"))
def info(where: Where, as_json: AsJson = False) -> None:
    """Show which studies a storage has, and the version of its tables."""
    from fidelium.storage import schema_version

    place = find(where)
    version = schema_version(place.storage)
    with open_storage_of(place) as stores:
        studies = {name: len(stores.open(name).trials()) for name in stores.names()}
    if as_json:
        listed = [{"name": name, "trials": count} for name, count in studies.items()]
        print_json({"storage": place.shown(), "schema": version, "studies": listed})
        return
    table = grid("study", ">trials", title=f"{place.shown()}, schema {version}")
    for name, count in studies.items():
        table.add_row(visible(name), str(count))
    console().print(table)


@storage.command(epilog=examples("fidelium storage upgrade sqlite:///study.db"))
def upgrade(where: Where) -> None:
    """Bring the tables of a storage up to this version of fidelium. Make a copy of it first."""
    from fidelium.storage import upgrade as run

    place = find(where)
    before, after = run(place.storage)
    if before == after:
        typer.echo(f"{place.shown()} has schema {after} already")
    else:
        typer.echo(f"{place.shown()} upgraded from schema {before} to {after}")


@storage.command(epilog=examples("fidelium storage delete sqlite:///study.db --name plate --yes"))
def delete(
    where: Where,
    name: Name = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")] = False,
) -> None:
    """Delete a study with all its trials, for good; the folders of external programs stay."""
    place = find(where, name)
    with open_storage_of(place) as stores:
        chosen = existing_name(stores, place)
        meant = f"study {chosen!r} with {counted(len(stores.open(chosen).trials()), 'trial')} in {place.shown()}"
        if not yes:
            typer.confirm(f"delete {meant} for good?", abort=True, err=True)
        stores.delete(chosen)
    typer.echo(f"deleted {meant}")
