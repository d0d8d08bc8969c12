"""`fidelium status`: what a study has done and is doing, also while it runs in another terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.where import Place, glance, store_of
from fidelium.cli.words import counted, design, duration, first_line, grid, number, print_json, visible
from fidelium.errors import SettingError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fidelium.cli.summary import Summary
    from fidelium.storage import StudyStore

SHOWN = 8
"""Running trials, and failures, that the table shows at most."""

_BY_HAND = "asked by hand"


def status(
    where: Where,
    name: Name = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks of --watch.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show a study: trials, cost by fidelity, the best, what runs now, and what failed and why."""
    if watch and as_json:
        raise SettingError("--watch is for people and --json for programs: give one of them")
    place = glance(where, name)
    store = store_of(place)
    if as_json:
        print_json(_look(place, store).as_json(time.time()))
    elif watch:
        _watch(place, store, every)
    else:
        from fidelium.cli.words import console

        console().print(_page(_look(place, store), time.time()))


def _look(place: Place, store: StudyStore) -> Summary:
    from fidelium.cli.summary import Summary

    return Summary(store.record, store.trials(), place.budget)


def _watch(place: Place, store: StudyStore, every: float) -> None:
    from rich.live import Live

    from fidelium.cli.words import console

    def page() -> RenderableType:
        return _page(_look(place, store), time.time())

    try:
        with Live(page(), console=console(), auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(page(), refresh=True)
    except KeyboardInterrupt:  # how one leaves
        return


def _page(summary: Summary, now: float) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(line) for line in _lines(summary)]
    parts.append(_costs(summary))
    if summary.running:
        parts.append(_running(summary, now))
    if summary.failures:
        parts.append(_failures(summary))
    return Group(*parts)


def _lines(summary: Summary) -> list[str]:
    record, best = summary.record, summary.best
    states = ", ".join(f"{count} {state}" for state, count in summary.states.items() if count)
    budget = "" if summary.budget is None else f" of {summary.budget:g} ({summary.spent / summary.budget:.0%})"
    found = f"no value at {visible(record.ladder.target.name)} yet" if best is None else number(best.value)
    lines = [
        f"{visible(record.name)}: {record.direction} at {visible(record.ladder.target.name)} with {record.strategy}",
        f"trials  {len(summary.trials)}" + (f" ({states})" if states else ""),
        f"spent   {summary.spent:g}{budget}",
        f"best    {found}" + ("" if best is None else f" in trial {best.number}"),
    ]
    return lines if best is None else [*lines, f"        {design(best.params)}"]


def _costs(summary: Summary) -> Table:
    table = grid("fidelity", ">cost each", ">trials", ">given", ">cost", ">share")
    for share in summary.shares:
        part = f"{share.cost / summary.spent:.0%}" if summary.spent else "–"
        table.add_row(
            visible(share.fidelity.name),
            f"{share.fidelity.cost:g}",
            str(share.trials),
            str(share.given),
            f"{share.cost:g}",
            part,
        )
    return table


def _running(summary: Summary, now: float) -> Table:
    from fidelium.cli.summary import age

    table = grid(">trial", "fidelity", ">age", ">attempt", "worker", title=f"running: {len(summary.running)}")
    for trial in summary.running[:SHOWN]:
        fidelity, worker = visible(trial.fidelity.name), visible(trial.worker or _BY_HAND)
        table.add_row(str(trial.number), fidelity, duration(age(trial, now)), str(trial.attempt), worker)
    return _with_rest(table, len(summary.running))


def _failures(summary: Summary) -> Table:
    title = counted(len(summary.failures), "failure")
    table = grid(">trial", "fidelity", "state", "reason", title=f"{title}, newest first")
    for trial in summary.failures[:SHOWN]:
        table.add_row(str(trial.number), visible(trial.fidelity.name), str(trial.state), first_line(trial.reason))
    return _with_rest(table, len(summary.failures))


def _with_rest(table: Table, count: int) -> Table:
    if count > SHOWN:
        table.caption, table.caption_justify = f"and {count - SHOWN} more", "left"
    return table
