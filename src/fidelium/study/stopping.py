"""When to stop before the budget is spent, and what is known of a stop afterwards."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fidelium.errors import NotWorthwhileError, SettingError
from fidelium.history import Change, History, Trial
from fidelium.numbers import as_number, exact_sum
from fidelium.snapshot import Snapshot
from fidelium.space import Params
from fidelium.storage.transitions import STOP
from fidelium.strategies.base import ImprovementModel, Model

OVERRULED = ("no_improvement", "gain_per_cost", "goal", "worth")
"""The rules that a larger budget overrules; a number of trials and a time are budgets of their own."""

_RECORD = re.compile(r"(?P<rule>\w+): (?P<why>.*) \[budget (?P<budget>\S+)\]", re.DOTALL)


@dataclass(frozen=True)
class Stop:
    """Limits after which a study starts nothing more; None is no limit.

    Args:
        wall_time: seconds since `optimize` was called.
        trials: trials of the study in total, without data that was given.
        no_improvement: cost spent on finished trials since the best one at the target was asked.
        gain_per_cost: the least that the strategy must expect of its next query per cost, in the unit of its
            acquisition: nats about the target's maximum for the entropy searches.
        goal: a value at the target that is good enough.
        worth: what a unit of the objective is worth, in the unit of the costs. Stops once no design promises more
            improvement over the best than a run of it at the target costs: max_x worth EI(x; best) - cost(x) <= 0
            (Xie et al. 2025, the stopping rule of Pandora's box). Not before the initial design is done.

    Raises:
        SettingError: if a limit is not a number above 0, or the goal is not a finite number.
    """

    wall_time: float | None = None
    trials: int | None = None
    no_improvement: float | None = None
    gain_per_cost: float | None = None
    goal: float | None = None
    worth: float | None = None

    def __post_init__(self) -> None:
        for name in ("wall_time", "trials", "no_improvement", "gain_per_cost", "worth"):
            limit = getattr(self, name)
            number = as_number(limit)
            if limit is not None and (number is None or not number > 0):
                raise SettingError(f"stop: {name} must be a number above 0, or None for no such limit, got {limit!r}")
        number = as_number(self.goal)
        if self.goal is not None and (number is None or not math.isfinite(number)):
            raise SettingError(f"stop: goal must be a finite number, or None for no such limit, got {self.goal!r}")

    @property
    def least_worth(self) -> float:
        """What the next query must be worth per cost."""
        return -math.inf if self.gain_per_cost is None else self.gain_per_cost

    def reason(self, snapshot: Snapshot, seconds: float) -> str | None:
        """Why to start nothing more, None if there is no reason.

        Args:
            snapshot: the study as it is now.
            seconds: how long this run has taken.
        """
        found = self.rule(snapshot, seconds)
        return None if found is None else found[1]

    def rule(self, snapshot: Snapshot, seconds: float) -> tuple[str, str] | None:
        """Which rule says to start nothing more, and why; the arguments are those of `reason`."""
        best = snapshot.best
        if self.wall_time is not None and seconds >= self.wall_time:
            return "wall_time", f"{self.wall_time:g} s have passed"
        if self.trials is not None and sum(not trial.given for trial in snapshot.trials) >= self.trials:
            return "trials", f"the study has {self.trials} trials"
        if self.no_improvement is not None and _spent_since_best(snapshot) >= self.no_improvement:
            return "no_improvement", f"no improvement for a cost of {self.no_improvement:g}"
        if self.goal is not None and best is not None and best.value is not None:
            sign = snapshot.definition.direction.sign
            if sign * best.value >= sign * self.goal:
                return "goal", f"trial {best.number} reaches the goal of {self.goal:g} with {best.value:g}"
        return None

    def overruled(self, before: Stopped | None, budget: float) -> Stop:
        """These rules without the one that had stopped the study, if the budget is larger now than it was then."""
        if before is None or before.rule not in OVERRULED or not budget > before.budget:
            return self
        return replace(self, **{before.rule: None})


NEVER = Stop()
"""No limit but the budget."""


@dataclass(frozen=True)
class Improvement:
    """What another run at the target is expected to bring.

    Args:
        params: the design that promises most, after its cost.
        expected: expected improvement of the objective over the best, times the probability of being feasible.
        cost: what a run of it at the target costs.
    """

    params: Params
    expected: float
    cost: float


def best_improvement(model: Model, history: History, worth: float) -> Improvement | None:
    """The design with the largest worth EI(x; best) - cost(x); None while no feasible value is known.

    Args:
        model: of the finished trials.
        history: of the search, for its space and the expected costs of runs.
        worth: what a unit of the objective is worth, in the unit of the costs.

    Raises:
        SettingError: if the model does not know expected improvements.
    """
    if not isinstance(model, ImprovementModel):
        raise SettingError("stop: worth needs a strategy whose model knows the expected improvement; this one does not")
    found = model.improvements()
    if found is None:
        return None
    designs, expected = found
    costs = history.costs.at(designs, len(history.ladder) - 1)
    best = int(np.argmax(expected - costs / worth))  # worth may be infinite
    return Improvement(history.space.decode(designs[best]), float(expected[best]), float(costs[best]))


def check_pays(found: Improvement | None, worth: float, target: str) -> None:
    """Refuse to go on if another run costs more than it is expected to bring.

    Raises:
        NotWorthwhileError: if it does, with the rule's name as `setting`.
    """
    if found is not None and worth * found.expected <= found.cost:
        error = NotWorthwhileError(
            f"the best next design is expected to improve the objective by {found.expected:.3g}, which is worth "
            f"{worth * found.expected:.3g}, and its run at {target} costs {found.cost:g}"
        )
        error.setting = "worth"
        raise error


@dataclass(frozen=True)
class Stopped:
    """A stop of a study by a rule, as it was recorded.

    Args:
        rule: the rule's name, a field of `Stop`.
        why: what it said.
        budget: the total budget of that run.
        at: when, in seconds since 1970.
        holds: whether nothing was started since.
    """

    rule: str
    why: str
    budget: float
    at: float
    holds: bool

    def __str__(self) -> str:
        return f"{self.rule}: {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"rule": self.rule, "why": self.why, "budget": self.budget, "at": self.at}


def stop_text(rule: str, why: str, budget: float) -> str:
    """A stop as it is recorded in the changes."""
    return f"{rule}: {why} [budget {budget!r}]"


def last_stop(changes: Sequence[Change], trials: Sequence[Trial]) -> Stopped | None:
    """The last stop by a rule, None if there was none."""
    last = next((change for change in reversed(changes) if change.action == STOP), None)
    found = None if last is None else _RECORD.fullmatch(last.reason)
    if last is None or found is None:
        return None
    started = max((trial.started for trial in trials if trial.started is not None), default=-math.inf)
    try:
        budget = float(found["budget"])
    except ValueError:
        return None
    return Stopped(found["rule"], found["why"], budget, last.at, started <= last.at)


def _spent_since_best(snapshot: Snapshot) -> float:
    """The cost of finished trials asked after the best one; 0 as long as there is none."""
    best = snapshot.best
    if best is None:
        return 0.0
    return float(exact_sum(trial.cost for trial in snapshot.finished if trial.number > best.number))
