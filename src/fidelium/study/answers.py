"""What the model of a study answers: the recommended design, predictions, and whether another run pays."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fidelium.definition import StudyDefinition
from fidelium.errors import NoDataError, SettingError, SpaceError, UnknownNameError
from fidelium.fidelity import Fidelity
from fidelium.history import Direction, History, Trial
from fidelium.space import SearchSpace
from fidelium.storage.base import Storage, StudyStore
from fidelium.strategies.base import Model, Modelled, RunModel
from fidelium.study.choosing import Chooser
from fidelium.study.learned import Learned
from fidelium.study.repair import expected_without, find
from fidelium.study.stopping import Improvement, Stop, best_improvement, check_pays
from fidelium.study.stored import StoredStudy
from fidelium.study.trial import Expectation, LiveTrial, RecommendedDesign


class ModelledStudy(StoredStudy):
    """The part of a `Study` that answers from its model; the arguments are those of `StoredStudy`."""

    def __init__(self, definition: StudyDefinition, store: StudyStore, storage: Storage | None = None) -> None:
        super().__init__(definition, store, storage)
        self._chooser = Chooser(definition)
        self._modelling = threading.Lock()
        self._model: tuple[tuple[Trial, ...], SearchSpace | None, Model] | None = None  # of these finished trials
        self._part: tuple[str, SearchSpace] | None = None  # the slice that was last asked for

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
        Stop(worth=worth)  # refuses what is not a number above 0
        return self._improvement(worth, self._slice(fixed))

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

    # --- inside ---

    def _slice(self, fixed: Mapping[str, Any] | None) -> SearchSpace | None:
        """The slice of the space in which parameters have fixed values, kept for the next call; None if none has."""
        if fixed is None or fixed == {}:
            return None
        key = repr(fixed)
        if self._part is None or self._part[0] != key:
            self._part = (key, self.space.holding(fixed))
        return self._part[1]

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

    def _encoded(self, method: str, designs: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """The designs as rows of the unit cube."""
        if isinstance(designs, Mapping):
            raise SpaceError(f"{method} takes a list of designs, got one design; write {method}([params])")
        points = [self.space.encode(self.space.within_bounds(params)) for params in designs]
        return np.array(points).reshape(len(points), self.space.dimension)
