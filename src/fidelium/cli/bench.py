"""`fidelium bench`: the measurements behind the README and docs/experiments.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fidelium.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fidelium.experiments.regret import Cell
    from fidelium.experiments.regret_report import Row
    from fidelium.experiments.speed import Speed

bench = typer.Typer(help="Measure strategies: their regret against cost, and their speed.")


@bench.command()
def regret(
    problem: Annotated[list[str] | None, typer.Option(help="Problem; may be repeated. All if none is named.")] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="Strategy, or botorch-logei or botorch-mfmes; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, as 0-4 or 0,3,7.")] = "0-4",
    budget: Annotated[float | None, typer.Option(help="Cost units each study may spend.")] = None,
    workers: Annotated[int, typer.Option(help="Processes at once, one core each.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the records; complete ones are not run again.")] = Path(
        "regret"
    ),
    markdown: Annotated[Path | None, typer.Option(help="File to write the table to, as Markdown.")] = None,
) -> None:
    """Run strategies on built-in problems and print median simple regrets over the seeds."""
    from fidelium.experiments import regret_report
    from fidelium.experiments.regret import load

    cells = _cells(problem, strategy, seeds, budget)
    failed = _run(cells, out, workers)
    table = regret_report.rows(load(cell, out) for cell in cells if cell not in failed)
    _print_rows(table)
    if markdown is not None:
        markdown.write_text(regret_report.markdown(table))
        typer.echo(f"table written to {markdown}")
    if failed:
        raise typer.Exit(1)


@bench.command()
def speed(
    problem: Annotated[str, typer.Option(help="Problem the observations come from.")] = "branin",
    strategy: Annotated[list[str] | None, typer.Option(help="Strategy; may be repeated.")] = None,
    sizes: Annotated[
        list[str] | None, typer.Option(help="Observations per fidelity, as 20/20/2, or in total; may be repeated.")
    ] = None,
    steady: Annotated[int, typer.Option(help="Suggestions after the first to take the median of.", min=1)] = 5,
    growth: Annotated[bool, typer.Option("--growth", help="Compare 500 with 4000 observations, mostly cheap.")] = False,
    json: Annotated[Path | None, typer.Option(help="File to write the results to, as JSON.")] = None,
) -> None:
    """Time suggestions on one core: the first of a new process, without and with its cache, and steady ones."""
    from json import dumps

    from rich.console import Console

    from fidelium import problems
    from fidelium.experiments import speed as measuring
    from fidelium.strategies import registry

    chosen = problems.get(problem)
    # the paper's learning takes minutes a step on 4,000 observations: growth is measured where it is asked for
    strategies = strategy or ([registry.DEFAULT] if growth else ["dnn-mfbo", "dnn-mfbo-paper"])
    for name in strategies:
        registry.check(name)
    wanted = [measuring.parse_sizes(text, chosen) for text in sizes or []]
    wanted += measuring.growth_sizes(chosen) if growth else []
    results: list[Speed] = []
    for name in strategies:
        for each in wanted or [tuple(chosen.initial.values())]:
            with Console(stderr=True).status(f"measuring {name} with {'/'.join(map(str, each))} observations"):
                results.append(measuring.measure_speed(problem, name, each, steady))
    _print_speeds(results)
    if growth:
        _print_growth(results)
    if json is not None:
        json.write_text(dumps(measuring.report(results), indent=2) + "\n")
        typer.echo(f"results written to {json}")


def parse_seeds(text: str) -> list[int]:
    """The seeds in a text like "0-4" or "0,3,7".

    Raises:
        SettingError: if the text is none.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SettingError(f"seeds must look like 0-4 or 0,3,7, got {text!r}")
        seeds.extend(range(int(first), int(last or first) + 1))
    if not seeds:
        raise SettingError(f"seeds must look like 0-4 or 0,3,7, got {text!r}")
    return seeds


