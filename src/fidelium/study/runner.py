"""The loop of `Study.optimize`: ask, evaluate, tell, until the budget buys nothing more.

Evaluations run in an executor. As soon as one ends, its result is told and the next trial is chosen, while all others
go on: no worker waits for another one's long run. The loop owns its trials and sends heartbeats for them.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from fidelium.errors import (
    BudgetError,
    EvaluationError,
    NotWorthwhileError,
    ObjectiveError,
    SettingError,
    StorageError,
    TrialError,
)
from fidelium.execution.base import Evaluator, Measurement
from fidelium.fidelity import FidelityLadder
from fidelium.history import Trial, TrialState
from fidelium.numbers import as_number
from fidelium.study.coordination import RESTARTS, heartbeat, recover, worker_name
from fidelium.study.progress import Progress, watch
from fidelium.study.stopping import NEVER, Stop

if TYPE_CHECKING:
    from fidelium.study.study import Study


_log = logging.getLogger("fidelium.study")


class Interrupts:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.pressed = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """What the signal calls.

        Raises:
            KeyboardInterrupt: the second time.
        """
        del number, frame
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        _log.warning("interrupted: finishing what is running; press Ctrl-C again to stop at once")


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count Ctrl-C while inside. Python allows that in the main thread alone: elsewhere nothing changes."""
    pressed = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, pressed.handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: not set by Python


POLL = 1.0
"""Seconds between looks at the rules for stopping, and at trials that others have given back."""

_log = logging.getLogger("fidelium.study")


@dataclass(frozen=True)
class Policy:
    """How a study is run.

    Args:
        budget: what it may spend in total.
        workers: evaluations at once.
        max_failures: failures in a row after which to give up.
        retries: how many times an evaluation that failed is tried again.
        stop: when to stop before the budget is spent.
        progress: whether to show a progress bar on a terminal.

    Raises:
        SettingError: if a number is too small or no whole number.
    """

    budget: float
    workers: int = 1
    max_failures: int = 10
    retries: int = 0
    stop: Stop = NEVER
    progress: bool = True

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("max_failures", 1), ("retries", 0)):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < least:
                raise SettingError(f"{name} must be a whole number >= {least}, got {count!r}")
        if not isinstance(self.stop, Stop):
            raise SettingError(f"stop must be a fidelium.Stop, got {self.stop!r}")


def run(study: Study, evaluate: Evaluator, executor: Executor, policy: Policy) -> None:
    """Spend the rest of a study's total budget.

    Args:
        study: what to run.
        evaluate: what a trial's value comes from.
        executor: where it is evaluated; it is shut down in the end only by who made it.
        policy: how.

    Raises:
        BudgetError: if the budget is no positive finite number, or below the cost of the cheapest query.
        ObjectiveError: after too many failures in a row, with the last reason.
        KeyboardInterrupt: after Ctrl-C; everything is saved by then.
    """
    checked_budget(study.ladder, policy.budget)
    recover(study.store)
    if not _has_work(study, policy.budget):
        _log.warning("%g of the budget of %g is spent: give a larger total to go on", study.spent, policy.budget)
        return
    worker = worker_name()
    with (
        watch(study, policy.budget, shown=policy.progress) as report,
        heartbeat(study.store, worker),
        interrupts() as pressed,
    ):
        loop = _Loop(study, evaluate, executor, policy, worker, report, pressed)
        try:
            loop.run()
        finally:
            loop.close()
    if pressed.pressed:
        raise KeyboardInterrupt


