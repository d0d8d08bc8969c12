"""`fidelium storage`: manage the databases that store studies."""

from __future__ import annotations

from typing import Annotated

import typer

from fidelium.cli.locate import find, store_of
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import console, counted, examples, grid, print_json, visible

storage = typer.Typer(help="Manage the databases that store studies.", no_args_is_help=False)


@storage.command(epilog=examples("fidelium storage info study.yaml", "fidelium storage info sqlite:///study.db --json"))
def info(where: Where, as_json: AsJson = False) -> None:
    """List the studies in a storage, and its schema version."""
    from fidelium.storage import open_storage, schema_version

    place = find(where)
    version, stores = schema_version(place.storage), open_storage(place.storage)
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
    """Upgrade the tables of a storage to this version of fidelium. Back it up first."""
    from fidelium.storage import upgrade as run

    place = find(where)
    before, after = run(place.storage)
    if before == after:
        typer.echo(f"{place.shown()} already has schema {after}")
    else:
        typer.echo(f"{place.shown()} upgraded from schema {before} to {after}")


@storage.command(epilog=examples("fidelium storage delete sqlite:///study.db --name plate --yes"))
def delete(
    where: Where,
    name: Name = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a study and all its trials permanently; the trials' folders are kept."""
    from fidelium.storage import open_storage

    place = find(where, name)
    store = store_of(place)
    description = f"study {store.record.name!r} with {counted(len(store.trials()), 'trial')} in {place.shown()}"
    if not yes:
        typer.confirm(f"permanently delete {description}?", abort=True, err=True)
    open_storage(place.storage).delete(store.record.name)
    typer.echo(f"deleted {description}")
