"""What every built-in problem promises, by its name: a new problem is tested here without a new line."""

import itertools
import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray
from scipy.optimize import minimize

import fidelium as fd
from fidelium import problems
from fidelium.errors import EvaluationError, FidelityError, SettingError, SpaceError, UnknownNameError
from fidelium.problems import Problem, value_and_outcomes

ALL = [problems.get(name) for name in problems.names()]


def each_of(chosen: list[Problem]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("problem", chosen, ids=[problem.name for problem in chosen])


every_problem = each_of(ALL)
every_formula = each_of([problem for problem in ALL if not problem.simulated])
every_simulation = each_of([problem for problem in ALL if problem.simulated])
every_free_problem = each_of([problem for problem in ALL if not problem.constraints and not problem.fails])
every_constrained_formula = each_of([problem for problem in ALL if problem.constraints and not problem.simulated])
every_failing_problem = each_of([problem for problem in ALL if problem.fails])


def rounding(problem: Problem) -> float:
    """How exactly a value is known: to the last digits of a formula, less of a large system of equations.

    The optimisers of constrained problems are stored a little inside their constraints.
    """
    if problem.constraints:
        return 1e-6 if problem.simulated else 1e-9
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
        case fd.Categorical() | fd.Catalogue():
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
            moved = problem.value({**params, name: there}, target) - problem.optimum
        quotients.append(moved / share)
    return quotients[0], quotients[1]


@every_problem
def test_optimisers_reach_the_optimum(problem: Problem) -> None:
    for params in problem.optimisers:
        value = problem.feasible_value(params)
        assert value == pytest.approx(problem.optimum, rel=rounding(problem), abs=1e-12)


@every_free_problem
def test_optimisers_are_stationary_or_at_a_bound(problem: Problem) -> None:
    for params in problem.optimisers:
        for name, (low, high) in bounds(problem).items():
            left, right = (problem.direction.sign * quotient for quotient in slope(problem, params, name))
            assert left <= 1e-6
            assert right <= 1e-6
            if low < params[name] < high:  # inside: second-order small, so the gradient is zero
                assert max(abs(left), abs(right)) < 0.1


def check(problem: Problem, params: Mapping[str, object]) -> None:
    """Every fidelity gives finite numbers, those of the constraints among them, and nothing feasible beats the optimum.

    A failing problem may fail instead.
    """
    for name in problem.ladder.names:
        try:
            value, outcomes = value_and_outcomes(problem.evaluate(params, name))
        except EvaluationError:
            assert problem.fails
            continue
        assert all(map(math.isfinite, (value, *outcomes.values())))
        assert {each.name for each in problem.limits} == set(outcomes)
    best = problem.feasible_value(params)
    if best is not None:
        margin = rounding(problem) * max(1.0, abs(problem.optimum))
        assert problem.direction.sign * (problem.optimum - best) >= -margin


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


@every_constrained_formula
def test_a_local_search_finds_nothing_feasible_that_is_better(problem: Problem) -> None:
    """SLSQP in the unit cube of the real parameters, from the optimiser, points near it and random ones."""
    generator = np.random.default_rng(0)
    reals = list(bounds(problem))
    best = {name: problem.optimisers[0][name] for name in reals}
    starts = [best, *({n: generator.uniform(*bounds(problem)[n]) for n in reals} for _ in range(6))]
    starts += [{n: np.clip(best[n] + 0.05 * (h - low) * generator.normal(), low, h) for n, (low, h) in
                bounds(problem).items()} for _ in range(3)]  # fmt: skip
    for start in starts:
        check(problem, problem.optimisers[0] | local_optimum(problem, start))


def local_optimum(problem: Problem, start: dict[str, float]) -> dict[str, float]:
    """Where SLSQP ends, the integers held at their best values."""
    low, high = np.array(list(bounds(problem).values())).T
    scale = max(abs(problem.optimum), 1e-3)

    def design(u: NDArray[np.float64]) -> dict[str, float]:
        x = np.clip(low + u * (high - low), low, high)
        return dict(zip(start, (float(each) for each in x), strict=True))

    @lru_cache(maxsize=4096)
    def run(u: tuple[float, ...]) -> tuple[float, dict[str, float]]:
        params = problem.optimisers[0] | design(np.array(u))
        return value_and_outcomes(problem.evaluate(params, problem.ladder.target.name))

    def margins(u: NDArray[np.float64]) -> NDArray[np.float64]:
        outcomes = run(tuple(u))[1]
        below = [outcomes[each.name] - each.lower for each in problem.limits]
        above = [each.upper - outcomes[each.name] for each in problem.limits]
        return np.array([side for side in (*below, *above) if math.isfinite(side)])

    unit = (np.array(list(start.values())) - low) / (high - low)
    found = minimize(
        lambda u: -problem.direction.sign * run(tuple(u))[0] / scale,
        unit,
        method="SLSQP",
        bounds=[(0, 1)] * len(unit),
        constraints={"type": "ineq", "fun": margins},
        options={"maxiter": 200, "ftol": 1e-12},
    )
    return design(found.x)


@every_constrained_formula
def test_some_designs_are_infeasible_and_the_cheap_fidelity_is_related_but_not_equal(problem: Problem) -> None:
    generator = np.random.default_rng(1)
    sample = [problem.space.decode(u) for u in problem.space.sample(generator, 400)]
    cheap, target = ([value_and_outcomes(problem.evaluate(params, name)) for params in sample]
                     for name in (problem.ladder.names[0], problem.ladder.target.name))  # fmt: skip
    feasible = [all(each.meets(found[each.name]) for each in problem.limits) for _, found in target]
    assert 0 <= sum(feasible) < 0.8 * len(sample)
    columns = [([value for value, _ in cheap], [value for value, _ in target])]
    columns += [([o[each.name] for _, o in cheap], [o[each.name] for _, o in target]) for each in problem.limits]
    correlations = [np.corrcoef(rank(a), rank(b))[0, 1] for a, b in columns]
    assert min(correlations) > 0.4
    assert any(a != b for a, b in columns)


def rank(values: list[float]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(values))


@every_failing_problem
def test_some_designs_fail_at_every_fidelity_and_the_edge_does_not(problem: Problem) -> None:
    generator = np.random.default_rng(2)
    sample = [problem.space.decode(unit_x) for unit_x in problem.space.sample(generator, 2000)]
    for name in problem.ladder.names:
        failed = sum(fails(problem, params, name) for params in sample)
        assert 0.005 < failed / len(sample) < 0.5
        again = sum(fails(problem, params, name) for params in sample)
        assert again == failed


def fails(problem: Problem, params: Mapping[str, object], fidelity: str) -> bool:
    try:
        problem.evaluate(params, fidelity)
    except EvaluationError:
        return True
    return False


def test_random_failures_have_their_rate_at_each_fidelity() -> None:
    problem = problems.get("fails-randomly")
    sample = [problem.space.decode(unit_x) for unit_x in problem.space.sample(np.random.default_rng(3), 4000)]
    low, high = ([fails(problem, params, name) for params in sample] for name in problem.ladder.names)
    deviation = math.sqrt(0.1 * 0.9 / len(sample))
    assert abs(np.mean(low) - 0.1) < 4 * deviation
    assert abs(np.mean(high) - 0.1) < 4 * deviation
    assert abs(np.mean(np.logical_and(low, high)) - 0.01) < 4 * math.sqrt(0.01 / len(sample))  # independent


def test_an_infeasible_design_has_an_infinite_regret() -> None:
    problem = problems.get("gardner2")
    assert problem.feasible_value({"x1": 3.0, "x2": 3.0}) is None
    assert problems.recommendation_regret(problem, {"x1": 3.0, "x2": 3.0}) == math.inf
    assert problems.recommendation_regret(problem, problem.optimisers[0]) == pytest.approx(0, abs=1e-8)
    assert problem.value({"x1": 3.0, "x2": 3.0}, "high") == pytest.approx(math.sin(3) + 3)


@every_problem
def test_every_fidelity_is_finite_at_the_corners(problem: Problem) -> None:
    corners = itertools.product(*bounds(problem).values())
    for corner in itertools.islice(corners, 0, None, 1 if len(bounds(problem)) < 8 else 31):
        check(problem, problem.optimisers[0] | dict(zip(bounds(problem), corner, strict=True)))


@every_problem
def test_a_problem_is_an_objective(problem: Problem) -> None:
    params = problem.optimisers[0]
    for fidelity in problem.ladder:
        if fails(problem, params, fidelity.name):
            continue
        found = problem(params, fidelity)
        if problem.cost_factor is not None:  # it reports what it cost
            assert found["cost"] == problem.cost(params, fidelity.name)
            found = found["value"]
        assert found == problem.observe(params, fidelity.name)
        if problem.noise is None:
            assert found == problem.evaluate(params, fidelity.name)


def observed(problem: Problem, params: Mapping[str, object], fidelity: str) -> float:
    return value_and_outcomes(problem.observe(params, fidelity))[0]


def test_noise_is_added_to_the_value_alone() -> None:
    noisy = replace(problems.get("gardner1"), noise=(0.0, 0.1))
    params = noisy.optimisers[0]
    seen, true = noisy.observe(params, "high"), noisy.evaluate(params, "high")
    assert isinstance(seen, dict)
    assert isinstance(true, dict)
    assert seen["c"] == true["c"]
    assert 0 < abs(seen["value"] - true["value"]) < 0.5


def test_noise_has_its_standard_deviation_and_belongs_to_the_design() -> None:
    rough = problems.get("peaks-rough")
    assert rough.noise is not None
    sample = [rough.space.decode(unit_x) for unit_x in rough.space.sample(np.random.default_rng(0), 2000)]
    errors = np.array([[observed(rough, p, n) - rough.value(p, n) for n in rough.ladder.names] for p in sample])
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
    names = [name for name in copy.ladder.names if not fails(problem, params, name)]
    assert [copy.evaluate(params, n) for n in names] == [problem.evaluate(params, n) for n in names]


def test_get_gives_a_fresh_record_each_time() -> None:
    first, second = problems.get("branin"), problems.get("branin")
    assert first == second
    assert first.initial is not second.initial


def test_unknown_problem_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown problem 'branin2'.*'branin', 'branin-product', 'candidates'"):
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
        ({"constraints": ("c = 1",)}, SettingError),
        ({"constraints": ("x1 <= 1",)}, SettingError),
    ],
)
def test_a_problem_is_validated_when_made(change: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(problems.get("branin"), **change)
