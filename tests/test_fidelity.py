"""The ladder: ordered by cost, named, the last rung the target; anything else is one clear sentence."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.errors import FidelityError
from fidelium.fidelity import Fidelity, FidelityLadder

COARSE, MEDIUM, FINE = Fidelity("coarse", 1), Fidelity("medium", 10), Fidelity("fine", 100.5)
LADDER = FidelityLadder((COARSE, MEDIUM, FINE))

costs = st.floats(1e-300, 1e300)


def test_the_target_is_the_last_and_costs_are_floats():
    assert LADDER.target is FINE
    assert LADDER.names == ("coarse", "medium", "fine")
    assert LADDER.costs == (1.0, 10.0, 100.5)
    assert {type(cost) for cost in LADDER.costs} == {float}


def test_it_is_a_sequence_of_its_rungs():
    assert len(LADDER) == 3
    assert list(LADDER) == [LADDER[0], LADDER[1], LADDER[-1]] == [COARSE, MEDIUM, FINE]
    assert LADDER[1:] == (MEDIUM, FINE)
    assert MEDIUM in LADDER
    assert Fidelity("medium", 11) not in LADDER


def test_index_finds_a_name_and_the_object():
    for position, rung in enumerate(LADDER):
        assert LADDER.index(rung) == LADDER.index(rung.name) == position
    with pytest.raises(FidelityError, match="unknown fidelity 'rough'; this ladder has 'coarse', 'medium', 'fine'"):
        LADDER.index("rough")
    with pytest.raises(FidelityError, match="unknown fidelity"):
        LADDER.index(Fidelity("medium", 11))


@given(st.lists(costs, min_size=1, max_size=6, unique=True))
def test_any_increasing_costs_make_a_ladder_and_any_other_order_does_not(given_costs):
    rising = [Fidelity(f"m{position}", cost) for position, cost in enumerate(sorted(given_costs))]
    ladder = FidelityLadder.of(rising)
    assert ladder.target.cost == max(given_costs)
    assert FidelityLadder.of(ladder) is ladder
    assert FidelityLadder.of(iter(rising)) == ladder
    if len(rising) > 1:
        with pytest.raises(FidelityError, match="costs must increase"):
            FidelityLadder.of(reversed(rising))


BAD: list[tuple[str, Any, str]] = [
    ("zero", 0, "above 0, got 0"),
    ("negative", -1.5, "above 0, got -1.5"),
    ("infinite", math.inf, "finite and above 0, got inf"),
    ("none", math.nan, "finite and above 0, got nan"),
    ("huge", 10**400, "finite and above 0"),
    ("text", "10", "must be a number, got '10'"),
    ("truth", True, "must be a number, got True"),
    ("", 1, "non-empty string, got ''"),
    ("  ", 1, "non-empty string"),
]


@pytest.mark.parametrize(("name", "cost", "match"), BAD, ids=[name for name, _, _ in BAD])
def test_a_bad_fidelity_is_one_clear_sentence(name, cost, match):
    with pytest.raises(FidelityError, match=match) as caught:
        Fidelity(name, cost)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


BAD_LADDERS: list[tuple[Any, str]] = [
    ((), "at least one fidelity"),
    ((COARSE, MEDIUM, Fidelity("coarse", 100)), "names of the fidelities must differ"),
    ((COARSE, Fidelity("same", 1)), "'coarse' costs 1 and the next, 'same', 1"),
    ((MEDIUM, COARSE), "'medium' costs 10 and the next, 'coarse', 1"),
    ((COARSE, "fine"), "must contain Fidelity objects only, got 'fine'"),
    (5, "a list of fidelities"),
]


@pytest.mark.parametrize(("rungs", "match"), BAD_LADDERS, ids=[match for _, match in BAD_LADDERS])
def test_a_bad_ladder_is_one_clear_sentence(rungs, match):
    with pytest.raises(FidelityError, match=match) as caught:
        FidelityLadder.of(rungs)
    assert "\n" not in str(caught.value)


def test_the_ladder_itself_needs_a_tuple():
    with pytest.raises(FidelityError, match=r"use FidelityLadder\.of"):
        FidelityLadder([COARSE, FINE])  # pyright: ignore[reportArgumentType]
