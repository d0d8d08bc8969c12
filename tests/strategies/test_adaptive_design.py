"""The initial design that learns: the sizes asked for, a feasible target run soon, few runs around known failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fidelium.constraints import outcome_constraints
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Query, Trial, TrialState
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Params, Real, SearchSpace
from fidelium.strategies.adaptive_design import InitialDesign
from fidelium.strategies.initial_design import next_of_design

LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("medium", 5), Fidelity("high", 20)))
SIZES = {"low": 10, "medium": 4, "high": 3}
PLANE = SearchSpace({"a": Real(0, 1), "b": Real(1e-3, 1e3, log=True)})
MIXED = SearchSpace({"n": Integer(1, 4), "c": Categorical(("u", "v")), "x": Real(-5, 10)})
HALF = SearchSpace({"a": Real(0, 1), "b": Real(0, 1)}, constraints=["a + 2*b <= 1.2"])

Run = Callable[[Params, int], dict[str, float] | None]
"""What a run gives: its value and outcome, None if it fails."""


def design(space: SearchSpace = PLANE, seed: int = 0, sizes: dict[str, int] = SIZES) -> InitialDesign:
    return InitialDesign(space, LADDER, sizes, Key((seed,)))


def history(space: SearchSpace, trials: tuple[Trial, ...] = (), limit: str | None = "g <= 0") -> History:
    limits = outcome_constraints((limit,) if limit else ())
    told = tuple(replace(trial, number=number, constraints=limits) for number, trial in enumerate(trials))
    return History(space, LADDER, Direction.MAXIMIZE, told, math.inf, limits)


def trial(params: Params, fidelity: int, found: dict[str, float] | None, given: bool = False) -> Trial:
    rung = LADDER[fidelity]
    if found is None:
        return Trial(0, params, rung, TrialState.FAILED, reason="diverged", given=given)
    return Trial(0, params, rung, TrialState.DONE, found["value"], outcomes={"g": found["g"]}, given=given)


def ended(
    of: InitialDesign, run: Run, limit: str | None = "g <= 0", first: tuple[Trial, ...] = ()
) -> tuple[Trial, ...]:
    """The trials after all of the design was run one by one, without the first ones."""
    trials = first
    while (query := of.next(history(of.space, trials, limit), of.sizes)) is not None:
        trials += (trial(query.params, query.fidelity, run(query.params, query.fidelity)),)
        assert len(trials) < 100
    return trials[len(first) :]


def names(trials: tuple[Trial, ...]) -> list[str]:
    return [each.fidelity.name for each in trials]


def feasible_where(condition: Callable[[Params, int], bool]) -> Run:
    return lambda params, m: {"value": 0.0, "g": -1.0 if condition(params, m) else 1.0}


def designs(trials: tuple[Trial, ...], fidelity: str) -> set[tuple[object, ...]]:
    return {tuple(each.params.values()) for each in trials if each.fidelity.name == fidelity}


SPACES = st.sampled_from([PLANE, MIXED, HALF])


@settings(deadline=None, max_examples=40)
@given(SPACES, st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1), st.floats(0, 0.9))
def test_whatever_runs_give_each_fidelity_gets_its_size_of_different_valid_designs(space, seed, luck, chance, failing):
    lots = np.random.default_rng(luck)

    def run(params: Params, fidelity: int) -> dict[str, float] | None:
        fails, value, outcome = lots.random() < failing, lots.normal(), lots.random() - chance
        return None if fails else {"value": float(value), "g": float(outcome)}

    of = design(space, seed)
    trials = ended(of, run)
    for name, size in SIZES.items():
        planned = {tuple(q.params.values()) for q in of.planned if LADDER[q.fidelity].name == name}
        assert names(trials).count(name) == len(designs(trials, name)) == len(planned) <= size
    assert all(space.validate(each.params) == each.params for each in trials)


@pytest.mark.parametrize("space", [PLANE, MIXED, HALF])
def test_without_constraints_and_failures_it_is_the_fixed_design(space):
    of = design(space, 3)
    trials = ended(of, lambda params, m: {"value": 1.0, "g": 0.0}, limit=None)
    expected: tuple[Trial, ...] = ()
    while (query := next_of_design(history(space, expected, None), of.planned, SIZES)) is not None:
        expected += (trial(query.params, query.fidelity, {"value": 1.0, "g": 0.0}),)
    assert [each.params for each in trials] == [each.params for each in expected]
    unlearned = replace(history(space, (trial(trials[0].params, 0, None),), None), failures_teach=False)
    assert of.next(unlearned, SIZES) == next_of_design(unlearned, of.planned, SIZES)


@pytest.mark.parametrize("seed", range(10))
def test_the_first_design_that_is_feasible_below_is_run_at_the_target_at_once(seed):
    trials = ended(design(seed=seed), feasible_where(lambda params, m: params["a"] < 0.4))
    first = next(n for n, each in enumerate(trials) if each.params["a"] < 0.4)
    assert names(trials[: first + 1]) == ["low"] * (first + 1)
    assert trials[first + 1].fidelity.name == "high"
    assert trials[first + 1].params == trials[first].params
    # and once there is a feasible one, low fidelities come first again
    assert names(trials[first + 2 :]) == sorted(names(trials[first + 2 :]), key=LADDER.index)


@pytest.mark.parametrize("seed", range(10))
def test_a_run_at_the_target_that_disappoints_corrects_what_is_expected_of_others(seed):
    # the cheap fidelities are too optimistic by the same amount everywhere
    trials = ended(design(seed=seed), lambda params, m: {"value": 0.0, "g": params["a"] - (0.3 if m == 2 else 0.9)})
    high = [each for each in trials if each.fidelity.name == "high"]
    assert any(each.feasible for each in high)
    tried = [n for n, each in enumerate(trials) if each.fidelity.name == "high" and n < len(trials) - 3]
    assert len(tried) <= 2  # one disappoints, the next is right


@pytest.mark.parametrize("seed", range(5))
def test_without_a_feasible_design_the_target_runs_are_those_nearest_to_it_but_for_one_in_three(seed):
    trials = ended(design(seed=seed), lambda params, m: {"value": 0.0, "g": 1.0 + params["a"]})
    low = sorted(each.params["a"] for each in trials if each.fidelity.name == "low")
    high = [each for each in trials if each.fidelity.name == "high"]
    nested = [tuple(each.params.values()) in designs(trials, "low") for each in high]
    assert nested == [True, True, False]
    assert high[0].params["a"] == low[0]
    assert high[1].params["a"] <= low[4]


def test_nothing_is_promoted_while_a_target_run_is_pending_and_a_given_run_counts_as_seen():
    of = design()
    seen = trial({"a": 0.123, "b": 7.0}, 0, {"value": 1.0, "g": -1.0}, given=True)
    query = of.next(history(PLANE, (seen,)), SIZES)
    assert query is not None
    assert query == Query({"a": 0.123, "b": 7.0}, 2)
    pending = Trial(1, query.params, LADDER[2])
    assert of.next(history(PLANE, (seen, pending)), SIZES) == of.planned[0]
    infeasible = trial(query.params, 2, {"value": 1.0, "g": 0.5})
    assert of.next(history(PLANE, (seen, infeasible)), SIZES) == of.planned[0]


def test_without_points_at_the_target_nothing_is_promoted():
    of = design(sizes={"low": 5})
    trials = ended(of, feasible_where(lambda params, m: True))
    assert [Query(each.params, 0) for each in trials] == list(of.planned)
    assert ended(design(sizes={}), feasible_where(lambda params, m: True)) == ()


def test_what_the_budget_does_not_pay_for_is_left_out():
    poor = replace(history(PLANE, (trial({"a": 0.5, "b": 1.0}, 0, {"value": 1.0, "g": -1.0}),)), remaining=6.0)
    query = design().next(poor, SIZES)
    assert query is not None
    assert query.fidelity == 0


def test_runs_before_a_change_of_seed_or_size_are_not_paid_for_again():
    run = feasible_where(lambda params, m: params["a"] < 0.4)
    before = ended(design(), run)
    assert ended(design(seed=1), run, first=before) == ()
    assert names(ended(design(sizes=SIZES | {"low": 12}), run, first=before)) == ["low"] * 2
    imported = tuple(replace(each, given=True) for each in ended(design(), run, limit=None))
    assert ended(design(), run, first=imported) == ()


@pytest.mark.parametrize("limit", [None, "g <= 0"])
def test_fewer_runs_fail_in_a_region_than_of_the_fixed_design(limit):
    def run(params: Params, fidelity: int) -> dict[str, float] | None:
        return None if params["a"] > 0.6 else {"value": params["a"], "g": -1.0}

    failed = fixed = 0
    for seed in range(20):
        of = design(seed=seed)
        failed += sum(each.state is TrialState.FAILED for each in ended(of, run, limit))
        fixed += sum(query.params["a"] > 0.6 for query in of.planned)
    assert failed < 0.6 * fixed


@pytest.mark.parametrize("seed", range(5))
def test_one_failure_rules_out_only_what_is_around_it(seed):
    of = design(seed=seed)
    trials = ended(of, lambda params, m: None if params == of.planned[0].params else {"value": 0.0, "g": 0.0}, None)
    points = np.array([PLANE.encode(each.params) for each in trials if each.fidelity.name == "low"])
    away = np.sqrt(np.sum((points - points[0]) ** 2, axis=1))
    assert 0 < np.min(away[1:]) < 0.5
    # every quarter of the plane is seen
    assert len({tuple(row) for row in (points > 0.5).tolist()}) == 4


@pytest.mark.parametrize("seed", range(10))
def test_where_most_of_the_box_fails_the_runs_gather_at_what_succeeds(seed):
    def run(params: Params, fidelity: int) -> dict[str, float] | None:
        return {"value": 0.0, "g": 0.0} if params["a"] < 0.2 else None

    known = trial({"a": 0.1, "b": 1.0}, 0, {"value": 0.0, "g": 0.0}, given=True)
    trials = ended(design(seed=seed), run, None, first=(known,))
    assert sum(each.state is TrialState.DONE for each in trials) > 0.4 * len(trials)
