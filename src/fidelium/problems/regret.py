"""Regrets: how far from the optimum, larger is worse for both directions.

With f* the optimum of the target f_M, written for maximising (for minimising all differences change their sign):

- simple regret           f* - max {f_M(x_i) : queried at the target}          what was seen
- inference regret        f* - max_x mean_M(x)                                 what the surrogate believes (the paper's)
- recommendation regret   f* - f_M(argmax_x mean_M(x))                         what the user gets
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fidelium.problems.base import Problem


def simple_regret(problem: Problem, values_at_target: Iterable[float]) -> float:
    """f* - max_i f_M(x_i): distance of the best value observed at the target; infinite if there is none."""
    return min((_shortfall(problem, value) for value in values_at_target), default=math.inf)


def inference_regret(problem: Problem, estimated_max: float) -> float:
    """f* - max_x mean_M(x): distance of the best value the surrogate believes in; negative if it is too optimistic."""
    return _shortfall(problem, estimated_max)


def recommendation_regret(problem: Problem, recommended_params: Mapping[str, Any]) -> float:
    """f* - f_M(recommended x): distance of the recommended design's true value.

    Raises:
        SpaceError: if the parameters are not a design of the problem's space.
    """
    return _shortfall(problem, problem.evaluate(recommended_params, problem.ladder.target.name))


def _shortfall(problem: Problem, value: float) -> float:
    return problem.direction.sign * (problem.optimum - value)
