"""The loop of `Study.optimize`: ask, evaluate, record, until the rest of the budget is below the cheapest run.

Evaluations run in an executor. As soon as one ends, its result is recorded and the next trial is chosen, while the
others continue: no worker waits for another one's long run. The loop owns its trials and sends heartbeats for them.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from fidelium.definition import checked_budget
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
from fidelium.history import Trial, TrialState
from fidelium.snapshot import Snapshot
from fidelium.study.heartbeat import heartbeat
from fidelium.study.identity import worker_name
from fidelium.study.progress import Progress, watch
from fidelium.study.resume import RESTARTS, recover
from fidelium.study.stopping import NEVER, Stop

if TYPE_CHECKING:
    from fidelium.study.study import Study

POLL = 1.0
"""Seconds between checks of the stopping rules, and of trials that others gave back."""

_log = logging.getLogger("fidelium.study")


@dataclass(frozen=True)
class Policy:
    """How a study is run.

    Args:
        budget: what it may spend in total.
        workers: evaluations at the same time.
        max_failures: failures in a row after which to give up.
        retries: how many times a failed evaluation is retried.
        stop: when to stop before the budget is spent.
        progress: whether to show a progress bar on a terminal.

    Raises:
        SettingError: if a number is too small or not a whole number.
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


def run_study(study: Study, evaluate: Evaluator, executor: Executor, policy: Policy) -> None:
    """Spend the rest of a study's total budget.

    Args:
        study: the study.
        evaluate: evaluates a trial.
        executor: where trials are evaluated; whoever made it shuts it down.
        policy: how.

    Raises:
        BudgetError: if the budget is not a positive finite number, or below the cost of the cheapest run.
        ObjectiveError: after too many failures in a row, with the last reason.
        KeyboardInterrupt: after Ctrl-C; everything is saved by then.
    """
    checked_budget(study.ladder, policy.budget)
    recover(study.store)
    now = study.snapshot(policy.budget)
    if not now.has_work:
        _log.warning("%g of the budget of %g is spent: pass a larger total to continue", now.spent, policy.budget)
        return
    worker = worker_name()
    with (
        watch(study, policy.budget, shown=policy.progress) as report,
        heartbeat(study.store, worker, after_each=recover),
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
    """One call of `run_study`: what is running now, and how many failures came in a row."""

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
            now = self._fill()
            if self.running:
                finished, _ = wait(self.running, timeout=POLL, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda future: self.running[future].number):
                    self._finish(future, self.running[future])
                    del self.running[future]
            elif not self._may_start(now) or not _others_run(now):
                break
            else:  # if they die, their trials are queued for us
                time.sleep(POLL)
        if self.failures >= self.policy.max_failures:
            raise ObjectiveError(
                f"the objective failed {self.failures} times in a row, the last time with:\n{self.last_reason}"
            )

    def close(self) -> None:
        """Give back what is still running; after a run that came to its end there is nothing."""
        for future, trial in self.running.items():
            future.cancel()
            try:
                self.study.give_back(trial, "interrupted")
            except TrialError:  # another worker has it now
                _log.warning("trial %d is no longer ours", trial.number)

    def _fill(self) -> Snapshot:
        """Start evaluations until all workers are busy or nothing is left to start; the study as it is then."""
        while True:
            now = self.study.snapshot(self.policy.budget)
            if len(self.running) >= self.policy.workers or not self._may_start(now) or not now.has_work:
                return now
            try:
                trial = self.study.start(self.policy.budget, self.worker, self.policy.stop.least_worth)
            except BudgetError:  # the strategy proposes nothing that the rest of the budget pays for
                return now
            except NotWorthwhileError as reason:
                self._stop(str(reason))
                return now
            self.report.started(trial)
            self._submit(trial)

    def _submit(self, trial: Trial) -> None:
        pending: Future[Measurement] = Future()
        self.running[pending] = trial  # ours, and given back if we are interrupted in the next line
        future = self.executor.submit(self.evaluate, trial)
        self.running[future] = self.running.pop(pending)

    def _may_start(self, now: Snapshot) -> bool:
        if not self.stopped and (reason := self.policy.stop.reason(now, time.monotonic() - self.began)):
            self._stop(reason)
        return not (self.stopped or self.interrupts.pressed or self.failures >= self.policy.max_failures)

    def _stop(self, reason: str) -> None:
        self.stopped = True
        _log.warning("starting nothing more: %s", reason)

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
        except TrialError as late:  # our worker counted as dead, and another one has the trial
            _log.warning("the result of trial %d came too late: %s", trial.number, late)
            return
        except StorageError:
            _log.error("the result of trial %d could not be stored: %s", trial.number, error or future.result())
            raise
        self._count(ended)

    def _failed(self, trial: Trial, reason: str, retries: int) -> Trial:
        if trial.attempt <= retries:
            _log.warning("trial %d is retried: %s", trial.number, reason.splitlines()[-1])
            return self.study.give_back(trial, reason)
        return self.study.tell(trial, failed=reason)

    def _count(self, trial: Trial) -> None:
        if trial.state is not TrialState.QUEUED:
            self.failures = self.failures + 1 if trial.state is TrialState.FAILED else 0
        self.last_reason = trial.reason or self.last_reason
        self.report.finished(trial)


def _others_run(now: Snapshot) -> bool:
    """Whether workers elsewhere run trials of this study."""
    return any(trial.heartbeat is not None for trial in now.running)


class Interrupts:
    """Whether Ctrl-C was pressed: the first time what is running is finished, the second time everything stops."""

    def __init__(self) -> None:
        self.pressed = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler.

        Raises:
            KeyboardInterrupt: the second time.
        """
        del number, frame
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        _log.warning("interrupted: finishing what is running; press Ctrl-C again to stop immediately")


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count Ctrl-C while inside. Python allows that in the main thread only: elsewhere nothing changes."""
    pressed = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, pressed.handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: not set by Python
