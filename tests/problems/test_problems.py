"""What every built-in problem promises, by its name: a new problem is tested here without a new line."""

import itertools
import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fidelium as fd
from fidelium import problems
from fidelium.errors import FidelityError, SettingError, SpaceError, UnknownNameError
from fidelium.problems import Problem

ALL = [problems.get(name) for name in problems.names()]


def each_of(chosen: list[Problem]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("problem", chosen, ids=[problem.name for problem in chosen])


every_problem = each_of(ALL)
every_formula = each_of([problem for problem in ALL if not problem.simulated])
every_simulation = each_of([problem for problem in ALL if problem.simulated])


def rounding(problem: Problem) -> float:
    """How exactly a value is known: to the last digits of a formula, less of a large system of equations."""
    return 1e-8 if problem.simulated else 1e-12


def bounds(problem: Problem) -> dict[str, tuple[float, float]]:
    reals = {name: p for name, p in problem.space.parameters.items() if isinstance(p, fd.Real)}
    return {name: (real.low, real.high) for name, real in reals.items()}


def values_of(parameter: object) -> st.SearchStrategy[object]:
    match parameter:
        case fd.Real():
            return st.floats(parameter.low, parameter.high)
        case fd.Integer():
            return st.integers(parameter.low, parameter.high)
        case fd.Categorical():
            return st.sampled_from(parameter.choices)
    raise AssertionError(parameter)


def designs(problem: Problem) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({name: values_of(each) for name, each in problem.space.parameters.items()})


def slope(problem: Problem, params: dict[str, Any], name: str) -> tuple[float, float]:
    """Difference quotients of the target to the left and to the right per range of the parameter; 0 beyond a bound."""
    low, high = bounds(problem)[name]
    share = 1e-3 if problem.simulated else 1e-6  # of the range: beyond the rounding of the values
    target = problem.ladder.target.name
    quotients = []
    for move in (-share, share):
        there = min(max(params[name] + move * (high - low), low), high)
        moved = 0.0
        if there != params[name]:
            moved = problem.evaluate({**params, name: there}, target) - problem.optimum
        quotients.append(moved / share)
    return quotients[0], quotients[1]


@every_problem
def test_optimisers_reach_the_optimum(problem: Problem) -> None:
    for params in problem.optimisers:
        value = problem.evaluate(params, problem.ladder.target.name)
        assert value == pytest.approx(problem.optimum, rel=rounding(problem), abs=1e-12)


@every_problem
def test_optimisers_are_stationary_or_at_a_bound(problem: Problem) -> None:
    for params in problem.optimisers:
        for name, (low, high) in bounds(problem).items():
            left, right = (problem.direction.sign * quotient for quotient in slope(problem, params, name))
            assert left <= 1e-6
            assert right <= 1e-6
            if low < params[name] < high:  # inside: second-order small, so the gradient is zero
                assert max(abs(left), abs(right)) < 0.1


def check(problem: Problem, params: Mapping[str, object]) -> None:
    """Every fidelity is finite, and nothing beats the optimum."""
    values = [problem.evaluate(params, name) for name in problem.ladder.names]
    assert all(map(math.isfinite, values))
    margin = rounding(problem) * max(1.0, abs(problem.optimum))
    assert problem.direction.sign * (problem.optimum - values[-1]) >= -margin


@every_formula
@given(data=st.data())
def test_nothing_beats_the_optimum_and_every_fidelity_is_finite(problem: Problem, data: st.DataObject) -> None:
    check(problem, data.draw(designs(problem)))


@every_simulation
def test_nothing_near_or_far_beats_the_best_known_value(problem: Problem) -> None:
    generator = np.random.default_rng(0)
    best = problem.space.encode(problem.optimisers[0])
    near = problem.space.snap(best + 0.05 * generator.normal(size=(3, len(best))))
    for unit_x in (*problem.space.sample(generator, 3), *near):
        check(problem, problem.space.decode(unit_x))


@every_problem
def test_every_fidelity_is_finite_at_the_corners(problem: Problem) -> None:
    corners = itertools.product(*bounds(problem).values())
    for corner in itertools.islice(corners, 0, None, 1 if len(bounds(problem)) < 8 else 31):
        check(problem, problem.optimisers[0] | dict(zip(bounds(problem), corner, strict=True)))


@every_problem
def test_a_problem_is_an_objective(problem: Problem) -> None:
    params = problem.optimisers[0]
    for fidelity in problem.ladder:
        assert problem(params, fidelity) == problem.observe(params, fidelity.name)
        if problem.noise is None:
            assert problem(params, fidelity) == problem.evaluate(params, fidelity.name)


def test_noise_has_its_standard_deviation_and_belongs_to_the_design() -> None:
    rough = problems.get("peaks-rough")
    assert rough.noise is not None
    sample = [rough.space.decode(unit_x) for unit_x in rough.space.sample(np.random.default_rng(0), 2000)]
    errors = np.array([[rough.observe(p, n) - rough.evaluate(p, n) for n in rough.ladder.names] for p in sample])
    deviations = 4 * np.array(rough.noise) / math.sqrt(len(sample))  # four of them
    assert np.all(np.abs(errors.mean(axis=0)) < deviations)
    assert np.all(np.abs(errors.std(axis=0) - rough.noise) < deviations)
    assert abs(np.corrcoef(errors.T)[0, 1]) < 0.1  # each fidelity has its own
    turned = dict(reversed(sample[0].items()))
    assert rough.observe(turned, "low") == rough.observe(sample[0], "low")


@every_problem
def test_initial_sizes_name_fidelities_and_leave_the_target_the_fewest(problem: Problem) -> None:
    assert tuple(problem.initial) == problem.ladder.names
    assert min(problem.initial.values()) == problem.initial[problem.ladder.target.name] >= 1


@every_problem
def test_a_problem_survives_pickling(problem: Problem) -> None:
    copy = pickle.loads(pickle.dumps(problem))
    params = problem.optimisers[-1]
    assert copy == problem
    assert [copy.evaluate(params, n) for n in copy.ladder.names] == [
        problem.evaluate(params, n) for n in problem.ladder.names
    ]


def test_get_gives_a_fresh_record_each_time() -> None:
    first, second = problems.get("branin"), problems.get("branin")
    assert first == second
    assert first.initial is not second.initial


def test_unknown_problem_names_the_known_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown problem 'branin2'.*'branin', 'conductor', 'hartmann6', 'levy'"
    ):
        problems.get("branin2")


def test_unknown_fidelity_names_the_known_ones() -> None:
    with pytest.raises(FidelityError, match=r"'fine'.*'low', 'high'"):
        problems.get("park1").evaluate({"x1": 0, "x2": 0, "x3": 0, "x4": 0}, "fine")


def test_params_outside_the_space_are_refused() -> None:
    with pytest.raises(SpaceError, match="'x1'"):
        problems.get("branin").evaluate({"x1": 10.5, "x2": 0}, "high")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"functions": ()}, SettingError),
        ({"optimum": math.nan}, SettingError),
        ({"optimisers": ()}, SettingError),
        ({"optimisers": ({"x1": 99.0, "x2": 0.0},)}, SpaceError),
        ({"initial": {"low": -1}}, SettingError),
        ({"initial": {"lowest": 1}}, FidelityError),
        ({"noise": (0.1,)}, SettingError),
        ({"noise": (0.1, -0.1, 0.1)}, SettingError),
    ],
)
def test_a_problem_is_validated_when_made(change: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(problems.get("branin"), **change)
