"""When to stop before the budget is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fidelium.errors import SettingError
from fidelium.history import History
from fidelium.numbers import as_number, exact_sum

if TYPE_CHECKING:
    from fidelium.study.study import Study


@dataclass(frozen=True)
class Stop:
    """Reasons to stop; None never is one.

    Args:
        wall_time: seconds since `optimize` was called.
        trials: trials the study has handed out in all; data that was given does not count.
        no_improvement: cost spent on finished trials since the best one at the target was asked.
        gain_per_cost: the least that the strategy must expect of its next query per cost, in the unit of its
            acquisition: nats about the target's maximum for the entropy searches.

    Raises:
        SettingError: if one is no number above 0.
    """

    wall_time: float | None = None
    trials: int | None = None
    no_improvement: float | None = None
    gain_per_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("wall_time", "trials", "no_improvement", "gain_per_cost"):
            limit = getattr(self, name)
            number = as_number(limit)
            if limit is not None and (number is None or not number > 0):
                raise SettingError(f"stop: {name} must be a number above 0, or None for no such limit, got {limit!r}")

    @property
    def least_worth(self) -> float:
        """What the next query must be worth per cost."""
        return -math.inf if self.gain_per_cost is None else self.gain_per_cost

    def reason(self, study: Study, seconds: float) -> str | None:
        """Why to start nothing more, None if there is no reason.

        Args:
            study: what has been done.
            seconds: how long this run has taken.
        """
        if self.wall_time is not None and seconds >= self.wall_time:
            return f"{self.wall_time:g} s have passed"
        if self.trials is not None and sum(not trial.given for trial in study.trials) >= self.trials:
            return f"{self.trials} trials have been handed out"
        if self.no_improvement is not None and _spent_since_best(study.history()) >= self.no_improvement:
            return f"cost {self.no_improvement:g} brought nothing better"
        return None


NEVER = Stop()
"""No reason to stop but the budget."""


def _spent_since_best(history: History) -> float:
    """The cost of finished trials asked after the best one; 0 as long as there is none."""
    best = history.incumbent
    if best is None:
        return 0.0
    later = (t.cost for t in history.trials if t.number > best.number and not t.state.is_pending)
    return float(exact_sum(later))
