"""What an evaluation is, wherever it runs, and a Python function as one."""

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
class Measured:
    """What came out of an evaluation.

    Args:
        value: the objective's value, finite, in the user's units.
        cost: what it really cost, if that was measured.
    """

    value: float
    cost: float | None = None


Evaluator = Callable[[Trial], Measured]
"""A trial in, its measured value out, or `EvaluationError` with the reason why there is none. To run in another process
or on another machine, it must be possible to pickle it."""


Objective = Callable[[Params, Fidelity], float]


@dataclass(frozen=True)
class FunctionEvaluator:
    """Calls the user's function with the parameters (a dict) and the fidelity.

    Args:
        objective: returns the value.
    """

    objective: Objective

    def __call__(self, trial: Trial) -> Measured:
        try:
            result = self.objective(dict(trial.params), trial.fidelity)
        except Exception as error:  # noqa: BLE001  a simulator may raise anything: its traceback is kept
            raise EvaluationError(_traceback(error)) from None
        number = as_number(result)
        if number is None:
            raise EvaluationError(f"the objective must return a number, it returned {result!r}")
        return Measured(number)


def _traceback(error: Exception) -> str:
    """The traceback from the objective's own frame on."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()
