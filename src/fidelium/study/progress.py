"""What the user sees while a study runs: a live bar on a terminal, lines in the log otherwise."""

from __future__ import annotations

import logging
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fidelium.history import Trial

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from fidelium.study.study import Study

_log = logging.getLogger("fidelium.study")


class Progress(Protocol):
    """Hears of every trial as it starts and as it ends."""

    @abstractmethod
    def started(self, trial: Trial) -> None: ...

    @abstractmethod
    def finished(self, trial: Trial) -> None: ...


@contextmanager
def watch(study: Study, budget: float, *, shown: bool) -> Iterator[Progress]:
    """Show the study's progress while inside: a bar if `shown` and there is a terminal, lines in the log if not."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield _Lines(study, budget)
        return
    bar = _live_bar()
    reporter = _Bar(study, bar, bar.add_task("", total=budget, status=""))
    reporter.update()
    with bar:
        yield reporter


def status(study: Study) -> str:
    """Best value so far and evaluations per fidelity, in a line."""
    best = study.best
    counts = Counter(trial.fidelity.name for trial in study.trials)
    used = " · ".join(f"{name} {counts[name]}" for name in study.ladder.names)
    return f"best {'–' if best is None else format(best.value, '.5g')} | {used}"


@dataclass(frozen=True)
class _Lines:
    """One line in the log per finished trial."""

    study: Study
    budget: float

    def started(self, trial: Trial) -> None:
        del trial

    def finished(self, trial: Trial) -> None:
        outcome = str(trial.state) if trial.value is None else f"{trial.value:.6g}"
        _log.info(
            "trial %d at %s: %s; spent %g of %g; %s",
            trial.number,
            trial.fidelity.name,
            outcome,
            self.study.spent,
            self.budget,
            status(self.study),
        )


@dataclass(frozen=True)
class _Bar:
    """The live bar of rich."""

    study: Study
    bar: RichProgress
    task: TaskID

    def started(self, trial: Trial) -> None:
        self.update()

    def finished(self, trial: Trial) -> None:
        self.update()

    def update(self) -> None:
        self.bar.update(self.task, completed=self.study.spent, status=status(self.study))


def _live_bar() -> RichProgress:
    from rich.console import Console  # only for who looks at a terminal
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("cost [bold]{task.completed:g}[/] of {task.total:g}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        refresh_per_second=4,
    )
