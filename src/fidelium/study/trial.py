"""What a study takes and returns: the result of a trial, a live view of it, and the design it recommends."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fidelium.constraints import check_outcome_name, failure_of
from fidelium.definition import StudyDefinition
from fidelium.errors import ObservationError, SettingError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.numbers import as_number
from fidelium.space import Params
from fidelium.storage.base import Result

if TYPE_CHECKING:
    from fidelium.study.study import Study


_log = logging.getLogger("fidelium.study")


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
        """The fidelity to evaluate at (`.name`, `.cost`, the declared one of this design)."""
        return self._asked.fidelity.of_design(self._asked.params)

    @property
    def cost(self) -> float:
        """What the study pays for it: until it ends, what it is expected to cost."""
        return self.record().cost

    @property
    def value(self) -> float | None:
        """The recorded value, None until there is one."""
        return self.record().value

    @property
    def std(self) -> float | None:
        """The recorded standard error of the value, None if there is none."""
        return self.record().std

    @property
    def outcomes(self) -> dict[str, float]:
        """The recorded outcomes by name, empty until there are any."""
        return dict(self.record().outcomes)

    @property
    def feasible(self) -> bool | None:
        """Whether the outcomes, at the trial's own fidelity, meet all constraints; None if that is not known."""
        return self.record().feasible

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
        seen = "" if now.value is None else f", value={now.value!r}"
        return f"<trial {now.number} at {now.fidelity.name!r}: {now.params}, {now.state}{seen}>"


@dataclass(frozen=True)
class RecommendedDesign:
    """The design a study would choose now, with what its model expects at the target.

    Args:
        params: values of all parameters.
        mean: posterior mean of the target there, in the user's units; the observed value if it was observed and the
            model finds that runs repeat.
        std: posterior standard deviation there; 0 with an observed value.
        trial: number of the best trial that observed the design at the target, None if it is a new one.
        feasible_probability: probability that a run at the target succeeds and meets all constraints, None if the
            model does not say.
    """

    params: Params
    mean: float
    std: float
    trial: int | None = None
    feasible_probability: float | None = None


@dataclass(frozen=True)
class Expectation:
    """What the model expects of a trial that it does not know.

    Args:
        trial: the trial's number.
        value: what was observed, None if it has no value.
        mean: what a model without the trial expects there, at its fidelity; None if there is no other observation, or
            the design is far outside of the present bounds.
        std: its standard deviation.
    """

    trial: int
    value: float | None
    mean: float | None = None
    std: float | None = None

    def __str__(self) -> str:
        seen = "no value" if self.value is None else f"observed {self.value:.6g}"
        if self.mean is None or self.std is None:
            return f"trial {self.trial}: {seen}; nothing else is known of its surroundings"
        away = ""
        if self.value is not None and self.std > 0:
            away = f" ({abs(self.value - self.mean) / self.std:.2g} standard deviations away)"
        return f"trial {self.trial}: {seen}; the model without it expects {self.mean:.6g} ± {self.std:.2g} there{away}"

    def to_dict(self) -> dict[str, float | int | None]:
        """As plain values."""
        return {"number": self.trial, "value": self.value, "mean": self.mean, "std": self.std}


def result_of(
    definition: StudyDefinition,
    value: object,
    failed: object = None,
    measured_cost: object = None,
    outcomes: Mapping[str, object] | None = None,
    std: object = None,
) -> Result:
    """The result of a trial with this value or reason of failure.

    A value that is not finite is a failure, and so is an outcome that a constraint names and that is missing or not
    finite. Other outcomes that are not finite are left out, with a warning in the log.

    Raises:
        ObservationError: if not exactly one of value and reason is given, or one of the arguments is not valid.
    """
    if (value is None) == (failed is None):
        raise ObservationError(f"tell needs either a value or failed='reason', got value={value!r}, failed={failed!r}")
    cost = None if measured_cost is None else as_number(measured_cost)
    if measured_cost is not None and (cost is None or not cost >= 0):
        raise ObservationError(f"measured_cost must be a number >= 0, got {measured_cost!r}")
    if failed is not None:
        if not isinstance(failed, str) or not failed.strip():
            raise ObservationError(f"failed must be a string that says why, got {failed!r}")
        if outcomes:
            raise ObservationError(f"a failed trial has no outcomes, got {dict(outcomes)!r}")
        if std is not None:
            raise ObservationError(f"a failed trial has no standard error, got std={std!r}")
        return Result(TrialState.FAILED, reason=failed, measured_cost=cost)
    given, error = checked_outcomes(outcomes, definition), checked_std(std)
    number = as_number(value)
    if number is None:
        raise ObservationError(f"a trial's value must be a number, got {value!r}; to report a failure use failed=")
    if not math.isfinite(number):
        return Result(TrialState.FAILED, None, f"the value is {number}, not a finite number", cost)
    if (reason := failure_of(given, definition.constraints)) is not None:
        return Result(TrialState.FAILED, None, reason, cost)
    for name, outcome in given.items():
        if not math.isfinite(outcome):
            _log.warning("the outcome %r is %s, not a finite number: it is not recorded", name, outcome)
    finite = {name: outcome for name, outcome in given.items() if math.isfinite(outcome)}
    return Result(TrialState.DONE, number, None, cost, finite, error)


def checked_std(std: object) -> float | None:
    """A standard error as a person gives it, None if there is none.

    Raises:
        ObservationError: if it is not a finite number >= 0.
    """
    number = None if std is None else as_number(std)
    if std is not None and (number is None or not 0 <= number < math.inf):
        raise ObservationError(
            f"std, the standard error of the value, must be a finite number >= 0 (0: exact), got {std!r}"
        )
    return number


def checked_outcomes(outcomes: Mapping[str, object] | None, definition: StudyDefinition) -> dict[str, float]:
    """Outcomes as a person gives them, with valid names, as numbers; they may be NaN or infinite.

    Raises:
        ObservationError: if a name is not valid or a parameter's, or something is not a number.
    """
    if outcomes is not None and not isinstance(outcomes, Mapping):
        raise ObservationError(f"outcomes must be a dict such as {{'stress': 1.2e8}}, got {outcomes!r}")
    found: dict[str, float] = {}
    for name, value in (outcomes or {}).items():
        try:
            check_outcome_name(name)
        except SettingError as error:
            raise ObservationError(str(error)) from None
        if name in definition.space.parameters:
            raise ObservationError(f"{name!r} is a parameter, so an outcome cannot have this name; rename it")
        number = as_number(value)
        if number is None:
            raise ObservationError(f"the outcome {name!r} must be a number, got {value!r}")
        found[name] = number
    return found


def ending(trial: Trial) -> str:
    """How a trial ended, in a few words."""
    if trial.value is not None:
        return f"value {trial.value:g}"
    return ": ".join([str(trial.state), *(trial.reason or "").splitlines()[-1:]])
