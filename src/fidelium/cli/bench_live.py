"""Live display of a running experiment: time estimate, regret table, progress bar, one line per study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from fidelium.cli.output import make_folder
from fidelium.experiments.records import Cell, Run, is_complete, load_run
from fidelium.experiments.runner import Clock, run_cells

if TYPE_CHECKING:
    from fidelium.experiments.spec import Spec
    from fidelium.experiments.tables import Table


def run_experiment(spec: Spec, folder: Path, workers: int) -> tuple[list[Run], bool]:
    """Run the missing studies of an experiment with a live display.

    Returns:
        All completed runs, and whether a study failed.
    """
    cells = spec.cells()
    make_folder(folder)
    display = _Display(spec, cells, folder, workers)
    display.announce()
    with display.live:
        run_cells(cells, folder, workers, display.finished, display.tick)
    return [load_run(cell, folder) for cell in cells if is_complete(cell, folder)], display.failed


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables to the terminal."""
    for table in tables:
        grid = Grid(*(_plain(name) for name in table.header), title=table.title, title_justify="left")
        for row in table.rows:
            grid.add_row(*(f"[bold]{_plain(text)}[/bold]" if text.startswith("**") else text for text in row))
        Console().print(grid)


class _Display:
    """The live display of a running experiment."""

    def __init__(self, spec: Spec, cells: Sequence[Cell], folder: Path, workers: int) -> None:
        self.failed = False
        self._cells, self._folder = cells, folder
        self._console = Console(stderr=True)
        self._clock = Clock(cells, folder, workers, spec.minutes)
        self._runs = {cell: load_run(cell, folder) for cell in cells if is_complete(cell, folder)}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Progress(*columns, console=self._console)
        self._task = self._bar.add_task("", total=len(cells), left="")
        self.live = Live(console=self._console, refresh_per_second=1, transient=True, get_renderable=self._render)

    def announce(self) -> None:
        """Print the number of studies and the estimated time."""
        done, total = len(self._runs), len(self._cells)
        completed = f"{done} already complete, " if done else ""
        self._console.print(f"{total} studies, {completed}{self._left()} left", highlight=False)

    def tick(self) -> None:
        """Update the progress bar."""
        shares = sum(self._clock.share(cell) for cell in self._cells)
        done = f"{len(self._runs)} of {len(self._cells)} studies"
        self._bar.update(self._task, completed=shares, description=done, left=f"{self._left()} left")

    def finished(self, cell: Cell, error: BaseException | None) -> None:
        """Print the outcome of a study."""
        self.failed |= error is not None
        if error is None:
            self._runs[cell] = load_run(cell, self._folder)
        self._console.print(_outcome(cell, self._runs.get(cell), error), highlight=False)

    def _left(self) -> str:
        return f"about {timedelta(seconds=round(self._clock.seconds_left()))}"

    def _render(self) -> Group:
        """The regret table and the progress bar."""
        return Group(regret_table(self._cells, self._runs), self._bar)


def regret_table(cells: Sequence[Cell], runs: Mapping[Cell, Run]) -> Grid:
    """Number of completed studies and their median final simple regret, by problem and strategy.

    Problems are the rows if there are more of them than strategies, since a terminal has more room for rows.
    """
    problems = list(dict.fromkeys(cell.problem for cell in cells))
    strategies = list(dict.fromkeys(cell.strategy for cell in cells))
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.problem, cell.strategy].append(cell)
    texts = {pair: _regret_text(same, runs) for pair, same in groups.items()}
    caption = "completed studies, median final simple regret"
    if len(problems) > len(strategies):
        grid = Grid("problem", *strategies, caption=caption)
        for problem in problems:
            grid.add_row(problem, *(texts[problem, strategy] for strategy in strategies))
    else:
        grid = Grid("strategy", *problems, caption=caption)
        for strategy in strategies:
            grid.add_row(strategy, *(texts[problem, strategy] for problem in problems))
    return grid


def _regret_text(cells: Sequence[Cell], runs: Mapping[Cell, Run]) -> str:
    regrets = [runs[cell].simple_regret(cell.budget) for cell in cells if cell in runs]
    return f"{len(regrets)}/{len(cells)}" + (f"  {median(regrets):.2g}" if regrets else "")


def _outcome(cell: Cell, run: Run | None, error: BaseException | None) -> str:
    title = f"{cell.problem} {cell.strategy} seed {cell.seed}"
    if run is None:
        return f"{title}: failed: {type(error).__name__}: {error}"
    used = [query["fidelity"] for query in run.queries]
    counts = ", ".join(f"{used.count(name)} {name}" for name in dict.fromkeys(used))
    warnings = f", {len(run.end['warnings'])} warnings" if run.end["warnings"] else ""
    return (
        f"{title}: simple regret {run.simple_regret(cell.budget):.3g}, recommended "
        f"{run.recommendation_regret(cell.budget):.3g}; {counts}; {run.end['seconds']:.0f} s{warnings}"
    )


def _plain(text: str) -> str:
    return text.removeprefix("**").removesuffix("**")
