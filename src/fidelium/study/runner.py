"""The loop of `Study.optimize`: ask, evaluate, record, until the rest of the budget is below the cheapest run.

Evaluations run in an executor. As soon as one ends, its result is recorded and the next trial is chosen, while the
others continue: no worker waits for another one's long run. The loop owns its trials and sends heartbeats for them.

While the storage is away nothing is started, what is running goes on, and what ends is kept until it can be stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fidelium.definition import checked_budget
from fidelium.errors import (
    BudgetError,
    EvaluationError,
    NotWorthwhileError,
    ObjectiveError,
    SettingError,
    SetupError,
    StorageError,
    StorageUnavailableError,
    TrialError,
    UnreadableResultError,
)
from fidelium.execution.base import Answer, Evaluator, Measurement, timed_answer
from fidelium.history import Trial, TrialState
from fidelium.snapshot import Snapshot
from fidelium.storage.base import Result
from fidelium.study.heartbeat import heartbeat
from fidelium.study.identity import worker_name
from fidelium.study.interrupts import Interrupts, interrupts
from fidelium.study.kept_results import UNSTORED, KeptResults
from fidelium.study.measured_cost import attempt_cost
from fidelium.study.outage import Outage
from fidelium.study.progress import ENDING, Progress, watch
from fidelium.study.recorder import Ended, Recorder
from fidelium.study.resume import RESTARTS, recover
from fidelium.study.steering import waiting_text
from fidelium.study.stopping import NEVER, Stop, last_stop, stop_text
from fidelium.study.trial import result_of
from fidelium.text import reason_line

if TYPE_CHECKING:
    from fidelium.study.study import Study

POLL = 1.0
"""Seconds between checks of the stopping rules, and of trials that others gave back."""

INTERRUPTED, SETUP = "interrupted", "set-up error: "
"""How the reasons of attempts start that are not the design's fault: they do not count as retries."""

_log = logging.getLogger("fidelium.study")

Timed = tuple[Answer, float]
"""How an evaluation ended, and the seconds it took."""


