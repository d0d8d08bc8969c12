from __future__ import annotations

import math

import pytest

from fidelium.constraints import OutcomeConstraint, outcome_constraints
from fidelium.errors import SettingError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stress <= 150e6", ("stress", -math.inf, 150e6)),
        ("  stress<=1.5D+08 ", ("stress", -math.inf, 1.5e8)),
        ("150e6 >= stress", ("stress", -math.inf, 150e6)),
        ("frequency >= -10", ("frequency", -10.0, math.inf)),
        ("10 <= frequency", ("frequency", 10.0, math.inf)),
        ("10 <= frequency <= 20", ("frequency", 10.0, 20.0)),
        ("20 >= frequency >= 10", ("frequency", 10.0, 20.0)),
    ],
)
def test_texts(text: str, expected: tuple[str, float, float]):
    assert outcome_constraints([text]) == (OutcomeConstraint(*expected),)
    assert outcome_constraints([str(OutcomeConstraint(*expected))]) == (OutcomeConstraint(*expected),)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "x ==",
            "x",
            "",
            "<= 3",
            "x <=",
            "x < 3",
            "3 <= 4",
            "x <= y",
            "x <= 3 <= 4",
            "3 <= x >= 1",
            "x = 3",
            "x <= nan",
        ),
        *("x <= inf", "x >= -inf", "-inf <= x <= 3", "2 <= x <= 1", "x <= 1 <= y <= 2", "1 <= x <= 1", "x + y <= 3"),
        *("value <= 3", "cost <= 3", "feasible >= 1", "9x <= 3", "x" * 100 + " <= 3", "width <= 3"),
    ],
)
def test_what_is_not_a_constraint_is_refused(text: str):
    with pytest.raises(SettingError):
        outcome_constraints([text], ["width"])


@pytest.mark.parametrize("texts", ["x <= 3", 3, None, {"x": 3}, [3], [None]])
def test_what_is_not_a_list_of_texts_is_refused(texts: object):
    with pytest.raises(SettingError):
        outcome_constraints(texts)


def test_two_limits_of_one_outcome_are_one_constraint():
    assert outcome_constraints(["x <= 3", "y <= 1", "x >= 1"]) == (
        OutcomeConstraint("x", 1.0, 3.0),
        OutcomeConstraint("y", upper=1.0),
    )
    with pytest.raises(SettingError, match="contradict"):
        outcome_constraints(["x <= 3", "x >= 4"])


def test_limits_are_feasible_and_violations_are_distances():
    band = OutcomeConstraint("x", 1.0, 3.0)
    assert [band.meets(value) for value in (0.9, 1.0, 3.0, 3.1)] == [False, True, True, False]
    assert [band.violation(value) for value in (0.5, 2.0, 5.0)] == [0.5, 0.0, 2.0]
    assert [band.margin(value) for value in (0.5, 1.5, 2.75, 5.0)] == [-0.5, 0.5, 0.25, -2.0]
    assert [band.limit_near(value) for value in (0.5, 1.5, 2.75, 5.0)] == [1.0, 1.0, 3.0, 3.0]
