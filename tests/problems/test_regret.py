"""Regrets in both directions: zero at the optimum, larger is worse."""

import math
from dataclasses import replace

import pytest

from fidelium import problems
from fidelium.errors import SpaceError
from fidelium.history import Direction
from fidelium.problems import Problem, inference_regret, recommendation_regret, simple_regret, value_and_outcomes


def flipped(problem: Problem) -> Problem:
    """The same problem, minimised."""
    high = problem.functions[-1]
    functions = (*problem.functions[:-1], lambda **params: -value_and_outcomes(high(**params))[0])
    return replace(problem, direction=Direction.MINIMIZE, optimum=-problem.optimum, functions=functions)


LEVY = problems.get("levy")
LEVY_MINIMISED = flipped(LEVY)


def test_simple_regret_is_that_of_the_best_value_seen() -> None:
    assert simple_regret(LEVY, [-5.0, -0.25, -3.0]) == 0.25
    assert simple_regret(LEVY_MINIMISED, [5.0, 0.25, 3.0]) == 0.25


def test_simple_regret_falls_as_values_come_in() -> None:
    branin = problems.get("branin")
    seen = [-20.0, -3.0, -7.0, branin.optimum]
    regrets = [simple_regret(branin, seen[:count]) for count in range(len(seen) + 1)]
    assert regrets == [math.inf, 20 + branin.optimum, 3 + branin.optimum, 3 + branin.optimum, 0.0]


def test_inference_regret_is_negative_for_an_optimist() -> None:
    assert inference_regret(LEVY, 0.5) == -0.5
    assert inference_regret(LEVY, -0.5) == 0.5
    assert inference_regret(LEVY_MINIMISED, -0.5) == -0.5
    assert inference_regret(LEVY_MINIMISED, 0.5) == 0.5


@pytest.mark.parametrize("problem", [LEVY, LEVY_MINIMISED], ids=["maximise", "minimise"])
def test_recommendation_regret_is_that_of_the_true_value(problem: Problem) -> None:
    assert recommendation_regret(problem, {"x1": 0, "x2": 0}) == pytest.approx(2.0, rel=1e-14)
    assert recommendation_regret(problem, problem.optimisers[0]) == pytest.approx(0.0, abs=1e-14)


def test_recommendation_outside_the_space_is_refused() -> None:
    with pytest.raises(SpaceError, match="'x2'"):
        recommendation_regret(LEVY, {"x1": 0, "x2": 11})
