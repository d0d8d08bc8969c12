"""Choosing the next trial of a study: the initial design first, then what its strategy proposes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from fidelium.definition import StudyDefinition
from fidelium.errors import BudgetError, NotWorthwhileError, SettingError
from fidelium.history import History, Trial
from fidelium.randomness import design_key, model_key, trial_key
from fidelium.snapshot import Snapshot
from fidelium.space import SearchSpace
from fidelium.strategies import registry
from fidelium.strategies.adaptive_design import InitialDesign
from fidelium.strategies.base import Model, Modelled, Strategy
from fidelium.strategies.initial_design import check_new_designs


@dataclass(frozen=True)
class Chooser:
    """Chooses trials and fits the model, as a definition says; the same snapshot gives the same trial.

    Args:
        definition: what the study is made from.
    """

    definition: StudyDefinition

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy, made when it is first used: naming one is cheap, importing it may not be."""
        of = self.definition
        return registry.resolve(of.strategy, of.strategy_options, of.initial)

    def choose(
        self,
        now: Snapshot,
        worker: str | None,
        least_worth: float,
        space: SearchSpace | None = None,
        check: Callable[[], None] | None = None,
    ) -> Trial:
        """A new trial, not yet stored.

        Args:
            now: the study.
            worker: the worker that runs it.
            least_worth: what the strategy must expect of it per cost.
            space: the slice of the study's space to search; None for all of it.
            check: called once the initial design is done; it raises if nothing more is to be started.

        Raises:
            BudgetError: if the rest of the budget is below the cheapest run, or below the one that is proposed.
            NotWorthwhileError: if the strategy expects less than `least_worth` per cost of its best query, or every
                item of a catalogue was run at the target.
            SettingError: if the strategy proposes a fidelity that is not affordable.
        """
        of, history, number = self.definition, now.history, len(now.trials)
        if space is not None:
            history = replace(history, space=space)
        if not history.affordable:
            raise BudgetError(
                f"the rest of the budget, {max(now.remaining, 0.0):g} of {now.budget:g}, is below the cheapest run, "
                f"which costs {min(history.costs.cheapest):g}"
            )
        check_new_designs(history)
        design = self._design if space is None else _slice_design(self._design, space)
        query = design.next(history, of.initial_within(now.budget, history.costs.typical))
        if query is not None and history.costs.of(query.params, query.fidelity) > history.remaining:
            query = None
        if query is None:
            if check is not None:
                check()
            query = self.strategy.propose(history, history.pending, trial_key(of.seed, number))
            if query.fidelity not in history.affordable:
                raise SettingError(
                    f"the strategy proposed fidelity {query.fidelity!r}, affordable are {history.affordable}"
                )
            held = {} if space is None else space.held  # a strategy of the user's may know nothing of slices
            query = replace(query, params=of.space.validate({**query.params, **held}))
        if query.worth is not None and query.worth < least_worth:
            error = NotWorthwhileError(f"the best query is worth {query.worth:g} per cost, less than {least_worth:g}")
            error.setting = "gain_per_cost"
            raise error
        rung, expected = of.ladder[query.fidelity], history.costs.of(query.params, query.fidelity)
        if expected > history.remaining:
            raise BudgetError(
                f"the rest of the budget, {max(now.remaining, 0.0):g} of {now.budget:g}, is below what the next run is "
                f"expected to cost, {expected:g} at {rung.name!r}"
            )
        charged = None if expected == rung.cost else expected
        return Trial(number, query.params, rung, worker=worker, charged=charged, constraints=of.constraints)

    def fitted(self, history: History, count: int) -> Model:
        """The strategy's model of finished trials; the default strategy's if it has none.

        Args:
            history: the finished trials.
            count: how many there are.
        """
        modelled = self.strategy if isinstance(self.strategy, Modelled) else registry.resolve(registry.DEFAULT)
        assert isinstance(modelled, Modelled)
        return modelled.model(history, model_key(self.definition.seed, count))

    @cached_property
    def _design(self) -> InitialDesign:
        of = self.definition
        return InitialDesign(of.space, of.ladder, dict(of.initial), design_key(of.seed))


def _slice_design(design: InitialDesign, space: SearchSpace) -> InitialDesign:
    """The initial design within a slice of the space."""
    return replace(design, space=space)
