"""What a study takes and returns: the outcome of a trial, a live view of it, and the design it recommends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fidelium.errors import ObservationError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.numbers import as_number
from fidelium.space import Params
from fidelium.storage.base import Outcome

if TYPE_CHECKING:
    from fidelium.study.study import Study


class LiveTrial:
    """A trial that was asked for: what to evaluate, and, once it is recorded, the result.

    Args:
        study: the study that knows it.
        asked: the trial as it was handed out.
    """

    def __init__(self, study: Study, asked: Trial) -> None:
        self._study = study
        self._asked = asked

    @property
    def study(self) -> Study:
        """The study this trial belongs to."""
        return self._study

    def record(self) -> Trial:
        """The trial as it is now, read from the study."""
        return self._study.snapshot().trials[self._asked.number]

    @property
    def number(self) -> int:
        """Position in the study, from 0."""
        return self._asked.number

    @property
    def attempt(self) -> int:
        """Which start of the trial this is, from 1: a trial that was given back is started again."""
        return self._asked.attempt

    @property
    def params(self) -> Params:
        """A copy of the values of all parameters, plain Python objects."""
        return dict(self._asked.params)

    @property
    def fidelity(self) -> Fidelity:
        """The fidelity to evaluate at (`.name`, `.cost`)."""
        return self._asked.fidelity

    @property
    def value(self) -> float | None:
        """The recorded value, None until there is one."""
        return self.record().value

    @property
    def state(self) -> TrialState:
        """Queued, running, done, failed or lost."""
        return self.record().state

    @property
    def reason(self) -> str | None:
        """Why the trial failed, None if it did not."""
        return self.record().reason

    def __repr__(self) -> str:
        now = self.record()
        outcome = "" if now.value is None else f", value={now.value!r}"
        return f"<trial {now.number} at {now.fidelity.name!r}: {now.params}, {now.state}{outcome}>"


@dataclass(frozen=True)
class RecommendedDesign:
    """The design a study would choose now, with what its model expects at the target.

    Args:
        params: values of all parameters.
        mean: posterior mean of the target there, in the user's units; the observed value if it was observed and the
            model finds that runs repeat.
        std: posterior standard deviation there; 0 with an observed value.
        trial: number of the best trial that observed the design at the target, None if it is a new one.
    """

    params: Params
    mean: float
    std: float
    trial: int | None = None


def outcome_of(value: object, failed: object, measured_cost: object) -> Outcome:
    """The outcome of a trial with this value or reason of failure; a value that is not finite is a failure.

    Raises:
        ObservationError: if not exactly one of the two is given, or one of the arguments is not valid.
    """
    if (value is None) == (failed is None):
        raise ObservationError(f"tell needs either a value or failed='reason', got value={value!r}, failed={failed!r}")
    cost = None if measured_cost is None else as_number(measured_cost)
    if measured_cost is not None and (cost is None or not cost >= 0):
        raise ObservationError(f"measured_cost must be a number >= 0, got {measured_cost!r}")
    if failed is not None:
        if not isinstance(failed, str) or not failed.strip():
            raise ObservationError(f"failed must be a string that says why, got {failed!r}")
        return Outcome(TrialState.FAILED, reason=failed, measured_cost=cost)
    number = as_number(value)
    if number is None:
        raise ObservationError(f"a trial's value must be a number, got {value!r}; to report a failure use failed=")
    if not math.isfinite(number):
        return Outcome(TrialState.FAILED, None, f"the value is {number}, not a finite number", cost)
    return Outcome(TrialState.DONE, number, measured_cost=cost)


def ending(trial: Trial) -> str:
    """How a trial ended, in a few words."""
    if trial.value is not None:
        return f"value {trial.value:g}"
    return ": ".join([str(trial.state), *(trial.reason or "").splitlines()[-1:]])
