"""The study: the one class with a state. It proposes trials and records their results; its bases do the rest."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fidelium.definition import StudyDefinition
from fidelium.errors import FideliumError, ObservationError, SettingError, TrialError
from fidelium.execution.base import Objective
from fidelium.execution.executors import evaluator_for_executor, local_executor
from fidelium.execution.program import ExternalProgram
from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.numbers import as_number
from fidelium.storage.base import Result, Storage, StudyStore, always
from fidelium.study.answers import ModelledStudy
from fidelium.study.kept_results import UNSTORED
from fidelium.study.lock import choosing_lock
from fidelium.study.repair import find
from fidelium.study.resume import add_once, give_back_unseen
from fidelium.study.runner import Policy, run_study
from fidelium.study.steered import SteeredStudy
from fidelium.study.stopping import NEVER, Stop
from fidelium.study.trial import LiveTrial, ending, result_of

_log = logging.getLogger("fidelium.study")


class Study(ModelledStudy, SteeredStudy):
    """A search for the best design: made by `create_study`, driven by `ask` and `tell` or by `optimize`.

    Any number of threads may use it at the same time, and, with a storage, any number of processes. All randomness
    comes from the seed and the trial's number, so the same calls give the same queries.

    Reading `trials`, `best` or `spent` reads the storage once each; `snapshot` gives all of them from one read.

    Args:
        definition: what the study is made from.
        store: where its trials are kept.
        storage: the open storage that `close` closes; None if the caller closes it.
    """

    def __init__(self, definition: StudyDefinition, store: StudyStore, storage: Storage | None = None) -> None:
        super().__init__(definition, store, storage)
        self._asking = threading.Lock()  # held while a trial is chosen: the next choice must see it as pending

    # --- ask and tell ---

    def ask(self, budget: float = math.inf, *, fixed: Mapping[str, Any] | None = None) -> LiveTrial:
        """A new trial to evaluate: the initial design first, then what the strategy finds most worth its cost.

        Trials asked and not yet told are pending: the next `ask` knows of them and proposes something else.

        Args:
            budget: what the study may spend in total; only what still fits is proposed.
            fixed: values of some parameters: the best query with these is proposed, by a model of all data. Queued
                trials with other values wait.

        Raises:
            BudgetError: if the rest of the budget is below the cheapest run.
            SettingError: if the budget is not a number.
            SpaceError: if a fixed parameter is unknown, its value is not valid, or no design with these values meets
                the parameter constraints.
        """
        return LiveTrial(self, self.start(budget, None, fixed=fixed))

    def start(
        self,
        budget: float,
        worker: str | None,
        least_worth: float = -math.inf,
        fixed: Mapping[str, Any] | None = None,
        worth: float | None = None,
    ) -> Trial:
        """Start a trial: one that was queued again, or else a new one. `ask` is this without a worker.

        Args:
            budget: what the study may spend in total.
            worker: the worker that runs it and sends heartbeats; None for a person or script that sends none.
            least_worth: what the strategy must expect of it per cost.
            fixed: values of some parameters, as in `ask`.
            worth: what a unit of the objective is worth; a trial that costs more than it promises is not started.

        Raises:
            BudgetError: if the rest of the budget is below the cheapest run.
            SpaceError: if a fixed value is not valid.
            NotWorthwhileError: if the strategy expects less of its best query.
            StorageError: if the storage cannot be read or written; then no trial was started.
            UnsureError: if the connection was lost while the trial was stored, and cannot be restored.
        """
        part = self._slice(fixed)
        check = None if worth is None else lambda: self._check_pays(worth, part)
        accepts = always if part is None else lambda trial: part.contains(trial.params)
        with self._asking:
            while self.snapshot(budget).startable:
                queued = self._store.claim(worker, budget, accepts)
                if queued is None:  # another worker was faster
                    break
                if self.space.contains(queued.params):
                    return queued
                self._drop(queued)
            chosen: Trial | None = None
            try:
                with choosing_lock(self._store):
                    while True:
                        chosen = self._chooser.choose(self.snapshot(budget), worker, least_worth, part, check)
                        stored = add_once(self._store, chosen, budget)
                        if stored is not None:
                            return stored
                        chosen = None  # another worker added one meanwhile: choose again, knowing of it
            except BaseException as error:
                if chosen is not None and not isinstance(error, FideliumError):  # interrupted: it may be stored
                    give_back_unseen(self._store, chosen)
                raise

    def tell(
        self,
        trial: LiveTrial | Trial | int,
        value: float | None = None,
        *,
        failed: str | None = None,
        measured_cost: float | None = None,
        outcomes: Mapping[str, float] | None = None,
        std: float | None = None,
    ) -> Trial:
        """Record the value of a trial with its outcomes, or why it failed.

        A value that is NaN or infinite makes the trial a failed one, with a warning in the log, and the study
        continues: the strategy knows that nothing was learned there. So does an outcome that a constraint names and
        that is missing, NaN or infinite.

        Args:
            trial: the trial, its record, or its number.
            value: what was observed, in the user's units.
            failed: why there is no value.
            measured_cost: what the evaluation really cost. It counts in a study with `cost="measured"`, where without
                it the trial costs what was expected; else it is recorded beside the fidelity's cost, which counts.
            outcomes: named results beside the value. Those that no constraint names are recorded, too.
            std: standard error of the value, as a Monte Carlo simulator knows it; 0 if the value is exact, None if it
                is not known: the model then learns the noise.

        Returns:
            The finished trial's record.

        Raises:
            TrialError: if the trial is not one of this study, is finished, or another worker runs it by now; nothing
                changes.
            ObservationError: if the value or an outcome is not a number, the name of an outcome is not valid, `std` is
                not a finite number >= 0, or not exactly one of `value` and `failed` is given; nothing changes.
        """
        result = result_of(self._definition, value, failed, measured_cost, outcomes, std)
        running = self._running(trial)
        finished = self._store.finish(running.number, running.attempt, result)
        if failed is None and result.reason is not None:
            _log.warning("trial %d at %r failed: %s", finished.number, finished.fidelity.name, result.reason)
        return finished

    def give_back(self, trial: LiveTrial | Trial | int, reason: str | None = None) -> Trial:
        """Queue a running trial again: the next `ask` returns it.

        Args:
            trial: the trial, its record, or its number.
            reason: why it was not finished.

        Raises:
            TrialError: as `tell`.
        """
        running = self._running(trial)
        return self._store.requeue(running.number, running.attempt, reason)

    def add_observation(
        self,
        params: Mapping[str, Any],
        fidelity: str | Fidelity,
        value: float,
        outcomes: Mapping[str, float] | None = None,
        *,
        std: float | None = None,
    ) -> Trial:
        """Add an observation that exists already; it costs nothing.

        Args:
            params: values of all parameters.
            fidelity: the fidelity's name.
            value: what was observed there.
            outcomes: named results beside the value; all that constraints name.
            std: standard error of the value, as in `tell`.

        Returns:
            The record of it, a done trial with `given=True`.

        Raises:
            SpaceError: if the parameters are not valid.
            FidelityError: if the fidelity is unknown.
            ObservationError: if the value is not a finite number, an outcome that a constraint names is missing or not
                a finite number, the name of an outcome is not valid, or `std` is not a finite number >= 0.
        """
        design, rung = self.space.validate(params), self.ladder[self.ladder.index(fidelity)]
        number = as_number(value)
        if number is None or not math.isfinite(number):
            raise ObservationError(f"an observation must be a finite number, got {value!r}")
        result = result_of(self._definition, number, outcomes=outcomes, std=std)
        if result.reason is not None:
            raise ObservationError(result.reason)
        given = Trial(0, design, rung, TrialState.DONE, number, given=True, outcomes=result.outcomes, std=result.std)
        while True:
            stored = self._store.add(replace(given, number=len(self._store.trials())))
            if stored is not None:  # else another worker added a trial meanwhile
                return stored

    def optimize(
        self,
        objective: Objective | ExternalProgram,
        budget: float,
        workers: int | None = None,
        progress: bool = True,
        max_failures: int = 10,
        *,
        retries: int = 0,
        stop: Stop = NEVER,
        executor: Executor | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> Trial | None:
        """Ask, evaluate and record until the budget is spent.

        The budget is what the study may spend *in total*: `spent <= budget` holds always, and calling this again with
        the same budget after an interruption does the rest. (Where costs are measured, a run starts if its expected
        cost fits: `spent` exceeds the budget by no more than what is running.) Trials that fail cost as much as others,
        or what they took. Ctrl-C finishes
        what is running and then raises KeyboardInterrupt; a second one stops immediately. What was running then is
        queued, and run first when the study is resumed, as is what a killed process was running.

        Args:
            objective: called with the parameters (a dict) and the fidelity; returns the value, or
                `{"value": ..., "cost": ..., "std": ..., "stress": ...}` with what it really cost, the standard error of
                the value and any outcomes. An exception, a constrained outcome that is missing or not a finite number,
                or a result that is not a finite number, makes a failed trial, with the traceback in its `reason`.
            budget: in the unit of the fidelities' costs.
            workers: evaluations at the same time: 1 by default, in this thread, or as many as the executor has workers.
                More run in processes of their own, which get a copy of the objective. Only with one worker are the
                queries the same every time: with more, they depend on which evaluation ends first.
            progress: whether to show a progress bar on a terminal, and a line per trial elsewhere. If the program has
                set up logging, the lines go there (level INFO), and not to stderr.
            max_failures: failures in a row after which to give up.
            retries: how many times a failed evaluation is retried.
            stop: when to stop before the budget is spent.
            executor: where to evaluate instead, as `dask_client.get_executor()`.
            fixed: values of some parameters, as in `ask`: every suggestion of this call has them.

        Returns:
            The best trial at the target, as `best`.

        Raises:
            BudgetError: if the budget is not a positive finite number, or below the cost of the cheapest run.
            SettingError: if the objective is not callable, or another argument is not valid.
            SpaceError: if a fixed value is not valid, or no design with it meets the parameter constraints.
            ObjectiveError: after `max_failures` failures in a row, with the last traceback.
            SetupError: if an evaluation raised it, because the fault is not the design's; its trial is queued again.
            StorageError: if the storage is away for half an hour; results are kept in files until then, and after.
            KeyboardInterrupt: after Ctrl-C; its message says what is saved and how to resume.
        """
        if not callable(objective) and not isinstance(objective, ExternalProgram):
            raise SettingError(f"the objective must be a function of (params, fidelity), got {objective!r}")
        unstored = objective.runs if isinstance(objective, ExternalProgram) else Path(UNSTORED)
        if executor is not None:
            evaluate, workers = evaluator_for_executor(objective, executor, workers)
            policy = Policy(budget, workers, max_failures, retries, stop, progress, unstored.absolute(), fixed or {})
            run_study(self, evaluate, executor, policy)
            return self.best
        count = 1 if workers is None else workers
        policy = Policy(budget, count, max_failures, retries, stop, progress, unstored.absolute(), fixed or {})
        with local_executor(objective, policy.workers) as (evaluate, here):
            run_study(self, evaluate, here, policy)
        return self.best

    # --- inside ---

    def _drop(self, trial: Trial) -> None:
        """Record a claimed trial as failed: it is outside of bounds or constraints that were changed meanwhile."""
        what = "bounds or parameter constraints" if self.space.constraints else "bounds"
        reason = f"not run: the design is outside of the study's present {what}"
        nothing = 0.0 if self._definition.measures_costs else None
        result = Result(TrialState.FAILED, reason=reason, measured_cost=nothing)
        self._store.finish(trial.number, trial.attempt, result)
        _log.warning("trial %d is %s", trial.number, reason)

    def _running(self, trial: LiveTrial | Trial | int) -> Trial:
        """The record of a running trial of this study, from the trial, its record or its number."""
        record = find(self._store.trials(), trial)
        if isinstance(trial, LiveTrial) and trial.study is not self:
            raise TrialError(f"this trial {record.number} belongs to another study")
        if not record.state.is_pending:
            raise TrialError(f"trial {record.number} is already finished ({ending(record)}); ask for a new one")
        return record if isinstance(trial, int) else replace(record, attempt=trial.attempt)  # the store compares
