"""Progress of a running study: a live bar on a terminal, a line per trial otherwise."""

from __future__ import annotations

import logging
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fidelium.feasibility import infeasible_text
from fidelium.forecast import Forecast
from fidelium.history import Trial, TrialState
from fidelium.snapshot import Snapshot
from fidelium.text import reason_line

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from fidelium.study.study import Study

_log = logging.getLogger("fidelium.study")

ENDING = "fidelium_ending"
"""Marks, in `extra`, the record that says how to resume a study in Python: a command says it in its own words."""


class Progress(Protocol):
    """Is notified when a trial starts and when it ends."""

    @abstractmethod
    def started(self, trial: Trial) -> None: ...

    @abstractmethod
    def finished(self, trial: Trial) -> None: ...


@contextmanager
def watch(study: Study, budget: float, *, shown: bool) -> Iterator[Progress]:
    """Show the study's progress while inside.

    If `shown`, it is a bar on a terminal. Elsewhere it is a line per trial in the log (level INFO), which is printed to
    stderr if `shown` and the host program has not set up logging.
    """
    if not shown or sys.stderr is None:
        yield _Lines(study, budget)
    elif sys.stderr.isatty():
        bar = _live_bar()
        reporter = _Bar(study, bar, bar.add_task("", total=budget, status=""), budget)
        reporter.update()
        with bar:
            yield reporter
    elif _log.hasHandlers():
        yield _Lines(study, budget)
    else:
        with log_to_stderr(logging.INFO, "%(asctime)s %(message)s"):
            yield _Lines(study, budget)


@contextmanager
def log_to_stderr(level: int, style: str, *, hidden: str | None = None) -> Iterator[None]:
    """Print what fidelium logs while inside.

    Args:
        level: the least level that is printed.
        style: how a record is printed, as in `logging.Formatter`.
        hidden: records with this attribute are not printed.
    """
    log, handler = logging.getLogger("fidelium"), _Stderr()
    handler.setFormatter(logging.Formatter(style, "%H:%M:%S"))
    handler.addFilter(lambda record: hidden is None or hidden not in vars(record))
    before = log.level, log.propagate
    log.setLevel(level)
    log.propagate = False  # otherwise printed twice if the host program has set up logging
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


class _Stderr(logging.Handler):
    """Writes to the current stderr: a live bar replaces it, to keep log lines apart from itself."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except (OSError, RuntimeError, ValueError):  # the terminal is gone, or Ctrl-C interrupted a line: carry on
            return


def status_line(snapshot: Snapshot) -> str:
    """Best value so far and trials per fidelity, in a line; where costs are not plain numbers, also what is left."""
    best = snapshot.best
    counts = Counter(trial.fidelity.name for trial in snapshot.trials)
    used = " · ".join(f"{name} {counts[name]}" for name in snapshot.definition.ladder.names)
    definition = snapshot.definition
    varying = definition.measures_costs or definition.ladder.depends_on_design
    forecast = Forecast.of(snapshot) if varying else None
    left = "" if forecast is None else f" | left {forecast.text}"
    return f"best {'–' if best is None else format(best.value, '.5g')} | {used}{left}"


@dataclass(frozen=True)
class _Lines:
    """One line in the log per finished trial, with the reason if it failed."""

    study: Study
    budget: float

    def started(self, trial: Trial) -> None:
        del trial

    def finished(self, trial: Trial) -> None:
        result = _failure(trial) if trial.value is None else _judged_value(trial)
        now = self.study.snapshot(self.budget)
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
    budget: float

    def started(self, trial: Trial) -> None:
        self.update()

    def finished(self, trial: Trial) -> None:
        if trial.state is not TrialState.DONE:
            _log.warning("trial %d at %s: %s", trial.number, trial.fidelity.name, _failure(trial))
        self.update()

    def update(self) -> None:
        now = self.study.snapshot(self.budget)
        self.bar.update(self.task, completed=now.spent, status=status_line(now))


def _judged_value(trial: Trial) -> str:
    beyond = infeasible_text(trial)
    return f"{trial.value:.6g}{beyond and f', {beyond}'}"


def _failure(trial: Trial) -> str:
    return f"{trial.state}: {reason_line(trial.reason)}"


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
