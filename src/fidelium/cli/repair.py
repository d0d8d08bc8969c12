"""`fidelium retry`, `exclude`, `restore`: repair the trials of a study; `changes`: who did it, when and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import Located, find, open_store, open_study, peek
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import console, counted, grid, print_json
from fidelium.errors import SettingError
from fidelium.text import visible

if TYPE_CHECKING:
    from fidelium.history import Change
    from fidelium.storage import Action, StudyStore

Numbers = Annotated[
    list[int] | None, typer.Argument(help="Numbers of the trials.", metavar="NUMBER...", show_default=False, min=0)
]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the record.", show_default=False)]


def retry(
    where: Where,
    numbers: Numbers = None,
    failed: Annotated[bool, typer.Option("--failed", help="All trials that failed or were lost.")] = False,
    reason: Reason = "",
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Queue failed, lost or excluded trials again; the next run evaluates them first. They are charged once only."""
    from fidelium.storage import Action

    if failed == bool(numbers):
        raise SettingError("pass the numbers of the trials to retry, or --failed for all that failed")
    found = peek(where, name)
    with open_store(found) as store:
        wanted = _failed(store) if failed else numbers
        queued = _amend(store, wanted or [], Action.RETRY, reason)
    if as_json:
        print_json({"queued": queued})
        return
    advice = f"; run with: {found.command('run')}" if queued and "://" not in where else ""
    typer.echo(f"{listed_trials(queued)} queued again{advice}")


def exclude(
    where: Where,
    numbers: Numbers = None,
    reason: Reason = "",
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print what a model without them expects there: fitting takes some seconds."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --explain: exclude nothing.")] = False,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Exclude trials: the model forgets them and they are never the best; their record and their cost stay."""
    from fidelium.storage import Action

    if dry_run and not explain:
        raise SettingError("--dry-run goes with --explain: then nothing is excluded, and the model's view is printed")
    found = peek(where, name)
    if not explain:
        _exclude_or_restore(found, numbers, Action.EXCLUDE, reason, as_json)
        return
    if not numbers:
        raise SettingError(f"pass the numbers of the trials, as in: {found.command('exclude', '12', '--explain')}")
    with open_study(find(where, name)) as study:
        unique = list(dict.fromkeys(numbers))
        expected = study.expectations(unique)
        changed = [] if dry_run else _amend(study.store, unique, Action.EXCLUDE, reason)
    if as_json:
        print_json({"excluded": changed, "expectations": [each.to_dict() for each in expected]})
        return
    typer.echo(f"{listed_trials(changed)} excluded")
    for each in expected:
        typer.echo(f"  {each}")


def restore(
    where: Where, numbers: Numbers = None, reason: Reason = "", name: Name = None, as_json: AsJson = False
) -> None:
    """Undo `exclude`: the values of these trials count again."""
    from fidelium.storage import Action

    _exclude_or_restore(peek(where, name), numbers, Action.RESTORE, reason, as_json)


def changes(where: Where, name: Name = None, as_json: AsJson = False) -> None:
    """List what people have changed in a study: who, when and why."""
    with open_store(peek(where, name)) as store:
        found = store.changes()
    if as_json:
        print_json([_change_json(change) for change in found])
        return
    table = grid("when", "who", "what", ">trial", "why", title=counted(len(found), "change"))
    for change in found:
        when = datetime.fromtimestamp(change.at).astimezone().strftime("%Y-%m-%d %H:%M")
        trial = "" if change.trial is None else str(change.trial)
        table.add_row(when, visible(change.who), visible(change.action), trial, visible(change.reason))
    console().print(table)


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "at": change.at,
        "who": change.who,
        "action": change.action,
        "trial": change.trial,
        "reason": change.reason,
    }


def _exclude_or_restore(found: Located, numbers: list[int] | None, action: Action, reason: str, as_json: bool) -> None:
    done = f"{action}d"  # excluded, restored
    if not numbers:
        raise SettingError(f"pass the numbers of the trials to {action}, as in: {found.command(str(action), '12')}")
    with open_store(found) as store:
        changed = _amend(store, numbers, action, reason)
    if as_json:
        print_json({done: changed})
        return
    typer.echo(f"{listed_trials(changed)} {done}")


def _amend(store: StudyStore, numbers: list[int], action: Action, reason: str) -> list[int]:
    """Do it to all of these trials; to none if one of them does not allow it."""
    from fidelium.study.repair import amend_all

    return [trial.number for trial in amend_all(store, numbers, action, reason)]


def _failed(store: StudyStore) -> list[int]:
    from fidelium.history import TrialState

    states = (TrialState.FAILED, TrialState.LOST)
    return [trial.number for trial in store.trials() if trial.state in states and not trial.excluded]


def listed_trials(numbers: list[int]) -> str:
    """How many trials, and which."""
    if not numbers:
        return "no trial"
    return f"{counted(len(numbers), 'trial')} ({', '.join(map(str, numbers))})"
