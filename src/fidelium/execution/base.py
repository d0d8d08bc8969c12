"""What an evaluation is, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable

from fidelium.execution.measured import Measured
from fidelium.history import Trial

Evaluator = Callable[[Trial], Measured]
"""A trial in, its measured value out, or `EvaluationError` with the reason why there is none. To run in another process
or on another machine, it must be possible to pickle it."""
