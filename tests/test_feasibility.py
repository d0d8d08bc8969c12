"""How trials meet their constraints, in numbers and words."""

from __future__ import annotations

import pytest

import fidelium as fd
from fidelium.constraints import outcome_constraints
from fidelium.feasibility import Feasibility, Judgement, infeasible_text, short

LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]


@pytest.mark.parametrize(
    ("constraint", "value", "text"),
    [
        ("stress <= 1.5e8", 1.6e8, "stress 1.6e8 > 1.5e8 (+6.7 %)"),
        ("deflection <= 0.005", 0.1439, "deflection 0.1439 > 0.005 (+2778 %)"),
        ("stress <= 1.5e8", 1.2e8, "stress 1.2e8 <= 1.5e8 (-20 %)"),
        ("stress <= 1.5e8", 1.49e8, "stress 1.49e8 <= 1.5e8 (-0.67 %), active"),
        ("stress <= 1.5e8", 1.5e8, "stress 1.5e8 <= 1.5e8 (+0 %), active"),
        ("frequency >= 10", 9, "frequency 9 < 10 (-10 %)"),
        ("frequency >= 10", 10.05, "frequency 10.05 >= 10 (+0.5 %), active"),
        ("10 <= frequency <= 20", 19, "frequency 19 <= 20 (-5 %)"),
        ("10 <= frequency <= 20", 11, "frequency 11 >= 10 (+10 %)"),
        ("10 <= frequency <= 20", 25, "frequency 25 > 20 (+25 %)"),
        ("gap >= 0", -0.02, "gap -0.02 < 0 (-0.02)"),
        ("gap >= 0", 0.02, "gap 0.02 >= 0 (+0.02)"),
        ("0 <= gap <= 1", 0.005, "gap 0.005 >= 0 (+0.005), active"),
        ("t <= -2", -1, "t -1 > -2 (+50 %)"),
    ],
)
def test_a_judgement_says_value_limit_and_distance(constraint, value, text):
    (limit,) = outcome_constraints([constraint])
    judgement = Judgement(limit, value)
    assert judgement.text == text
    assert judgement.is_met == limit.meets(value)
    assert judgement.is_active == text.endswith("active")
    assert (judgement.relative_violation > 0) != judgement.is_met


def test_short_numbers():
    assert [short(number) for number in (1.5e8, 1e-5, 0.00123456, 1234.5678, 0.0)] == [
        "1.5e8",
        "1e-5",
        "0.001235",
        "1235",
        "0",
    ]


def make(rows) -> fd.Study:
    study = fd.create_study(
        {"x": fd.Real(0, 1)},
        LADDER,
        direction="minimize",
        strategy="random",
        constraints=["stress <= 10", "gap >= 0"],
    )
    for number, (fidelity, value, stress, gap) in enumerate(rows):
        study.add_observation({"x": number / 10}, fidelity, value, {"stress": stress, "gap": gap})
    return study


ROWS = [("coarse", 0.0, 99, 1), ("fine", 1.0, 20, 1), ("fine", 2.0, 11, 1), ("fine", 3.0, 12, -1), ("fine", 4.0, 5, -1)]


def test_without_a_feasible_design_the_nearest_is_named():
    now = make(ROWS).snapshot()
    found = Feasibility(now)
    assert now.best is None
    assert [trial.number for trial in found.infeasible] == [1, 2, 3, 4]  # coarse runs do not count
    assert found.violated == {"stress": 3, "gap": 2}
    assert found.nearest == now.trials[2]
    assert found.text == "0 of 4 trials at fine; 4 infeasible, 3 of them by stress"
    assert found.without_best == "no feasible design at fine yet; the nearest is trial 2: stress 11 > 10 (+10 %)"
    assert infeasible_text(now.trials[3]) == "infeasible: stress 12 > 10 (+20 %), gap -1 < 0 (-1)"
    assert found.to_dict() == {
        "constraints": ["stress <= 10.0", "gap >= 0.0"],
        "feasible": 0,
        "infeasible": 4,
        "violated": {"stress": 3, "gap": 2},
        "nearest": 2,
    }


def test_with_a_feasible_one():
    study = make([*ROWS[:2], ("fine", 9.0, 9.99, 1)])
    found = Feasibility(study.snapshot())
    assert study.best == study.trials[2]
    assert found.text == "1 of 2 trials at fine; 1 infeasible, by stress"
    assert infeasible_text(study.trials[2]) == ""
    study.exclude(1)
    assert Feasibility(study.snapshot()).text == "1 of 1 trial at fine"


def test_before_any_run():
    assert Feasibility(make([]).snapshot()).without_best == "no value at fine yet"
    assert Feasibility(make(ROWS[:1]).snapshot()).without_best == "no value at fine yet"