@dataclass(frozen=True)
class Policy:
    """How a study is run.

    Args:
        budget: what it may spend in total.
        workers: evaluations at the same time.
        max_failures: failures in a row after which to give up.
        retries: how many times a failed evaluation is retried.
        stop: when to stop before the budget is spent.
        progress: whether to show a progress bar on a terminal, and lines elsewhere.
        unstored: where results are kept that the storage could not take.
        fixed: values of some parameters that every suggestion has.

    Raises:
        SettingError: if a number is too small or not a whole number.
    """

    budget: float
    workers: int = 1
    max_failures: int = 10
    retries: int = 0
    stop: Stop = NEVER
    progress: bool = True
    unstored: Path = Path(UNSTORED)
    fixed: Mapping[str, Any] = field(default_factory=dict)

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
        SpaceError: if a fixed value is not valid, or no design with it meets the parameter constraints.
        SetupError: if an evaluation failed for a reason that is not the design's; its trial is queued again.
        StorageError: if the storage is away for too long, or fails for good.
        KeyboardInterrupt: after Ctrl-C; everything is saved by then, and its message says how to resume.
    """
    checked_budget(study.ladder, policy.budget)
    study.space.holding(policy.fixed)
    recover(study.store)
    recorder = Recorder(study.store, KeptResults(study.definition.stored_name, policy.unstored))
    recorder.store_kept()
    now = study.snapshot(policy.budget)
    if not now.has_work and not _runs_elsewhere(now):
        if waits := waiting_text(now):
            _log.warning("%s", waits)
        _log.warning("%g of the budget of %g is spent: pass a larger total to continue", now.spent, policy.budget)
        return
    worker, stop = worker_name(), _stop_before(study, policy, now)
    with (
        watch(study, policy.budget, shown=policy.progress) as report,
        heartbeat(study.store, worker, after_each=recover),
        interrupts() as pressed,
    ):
        loop = _Loop(study, evaluate, executor, policy, stop, worker, report, pressed, recorder, now)
        try:
            try:
                loop.run()
            finally:
                loop.close()
            if pressed.pressed:
                raise KeyboardInterrupt
            if waits := waiting_text(loop.now):
                _log.warning("%s", waits)
        except KeyboardInterrupt:
            message = _resume_advice(loop.last_look(), in_memory=not study.store.is_shared)
            _log.warning(message, extra={ENDING: True})
            raise KeyboardInterrupt(message) from None


@dataclass
class _Loop:
    """One call of `run_study`: what is running now, what is still to be stored, and the failures in a row."""

    study: Study
    evaluate: Evaluator
    executor: Executor
    policy: Policy
    stop: Stop
    worker: str
    report: Progress
    interrupts: Interrupts
    recorder: Recorder
    now: Snapshot
    outage: Outage = field(default_factory=Outage)
    running: dict[Future[Timed], Trial] = field(default_factory=dict)
    submitted: dict[int, float] = field(default_factory=dict)
    excused: dict[int, int] = field(default_factory=dict)
    failures: int = 0
    last_reason: str = ""
    setup: SetupError | None = None
    stopped: bool = False
    waiting: bool = False
    began: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        while self._advance():
            if self.running:
                wait(self.running, timeout=POLL, return_when=FIRST_COMPLETED)
                self._collect()
            else:
                time.sleep(min(self.outage.wait, POLL) if self.outage.is_on else POLL)
            if self.outage.is_on:
                self.recorder.keep_pending()
        if self.setup is not None:
            raise self.setup
        if self.failures >= self.policy.max_failures:
            raise ObjectiveError(
                f"the objective failed {self.failures} times in a row, the last time with:\n{self.last_reason}"
            )

    def _collect(self) -> None:
        """Take the results of what has ended, and no longer refer to its futures.

        Dask runs a finished call again if its worker dies while somebody refers to its future, even a local variable.
        """
        finished = [future for future in self.running if future.done()]  # `wait` misses cancelled ones
        for future in sorted(finished, key=lambda future: self.running[future].number):
            self.recorder.pending.append(self._result(future, self.running[future]))
            del self.running[future]

    def close(self) -> None:
        """Store what has ended and give back what is running; nothing is left after a run that came to its end."""
        self.recorder.pending += [self._last_result(future, trial) for future, trial in self.running.items()]
        self.running.clear()
        if not self.outage.is_on:
            try:
                self._store()
                self._give_back_unknown()
            except StorageError as error:
                _log.warning("%s", error)
        self.recorder.keep_pending()
        self.recorder.report_pending()

    def last_look(self) -> Snapshot:
        """The study as it is now, or as it was when the storage was last there."""
        if not self.outage.is_on:
            with suppress(StorageError):
                return self.study.snapshot(self.policy.budget)
        return self.now

    def _advance(self) -> bool:
        """Store what ended and start what may start; whether there is more to do."""
        if not self.outage.wait:
            try:
                self._store()
                self._fill()
            except StorageUnavailableError as error:
                self.outage.failed(error)
                self.recorder.keep_pending()
            else:
                self.outage.ended()
        if self.running or self.recorder.pending:
            return True
        return self._may_start() and (self.outage.is_on or self._waits_for_others())

    def _store(self) -> None:
        for trial in self.recorder.store_pending():
            self.last_reason = trial.reason or self.last_reason
            if trial.state is not TrialState.QUEUED:
                self.failures = self.failures + 1 if trial.state is TrialState.FAILED else 0
                with suppress(StorageUnavailableError):  # its line has totals, which are read; the result is stored
                    self.report.finished(trial)

    def _give_back_unknown(self) -> None:
        """Give back trials that were started for us without our knowing, because the call was interrupted."""
        for trial in self.study.snapshot().running:
            if trial.worker == self.worker:
                with suppress(TrialError):
                    self.study.store.requeue(trial.number, trial.attempt, INTERRUPTED)

    # --- what to start ---

    def _fill(self) -> None:
        """Start evaluations until all workers are busy or nothing is left to start."""
        while True:
            self.now = self.study.snapshot(self.policy.budget)
            known = {trial.number for trial in self.running.values()}
            for trial in self.now.running:
                if trial.worker == self.worker and trial.number not in known:  # the answer was lost with the server
                    self._submit(trial)
            for trial in self.now.queued:
                if trial.reason is not None and trial.reason.startswith((SETUP, INTERRUPTED)):
                    self.excused[trial.number] = trial.attempt
            if len(self.running) >= self.policy.workers or not self._may_start() or not self.now.has_work:
                return
            try:
                trial = self.study.start(
                    self.policy.budget, self.worker, self.stop.least_worth, self.policy.fixed, self.stop.worth
                )
            except BudgetError:  # the strategy proposes nothing that the rest of the budget pays for
                return
            except NotWorthwhileError as reason:
                self._stop(reason.setting or "catalogue", str(reason))
                return
            self.waiting = False
            before, after = self.now.trials[: trial.number], self.now.trials[trial.number + 1 :]
            self.now = replace(self.now, trials=(*before, trial, *after))
            self._submit(trial)

    def _submit(self, trial: Trial) -> None:
        pending: Future[Timed] = Future()
        self.running[pending] = trial  # ours, and given back if we are interrupted in the next line
        with suppress(StorageUnavailableError):  # the bar reads the storage
            self.report.started(trial)
        evaluated = replace(trial, fidelity=trial.fidelity.of_design(trial.params))
        self.submitted[trial.number] = time.monotonic()
        future = self.executor.submit(timed_answer, self.evaluate, evaluated)
        self.running[future] = self.running.pop(pending)

    def _may_start(self) -> bool:
        if not self.stopped and (rule := self.stop.rule(self.now, time.monotonic() - self.began)):
            self._stop(*rule)
        failing = self.setup is not None or self.failures >= self.policy.max_failures
        return not (self.stopped or self.interrupts.pressed or failing)

    def _stop(self, rule: str, reason: str) -> None:
        self.stopped = True
        _log.warning("starting nothing more: %s", reason)
        with suppress(StorageError):  # the record is for people
            _note_stop(self.study, self.worker, rule, reason, self.policy.budget)

    def _waits_for_others(self) -> bool:
        """Whether others run trials, which are queued for us if they die."""
        others = _runs_elsewhere(self.now)
        if others and not self.waiting:
            runs = "1 run" if others == 1 else f"{others} runs"
            _log.warning("nothing to start: waiting for %s of other workers, to take over if one dies", runs)
        self.waiting = bool(others)
        return self.waiting

    # --- what came out ---

    def _last_result(self, future: Future[Timed], trial: Trial) -> Ended:
        """What came out of a trial when the loop ends; it is given back if it is still running."""
        future.cancel()
        with suppress(BaseException):
            if future.done() and not future.cancelled():
                return self._result(future, trial)
        return Ended(trial, reason=INTERRUPTED)

    def _result(self, future: Future[Timed], trial: Trial) -> Ended:
        """How the evaluation of a trial ended.

        Raises:
            BaseException: what the evaluation raised, if it is not an `Exception`.
        """
        error = CancelledError("the executor cancelled it") if future.cancelled() else future.exception()
        seconds = time.monotonic() - self.submitted.pop(trial.number, time.monotonic())
        if error is None:
            ended, seconds = future.result()
            if isinstance(ended, Measurement):
                cost = attempt_cost(self.now, ended.cost, seconds, failed=False)
                result = result_of(self.study.definition, ended.value, None, cost, ended.outcomes, ended.std)
                if result.reason is None:
                    return Ended(trial, result)
                ended = EvaluationError(result.reason)
                ended.cost = cost
            error = ended
        if isinstance(error, SetupError):
            return self._set_up_wrongly(trial, error)
        if isinstance(error, UnreadableResultError) and trial.attempt == 1 and not self._has_value(trial):
            return self._set_up_wrongly(trial, _rule_error(error, trial))
        if isinstance(error, EvaluationError):
            return self._failed(trial, str(error), self.policy.retries, self._failure_cost(error.cost, seconds))
        if isinstance(error, Exception):  # not the evaluation's fault: its process or machine is gone
            why = f"the worker vanished: {type(error).__name__}: {error}"
            return self._failed(trial, why, RESTARTS, self._failure_cost(None, seconds))
        raise error

    def _set_up_wrongly(self, trial: Trial, error: SetupError) -> Ended:
        if self.setup is None:
            self.setup = error
            if len(self.running) > 1:
                _log.warning("starting nothing more, finishing what is running: %s", error)
        return Ended(trial, reason=f"{SETUP}{error}")

    def _has_value(self, trial: Trial) -> bool:
        """Whether a run at the trial's fidelity has given a value: the result rule works."""
        stored = (each for each in self.now.trials if each.state is TrialState.DONE and not each.given)
        fresh = (each.trial for each in self.recorder.pending if each.result and each.result.state is TrialState.DONE)
        return any(each.fidelity.name == trial.fidelity.name for each in (*stored, *fresh))

    def _failure_cost(self, reported: float | None, seconds: float) -> float | None:
        """What a failed attempt cost; None where costs are declared, as ever."""
        measures = self.study.definition.measures_costs
        return attempt_cost(self.now, reported, seconds, failed=True) if measures else None

    def _failed(self, trial: Trial, reason: str, retries: int, cost: float | None) -> Ended:
        if trial.attempt - self.excused.get(trial.number, 0) <= retries:
            _log.warning("trial %d is retried: %s", trial.number, reason_line(reason))
            return Ended(trial, reason=reason, cost=cost)
        result = Result(TrialState.FAILED, reason=reason.strip() or "no reason was given", measured_cost=cost)
        return Ended(trial, result)


