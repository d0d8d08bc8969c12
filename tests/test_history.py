"""The history: the direction's sign enters once, and pending, failed and affordable follow from the trials."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.errors import UnknownNameError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Query, Trial, TrialState
from fidelium.space import Integer, Real, SearchSpace

SPACE = SearchSpace({"x": Real(0, 2), "n": Integer(0, 3)})
LOW, HIGH = Fidelity("low", 1), Fidelity("high", 10)
LADDER = FidelityLadder((LOW, HIGH))


def trial(number: int, x: float, fidelity: Fidelity, state: TrialState, value: float | None = None) -> Trial:
    return Trial(number, {"x": x, "n": number % 4}, fidelity, state, value)


TRIALS = (
    trial(0, 0.0, LOW, TrialState.DONE, 5.0),
    trial(1, 0.5, HIGH, TrialState.DONE, -3.0),
    trial(2, 1.0, LOW, TrialState.FAILED),
    trial(3, 1.5, HIGH, TrialState.RUNNING),
    trial(4, 2.0, LOW, TrialState.DONE, 0.0),
    trial(5, 0.25, HIGH, TrialState.DONE, 7.0),
)


def history(direction: Direction = Direction.MAXIMIZE, remaining: float = math.inf) -> History:
    return History(SPACE, LADDER, direction, TRIALS, remaining)


def test_observations_are_the_done_trials_of_each_fidelity_in_order():
    low, high = history().observations
    np.testing.assert_array_equal(low.y, [5.0, 0.0])
    np.testing.assert_array_equal(high.y, [-3.0, 7.0])
    assert (len(low), len(high)) == (2, 2)
    np.testing.assert_array_equal(low.unit_x, [[0.0, 0.125], [1.0, 0.125]])
    np.testing.assert_array_equal(high.unit_x, [[0.25, 0.375], [0.125, 0.375]])


def test_the_sign_is_applied_once():
    for up, down in zip(
        history(Direction.MAXIMIZE).observations, history(Direction.MINIMIZE).observations, strict=True
    ):
        np.testing.assert_array_equal(down.y, -up.y)
        np.testing.assert_array_equal(down.unit_x, up.unit_x)
    assert [t.value for t in history(Direction.MINIMIZE).trials] == [t.value for t in TRIALS]


def test_the_incumbent_is_the_best_done_target_trial_in_the_users_direction():
    best, worst = history(Direction.MAXIMIZE).incumbent, history(Direction.MINIMIZE).incumbent
    assert best is TRIALS[5]
    assert worst is TRIALS[1]
    assert replace(history(), trials=TRIALS[:1] + TRIALS[2:5]).incumbent is None


def test_pending_and_failed_are_queries_by_state():
    assert history().pending == (Query({"x": 1.5, "n": 3}, 1),)
    assert history().failed == (Query({"x": 1.0, "n": 2}, 0),)


def test_asked_has_the_points_of_trials_in_any_state():
    np.testing.assert_array_equal(history().asked(0)[:, 0], [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(history().asked(1)[:, 0], [0.25, 0.75, 0.125])


def test_an_empty_history_has_arrays_without_rows():
    empty = History(SPACE, LADDER, Direction.MINIMIZE)
    assert [seen.unit_x.shape for seen in empty.observations] == [(0, 2), (0, 2)]
    assert [len(seen) for seen in empty.observations] == [0, 0]
    assert empty.asked(1).shape == empty.encode(()).shape == (0, 2)
    assert empty.incumbent is None
    assert empty.affordable == (0, 1)


@pytest.mark.parametrize(
    ("remaining", "affordable", "unreserved", "last"),
    [
        (0.0, (), (), False),
        (0.999, (), (), False),
        (1.0, (0,), (), False),
        (9.99, (0,), (), False),
        (10.0, (0, 1), (), True),
        (10.999, (0, 1), (), True),
        (11.0, (0, 1), (0,), False),
        (19.99, (0, 1), (0,), False),
        (20.0, (0, 1), (0, 1), False),
        (math.inf, (0, 1), (0, 1), False),
    ],
)
def test_affordable_and_the_last_target_query_on_hand_made_budgets(remaining, affordable, unreserved, last):
    assert history(remaining=remaining).affordable == affordable
    assert history(remaining=remaining).unreserved == unreserved
    assert history(remaining=remaining).is_last_target_query is last


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5, unique=True), st.floats(0, 1e4))
def test_after_the_last_target_query_no_other_order_of_queries_reaches_the_target(costs, remaining):
    ladder = FidelityLadder.of(Fidelity(f"m{m}", cost) for m, cost in enumerate(sorted(costs)))
    past = History(SPACE, ladder, Direction.MAXIMIZE, (), remaining)
    assert past.affordable == tuple(m for m, cost in enumerate(sorted(costs)) if cost <= remaining)
    if past.is_last_target_query:
        assert len(ladder) - 1 in past.affordable
        assert all(remaining - cost < ladder.target.cost + 1e-9 for cost in ladder.costs)


def test_observations_added_by_the_user_cost_nothing():
    assert TRIALS[1].cost == 10.0
    assert replace(TRIALS[1], given=True).cost == 0.0


def test_directions_have_opposite_signs_and_other_names_are_rejected():
    assert (Direction.of("maximize").sign, Direction.of("minimize").sign) == (1.0, -1.0)
    for name in ("max", "MAXIMIZE", "", None):
        with pytest.raises(UnknownNameError, match="'maximize' or 'minimize', got"):
            Direction.of(name)  # pyright: ignore[reportArgumentType]
