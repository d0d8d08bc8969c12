"""`fidelium tune`: search the network architecture of dnn-mfbo-paper on a problem's initial observations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fidelium.history import Observations
    from fidelium.problems import Problem
    from fidelium.tuning.search import Scored, Watch
    from fidelium.tuning.tune import Tuned


def tune(
    problem: Annotated[str, typer.Option(help="Built-in problem whose initial observations are used.")],
    seed: Annotated[int, typer.Option(help="Random seed of the observations and of the search.", min=0)] = 0,
    method: Annotated[str, typer.Option(help="quick (best of a few), smac (the paper's) or both.")] = "quick",
    evaluations: Annotated[
        int | None, typer.Option(help="Maximal number of architectures that SMAC3 scores.", min=1, show_default="50")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Time limit of SMAC3.", show_default="never")] = None,
    splits: Annotated[int, typer.Option(help="Random half/half splits of the observations.", min=1)] = 3,
    epochs: Annotated[int, typer.Option(help="Adam steps of each training.", min=1)] = 5000,
    json: Annotated[Path | None, typer.Option(help="File to write all scores to, as JSON.")] = None,
) -> None:
    """Search depth, width and learning rate for the networks of dnn-mfbo-paper."""
    from json import dumps

    from fidelium import problems
    from fidelium.tuning import tune as tuning
    from fidelium.tuning.cross_validation import CrossValidation

    observations = _initial_observations(problems.get(problem), seed)
    results: list[Tuned] = []
    for each in tuning.METHODS if method == "both" else [method]:
        with _progress_bar(each) as watch:
            found = tuning.tune_architecture(
                observations,
                each,
                seed=seed,
                evaluations=evaluations,
                seconds=seconds,
                validation=CrossValidation(splits, epochs),
                watch=watch,
            )
        results.append(found)
    _print_results(problem, seed, results)
    if json is not None:
        json.write_text(dumps(tuning.json_records(results), indent=2) + "\n")
        typer.echo(f"results written to {json}")


def _initial_observations(problem: Problem, seed: int) -> tuple[Observations, ...]:
    """The problem's initial observations, as in all experiments with this seed."""
    from fidelium.experiments.runner import initial_observations
    from fidelium.study import create_study

    study = create_study(problem.space, problem.ladder, direction=problem.direction, seed=seed, initial={})
    for params, fidelity, value in initial_observations(problem, seed):
        study.add_observation(params, fidelity, value)
    return study.history().observations


@contextmanager
def _progress_bar(method: str) -> Iterator[Watch]:
    """A progress bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as bar:
        task = bar.add_task(method, total=1.0)

        def watch(share: float, score: float) -> None:
            known = f", best score {score:.3f}" if score > -math.inf else ""
            bar.update(task, completed=share, description=f"{method}{known}")

        yield watch


def _print_results(problem: str, seed: int, results: Sequence[Tuned]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    title = f"{problem}, seed {seed}: mean log density of held-out halves, higher is better"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in ("method", "architecture"):
        table.add_column(column)
    for column in ("score", "scored", "seconds"):
        table.add_column(column, justify="right")
    default = results[0].default
    table.add_row("default", _architecture_text(default), f"{default.score:.3f}", "", "")
    for each in results:
        counts = f"{len(each.scored)}", f"{each.seconds:.0f}"
        table.add_row(each.method, _architecture_text(each.best), f"{each.best.score:.3f}", *counts)
    Console().print(table)
    typer.echo(max(results, key=lambda each: each.best.score).snippet(), nl=False)


def _architecture_text(scored: Scored) -> str:
    architecture = scored.architecture
    shapes = (f"{depth}x{width}" for depth, width in zip(architecture.depths, architecture.widths, strict=True))
    return f"{' / '.join(shapes)}, rate {architecture.learning_rate:.2g}"
