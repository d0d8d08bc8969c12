"""Progress of a running study: a live bar on a terminal, lines in the log otherwise."""

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
from fidelium.snapshot import Snapshot

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from fidelium.study.study import Study

_log = logging.getLogger("fidelium.study")


class Progress(Protocol):
    """Is notified when a trial starts and when it ends."""

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


def status_line(snapshot: Snapshot) -> str:
    """Best value so far and trials per fidelity, in a line."""
    best = snapshot.best
    counts = Counter(trial.fidelity.name for trial in snapshot.trials)
    used = " · ".join(f"{name} {counts[name]}" for name in snapshot.definition.ladder.names)
    return f"best {'–' if best is None else format(best.value, '.5g')} | {used}"


@dataclass(frozen=True)
class _Lines:
    """One line in the log per finished trial."""

    study: Study
    budget: float

    def started(self, trial: Trial) -> None:
        del trial

    def finished(self, trial: Trial) -> None:
        result = str(trial.state) if trial.value is None else f"{trial.value:.6g}"
        now = self.study.snapshot()
        _log.info(
            "trial %d at %s: %s; spent %g of %g; %s",
            trial.number,
            trial.fidelity.name,
            result,
            now.spent,
            self.budget,
            status_line(now),
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
        now = self.study.snapshot()
        self.bar.update(self.task, completed=now.spent, status=status_line(now))


def _live_bar() -> RichProgress:
    from rich.console import Console  # only needed on a terminal
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