@dataclass
class _Loop:
    """One call of `run`: what is running now, and how many failures came in a row."""

    study: Study
    evaluate: Evaluator
    executor: Executor
    policy: Policy
    worker: str
    report: Progress
    interrupts: Interrupts
    running: dict[Future[Measurement], Trial] = field(default_factory=dict)
    failures: int = 0
    last_reason: str = ""
    stopped: bool = False
    began: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        while True:
            self._fill()
            if self.running:
                finished, _ = wait(self.running, timeout=POLL, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda future: self.running[future].number):
                    self._finish(future, self.running[future])
                    del self.running[future]
            elif not self._may_start() or not self._others_run():
                break
            else:  # they may vanish, and then their trials are ours
                time.sleep(POLL)
        if self.failures >= self.policy.max_failures:
            raise ObjectiveError(
                f"the objective failed {self.failures} times in a row, the last time with:\n{self.last_reason}"
            )

    def close(self) -> None:
        """Give back what is still running; it does nothing after a run that came to its end."""
        for future, trial in self.running.items():
            future.cancel()
            try:
                self.study.give_back(trial, "interrupted")
            except TrialError:  # somebody took it meanwhile
                _log.warning("trial %d is no longer ours", trial.number)

    def _fill(self) -> None:
        """Start evaluations until all workers have one, or there is nothing to start."""
        while len(self.running) < self.policy.workers and self._may_start() and _has_work(self.study, self._budget):
            try:
                trial = self.study.start(self._budget, self.worker, self.policy.stop.least_worth)
            except BudgetError:  # the strategy wants nothing that the rest of the budget buys
                return
            except NotWorthwhileError as reason:
                self._stop(str(reason))
                return
            self.report.started(trial)
            self._submit(trial)

    def _submit(self, trial: Trial) -> None:
        pending: Future[Measurement] = Future()
        self.running[pending] = trial  # ours, and given back if we are interrupted in the next line
        future = self.executor.submit(self.evaluate, trial)
        self.running[future] = self.running.pop(pending)

    def _may_start(self) -> bool:
        if not self.stopped and (reason := self.policy.stop.reason(self.study, time.monotonic() - self.began)):
            self._stop(reason)
        return not (self.stopped or self.interrupts.pressed or self.failures >= self.policy.max_failures)

    def _stop(self, reason: str) -> None:
        self.stopped = True
        _log.warning("starting nothing more: %s", reason)

    def _others_run(self) -> bool:
        """Whether workers elsewhere have trials of this study."""
        return any(t.state is TrialState.RUNNING and t.heartbeat is not None for t in self.study.trials)

    def _finish(self, future: Future[Measurement], trial: Trial) -> None:
        error = future.exception()
        try:
            if error is None:
                ended = self.study.tell(trial, future.result().value, measured_cost=future.result().cost)
            elif isinstance(error, EvaluationError):
                ended = self._failed(trial, str(error), self.policy.retries)
            elif isinstance(error, Exception):  # not the evaluation's fault: its process or machine is gone
                ended = self._failed(trial, f"the worker vanished: {type(error).__name__}: {error}", RESTARTS)
            else:
                raise error
        except TrialError as late:  # taken for dead, and given to somebody else
            _log.warning("the result of trial %d came too late: %s", trial.number, late)
            return
        except StorageError:
            _log.error("the result of trial %d could not be stored: %s", trial.number, error or future.result())
            raise
        self._count(ended)

    def _failed(self, trial: Trial, reason: str, retries: int) -> Trial:
        if trial.attempt <= retries:
            _log.warning("trial %d is tried again: %s", trial.number, reason.splitlines()[-1])
            return self.study.give_back(trial, reason)
        return self.study.tell(trial, failed=reason)

    def _count(self, trial: Trial) -> None:
        if trial.state is not TrialState.QUEUED:
            self.failures = self.failures + 1 if trial.state is TrialState.FAILED else 0
        self.last_reason = trial.reason or self.last_reason
        self.report.finished(trial)

    @property
    def _budget(self) -> float:
        return self.policy.budget


def checked_budget(ladder: FidelityLadder, budget: object) -> float:
    """The budget as a float, if it buys at least one query.

    Raises:
        BudgetError: if it is no positive finite number, or below the cost of the cheapest query.
    """
    number = as_number(budget)
    if number is None or not math.isfinite(number) or number <= 0:
        raise BudgetError(f"the budget must be a finite number above 0, got {budget!r}")
    if number < ladder[0].cost:
        raise BudgetError(
            f"the budget {number:g} buys no query: the cheapest, at {ladder[0].name!r}, costs {ladder[0].cost:g}"
        )
    return number


def _has_work(study: Study, budget: float) -> bool:
    """Whether a trial is queued, or the rest of the budget buys another."""
    history = study.history(study.remaining(budget))
    return bool(history.affordable) or any(trial.state is TrialState.QUEUED for trial in history.trials)
