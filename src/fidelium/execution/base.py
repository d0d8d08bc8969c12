"""The evaluation interface, and Python functions as evaluators."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from fidelium.errors import EvaluationError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.numbers import as_number
from fidelium.space import Params


@dataclass(frozen=True)
class Measurement:
    """The result of an evaluation.

    Args:
        value: the objective's value, in the user's units.
        cost: the actual cost, None if it was not measured.
    """

    value: float
    cost: float | None = None


Evaluator = Callable[[Trial], Measurement]
"""Evaluates a trial, or raises `EvaluationError` with the reason. Must be picklable to run in another process."""

Objective = Callable[[Params, Fidelity], float]
"""The user's Python function: parameters (a dict) and fidelity in, value out."""


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
        except Exception as error:  # noqa: BLE001  a simulator may raise anything; the traceback is kept
            raise EvaluationError(_objective_traceback(error)) from None
        number = as_number(result)
        if number is None:
            raise EvaluationError(f"the objective must return a number, got {result!r}")
        return Measurement(number)


def _objective_traceback(error: Exception) -> str:
    """The traceback, starting at the objective's own frame."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()
