"""A study at one moment: its trials as one read of the storage gave them, and everything that follows from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from fidelium.definition import StudyDefinition
from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity
from fidelium.history import History, Trial, TrialState
from fidelium.numbers import as_number, exact_sum, remainder


def reserving(unstarted: Iterable[Trial], spent: Fraction, budget: float) -> tuple[Trial, ...]:
    """Of the queued trials that were never started, those that the budget pays for; the others wait.

    The first to be started are the first to be paid for: by priority, then by number.

    Args:
        unstarted: the queued trials that were never started.
        spent: what all other trials cost.
        budget: what all may cost together.
    """
    found: list[Trial] = []
    for trial in sorted(unstarted, key=lambda trial: (-trial.priority, trial.number)):
        if trial.cost <= remainder(budget, spent):
            found.append(trial)
            spent += exact_sum([trial.cost])
    return tuple(found)


@dataclass(frozen=True)
class FidelityUsage:
    """What one fidelity has been used for.

    Args:
        fidelity: its name and declared cost.
        trials: trials at it, without data that was given.
        given: observations that the user brought.
        cost: what the trials cost, without queued ones.
        cost_each: what a run is expected to cost, typically.
    """

    fidelity: Fidelity
    trials: int
    given: int
    cost: float
    cost_each: float


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment. Everything is computed from the same trials, so its parts agree with each other.

    Args:
        definition: what the study is made from.
        trials: all trials, by number.
        budget: what it may spend in total; infinite if there is no limit.

    Raises:
        SettingError: if the budget is not a number.
    """

    definition: StudyDefinition
    trials: tuple[Trial, ...]
    budget: float = math.inf

    def __post_init__(self) -> None:
        number = as_number(self.budget)
        if number is None or math.isnan(number):
            raise SettingError(f"the budget must be a number, or infinite for no limit, got {self.budget!r}")

    @cached_property
    def spent(self) -> float:
        """The cost of all trials that were run or are running, failed ones included; data that was given is free."""
        return float(exact_sum(trial.cost for trial in self.trials if trial.state is not TrialState.QUEUED))

    @cached_property
    def reserved(self) -> float:
        """The cost of the trials that are queued and do not wait: not spent, but not available for others either."""
        return float(exact_sum(trial.cost for trial in self.startable))

    @cached_property
    def remaining(self) -> float:
        """What is left of the budget, neither spent nor reserved, rounded down: a run that costs no more fits."""
        waiting = {trial.number for trial in self.waiting}
        return remainder(self.budget, exact_sum(trial.cost for trial in self.trials if trial.number not in waiting))

    @cached_property
    def waiting(self) -> tuple[Trial, ...]:
        """Queued trials that were never started and that the budget does not pay for: they wait for a larger one."""
        unstarted = [trial for trial in self.trials if trial.is_unstarted]
        if not unstarted or math.isinf(self.budget):
            return ()
        others = exact_sum(trial.cost for trial in self.trials if not trial.is_unstarted)
        paid = {trial.number for trial in reserving(unstarted, others, self.budget)}
        return tuple(trial for trial in unstarted if trial.number not in paid)

    @property
    def startable(self) -> tuple[Trial, ...]:
        """Queued trials without those that wait for a larger budget."""
        waiting = {trial.number for trial in self.waiting}
        return tuple(trial for trial in self.queued if trial.number not in waiting)

    @cached_property
    def history(self) -> History:
        """The trials in the form that strategies use."""
        of = self.definition
        return History(
            of.space,
            of.ladder,
            of.direction,
            self.trials,
            self.remaining,
            of.constraints,
            of.failures_teach,
            of.timeouts_teach,
            of.measures_costs,
        )

    @property
    def best(self) -> Trial | None:
        """The best feasible trial at the target fidelity that is not excluded, None if there is none."""
        return self.history.incumbent

    @property
    def queued(self) -> tuple[Trial, ...]:
        """Trials that wait for a worker."""
        return self._in_state(TrialState.QUEUED)

    @property
    def running(self) -> tuple[Trial, ...]:
        """Trials that run now, oldest first."""
        return self._in_state(TrialState.RUNNING)

    @property
    def pending(self) -> tuple[Trial, ...]:
        """Trials whose value is still to come: queued or running."""
        return self._in_state(TrialState.QUEUED, TrialState.RUNNING)

    @property
    def finished(self) -> tuple[Trial, ...]:
        """Trials that ended: done, failed or lost."""
        return self._in_state(TrialState.DONE, TrialState.FAILED, TrialState.LOST)

    @property
    def failures(self) -> tuple[Trial, ...]:
        """Trials that ended without a value, newest first."""
        return self._in_state(TrialState.FAILED, TrialState.LOST)[::-1]

    @property
    def excluded(self) -> tuple[Trial, ...]:
        """Trials that a person has excluded."""
        return tuple(trial for trial in self.trials if trial.excluded)

    @property
    def has_work(self) -> bool:
        """Whether a trial is queued and paid for, or the rest of the budget pays for another run."""
        return bool(self.startable) or bool(self.history.affordable)

    @property
    def states(self) -> dict[str, int]:
        """The number of trials in each state, every state named."""
        counts = Counter(trial.state for trial in self.trials)
        return {str(state): counts[state] for state in TrialState}

    @property
    def usage(self) -> tuple[FidelityUsage, ...]:
        """What each fidelity has been used for, low to high."""
        both = zip(self.definition.ladder, self.history.costs.typical, strict=True)
        return tuple(self._usage(rung, cost_each) for rung, cost_each in both)

    def _in_state(self, *states: TrialState) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.state in states)

    def _usage(self, rung: Fidelity, cost_each: float) -> FidelityUsage:
        here = [trial for trial in self.trials if trial.fidelity.name == rung.name]
        given = sum(trial.given for trial in here)
        cost = exact_sum(trial.cost for trial in here if trial.state is not TrialState.QUEUED)
        return FidelityUsage(rung, len(here) - given, given, float(cost), cost_each)
