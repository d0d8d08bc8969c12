"""`fidelium storage`: manage the databases that store studies."""

from __future__ import annotations

from typing import Annotated

import typer

from fidelium.cli.locate import existing_name, find, open_storage_of
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import console, counted, examples, grid, print_json
from fidelium.text import visible

storage = typer.Typer(help="Manage the databases that store studies.", no_args_is_help=False)


@storage.command(epilog=examples("fidelium storage info study.yaml", "fidelium storage info sqlite:///study.db --json"))
def info(where: Where, as_json: AsJson = False) -> None:
    """List the studies in a storage, and its schema version."""
    from fidelium.storage import schema_version

    found = find(where)
    version = schema_version(found.storage)
    with open_storage_of(found) as stores:
        studies = {name: len(stores.open(name).trials()) for name in stores.names()}
    if as_json:
        listed = [{"name": name, "trials": count} for name, count in studies.items()]
        print_json({"storage": found.shown(), "schema": version, "studies": listed})
        return
    table = grid("study", ">trials", title=f"{found.shown()}, schema {version}")
    for name, count in studies.items():
        table.add_row(visible(name), str(count))
    console().print(table)


@storage.command(epilog=examples("fidelium storage upgrade sqlite:///study.db"))
def upgrade(where: Where) -> None:
    """Upgrade the tables of a storage to this version of fidelium. Back it up first."""
    from fidelium.storage import upgrade as run

    found = find(where)
    before, after = run(found.storage)
    if before == after:
        typer.echo(f"{found.shown()} already has schema {after}")
    else:
        typer.echo(f"{found.shown()} upgraded from schema {before} to {after}")


@storage.command(epilog=examples("fidelium storage delete sqlite:///study.db --name plate --yes"))
def delete(
    where: Where,
    name: Name = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a study and all its trials permanently; the trials' folders are kept."""
    found = find(where, name)
    with open_storage_of(found) as stores:
        chosen = existing_name(stores, found)
        description = f"study {chosen!r} with {counted(len(stores.open(chosen).trials()), 'trial')} in {found.shown()}"
        if not yes:
            _confirm(f"permanently delete {description}?")
        stores.delete(chosen)
    typer.echo(f"deleted {description}")


def _confirm(question: str) -> None:
    """Ask on stderr; anything but yes ends the command.

    Raises:
        Abort: if the answer is no, or there is none.
    """
    try:
        typer.confirm(question, abort=True, err=True)
    except UnicodeDecodeError:  # not an answer either
        raise typer.Abort from None
