"""`fidelium demo`: optimise a built-in problem, and draw figures of the result."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.cli.options import StrategyOption, strategy_options
from fidelium.cli.output import expectation, logged, make_folder

if TYPE_CHECKING:
    from rich.table import Table

    from fidelium.problems import Problem
    from fidelium.study import Study

_TARGET_QUERIES = 6
"""Queries at the target that the default budget covers after the initial design."""


def demo(
    name: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="Built-in problem; `fidelium problems` lists them.")
    ] = None,
    problem: Annotated[str, typer.Option(help="The same, as an option.")] = "levy",
    strategy: Annotated[str, typer.Option(help="How to choose what to evaluate.")] = "dnn-mfbo",
    option: StrategyOption = None,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    budget: Annotated[float | None, typer.Option(help="Cost units to spend.", show_default="by the problem")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("demo"),
) -> None:
    """Optimise a built-in problem, print the result and its cost, and draw figures."""
    from rich.console import Console

    from fidelium import create_study, problems
    from fidelium.definition import checked_budget

    chosen = problems.get(problem if name is None else name)
    study = create_study(
        chosen.space,
        chosen.ladder,
        direction=chosen.direction,
        strategy=strategy,
        strategy_options=strategy_options(option or []),
        seed=seed,
        name=chosen.name,
        constraints=chosen.constraints,
    )
    total = checked_budget(study.ladder, _default_budget(study) if budget is None else budget)
    make_folder(out)
    console = Console()
    console.print(_introduction(study, total), highlight=False)
    start = time.perf_counter()
    with logged():
        study.optimize(chosen, total)
    console.print(_findings(study, chosen))
    console.print(_costs(study))
    design = study.recommend()
    console.print(f"the recommended design: {expectation(design)}", highlight=False)
    console.print(f"{len(study.trials)} queries in {time.perf_counter() - start:.0f} s", highlight=False)
    for picture in _draw(study, chosen, out):
        console.print(f"picture: {picture}.html and {picture}.png", highlight=False, soft_wrap=True)


def _default_budget(study: Study) -> float:
    initial = sum(study.initial[rung.name] * rung.typical_cost for rung in study.ladder)
    return float(round(initial + _TARGET_QUERIES * study.ladder.target.typical_cost, -1))


def _introduction(study: Study, budget: float) -> str:
    fidelities = ", ".join(f"{rung.name} costs {rung.typical_cost:g}" for rung in study.ladder)
    return (
        f"[bold]{study.name}[/]: {study.direction} at [bold]{study.ladder.target.name}[/] over "
        f"{', '.join(study.space.names)} ({fidelities}) with {study.strategy}, spending {budget:g}"
    )


def _findings(study: Study, problem: Problem) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from fidelium.problems import recommendation_regret

    target = problem.ladder.target.name
    table = Table(box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for header in (*study.space.names, f"value at {target}", "regret"):
        table.add_column(header, justify="right")
    design = study.recommend().params
    optimum = min(problem.optimisers, key=lambda params: _distance(problem, params, design))
    kind = "best known" if problem.simulated else "optimum"
    found = {"recommended": design, f"nearest {kind}" if len(problem.optimisers) > 1 else kind: optimum}
    if study.best is not None:
        found = {"best observed": study.best.params, **found}
    for name, params in found.items():
        value, regret = problem.value(params, target), recommendation_regret(problem, params)
        table.add_row(name, *_format_values(params), f"{value:.5g}", f"{max(regret, 0.0):.2g}")
    return table


def _distance(problem: Problem, one: dict[str, object], other: dict[str, object]) -> float:
    return float(sum(abs(problem.space.encode(one) - problem.space.encode(other))))


def _format_values(params: dict[str, object]) -> list[str]:
    return [f"{value:.4g}" if isinstance(value, float) else str(value) for value in params.values()]


def _costs(study: Study) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("fidelity", box=SIMPLE_HEAD, show_footer=True)
    for header in ("cost each", "queries", "cost", "share"):
        table.add_column(header, justify="right")
    now = study.snapshot()
    for used in now.usage:
        rung = used.fidelity
        name = f"{rung.name} (target)" if rung == study.ladder.target else rung.name
        table.add_row(name, f"{used.cost_each:g}", str(used.trials), f"{used.cost:g}", f"{used.cost / now.spent:.0%}")
    footers = ("all", "", str(len(now.trials)), f"{now.spent:g}", "100%")
    for column, footer in zip(table.columns, footers, strict=True):
        column.footer = footer
    return table


def _draw(study: Study, problem: Problem, out: Path) -> list[Path]:
    """Write the figures of the study and, for a simulated problem, of the best design; returns paths without suffix."""
    from fidelium import plots

    known = None if problem.simulated else problem  # a simulation is too slow to draw everywhere
    figures = {"overview": plots.overview(study, optimum=problem.optimum, problem=known)}
    if problem.simulated and not problem.constraints:
        best = study.recommend().params if study.best is None else study.best.params
        figures[problem.name] = plots.picture(problem, best)
    for name, figure in figures.items():
        plots.write(figure, out / f"{name}.html", out / f"{name}.png")
    return [out / name for name in figures]