def _stop_before(study: Study, policy: Policy, now: Snapshot) -> Stop:
    """The rules to stop by, after saying which one had stopped the study before."""
    before = last_stop(study.changes(), now.trials)
    stop = policy.stop.overruled(before, policy.budget)
    if before is not None and (before.holds or stop != policy.stop):
        more = f"; the budget was {before.budget:g} then: continuing without this rule" if stop != policy.stop else ""
        _log.warning("stopped before by: %s%s", before, more)
    return stop


def _note_stop(study: Study, worker: str, rule: str, reason: str, budget: float) -> None:
    """Record a stop, unless it is the last one and nothing was started since."""
    before = last_stop(study.changes(), study.trials)
    if before is None or not before.holds or (before.rule, before.why, before.budget) != (rule, reason, budget):
        study.store.note_stop(worker, stop_text(rule, reason, budget))


def _runs_elsewhere(now: Snapshot) -> int:
    """How many trials run elsewhere, in workers that send heartbeats; a person's trials are not waited for."""
    return sum(trial.heartbeat is not None for trial in now.running)


def _rule_error(error: UnreadableResultError, trial: Trial) -> SetupError:
    folder = "" if error.folder is None or error.folder in str(error) else f" in {error.folder}"
    return SetupError(
        f"the result of trial {trial.number} cannot be read{folder}: {error}; no run at {trial.fidelity.name!r} has "
        "given a value yet, so the result rule may be wrong: correct it and run again, or take the value from the "
        "folder with: fidelium reread STUDY"
    )


def _resume_advice(now: Snapshot, *, in_memory: bool) -> str:
    count = "1 trial" if len(now.trials) == 1 else f"{len(now.trials)} trials"
    again = "call optimize(...) again with the same budget to resume"
    if in_memory:
        where = "are in memory, until the process ends (storage='sqlite:///study.db' would keep them)"
        again = f"with the same study object, {again}"
    else:
        where = "are saved"
    return f"stopped by Ctrl-C; {count} ({now.spent:g} of {now.budget:g} spent) {where}; {again}"
