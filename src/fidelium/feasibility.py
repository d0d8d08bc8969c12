"""How trials meet the constraints on their outcomes, in numbers and in words.

stress 1.49e8 <= 1.5e8 (-0.67 %), active        stress 1.6e8 > 1.5e8 (+6.7 %)
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fidelium.constraints import OutcomeConstraint
from fidelium.history import Trial
from fidelium.snapshot import Snapshot

ACTIVE = 0.01
"""Distance to a limit, relative to it, within which a constraint that is met counts as active."""


@dataclass(frozen=True)
class Judgement:
    """One outcome of a trial against its limits.

    Args:
        constraint: the limits.
        value: the outcome.
    """

    constraint: OutcomeConstraint
    value: float

    @property
    def name(self) -> str:
        """The outcome's name."""
        return self.constraint.name

    @property
    def limit(self) -> float:
        """The limit that is violated, or else nearest."""
        return self.constraint.limit_near(self.value)

    @property
    def is_met(self) -> bool:
        """Whether the outcome is feasible."""
        return self.constraint.meets(self.value)

    @property
    def is_active(self) -> bool:
        """Whether it is feasible and within a hundredth of the limit (of the range if the limit is 0)."""
        return self.is_met and abs(self.value - self.limit) <= ACTIVE * self._scale

    @property
    def percent(self) -> float | None:
        """How far the outcome is above the limit, negative if below, in percent of it; None if the limit is 0."""
        return 100 * (self.value - self.limit) / abs(self.limit) if self.limit else None

    @property
    def relative_violation(self) -> float:
        """How far it is beyond its limit, relative to the limit (to the value if the limit is 0); 0 if it is met."""
        beyond = self.constraint.violation(self.value)
        return beyond / (abs(self.limit) or abs(self.value)) if beyond else 0.0

    @property
    def text(self) -> str:
        """In words: value, limit and the distance between them."""
        is_upper = self.limit == self.constraint.upper
        if self.is_met:
            sign = "<=" if is_upper else ">="
        else:
            sign = ">" if is_upper else "<"
        apart = f"{self.value - self.limit:+.2g}" if self.percent is None else _signed(self.percent)
        active = ", active" if self.is_active else ""
        return f"{self.name} {short(self.value)} {sign} {short(self.limit)} ({apart}){active}"

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        lower, upper = (
            None if math.isinf(limit) else limit for limit in (self.constraint.lower, self.constraint.upper)
        )
        margin = self.constraint.margin(self.value)
        numbers = {"value": self.value, "lower": lower, "upper": upper, "margin": margin, "percent": self.percent}
        return {"name": self.name, **numbers, "met": self.is_met, "active": self.is_active}

    @property
    def _scale(self) -> float:
        if self.limit:
            return abs(self.limit)
        extent = self.constraint.upper - self.constraint.lower
        return extent if math.isfinite(extent) else 0.0


def judged(trial: Trial) -> tuple[Judgement, ...]:
    """The outcomes of a trial that constraints name, against their limits."""
    known = (each for each in trial.constraints if each.name in trial.outcomes)
    return tuple(Judgement(each, trial.outcomes[each.name]) for each in known)


def infeasible_text(trial: Trial) -> str:
    """Which constraints a trial violates and by how much, in a line; empty if it violates none."""
    violated = [each.text for each in judged(trial) if not each.is_met]
    return f"infeasible: {', '.join(violated)}" if violated else ""


@dataclass(frozen=True)
class Feasibility:
    """How the observations at the target meet the constraints.

    Args:
        snapshot: the study.
    """

    snapshot: Snapshot

    @cached_property
    def judged(self) -> tuple[Trial, ...]:
        """The observations at the target whose feasibility is known."""
        target = self.snapshot.definition.ladder.target.name
        here = (trial for trial in self.snapshot.trials if trial.is_observation and trial.fidelity.name == target)
        return tuple(trial for trial in here if trial.feasible is not None)

    @property
    def infeasible(self) -> tuple[Trial, ...]:
        """Those that violate a constraint."""
        return tuple(trial for trial in self.judged if not trial.feasible)

    @property
    def violated(self) -> dict[str, int]:
        """How many of them violate each constraint, the one violated most often first."""
        counts = Counter(name for trial in self.infeasible for name in trial.violations)
        return dict(counts.most_common())

    @property
    def nearest(self) -> Trial | None:
        """The infeasible one that is least beyond its limits, relative to them and in total."""
        return min(
            self.infeasible, key=lambda trial: sum(each.relative_violation for each in judged(trial)), default=None
        )

    @property
    def text(self) -> str:
        """How many are feasible, and what is violated most often."""
        target = self.snapshot.definition.ladder.target.name
        count, bad = len(self.judged), len(self.infeasible)
        trials = "1 trial" if count == 1 else f"{count} trials"
        if not bad:
            return f"{count} of {trials} at {target}"
        name, times = next(iter(self.violated.items()))
        most = f"by {name}" if times == bad else f"{times} of them by {name}"
        return f"{count - bad} of {trials} at {target}; {bad} infeasible, {most}"

    @property
    def without_best(self) -> str:
        """Why there is no best trial yet."""
        target = self.snapshot.definition.ladder.target.name
        if self.nearest is None:
            return f"no value at {target} yet"
        line = infeasible_text(self.nearest).removeprefix("infeasible: ")
        return f"no feasible design at {target} yet; the nearest is trial {self.nearest.number}: {line}"

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "constraints": [str(each) for each in self.snapshot.definition.constraints],
            "feasible": len(self.judged) - len(self.infeasible),
            "infeasible": len(self.infeasible),
            "violated": self.violated,
            "nearest": None if self.nearest is None else self.nearest.number,
        }


def _signed(percent: float) -> str:
    """A percentage in two digits, or whole: +0.67 %, -20 %, +2778 %."""
    return f"{percent:+.0f} %" if 100 <= abs(percent) < 1e6 else f"{percent:+.2g} %"


def short(number: float) -> str:
    """A number in four digits, with a short exponent: 1.5e8."""
    digits, e, exponent = f"{number:.4g}".partition("e")
    return f"{digits}e{int(exponent)}" if e else digits
