"""The evaluation interface, and Python functions as evaluators."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fidelium.constraints import check_outcome_name
from fidelium.errors import EvaluationError, SettingError, SetupError
from fidelium.execution.reasons import NO_REASON, may_be_interrupted, shown, storable
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.numbers import as_number, parse_decimal
from fidelium.space import Params


@dataclass(frozen=True)
class Measurement:
    """The result of an evaluation.

    Args:
        value: the objective's value, in the user's units.
        cost: the actual cost, None if it was not measured.
        outcomes: named results beside the value; they may be NaN or infinite, which is judged by the constraints.
        std: standard error of the value, 0 if it is exact; None if the simulator says none.

    Raises:
        EvaluationError: if the value is not a finite number, the cost or the standard error not a finite number >= 0,
            or an outcome not a number with a valid name.
    """

    value: float
    cost: float | None = None
    outcomes: Mapping[str, float] = field(default_factory=dict)
    std: float | None = None

    def __post_init__(self) -> None:
        value, cost = _as_number(self.value), 0.0 if self.cost is None else _as_number(self.cost)
        if value is None or not math.isfinite(value):
            raise EvaluationError(f"the value is {shown(self.value)}, not a finite number")
        if cost is None or not 0 <= cost < math.inf:
            raise EvaluationError(f"the cost is {shown(self.cost)}, not a finite number >= 0")
        std = 0.0 if self.std is None else _as_number(self.std)
        if std is None or not 0 <= std < math.inf:
            raise EvaluationError(f"the standard error (std) is {shown(self.std)}, not a finite number >= 0")
        for name, outcome in self.outcomes.items():
            _outcome(name, outcome)

    @classmethod
    def of(cls, result: object, source: str) -> Measurement:
        """What a function returned: a number, or a dict with `value` and optionally `cost` and `std`, or with `failed`.

        Everything else in the dict is an outcome.

        Args:
            result: what it returned.
            source: its name, for messages.

        Raises:
            EvaluationError: if it is something else, or says why the evaluation failed.
        """
        if not isinstance(result, Mapping):
            return cls(parse_number(f"the return value of {source}", result))
        if (reason := failure_text(result.get("failed"))) is not None:
            raise failed_at(reason, result)
        if "value" not in result:
            raise EvaluationError(
                f'{source} must return a number or {{"value": number, "cost": number, "an outcome": number, ...}}, got '
                f"{shown(result)}"
            )
        fields = ("value", "cost", "std", "failed")
        outcomes = {name: _outcome(name, each) for name, each in result.items() if name not in fields}
        return replace(cls.of_fields(result), outcomes=outcomes)

    @classmethod
    def of_fields(cls, fields: Mapping[Any, Any]) -> Measurement:
        """The fields `value` and, if they are there and not None, `cost` and `std`; others are ignored.

        Raises:
            EvaluationError: if one is not valid.
        """
        cost, std = (None if fields.get(name) is None else parse_number(name, fields[name]) for name in ("cost", "std"))
        return cls(parse_number("value", fields["value"]), cost, std=std)


Evaluator = Callable[[Trial], Measurement]
"""Evaluates a trial, or raises `EvaluationError` with the reason. Must be picklable to run in another process.

It raises `SetupError` if the fault is not the design's: the trial is queued again and the run stops.
"""

Answer = Measurement | EvaluationError | SetupError
"""How an evaluation ended."""


def answer(evaluate: Evaluator, trial: Trial) -> Answer:
    """Evaluate a trial, and return its failure as well.

    Dask runs a call again if its worker dies before the result was fetched. If the second run raised an exception, the
    future of Dask's executor would never end.
    """
    try:
        return evaluate(trial)
    except (EvaluationError, SetupError) as error:
        return error.with_traceback(None)


def timed_answer(evaluate: Evaluator, trial: Trial) -> tuple[Answer, float]:
    """As `answer`, with the seconds it took by the clock of where it ran: this is what an executor runs."""
    began = time.perf_counter()
    found = answer(evaluate, trial)
    return found, time.perf_counter() - began


Objective = Callable[[Params, Fidelity], float | Mapping[str, Any]]
"""The user's Python function: parameters (a dict) and fidelity in, value out; or a dict with the value, the measured
cost, its standard error and any outcomes, `{"value": 1.2, "cost": 3.4, "std": 0.02, "stress": 1.5e8}`."""


@dataclass(frozen=True)
class FunctionEvaluator:
    """Evaluates trials by calling a Python function.

    Args:
        objective: returns the value.
    """

    objective: Objective

    def __call__(self, trial: Trial) -> Measurement:
        try:
            result = self.objective(dict(trial.params), trial.fidelity)
        except SetupError:
            raise
        except BaseException as error:  # a simulator may raise anything, also SystemExit; the traceback is kept
            if isinstance(error, KeyboardInterrupt) and may_be_interrupted():
                raise  # also one that the objective raises itself: as in any Python program, it ends the run
            raise EvaluationError(storable(_objective_traceback(error))) from None
        try:
            return checked_against(trial, Measurement.of(result, "the objective"))
        except EvaluationError as error:
            failure = EvaluationError(storable(str(error)))
            failure.cost = error.cost
            raise failure from None


def checked_against(trial: Trial, measured: Measurement) -> Measurement:
    """What a trial gave, if no outcome has the name of a parameter.

    Raises:
        EvaluationError: if one has.
    """
    for name in measured.outcomes:
        if name in trial.params:
            raise EvaluationError(f"{name!r} is a parameter, so an outcome cannot have this name; rename it")
    return measured


def parse_number(name: str, value: object) -> float:
    """The value as a finite float; a text may have a Fortran exponent (1.5D+03).

    Raises:
        EvaluationError: if it is not a finite number.
    """
    number = parse_decimal(value) if isinstance(value, str) else _as_number(value)
    if number is None:
        raise EvaluationError(f"{name} is {shown(value)}, not a number")
    if not math.isfinite(number):
        raise EvaluationError(f"{name} is {number}, not a finite number")
    return number


def failed_at(reason: str, result: object) -> EvaluationError:
    """The failure of a run, with the cost that its result reports beside it, if that is a finite number >= 0."""
    failure = EvaluationError(reason)
    cost = _as_number(result.get("cost")) if isinstance(result, Mapping) else None
    failure.cost = cost if cost is not None and 0 <= cost < math.inf else None
    return failure


def failure_text(failed: object) -> str | None:
    """The reason in the field `failed` of a result; None, false and 0 mean that nothing failed."""
    if failed is None or failed is False or (isinstance(failed, (int, float)) and failed == 0):
        return None
    if failed is True:
        return NO_REASON
    return (failed if isinstance(failed, str) else shown(failed)).strip() or NO_REASON


def _as_number(value: object) -> float | None:
    try:
        return as_number(value)
    except Exception:  # noqa: BLE001  the conversion of a user's object may raise anything
        return None


def _outcome(name: object, outcome: object) -> float:
    """An outcome as a float, which may be NaN or infinite.

    Raises:
        EvaluationError: if it is not a number, or has a name that no outcome may have.
    """
    try:
        check_outcome_name(name if isinstance(name, str) else shown(name))
    except SettingError as error:
        raise EvaluationError(str(error)) from None
    number = _as_number(outcome)
    if number is None or not isinstance(name, str):
        raise EvaluationError(f"the outcome {shown(name)} is {shown(outcome)}, not a number with a name")
    return number


def _objective_traceback(error: BaseException) -> str:
    """The traceback, starting at the objective's own frame."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()
