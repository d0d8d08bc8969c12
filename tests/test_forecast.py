"""What the rest of a budget pays for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import fidelium as fd
from fidelium.forecast import Forecast


def make(**changes):
    ladder = [fd.Fidelity("coarse", cost=0.1), fd.Fidelity("fine", cost=1)]
    settings = {"direction": "maximize", "strategy": "random", "initial": {"coarse": 4, "fine": 2}} | changes
    return fd.create_study({"x": fd.Real(0, 1)}, ladder, **settings)


def test_no_budget_no_forecast():
    assert Forecast.of(make().snapshot()) is None


def test_runs_that_fit_count_as_decimals():
    found = Forecast.of(make().snapshot(0.3))
    assert found is not None
    assert [each.alone for each in found.fidelities] == [3, 0]
    assert [each.runs for each in found.fidelities] == [None, None]
    assert found.text == "0.3, enough for 3 coarse"
    assert found.seconds is None


def test_shares_so_far_and_times():
    study = make()
    for _ in range(6):
        trial = study.start(math.inf, "worker")
        study.tell(trial, 1.0)
    now = study.snapshot(7.2)  # 2.4 are spent, a sixth of them on coarse runs
    times = {"coarse": 5.0, "fine": 600.0}
    timed = tuple(replace(t, started=100.0, finished=100.0 + times[t.fidelity.name], heartbeat=1.0) for t in now.trials)
    found = Forecast.of(replace(now, trials=timed))
    assert found is not None
    assert [each.runs for each in found.fidelities] == [8, 4]
    assert found.seconds == 8 * 5.0 + 4 * 600.0
    assert found.text == (
        "4.8, enough for 48 coarse or 4 fine; with the shares so far 8 coarse and 4 fine, about 41 min of run time"
    )
    assert found.to_dict() == {
        "left": pytest.approx(4.8),
        "fidelities": [
            {"name": "coarse", "cost_each": 0.1, "runs_alone": 48, "runs": 8},
            {"name": "fine", "cost_each": 1.0, "runs_alone": 4, "runs": 4},
        ],
        "seconds": 2440.0,
    }


def test_a_persons_time_says_nothing():
    study = make()
    study.tell(study.ask(), 1.0)
    found = Forecast.of(study.snapshot(10))
    assert found is not None
    assert found.seconds is None


def test_a_spent_budget_pays_for_nothing():
    study = make()
    study.tell(study.ask(), 1.0)
    found = Forecast.of(study.snapshot(0.1))
    assert found is not None
    assert found.text == "0, not enough for a run"


def test_measured_costs_are_forecast():
    study = make(cost="measured")
    for _ in range(4):
        study.tell(study.ask(), 1.0, measured_cost=0.4)
    found = Forecast.of(study.snapshot(10))
    assert found is not None
    assert found.fidelities[0].cost_each == pytest.approx(0.4, rel=0.05)
    assert found.fidelities[1].cost_each == pytest.approx(4, rel=0.3)  # declared ten times as dear
