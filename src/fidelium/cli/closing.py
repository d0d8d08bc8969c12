"""What `fidelium run` ends with: what was found, what it cost, and where everything is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fidelium.cli.words import console, counted, design, grid, number, visible

if TYPE_CHECKING:
    from rich.table import Table

    from fidelium.cli.summary import Summary
    from fidelium.cli.where import Place
    from fidelium.study import Study


def print_closing(study: Study, place: Place) -> None:
    """Print the summary of a run that came to its end."""
    from fidelium.cli.summary import Summary

    summary = Summary(study.store.record, study.trials, place.budget)
    out = console()
    out.print(_costs(summary))
    target = visible(study.ladder.target.name)
    if summary.best is None:
        out.print(f"best observed: no value at {target} yet")
    else:
        out.print(f"best observed: {number(summary.best.value)} in trial {summary.best.number}")
        out.print(f"               {design(summary.best.params)}")
    for line in _recommended(study, place):
        out.print(line)
    for line in _places(place):
        out.print(line)


def _costs(summary: Summary) -> Table:
    table = grid("fidelity", ">cost each", ">trials", ">cost")
    for share in summary.shares:
        name, each = visible(share.fidelity.name), f"{share.fidelity.cost:g}"
        table.add_row(name, each, str(share.trials), f"{share.cost:g}")
    failed = len(summary.failures)
    table.caption = f"{summary.spent:g} spent" + (f", {counted(failed, 'failure')}" if failed else "")
    table.caption_justify = "left"
    return table


def _recommended(study: Study, place: Place) -> list[str]:
    """The model's choice, if the run has used a model; else how to get one, for fitting takes a while."""
    from fidelium.history import TrialState
    from fidelium.strategies import registry
    from fidelium.strategies.base import Modelled

    if not any(trial.state is TrialState.DONE for trial in study.trials):
        return []
    if not isinstance(registry.resolve(study.strategy), Modelled):
        return [f"recommended:   {study.strategy} has no model; fit one with: {place.command('recommend')}"]
    choice = study.recommend()
    return [
        f"recommended:   {choice.mean:.6g} ± {choice.std:.2g} expected",
        f"               {design(choice.params)}",
    ]


def _places(place: Place) -> list[str]:
    lines = [f"trials:        {place.shown()}"]
    if place.file is not None:
        lines.append(f"their folders: {place.file.program.runs}")
    return [*lines, f"picture:       {place.command('plot study')}"]
