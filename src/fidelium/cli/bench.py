"""`fidelium bench`: the measurements behind the README and docs/experiments.md."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fidelium.experiments.report import ReportOptions
    from fidelium.experiments.spec import Spec
    from fidelium.experiments.speed import Speed

bench = typer.Typer(help="Benchmark strategies (regret against cost, and speed) and storages.")

RESULTS = Path("results")
"""Default folder for records, shared by the shipped experiments: a study of two of them is run once."""

Workers = Annotated[int, typer.Option(help="Parallel processes, one core each.", min=1)]
Quick = Annotated[bool, typer.Option("--quick", help="Two seeds, a third of the budget.")]
Out = Annotated[Path, typer.Option(help="Folder for the records; completed studies are not run again.")]
Page = Annotated[Path | None, typer.Option(help="Report to write; by default in the folder.")]


@bench.command()
def run(
    spec: Annotated[Path, typer.Argument(help="YAML file: problems, strategies, seeds, budgets.")],
    workers: Workers = 2,
    quick: Quick = False,
    out: Annotated[Path | None, typer.Option(help="Folder for all output; by default results/NAME.")] = None,
) -> None:
    """Run an experiment described by a file; if interrupted, the same command resumes it."""
    from fidelium.experiments.report import options_for
    from fidelium.experiments.spec import load_spec

    experiment = load_spec(spec)
    folder = out or RESULTS / experiment.name
    options = options_for(experiment)
    _run_and_report(experiment, options, f"fidelium bench run {spec}", quick, workers, folder, folder / "report.md")


@bench.command()
def paper(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Reproduce the paper's comparison of seven methods and its figures: regrets and query times."""
    _run_shipped("paper", quick, workers, out, report)


