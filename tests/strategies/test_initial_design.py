"""The initial design: the sizes asked for, spread evenly, repeatable; random points that were not asked before."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import qmc

from fidelium.errors import FidelityError, SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Query
from fidelium.numbers import exact_sum
from fidelium.randomness import Key
from fidelium.space import Categorical, Integer, Real, SearchSpace
from fidelium.strategies.initial_design import (
    default_sizes,
    initial_design,
    sizes_within,
    unasked_point,
    validated_sizes,
)

LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("medium", 10), Fidelity("high", 100)))
PLANE = SearchSpace({"a": Real(-5, 10), "b": Real(0, 15)})
MIXED = SearchSpace({"n": Integer(1, 4), "c": Categorical(("u", "v")), "x": Real(1e-3, 1e3, log=True)})


@given(st.tuples(*[st.integers(0, 40)] * 3), st.integers(0, 1000))
def test_each_fidelity_gets_its_size_low_ones_first_all_valid(sizes, seed):
    named = dict(zip(LADDER.names, sizes, strict=True))
    queries = initial_design(MIXED, LADDER, named, Key((seed,)))
    assert [query.fidelity for query in queries] == [m for m, size in enumerate(sizes) for _ in range(size)]
    assert all(MIXED.validate(query.params) == query.params for query in queries)


@pytest.mark.parametrize("count", [2, 5, 16, 20, 33])
def test_points_cover_the_cube_better_than_random_ones(count):
    def discrepancy(points: np.ndarray) -> float:
        return float(qmc.discrepancy(points))

    designs = [initial_design(PLANE, LADDER, {"low": count}, Key((seed,))) for seed in range(20)]
    sobol = [discrepancy(np.array([PLANE.encode(query.params) for query in design])) for design in designs]
    uniform = [discrepancy(np.random.default_rng(seed).random((count, 2))) for seed in range(20)]
    assert np.mean(sobol) < 0.8 * np.mean(uniform)


def test_the_first_half_of_a_sobol_design_has_one_point_in_every_stratum():
    # a scrambled Sobol sequence of 2^k points has one point in each of 2^k equal slices of every axis
    design = initial_design(PLANE, LADDER, {"low": 16}, Key((3,)))
    unit_x = np.array([PLANE.encode(query.params) for query in design])
    for column in unit_x.T:
        assert sorted(np.floor(column * 16).astype(int)) == list(range(16))


def test_the_same_key_repeats_and_another_key_or_fidelity_does_not():
    first, again, other = (initial_design(PLANE, LADDER, {"low": 6, "high": 6}, Key((word,))) for word in (1, 1, 2))
    assert first == again
    assert all(one.params != two.params for one, two in zip(first, other, strict=True))
    low, high = first[:6], first[6:]
    assert all(one.params != two.params for one, two in zip(low, high, strict=True))


def test_default_sizes_fall_with_the_cost_and_leave_two_at_least():
    sizes = default_sizes(PLANE, LADDER)
    assert list(sizes) == list(LADDER.names)
    assert sizes["low"] >= sizes["medium"] >= sizes["high"] >= 2
    assert default_sizes(MIXED, LADDER)["low"] > sizes["low"]


def test_sizes_are_named_for_every_fidelity():
    assert validated_sizes({"high": 2}, LADDER) == {"low": 0, "medium": 0, "high": 2}
    assert validated_sizes({"high": np.int64(2), "low": 0}, LADDER) == {"low": 0, "medium": 0, "high": 2}
    assert validated_sizes({}, LADDER) == {"low": 0, "medium": 0, "high": 0}


@pytest.mark.parametrize("size", [-1, 1.5, "3", None, True])
def test_sizes_that_are_no_counts_are_refused(size):
    with pytest.raises(SettingError, match=r"initial\['low'\] must be a whole number >= 0"):
        validated_sizes({"low": size}, LADDER)


def test_sizes_of_unknown_fidelities_or_no_dict_are_refused():
    with pytest.raises(FidelityError, match="unknown fidelity 'rough'"):
        validated_sizes({"rough": 3}, LADDER)
    with pytest.raises(SettingError, match="initial must be a dict"):
        validated_sizes([1, 2, 3], LADDER)


SMALL = SearchSpace({"n": Integer(0, 3), "c": Categorical(("u", "v"))})


def test_unasked_points_run_through_a_finite_space_without_repeats(history_of):
    told = []
    for number in range(int(SMALL.size)):
        point = unasked_point(history_of(SMALL, told), (), 1, Key((number,)))
        told.append((SMALL.decode(point), 1, 0.0))
    assert len({(params["n"], params["c"]) for params, _, _ in told}) == 8
    # exhausted: still a valid design
    assert SMALL.validate(SMALL.decode(unasked_point(history_of(SMALL, told), (), 1, Key((9,)))))


def test_unasked_points_avoid_pending_ones_of_the_same_fidelity_only(history_of):
    every = [{"n": n, "c": c} for n in range(4) for c in ("u", "v")]
    pending = [Query(params, 0) for params in every[:-1]]
    for number in range(5):
        assert SMALL.decode(unasked_point(history_of(SMALL), pending, 0, Key((number,)))) == every[-1]
    elsewhere = {str(SMALL.decode(unasked_point(history_of(SMALL), pending, 1, Key((n,))))) for n in range(40)}
    assert len(elsewhere) == 8


COSTS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4, unique=True).map(sorted)


@given(COSTS, st.data())
def test_reduced_sizes_stay_within_the_limit_and_waste_no_affordable_point_at_the_top(costs, data):
    ladder = FidelityLadder(tuple(Fidelity(f"f{m}", cost) for m, cost in enumerate(costs)))
    sizes = {name: data.draw(st.integers(0, 30)) for name in ladder.names}
    limit = Fraction(repr(data.draw(st.floats(0, 2e4))))
    reduced = sizes_within(sizes, dict(zip(ladder.names, ladder.costs, strict=True)), limit)
    cost = exact_sum({rung.cost: reduced[rung.name] for rung in ladder})
    assert list(reduced) == list(ladder.names)
    assert all(0 <= reduced[name] <= sizes[name] for name in sizes)
    assert cost <= limit
    if exact_sum({rung.cost: sizes[rung.name] for rung in ladder}) <= limit:
        assert reduced == sizes
    top = ladder.target
    if 2 * exact_sum([top.cost]) <= limit and sizes[top.name]:
        assert reduced[top.name] >= 1
    assert reduced[top.name] == sizes[top.name] or cost + exact_sum([top.cost]) > limit


@pytest.mark.parametrize(
    ("costs", "sizes", "limit", "expected"),
    [
        ((1, 10), (19, 6), 40, (19, 2)),  # 39: the starter study with its budget of 120
        ((1, 100), (10, 2), 101, (10, 0)),  # one at the target would leave one point below
        ((1, 100), (10, 2), 200, (10, 1)),
        ((1, 10, 100), (10, 3, 2), Fraction(500, 3), (10, 3, 1)),
        ((5, 10), (10, 7), 40, (4, 2)),
        ((1, 10), (19, 6), 0, (0, 0)),
        ((0.1,), (9,), Fraction("0.3"), (3,)),  # exact, though 0.3 / 0.1 < 3 in floats
    ],
)
def test_reduced_sizes_by_hand(costs, sizes, limit, expected):
    ladder = FidelityLadder(tuple(Fidelity(f"f{m}", cost) for m, cost in enumerate(costs)))
    each = dict(zip(ladder.names, ladder.costs, strict=True))
    reduced = sizes_within(dict(zip(ladder.names, sizes, strict=True)), each, Fraction(limit))
    assert tuple(reduced.values()) == expected


def test_a_smaller_design_is_the_beginning_of_a_larger_one():
    small, large = (initial_design(MIXED, LADDER, {"low": count}, Key((5,))) for count in (3, 30))
    assert small == large[:3]
