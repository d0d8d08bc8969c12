"""Commands that only look: `status`, `best`, `recommend`, `predict`, and the lists of problems and strategies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import Place, find, open_study, peek, store_of
from fidelium.cli.options import AsJson, Name, Where
from fidelium.cli.output import console, counted, design, duration, first_line, grid, number, print_json, visible
from fidelium.errors import NoDataError, SettingError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fidelium.cli.summary import Summary
    from fidelium.space import Params, SearchSpace
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
    place = peek(where, name)
    store = store_of(place)
    if as_json:
        print_json(_look(place, store).as_json(time.time()))
    elif watch:
        _watch(place, store, every)
    else:
        from fidelium.cli.output import console

        console().print(_page(_look(place, store), time.time()))


def _look(place: Place, store: StudyStore) -> Summary:
    from fidelium.cli.summary import Summary

    return Summary(store.record, store.trials(), place.budget)


def _watch(place: Place, store: StudyStore, every: float) -> None:
    from rich.live import Live

    from fidelium.cli.output import console

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


def best(where: Where, name: Name = None, as_json: AsJson = False) -> None:
    """Print the best observed trial at the target fidelity."""
    from fidelium.cli.summary import Summary, trial_json

    store = store_of(find(where, name))
    found = Summary(store.record, store.trials(), None).best
    if found is None:
        raise NoDataError(f"no trial at the target, {store.record.ladder.target.name!r}, has a value yet")
    if as_json:
        print_json(trial_json(found))
        return
    out = console()
    out.print(f"{number(found.value)} at {visible(found.fidelity.name)} in trial {found.number}")
    out.print(design(found.params))


def recommend(where: Where, name: Name = None, as_json: AsJson = False) -> None:
    """Print the design to take now: where the model expects most of the target.

    The model is fitted for it, which takes some seconds.
    """
    choice = open_study(find(where, name)).recommend()
    if as_json:
        print_json({"params": choice.params, "mean": choice.mean, "std": choice.std})
        return
    out = console()
    out.print(f"{choice.mean:.6g} ± {choice.std:.2g} expected at the target")
    out.print(design(choice.params))


def predict(
    where: Where,
    name: Name = None,
    at: Annotated[list[str] | None, typer.Option(help="A parameter of a design, as name=value; once for each.")] = None,
    designs: Annotated[Path | None, typer.Option(help="CSV file with a design in each row, instead of --at.")] = None,
    fidelity: Annotated[str | None, typer.Option(help="The fidelity to predict.", show_default="the target")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the model expects of designs: mean and standard deviation.

    The model is fitted for it, which takes some seconds.
    """
    study = open_study(find(where, name))
    wanted = _wanted(study.space, at, designs)
    rung = study.ladder.target if fidelity is None else study.ladder[study.ladder.index(fidelity)]
    means, stds = study.predict(wanted, rung)
    rows = [(params, float(mean), float(std)) for params, mean, std in zip(wanted, means, stds, strict=True)]
    if as_json:
        answers = [{"params": params, "mean": mean, "std": std} for params, mean, std in rows]
        print_json({"fidelity": rung.name, "predictions": answers})
        return
    table = grid(">mean", ">std", "design", title=f"at {visible(rung.name)}")
    for params, mean, std in rows:
        table.add_row(f"{mean:.6g}", f"{std:.2g}", design(params))
    console().print(table)


def _wanted(space: SearchSpace, at: list[str] | None, designs: Path | None) -> list[Params]:
    from fidelium.cli.table_io import parse_design, read_designs

    if (at is None) == (designs is None):
        raise SettingError("say what to predict: either --at name=value for each parameter, or --designs FILE.csv")
    return read_designs(designs, space) if designs is not None else [parse_design(space, at or [])]


def problems(as_json: AsJson = False) -> None:
    """List the built-in problems."""
    from fidelium import problems as known

    found = [_described(name) for name in known.names()]
    if as_json:
        print_json(found)
        return
    for problem in found:
        typer.echo(f"{problem['name']}: {_sentence(problem)}")


def strategies(as_json: AsJson = False) -> None:
    """List the strategies, the default first."""
    from fidelium.strategies import registry

    if as_json:
        print_json(list(registry.names()))
        return
    for name in registry.names():
        typer.echo(name)


def _described(name: str) -> dict[str, Any]:
    from fidelium import problems as known

    try:
        problem = known.get(name)
    except SettingError as error:  # an extra is missing
        return {"name": name, "missing": str(error)}
    return {
        "name": name,
        "direction": str(problem.direction),
        "parameters": list(problem.space.names),
        "fidelities": [{"name": rung.name, "cost": rung.cost} for rung in problem.ladder],
        "optimum": problem.optimum,
        "reference": problem.reference,
    }


def _sentence(problem: dict[str, Any]) -> str:
    if "missing" in problem:
        return problem["missing"]
    costs = ", ".join(f"{rung['name']} costs {rung['cost']:g}" for rung in problem["fidelities"])
    return f"{problem['direction']} over {', '.join(problem['parameters'])}; {costs}; {problem['reference']}"