@bench.command()
def arena(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare fidelium with BoTorch, Optuna and SMAC; needs the extra `peers`."""
    _run_shipped("arena", quick, workers, out, report)


@bench.command()
def robustness(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare the default with a single-fidelity method where cheap fidelities are good, useless or misleading."""
    _run_shipped("robustness", quick, workers, out, report)


@bench.command()
def ablation(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare the default with versions that each lack one of its parts."""
    _run_shipped("ablation", quick, workers, out, report)


@bench.command()
def constraints(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare the default on problems with constraints with egobox and BoTorch; needs the extras `peers` and `fem`."""
    _run_shipped("constraints", quick, workers, out, report)


@bench.command()
def failures(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare the default with and without its model of success on problems whose runs fail."""
    _run_shipped("failures", quick, workers, out, report)


@bench.command()
def costs(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare the default with and without measured costs on problems whose costs depend on the design."""
    _run_shipped("costs", quick, workers, out, report)


@bench.command()
def catalogue(workers: Workers = 2, quick: Quick = False, out: Out = RESULTS, report: Page = None) -> None:
    """Compare what the default and a single-fidelity method spend to find the best of 608 items with descriptors."""
    _run_shipped("catalogue", quick, workers, out, report)


@bench.command()
def regret(
    problem: Annotated[list[str] | None, typer.Option(help="Problem; may be repeated. By default the paper's.")] = None,
    strategy: Annotated[list[str] | None, typer.Option(help="Strategy or peer; may be repeated.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, as 0-4 or 0,3,7.")] = "0-4",
    budget: Annotated[float | None, typer.Option(help="Cost units each study may spend.")] = None,
    workers: Workers = 2,
    out: Out = RESULTS,
    markdown: Annotated[Path | None, typer.Option(help="File to write the tables to, as Markdown.")] = None,
) -> None:
    """Run strategies on built-in problems and print median regrets over the seeds."""
    from fidelium import problems
    from fidelium.cli.bench_live import print_tables, run_experiment
    from fidelium.experiments.constrained_tables import constraint_tables, failure_tables
    from fidelium.experiments.spec import SYNTHETIC, make_spec
    from fidelium.experiments.tables import regret_tables, summary_tables, time_table
    from fidelium.strategies import registry

    plans = {name: {"budget": budget} for name in problem or SYNTHETIC}
    names = strategy or [registry.DEFAULT]
    chosen = [problems.get(name) for name in plans]
    own_start = any(each.constraints or each.fails for each in chosen)
    settings = {"name": "regret", "problems": plans, "strategies": names, "seeds": seeds, "own_start": own_start}
    spec = make_spec(settings, "bench regret")
    runs, failed = run_experiment(spec, out, workers)
    if runs:
        limited = constraint_tables(runs) if any(each.constraints for each in chosen) else []
        failing = failure_tables(runs, None) if any(each.fails for each in chosen) else []
        usual = [] if own_start else [*regret_tables(runs), *summary_tables(runs)]
        tables = [*limited, *failing, *usual, time_table(runs, names[0])]
        print_tables(tables)
        if markdown is not None:
            markdown.write_text("\n".join(table.markdown() for table in tables))
            typer.echo(f"tables written to {markdown}")
    if failed:
        raise typer.Exit(1)


@bench.command()
def speed(
    problem: Annotated[str, typer.Option(help="Problem the observations come from.")] = "branin",
    strategy: Annotated[list[str] | None, typer.Option(help="Strategy; may be repeated.")] = None,
    sizes: Annotated[
        list[str] | None, typer.Option(help="Observations per fidelity, as 20/20/2, or in total; may be repeated.")
    ] = None,
    steady: Annotated[int, typer.Option(help="Number of suggestions after the first, for the median.", min=1)] = 5,
    growth: Annotated[bool, typer.Option("--growth", help="Compare 500 with 4000 observations, mostly cheap.")] = False,
    hard: Annotated[
        bool, typer.Option("--hard", help="Six fidelities, 15 dimensions, many categories; every strategy by default.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="File to write the results to, as JSON.")] = None,
) -> None:
    """Time suggestions on one core: the first of a new process, without and with a filled cache, and later ones."""
    from json import dumps

    from rich.console import Console

    from fidelium import problems
    from fidelium.experiments import speed as measuring
    from fidelium.strategies import registry

    if hard:
        _measure_hard_cases(strategy or [name for name in registry.strategy_names() if name != "random"], steady)
        return
    chosen = problems.get(problem)
    # with 4,000 observations dnn-mfbo-paper takes minutes per step: measure its growth only on request
    strategies = strategy or ([registry.DEFAULT] if growth else ["dnn-mfbo", "dnn-mfbo-paper"])
    for name in strategies:
        registry.check(name)
    observations = [measuring.parse_sizes(text, chosen) for text in sizes or []]
    observations += measuring.growth_sizes(chosen) if growth else []
    results: list[Speed] = []
    for name in strategies:
        for counts in observations or [tuple(chosen.initial.values())]:
            with Console(stderr=True).status(f"measuring {name} with {'/'.join(map(str, counts))} observations"):
                results.append(measuring.measure_speed(problem, name, counts, steady))
    _print_speeds(results)
    for result in results:
        time = f"{result.all_seconds / 60:.1f} minutes ({result.all_processor / 60:.1f} minutes of CPU time)"
        typer.echo(f"{result.strategy}: {result.suggestions} suggestions of a new process, cache filled, took {time}")
    if growth:
        _print_growth(results)
    if json is not None:
        json.write_text(dumps(measuring.speed_report(results), indent=2) + "\n")
        typer.echo(f"results written to {json}")


@bench.command()
def storage(
    url: Annotated[
        list[str] | None, typer.Argument(help="Storages to measure; by default memory and a new SQLite file.")
    ] = None,
    processes: Annotated[list[int] | None, typer.Option(help="Parallel processes; may be repeated.", min=1)] = None,
    trials: Annotated[int, typer.Option(help="Total number of trials.", min=1)] = 400,
) -> None:
    """Time the storage operations of an ask and of a tell, without choosing or evaluating anything.

    Example: fidelium bench storage sqlite:///night.db postgresql://me@server/studies --processes 1 --processes 4
    """
    from rich.console import Console
    from rich.table import Table

    from fidelium.experiments.storage_speed import measure_storage

    table = Table("storage", "processes", "asks / s", "tells / s", "load all, s", title=f"{trials} trials")
    with _storages(url) as storages:
        for name, address in storages.items():
            for count in processes or [1, 4]:
                with Console(stderr=True).status(f"measuring {name} with {count} processes"):
                    speed = measure_storage(address, count, trials)
                rates = (f"{speed.asks_per_second:,.0f}", f"{speed.tells_per_second:,.0f}", f"{speed.load_seconds:.3f}")
                table.add_row(name, str(count), *rates)
    Console().print(table)


def _run_shipped(name: str, quick: bool, workers: int, folder: Path, page: Path | None) -> None:
    from fidelium.experiments.report import ABLATION, ARENA, CONSTRAINTS, COSTS, FAILURES, FOUND, PAPER, RATIOS
    from fidelium.experiments.spec import shipped_spec

    special = {"constraints": CONSTRAINTS, "failures": FAILURES, "costs": COSTS, "catalogue": FOUND}
    options = {"paper": PAPER, "arena": ARENA, "robustness": RATIOS, "ablation": ABLATION, **special}[name]
    command = f"fidelium bench {name}"
    _run_and_report(shipped_spec(name), options, command, quick, workers, folder, page or folder / f"{name}.md")


def _run_and_report(
    spec: Spec, options: ReportOptions, command: str, quick: bool, workers: int, folder: Path, page: Path
) -> None:
    from fidelium.cli.bench_live import print_tables, run_experiment
    from fidelium.experiments.report import headline_tables, write_report

    spec, command = (spec.quick(), f"{command} --quick") if quick else (spec, command)
    runs, failed = run_experiment(spec, folder, workers)
    if runs:
        print_tables(headline_tables(spec, runs, options))
        for file in write_report(spec, runs, options, command, page, folder):
            typer.echo(f"written: {file}")
    if failed:
        raise typer.Exit(1)


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


def _measure_hard_cases(strategies: Sequence[str], steady: int) -> None:
    """A line for each measurement, as it is made; exit code 1 if one failed."""
    from fidelium.experiments.hard_cases import CASES, MOST_SECONDS, measure_case
    from fidelium.strategies import registry

    for name in strategies:
        registry.check(name)
    typer.echo("processor seconds on one core: first suggestion (compiled), later ones, a recommendation")
    failed = False
    for case in CASES:
        for name in strategies:
            times = measure_case(case, name, steady)
            if isinstance(times, str):
                typer.echo(f"{case}: {name:<15} failed: {times}")
                failed = True
                continue
            slow = "  more than it may take" if max(times.steady, times.recommend) > MOST_SECONDS else ""
            seconds = f"{times.first:7.1f} {times.steady:7.2f} {times.recommend:7.2f}"
            typer.echo(f"{case}: {name:<15} {seconds}{slow}")
    if failed:
        raise typer.Exit(1)


def _print_growth(results: Sequence[Speed]) -> None:
    from fidelium.experiments.speed import GROWTH

    few, many = GROWTH
    for name in dict.fromkeys(result.strategy for result in results):
        seconds = {sum(each.sizes): each.steady["total"] for each in results if each.strategy == name}
        typer.echo(f"{name}: {many} observations take {seconds[many] / seconds[few]:.1f} times as long as {few}")


@contextmanager
def _storages(urls: list[str] | None) -> Iterator[dict[str, str | None]]:
    """Name -> URL of each storage, None for memory."""
    if urls:
        from fidelium.storage.sql.url import parse_address

        yield {str(parse_address(url)): url for url in urls}  # names without passwords
        return
    with tempfile.TemporaryDirectory(prefix="fidelium-") as folder:
        yield {"memory": None, "SQLite": f"sqlite:///{Path(folder) / 'speed.db'}"}