def _cells(problem: list[str] | None, strategy: list[str] | None, seeds: str, budget: float | None) -> list[Cell]:
    from fidelium import problems
    from fidelium.experiments import peers
    from fidelium.experiments.regret import BUDGETS, Cell
    from fidelium.strategies import registry
    from fidelium.study.runner import checked_budget

    strategies = strategy or [registry.DEFAULT]
    for name in strategies:
        peers.check(name)
    chosen = [problems.get(name) for name in problem or problems.names()]
    numbers = parse_seeds(seeds)
    return [
        Cell(each.name, name, seed, checked_budget(each.ladder, budget if budget is not None else BUDGETS[each.name]))
        for each in chosen
        for name in strategies
        for seed in numbers
    ]


def _run(cells: Sequence[Cell], out: Path, workers: int) -> set[Cell]:
    """Run the cells with a bar; the ones that failed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from fidelium.experiments.regret import run_cells, spent

    failed: set[Cell] = set()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, refresh_per_second=1) as bar:
        task = bar.add_task("", total=sum(cell.budget for cell in cells))

        def tick() -> None:
            share = [spent(cell, out) / cell.budget for cell in cells]
            done = sum(cell.budget * part for cell, part in zip(cells, share, strict=True))
            bar.update(task, completed=done, description=f"{sum(p == 1 for p in share)} of {len(cells)} studies")

        def finished(cell: Cell, error: BaseException | None) -> None:
            console.print(_outcome(cell, out, error), highlight=False)
            if error is not None:
                failed.add(cell)

        run_cells(cells, out, workers, finished, tick)
        tick()
    return failed


def _outcome(cell: Cell, out: Path, error: BaseException | None) -> str:
    from fidelium.experiments.regret import load

    title = f"{cell.problem} {cell.strategy} seed {cell.seed}"
    if error is not None:
        return f"{title}: failed: {type(error).__name__}: {error}"
    run = load(cell, out)
    used = [query["fidelity"] for query in run.queries]
    counts = ", ".join(f"{used.count(name)} {name}" for name in dict.fromkeys(used))
    warned = f", {len(run.final['warnings'])} warnings" if run.final["warnings"] else ""
    return (
        f"{title}: simple regret {run.simple_regret(cell.budget):.3g}, recommended "
        f"{run.final['recommendation_regret']:.3g}; {counts}; {run.final['seconds']:.0f} s{warned}"
    )


def _print_rows(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    from fidelium.experiments.regret_report import cells_of, header_of, title_of

    for title in dict.fromkeys(title_of(row) for row in rows):
        same = [row for row in rows if title_of(row) == title]
        shown = Table(*header_of(same[0]), title=title, title_justify="left")
        for row in same:
            shown.add_row(*cells_of(row))
        Console().print(shown)


def _print_speeds(results: Sequence[Speed]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    title = f"{results[0].problem}: seconds per suggestion on one core (first of a new process, then steady)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("strategy", "observations"):
        table.add_column(column, no_wrap=True)
    for column in ("first, empty cache", "first, cache filled", "steady", "fit", "f*", "search", "peak MB"):
        table.add_column(column, justify="right")
    for result in results:
        stages = [f"{result.steady.get(name, 0.0):.3f}" for name in ("total", "fit", "fstar", "search")]
        firsts = [f"{result.first_empty:.2f}", f"{result.first_filled:.2f}"]
        table.add_row(result.strategy, "/".join(map(str, result.sizes)), *firsts, *stages, f"{result.peak_mb:.0f}")
    Console().print(table)


def _print_growth(results: Sequence[Speed]) -> None:
    from fidelium.experiments.speed import GROWTH

    few, many = GROWTH
    for name in dict.fromkeys(result.strategy for result in results):
        seconds = {sum(each.sizes): each.steady["total"] for each in results if each.strategy == name}
        typer.echo(f"{name}: {many} observations take {seconds[many] / seconds[few]:.1f} times as long as {few}")
