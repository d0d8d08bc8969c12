"""What a study has done, as numbers: from its record and its trials alone, so that looking at it is quick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fidelium.cli.output import first_line
from fidelium.fidelity import Fidelity
from fidelium.history import History, Trial, TrialState
from fidelium.numbers import exact_sum
from fidelium.storage.base import StudyRecord


@dataclass(frozen=True)
class Share:
    """What one fidelity has cost.

    Args:
        fidelity: its name and the cost of one evaluation.
        trials: trials at it, data that was given excluded.
        given: observations that the user brought.
        cost: what the trials cost.
    """

    fidelity: Fidelity
    trials: int
    given: int
    cost: float


@dataclass(frozen=True)
class Summary:
    """A study at one moment.

    Args:
        record: what it is made from.
        trials: all trials.
        budget: what it may spend in total, None if nobody said.
    """

    record: StudyRecord
    trials: Sequence[Trial]
    budget: float | None

    @cached_property
    def spent(self) -> float:
        """The cost of all trials."""
        return float(exact_sum(trial.cost for trial in self.trials))

    @cached_property
    def best(self) -> Trial | None:
        """The best done trial at the target."""
        record = self.record
        return History(record.space, record.ladder, record.direction, tuple(self.trials)).incumbent

    @property
    def states(self) -> dict[str, int]:
        """How many trials are in which state, every state named."""
        counts = Counter(trial.state for trial in self.trials)
        return {str(state): counts[state] for state in TrialState}

    @property
    def running(self) -> list[Trial]:
        """Trials that run now, oldest first."""
        return [trial for trial in self.trials if trial.state is TrialState.RUNNING]

    @property
    def failures(self) -> list[Trial]:
        """Trials without a value for good, newest first."""
        return [trial for trial in reversed(self.trials) if trial.state in (TrialState.FAILED, TrialState.LOST)]

    @property
    def shares(self) -> list[Share]:
        """What each fidelity has cost, low to high."""
        return [self._share(rung) for rung in self.record.ladder]

    def as_json(self, now: float) -> dict[str, Any]:
        """All of it for programs.

        Args:
            now: the time, in seconds since 1970, that ages are counted to.
        """
        return {
            "name": self.record.name,
            "direction": str(self.record.direction),
            "strategy": self.record.strategy,
            "seed": self.record.seed,
            "trials": len(self.trials),
            "states": self.states,
            "spent": self.spent,
            "budget": self.budget,
            "fidelities": [_share_json(share) for share in self.shares],
            "best": None if self.best is None else trial_json(self.best),
            "running": [_running_json(trial, now) for trial in self.running],
            "failures": [_failure_json(trial) for trial in self.failures],
        }

    def _share(self, rung: Fidelity) -> Share:
        here = [trial for trial in self.trials if trial.fidelity == rung]
        given = sum(trial.given for trial in here)
        return Share(rung, len(here) - given, given, float(exact_sum(trial.cost for trial in here)))


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial for programs: everything that is known of it."""
    return {
        "number": trial.number,
        "state": str(trial.state),
        "params": trial.params,
        "fidelity": trial.fidelity.name,
        "cost": trial.cost,
        "value": trial.value,
        "reason": trial.reason,
        "given": trial.given,
        "attempt": trial.attempt,
        "worker": trial.worker,
        "started": trial.started,
        "finished": trial.finished,
        "measured_cost": trial.measured_cost,
    }


def age(trial: Trial, now: float) -> float:
    """Seconds since a trial was started."""
    return 0.0 if trial.started is None else max(now - trial.started, 0.0)


def _share_json(share: Share) -> dict[str, Any]:
    name, each = share.fidelity.name, share.fidelity.cost
    return {"name": name, "cost_each": each, "trials": share.trials, "given": share.given, "cost": share.cost}


def _running_json(trial: Trial, now: float) -> dict[str, Any]:
    seconds = round(age(trial, now), 1)
    return {"number": trial.number, "fidelity": trial.fidelity.name, "worker": trial.worker, "seconds": seconds}


def _failure_json(trial: Trial) -> dict[str, Any]:
    reason = first_line(trial.reason)
    return {"number": trial.number, "fidelity": trial.fidelity.name, "state": str(trial.state), "reason": reason}
