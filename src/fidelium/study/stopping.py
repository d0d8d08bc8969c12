"""When to stop before the budget is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fidelium.errors import SettingError
from fidelium.numbers import as_number, exact_sum
from fidelium.snapshot import Snapshot


@dataclass(frozen=True)
class Stop:
    """Limits after which a study starts nothing more; None is no limit.

    Args:
        wall_time: seconds since `optimize` was called.
        trials: trials of the study in total, without data that was given.
        no_improvement: cost spent on finished trials since the best one at the target was asked.
        gain_per_cost: the least that the strategy must expect of its next query per cost, in the unit of its
            acquisition: nats about the target's maximum for the entropy searches.

    Raises:
        SettingError: if a limit is not a number above 0.
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

    def reason(self, snapshot: Snapshot, seconds: float) -> str | None:
        """Why to start nothing more, None if there is no reason.

        Args:
            snapshot: the study as it is now.
            seconds: how long this run has taken.
        """
        if self.wall_time is not None and seconds >= self.wall_time:
            return f"{self.wall_time:g} s have passed"
        if self.trials is not None and sum(not trial.given for trial in snapshot.trials) >= self.trials:
            return f"the study has {self.trials} trials"
        if self.no_improvement is not None and _spent_since_best(snapshot) >= self.no_improvement:
            return f"no improvement for a cost of {self.no_improvement:g}"
        return None


NEVER = Stop()
"""No limit but the budget."""


def _spent_since_best(snapshot: Snapshot) -> float:
    """The cost of finished trials asked after the best one; 0 as long as there is none."""
    best = snapshot.best
    if best is None:
        return 0.0
    return float(exact_sum(trial.cost for trial in snapshot.finished if trial.number > best.number))
