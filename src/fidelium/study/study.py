"""The study: the one class with a state. It proposes trials, records their results, and answers from the model."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fidelium.definition import StudyDefinition
from fidelium.errors import (
    FideliumError,
    NoDataError,
    ObservationError,
    SettingError,
    SpaceError,
    TrialError,
    UnknownNameError,
)
from fidelium.execution.base import Objective
from fidelium.execution.executors import evaluator_for_executor, local_executor
from fidelium.execution.program import ExternalProgram
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Change, Direction, History, Trial, TrialState
from fidelium.numbers import as_number
from fidelium.snapshot import Snapshot
from fidelium.space import SearchSpace
from fidelium.storage.annotations import checked_note, checked_priority, checked_tag
from fidelium.storage.base import Action, Annotation, Result, Storage, StudyStore, always
from fidelium.strategies import registry
from fidelium.strategies.base import Model, Modelled, RunModel, Strategy
from fidelium.study.choosing import Chooser
from fidelium.study.kept_results import UNSTORED
from fidelium.study.learned import Learned
from fidelium.study.lock import choosing_lock
from fidelium.study.repair import amend, expected_without, find
from fidelium.study.resume import add_once, give_back_unseen
from fidelium.study.runner import Policy, run_study
from fidelium.study.steering import Wish, annotate, enqueue_all
from fidelium.study.stopping import NEVER, Improvement, Stop, best_improvement, check_pays
from fidelium.study.trial import Expectation, LiveTrial, RecommendedDesign, ending, result_of

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("fidelium.study")


class Study:
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
        self._definition = definition
        self._store = store
        self._storage = storage
        self._chooser = Chooser(definition)
        self._asking = threading.Lock()  # held while a trial is chosen: the next choice must see it as pending
        self._modelling = threading.Lock()
        self._model: tuple[tuple[Trial, ...], SearchSpace | None, Model] | None = None  # of these finished trials
        self._part: tuple[str, SearchSpace] | None = None  # the slice that was last asked for

    def close(self) -> None:
        """Close the storage; the study cannot be used afterwards. A study is also a context manager that does this."""
        if self._storage is not None:
            self._storage.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what it is made from ---

    @property
    def definition(self) -> StudyDefinition:
        """Everything that the study is made from."""
        return self._definition

    @property
    def space(self) -> SearchSpace:
        """The parameters."""
        return self._definition.space

    @property
    def ladder(self) -> FidelityLadder:
        """The fidelities, low to high; the last is the target."""
        return self._definition.ladder

    @property
    def direction(self) -> Direction:
        """Maximise or minimise."""
        return self._definition.direction

    @property
    def strategy(self) -> str | Strategy:
        """The strategy, as it was given."""
        assert not isinstance(self._definition.strategy, registry.StoredStrategy)  # `load_study` refuses it
        return self._definition.strategy

    @property
    def seed(self) -> int:
        """The seed of all randomness; the one drawn if none was given."""
        return self._definition.seed

    @property
    def name(self) -> str | None:
        """What the user calls the study."""
        return self._definition.name

    @property
    def store(self) -> StudyStore:
        """Where its trials are kept; for code that runs studies. Everybody else uses `ask` and `tell`."""
        return self._store

    @property
    def initial(self) -> dict[str, int]:
        """Points of the initial design, by fidelity; if left to us, a small budget reduces them."""
        return dict(self._definition.initial)

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

    # --- steering ---

    def enqueue(
        self,
        params: Mapping[str, Any],
        fidelity: str | Fidelity | None = None,
        priority: int = 0,
        note: str | None = None,
        *,
        tags: Sequence[str] = (),
        budget: float = math.inf,
        who: str | None = None,
    ) -> Trial:
        """Queue a design that you believe in: `ask` and `optimize` run it next, like any other trial.

        It reserves its cost. In a run whose budget does not pay for it, it waits for a larger one, and the others go
        on. At its fidelity it counts as one of the runs of the initial design.

        Args:
            params: values of all parameters, within the bounds and the parameter constraints.
            fidelity: a fidelity or its name; the target if None.
            priority: queued trials of a higher one are started first; those of the same one in their order.
            note: what to remember about it.
            tags: short labels.
            budget: what the study may spend in total: a design that does not fit into what is left is refused.
            who: who does it, for `changes`; this login and host if None.

        Returns:
            The queued trial's record.

        Raises:
            SpaceError: if the design is not valid.
            FidelityError: if the fidelity is unknown.
            BudgetError: if the design does not fit into the rest of the budget; nothing changes.
            SettingError: if the priority, the note or a tag is not valid.
        """
        wish = Wish(params, fidelity, priority, note, tags)
        return enqueue_all(self._store, self._definition, [wish], budget, who)[0]

    def prioritise(self, trial: LiveTrial | Trial | int, priority: int, *, who: str | None = None) -> Trial:
        """Give a queued trial another priority: those of a higher one are started first.

        Raises:
            TrialError: if the trial is not one of this study, or not queued; nothing changes.
            SettingError: if the priority is not a whole number.
        """
        return annotate(self._store, trial, Annotation.PRIORITISE, str(checked_priority(priority)), who)

    def note(self, trial: LiveTrial | Trial | int, text: str, *, who: str | None = None) -> Trial:
        """Write a note on a trial in any state; it replaces the one before, and an empty one removes it.

        Raises:
            TrialError: if the trial is not one of this study.
            SettingError: if the note is not a text, or too long.
        """
        return annotate(self._store, trial, Annotation.NOTE, checked_note(text) or "", who)

    def tag(self, trial: LiveTrial | Trial | int, tag: str, *, who: str | None = None) -> Trial:
        """Give a trial in any state a tag: one word.

        Raises:
            TrialError: if the trial is not one of this study.
            SettingError: if the tag is not one word.
        """
        return annotate(self._store, trial, Annotation.TAG, checked_tag(tag), who)

    def untag(self, trial: LiveTrial | Trial | int, tag: str, *, who: str | None = None) -> Trial:
        """Remove a tag from a trial.

        Raises:
            TrialError: if the trial is not one of this study, or has no such tag.
        """
        return annotate(self._store, trial, Annotation.UNTAG, checked_tag(tag), who)

    # --- repair ---

    def exclude(self, trial: LiveTrial | Trial | int, reason: str = "", *, who: str | None = None) -> Trial:
        """Exclude a finished trial: the model forgets it and it is never the best; its record and its cost stay.

        Args:
            trial: the trial, its record, or its number.
            reason: why; kept in `changes`.
            who: who does it; this login and host if None.

        Returns:
            The trial's record.

        Raises:
            TrialError: if the trial is not one of this study, is not finished, or is excluded already; nothing changes.
        """
        return amend(self._store, trial, Action.EXCLUDE, reason, who)

    def restore(self, trial: LiveTrial | Trial | int, reason: str = "", *, who: str | None = None) -> Trial:
        """Undo `exclude`. The arguments are the same.

        Raises:
            TrialError: if the trial is not one of this study, or not excluded; nothing changes.
        """
        return amend(self._store, trial, Action.RESTORE, reason, who)

    def retry(self, trial: LiveTrial | Trial | int, reason: str = "", *, who: str | None = None) -> Trial:
        """Queue a failed, lost or excluded trial again: the next `ask` returns it.

        It is charged once only, except where costs are measured: then it costs what all its attempts take.

        The arguments are those of `exclude`.

        Raises:
            TrialError: if the trial is not one of this study, is running, queued, done and not excluded, or data that
                was given; nothing changes.
        """
        return amend(self._store, trial, Action.RETRY, reason, who)

    def correct(
        self,
        trial: LiveTrial | Trial | int,
        value: float,
        measured_cost: float | None = None,
        reason: str = "",
        *,
        outcomes: Mapping[str, float] | None = None,
        std: float | None = None,
        who: str | None = None,
    ) -> Trial:
        """Record the value of a trial that failed, or was queued again, although its evaluation did give one.

        Args:
            trial: the trial, its record, or its number.
            value: what was observed, in the user's units.
            measured_cost: what the evaluation really cost.
            reason: why; kept in `changes`.
            outcomes: named results beside the value; all that constraints name.
            std: standard error of the value, as in `tell`.
            who: who does it; this login and host if None.

        Returns:
            The trial's record, done.

        Raises:
            TrialError: if the trial is not one of this study, is running, done, or was never started; nothing changes.
            ObservationError: if the value is not a finite number, `std` is not one >= 0, or an outcome that a
                constraint names is missing or not finite; nothing changes.
        """
        result = result_of(self._definition, value, None, measured_cost, outcomes, std)
        if result.reason is not None:
            raise ObservationError(f"a trial is corrected with a finite value and all outcomes: {result.reason}")
        return amend(self._store, trial, Action.CORRECT, reason, who, result)

    def expectations(self, trials: Sequence[LiveTrial | Trial | int]) -> tuple[Expectation, ...]:
        """What a model without these trials expects of each of them: whether to `exclude` them. It is fitted anew.

        Args:
            trials: finished ones; the trials, their records, or their numbers.

        Raises:
            TrialError: if one of them is not one of this study, or not finished.
        """
        now = self.snapshot()
        records = [find(now.trials, trial) for trial in trials]
        return expected_without(self._chooser, now, records)

    def changes(self) -> tuple[Change, ...]:
        """What people have changed, oldest first: queued, excluded, retried, annotated trials, and stops by a rule."""
        return self._store.changes()

    # --- what is known ---

    def snapshot(self, budget: float = math.inf) -> Snapshot:
        """The study as it is now, from one read of the storage: trials, spent, remaining, pending, best.

        Args:
            budget: what the study may spend in total.
        """
        trials, constraints = self._store.trials(), self._definition.constraints
        if constraints != self._store.definition.constraints:  # the stored study is viewed with others
            trials = tuple(replace(trial, constraints=constraints) for trial in trials)
        return Snapshot(self._definition, trials, budget)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials as they are now: queued, running, done, failed and lost ones, and data that was given."""
        return self.snapshot().trials

    @property
    def best(self) -> Trial | None:
        """The best feasible trial at the target fidelity, None if there is none."""
        return self.snapshot().best

    @property
    def spent(self) -> float:
        """The cost of all trials that were run or are running, failed ones included; data that was given is free."""
        return self.snapshot().spent

    def history(self) -> History:
        """All trials in the form that strategies use."""
        return self.snapshot().history

    @property
    def has_model(self) -> bool:
        """Whether the strategy has a model of its own; `predict` and `recommend` fit the default's otherwise."""
        return isinstance(self._chooser.strategy, Modelled)

    def recommend(self, fixed: Mapping[str, Any] | None = None) -> RecommendedDesign:
        """The best feasible design observed at the target, or a new one that is better with good probability.

        It comes with its observed value where the model finds that runs repeat, else with the posterior mean and
        standard deviation of the target; and with the probability that a run there succeeds and meets all constraints.
        A new design is recommended only if that probability is at least 90 %, or no feasible design is known.

        Args:
            fixed: values of some parameters: the best design with these; the model is fitted anew for it.

        Raises:
            NoDataError: if nothing was observed yet.
            SpaceError: if a fixed value is not valid.
        """
        part = self._slice(fixed)
        choice = self._fitted(part).recommend()
        seen = self.history().best_trial_at(np.asarray(choice.unit_x))
        params = (part or self.space).decode(np.asarray(choice.unit_x)) if seen is None else seen.params
        number = None if seen is None else seen.number
        mean, chance = self.direction.sign * float(choice.mean), float(choice.feasible_probability)
        return RecommendedDesign(params, mean, float(choice.std), number, chance)

    def improvement(self, worth: float = math.inf, fixed: Mapping[str, Any] | None = None) -> Improvement | None:
        """What another run at the target is expected to bring: by `Stop(worth=...)` a study stops when it costs more.

        Args:
            worth: what a unit of the objective is worth, in the unit of the costs; infinite if costs do not matter.
            fixed: values of some parameters, as in `ask`.

        Returns:
            The design that promises most after its cost; None while no feasible value at the target is known.

        Raises:
            NoDataError: if nothing was observed yet.
            SettingError: if `worth` is not above 0, or the strategy's own model does not know it.
            SpaceError: if a fixed value is not valid.
        """
        Stop(worth=worth)
        return self._improvement(worth, self._slice(fixed))

    def learned(self) -> Learned:
        """What the model has learned: how each fidelity correlates with the target, and whether runs succeed.

        Its `lines` say it in sentences, also which fidelity is not worth having.

        Raises:
            NoDataError: if nothing was observed yet.
        """
        return Learned.of(self._fitted(), replace(self.snapshot(), trials=self.snapshot().finished).history)

    def predict(
        self,
        designs: Sequence[Mapping[str, Any]],
        fidelity: str | Fidelity | None = None,
        outcome: str | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The model's mean and standard deviation of the objective or of an outcome, in the user's units.

        Where the model has bent values with a long tail, it is the median that is given, and half of the width of the
        interval of 68 % about it.

        Args:
            designs: a list of parameter values.
            fidelity: a fidelity's name, the target if None.
            outcome: the name of an outcome, the objective if None. An outcome without a constraint gets a model of its
                own, if every observation has it.

        Raises:
            SpaceError: if a design is outside of the bounds; it may violate constraints.
            FidelityError: if the fidelity is unknown.
            UnknownNameError: if there is no such outcome.
            NoDataError: if nothing was observed yet.
        """
        position = len(self.ladder) - 1 if fidelity is None else self.ladder.index(fidelity)
        unit_x = self._encoded("predict", designs)
        if outcome is None:
            mean, std = self._fitted().predict(unit_x, position)
            return self.direction.sign * np.asarray(mean, dtype=float), np.asarray(std, dtype=float)
        names = [each.name for each in self._definition.constraints]
        if outcome in names:
            return self._run_model().predict_outcome(unit_x, position, names.index(outcome))
        return self._model_of(outcome).predict(unit_x, position)

    def feasibility(self, designs: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """The probability that a run at the target succeeds and meets all constraints, for each design.

        Args:
            designs: a list of parameter values.

        Raises:
            SpaceError: if a design is outside of the bounds; one that violates a known constraint has probability 0.
            NoDataError: if nothing was observed yet.
            SettingError: if the strategy's own model knows the objective only.
        """
        unit_x = self._encoded("feasibility", designs)
        known = np.array([self.space.contains(params) for params in designs], dtype=float)
        return known * self._run_model().feasibility(unit_x)

    def to_dataframe(self) -> pd.DataFrame:
        """All trials as a table with the columns of `fidelium export`.

        They are number, state, fidelity, cost, value, one column per parameter and per outcome, feasible if there are
        constraints, then measured_cost, std, excluded, given, attempt, worker, started, finished, priority, tags
        (joined by commas), note and reason.

        A parameter called like one of the other columns gets the prefix `params_`.
        """
        from fidelium.study.dataframe import to_dataframe  # pandas is slow to import, and only needed here

        return to_dataframe(self.space, self.trials, self._definition.constraints)

    def __repr__(self) -> str:
        now = self.snapshot()
        counts, best = Counter(trial.fidelity.name for trial in now.trials), now.best
        found = "feasible value" if self._definition.constraints else "value"
        parts = [
            f"{len(now.trials)} trials ({', '.join(f'{counts[name]} {name}' for name in self.ladder.names)})",
            *(f"{count} {state}" for state, count in now.states.items() if count and state != TrialState.DONE),
            f"spent {now.spent:g}",
            f"no {found} at the target yet" if best is None else f"best {best.value:g} at {best.params}",
        ]
        title = "Study" if self.name is None else f"Study {self.name!r}"
        return f"<{title} to {self.direction} {self.ladder.target.name!r}: {', '.join(parts)}>"

    # --- inside ---

    def _slice(self, fixed: Mapping[str, Any] | None) -> SearchSpace | None:
        """The slice of the space in which parameters have fixed values, kept for the next call; None if none has."""
        if fixed is None or fixed == {}:
            return None
        key = repr(fixed)
        if self._part is None or self._part[0] != key:
            self._part = (key, self.space.holding(fixed))
        return self._part[1]

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

    def _encoded(self, method: str, designs: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """The designs as rows of the unit cube."""
        if isinstance(designs, Mapping):
            raise SpaceError(f"{method} takes a list of designs, got one design; write {method}([params])")
        points = [self.space.encode(self.space.within_bounds(params)) for params in designs]
        return np.array(points).reshape(len(points), self.space.dimension)

    def _run_model(self) -> RunModel:
        """The model, if it knows of constraints and failures.

        Raises:
            SettingError: if it does not.
        """
        model = self._fitted()
        if not isinstance(model, RunModel):
            raise SettingError(f"the model of strategy {self._definition.strategy_name} knows the objective only")
        return model

    def _model_of(self, outcome: str) -> Model:
        """A model of an outcome that no constraint names, as if it were the objective."""
        finished = [trial for trial in self.snapshot().finished if trial.is_observation]
        with_it = tuple(
            replace(trial, value=trial.outcomes[outcome], std=None) for trial in finished if outcome in trial.outcomes
        )
        if not with_it or len(with_it) < len(finished):
            known = sorted({name for trial in finished for name in trial.outcomes})
            raise UnknownNameError(
                f"{len(with_it)} of {len(finished)} observations have an outcome {outcome!r}; known are {known}"
            )
        history = History(self.space, self.ladder, Direction.MAXIMIZE, with_it)
        return self._chooser.fitted(history, len(with_it))

    def _check_pays(self, worth: float, part: SearchSpace | None) -> None:
        """Refuse to go on if another run costs more than it is expected to bring.

        Raises:
            NotWorthwhileError: if it does.
        """
        if any(trial.is_observation for trial in self.snapshot().finished):
            check_pays(self._improvement(worth, part), worth, self.ladder.target.name)

    def _improvement(self, worth: float, part: SearchSpace | None) -> Improvement | None:
        history = replace(self.history(), space=part or self.space)
        return best_improvement(self._fitted(part), history, worth)

    def _fitted(self, part: SearchSpace | None = None) -> Model:
        """The model of all finished trials, kept until they change.

        Args:
            part: the slice of the space in which it searches; None for all of it.
        """
        now = self.snapshot()
        finished = now.finished
        if not any(trial.is_observation for trial in finished):
            raise NoDataError("nothing has been observed yet; tell the value of a trial or add an observation first")
        with self._modelling:
            if self._model is None or self._model[0] != finished or self._model[1] is not part:
                history = replace(now, trials=finished).history
                history = history if part is None else replace(history, space=part)
                self._model = (finished, part, self._chooser.fitted(history, len(finished)))
            return self._model[2]
