"""The loop of `Study.optimize`: ask, evaluate, tell, until the budget buys nothing more."""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fidelium.errors import BudgetError, ObjectiveError, SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Trial, TrialState
from fidelium.space import Params
from fidelium.study.numbers import as_number
from fidelium.study.progress import Progress, watch
from fidelium.study.trial import LiveTrial

if TYPE_CHECKING:
    from fidelium.study.study import Study

Objective = Callable[[Params, Fidelity], float]

_log = logging.getLogger("fidelium.study")


def run(study: Study, objective: Objective, budget: float, workers: int, progress: bool, max_failures: int) -> None:
    """Spend the rest of a study's total budget on an objective; the arguments are those of `Study.optimize`.

    Raises:
        BudgetError: if the budget is no positive finite number, or below the cost of the cheapest query.
        SettingError: if the objective is not callable, or `workers` or `max_failures` is not at least 1.
        ObjectiveError: after `max_failures` failures in a row, with the last traceback.
    """
    _check(objective, workers, max_failures)
    budget = checked_budget(study.ladder, budget)
    if not study.history(study.remaining(budget)).affordable:
        _log.warning("%g of the budget of %g is spent: give a larger total to go on", study.spent, budget)
        return
    executor = _InThisThread() if workers == 1 else ThreadPoolExecutor(workers, thread_name_prefix="fidelium")
    with watch(study, budget, shown=progress) as report:
        loop = _Loop(study, objective, budget, workers, max_failures, executor, report)
        try:
            loop.run()
        finally:
            loop.close()


@dataclass
class _Loop:
    """One call of `run`: what is running now, and how many failures came in a row."""

    study: Study
    objective: Objective
    budget: float
    workers: int
    max_failures: int
    executor: Executor
    report: Progress
    asked: list[LiveTrial] = field(default_factory=list)
    running: dict[Future[float], LiveTrial] = field(default_factory=dict)
    failures: int = 0

    def run(self) -> None:
        last_reason = ""
        while self._fill() or self.running:
            finished, _ = wait(self.running, return_when=FIRST_COMPLETED)
            for trial in sorted((self._finish(future) for future in finished), key=lambda t: t.number):
                failed = trial.state is TrialState.FAILED
                self.failures = self.failures + 1 if failed else 0
                last_reason = trial.reason or last_reason
                self.report.finished(trial)
        if self.failures >= self.max_failures:
            raise ObjectiveError(
                f"the objective failed {self.failures} times in a row, the last time with:\n{last_reason}"
            )

    def close(self) -> None:
        """Give up what is still running; it does nothing after a run that came to its end."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        for trial in self.asked:
            if trial.state is TrialState.RUNNING:
                self.study.tell(trial, failed="interrupted")

    def _fill(self) -> bool:
        """Start evaluations until all workers have one; whether anything was started."""
        before = len(self.asked)
        while len(self.running) < self.workers and self.failures < self.max_failures and self._affords_more():
            try:
                trial = self.study.ask(self.budget)
            except BudgetError:  # the strategy wants nothing that the rest of the budget buys
                break
            self.asked.append(trial)
            self.report.started(trial)
            self.running[self.executor.submit(_evaluate, self.objective, trial.params, trial.fidelity)] = trial
        return len(self.asked) > before

    def _affords_more(self) -> bool:
        return bool(self.study.history(self.study.remaining(self.budget)).affordable)

    def _finish(self, future: Future[float]) -> Trial:
        trial = self.running.pop(future)
        try:
            return self.study.tell(trial, future.result())
        except _EvaluationError as failure:
            return self.study.tell(trial, failed=str(failure))


class _EvaluationError(Exception):
    """An evaluation that failed; its text is the trial's reason."""


class _InThisThread(Executor):
    """Evaluates at once in the caller's thread: with one worker there is nothing to gain from another."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[float] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except _EvaluationError as failure:
            future.set_exception(failure)
        return future


def _evaluate(objective: Objective, params: Params, fidelity: Fidelity) -> float:
    try:
        result = objective(params, fidelity)
    except Exception as error:  # a simulator may raise anything: it becomes a failed trial, its traceback kept
        raise _EvaluationError(_traceback(error)) from error
    number = as_number(result)
    if number is None:
        raise _EvaluationError(f"the objective must return a number, it returned {result!r}")
    return number


def _traceback(error: Exception) -> str:
    """The traceback from the objective's own frame on."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


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


def _check(objective: object, workers: object, max_failures: object) -> None:
    if not callable(objective):
        raise SettingError(f"the objective must be a function of (params, fidelity), got {objective!r}")
    for name, count in (("workers", workers), ("max_failures", max_failures)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise SettingError(f"{name} must be a whole number >= 1, got {count!r}")
