"""`fidelium enqueue`, `prioritise`, `note`, `tag`: what a person wants to be run next, and writes on trials."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.locate import existing_name, find, open_storage_of, open_store, peek, study_in
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import design, print_json
from fidelium.cli.repair import Numbers, listed_trials
from fidelium.errors import SettingError
from fidelium.text import visible

if TYPE_CHECKING:
    from fidelium.history import Trial

SHOWN = 8
"""Queued designs that are shown at most."""

Written = Annotated[
    list[str], typer.Argument(help="Numbers of the trials, then the tag.", metavar="NUMBER... TAG", show_default=False)
]


def enqueue(
    where: Where,
    at: Annotated[
        list[str] | None, typer.Argument(help="The design.", metavar="NAME=VALUE...", show_default=False)
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="CSV file with a design in each row; columns fidelity, priority, note and tags may be there, too.",
        ),
    ] = None,
    fidelity: Annotated[str | None, typer.Option(help="The fidelity.", show_default="the target")] = None,
    priority: Annotated[int, typer.Option(help="Queued trials of a higher one are started first.")] = 0,
    note: Annotated[str | None, typer.Option(help="What to remember about it.", show_default=False)] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A tag; may be repeated.", metavar="TAG", show_default=False)
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Total budget, in cost units.", show_default="the file's, or no limit")
    ] = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Queue designs that you believe in: the next run, worker or ask evaluates them first.

    All are checked before one is queued. They must fit into what is left of the budget.
    """
    from fidelium.cli.table_io import parse_design, read_wishes
    from fidelium.study.steering import Wish, enqueue_all, queued_trial

    if bool(at) == (from_ is not None):
        raise SettingError("pass a design as name=value for each parameter, or --from FILE.csv")
    found = find(where, name)
    limit = budget if budget is not None else math.inf if found.budget is None else found.budget
    with open_storage_of(found) as storage:
        if found.file is not None:
            definition = found.file.definition
        else:
            definition = storage.open(existing_name(storage, found)).definition
        wish = Wish({}, fidelity, priority, note, tuple(tag or ()))
        if from_ is not None:
            wishes = read_wishes(from_, definition, wish)
        else:
            wishes = [replace(wish, params=parse_design(definition.space, at or []))]
        for wish in wishes:
            queued_trial(definition, wish)
        study = study_in(storage, found, create=True)  # only now: a design that is not valid creates nothing
        queued = enqueue_all(study.store, study.definition, wishes, limit)
    if as_json:
        print_json({"queued": [trial.number for trial in queued]})
        return
    advice = f"; run with: {found.command('run')}" if queued and "://" not in where else ""
    typer.echo(f"{listed_trials([trial.number for trial in queued])} queued{advice}")
    for trial in queued[:SHOWN]:
        typer.echo(f"  {_described(trial)}")
    if len(queued) > SHOWN:
        typer.echo(f"  and {len(queued) - SHOWN} more")


def prioritise(
    where: Where,
    numbers: Numbers = None,
    to: Annotated[int, typer.Option(help="The new priority; those of a higher one are started first.")] = 1,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Change the order of queued trials: those of a higher priority are started first."""
    from fidelium.storage import Annotation

    found = peek(where, name)
    if not numbers:
        command = found.command("prioritise", "12", "--to", "5")
        raise SettingError(f"pass the numbers of the queued trials, as in: {command}")
    changed = _write(where, name, numbers, Annotation.PRIORITISE, str(to))
    if as_json:
        print_json({"prioritised": [trial.number for trial in changed], "priority": to})
        return
    typer.echo(f"{listed_trials([trial.number for trial in changed])} with priority {to}")


def note(
    where: Where,
    number: Annotated[int, typer.Argument(help="The trial's number.", min=0, show_default=False)],
    text: Annotated[str, typer.Argument(help='The note; "" removes it.', show_default=False)],
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Write a note on a trial; it replaces the one before."""
    from fidelium.storage import Annotation

    (written,) = _write(where, name, [number], Annotation.NOTE, text)
    if as_json:
        print_json({"number": number, "note": written.note})
        return
    typer.echo(f"trial {number}: {'note removed' if written.note is None else f'note: {visible(written.note)}'}")


def tag(
    where: Where,
    words: Written,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag.")] = False,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Give trials a tag, one word, or remove it."""
    from fidelium.storage import Annotation

    *texts, label = words
    if not texts or not all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts):
        command = peek(where, name).command("tag", "12", "17", "suspicious")
        raise SettingError(f"pass the numbers of the trials and then the tag, as in: {command}")
    changed = _write(where, name, [int(text) for text in texts], Annotation.UNTAG if remove else Annotation.TAG, label)
    if as_json:
        print_json([{"number": trial.number, "tags": list(trial.tags)} for trial in changed])
        return
    listed = listed_trials([trial.number for trial in changed])
    typer.echo(f"{listed} {'no longer ' if remove else ''}tagged {visible(label.strip())}")


def _write(where: str, name: str | None, numbers: list[int], annotation: str, text: str) -> list[Trial]:
    """Write on all of these trials; on none if one of them does not allow it."""
    from fidelium.storage import Annotation
    from fidelium.study.steering import annotate_all

    with open_store(peek(where, name)) as store:
        return annotate_all(store, numbers, Annotation(annotation), text)


def _described(trial: Trial) -> str:
    more = f", priority {trial.priority}" if trial.priority else ""
    more += f" [{', '.join(trial.tags)}]" if trial.tags else ""
    more += f": {trial.note}" if trial.note else ""
    return f"{trial.number} at {visible(trial.fidelity.name)}: {design(trial.params)}{visible(more)}"
