"""Studies whose costs are measured: what trials cost, the budget, failures and retries, resuming."""

from __future__ import annotations

import itertools
import json
import logging
import math
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import fidelium as fd
from fidelium.errors import ObservationError, SettingError
from fidelium.study.measured_cost import attempt_cost, cost_per_second

LADDER = [fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=10)]


def make(**changes: Any) -> fd.Study:
    settings: dict[str, Any] = {"direction": "maximize", "strategy": "random", "cost": "measured", "ladder": LADDER}
    return fd.create_study({"a": fd.Real(0, 1), "b": fd.Real(0, 1)}, **(settings | changes))


def objective(params, fidelity):
    declared = {"low": 1.0, "high": 10.0}[fidelity.name]
    return {"value": -((params["a"] - 0.3) ** 2), "cost": declared * 10 ** (params["a"] - 0.5)}


def test_a_trial_costs_what_was_told():
    study = make(initial={"low": 3})
    first = study.ask()
    assert first.cost == study.spent == 1.0  # reserved
    told = study.tell(first, 1.0, measured_cost=4.0)
    assert told.cost == told.charged == study.spent == 4.0
    second = study.ask()
    assert second.cost == pytest.approx(4.0, rel=0.1)  # what is expected now
    expected = second.cost
    assert study.tell(second, 1.0).cost == expected  # by hand, and nothing was measured: it stays
    third = study.ask()
    assert study.tell(third, failed="crashed", measured_cost=0.25).cost == 0.25
    assert study.spent == pytest.approx(4.25 + expected)


def test_declared_costs_count_unless_the_study_says_otherwise():
    study = make(cost="declared", initial={"low": 1})
    told = study.tell(study.ask(), 1.0, measured_cost=4.0)
    assert (told.cost, told.charged, told.measured_cost) == (1.0, None, 4.0)
    with pytest.raises(SettingError, match="cost must be 'declared' or 'measured', got 'wall'"):
        make(cost="wall")
    with pytest.raises(ObservationError, match="measured_cost must be a number >= 0, got -1"):
        study.tell(study.ask(), 1.0, measured_cost=-1)


def test_optimize_pays_what_runs_report_and_never_starts_beyond_the_budget():
    study = make()
    study.optimize(objective, budget=60)
    for trial in study.trials:
        assert trial.cost == trial.measured_cost == objective(trial.params, trial.fidelity)["cost"]
    last = max(trial.cost for trial in study.trials)
    assert 60 - 10 < study.spent <= 60 + last
    before = study.spent
    study.optimize(objective, budget=60)
    assert study.spent == before or before < 60


def test_without_a_report_it_is_the_time_that_counts():
    study = make(ladder=[fd.Fidelity("only", cost=0.05)], initial={"only": 2})

    def slow(params, fidelity):
        time.sleep(0.05)
        return params["a"]

    study.optimize(slow, budget=0.3, progress=False)
    assert len(study.trials) >= 3
    for trial in study.trials:
        assert 0.05 <= trial.cost < 5
        assert trial.cost == trial.measured_cost
    assert study.spent <= 0.3 + max(trial.cost for trial in study.trials)


def test_failed_runs_and_retries_cost_what_they_took():
    calls = itertools.count()

    def failing(params, fidelity):
        if next(calls) < 2:
            time.sleep(0.05)
            raise ValueError("crashed")
        return {"value": 1.0, "cost": 2.0}

    study = make(initial={"low": 1})
    study.optimize(failing, budget=2.5, retries=1, progress=False)
    first = study.trials[0]
    assert (str(first.state), first.attempt) == ("failed", 2)
    assert first.cost == first.measured_cost
    assert 0.1 <= first.cost < 2  # both attempts
    assert study.trials[1].cost == 2.0


def test_a_failed_run_may_report_its_cost():
    study = make(initial={"low": 1})
    with pytest.raises(fd.FideliumError):
        study.optimize(lambda p, f: {"failed": "diverged", "cost": 7.0}, budget=100, max_failures=2, progress=False)
    assert [trial.cost for trial in study.trials] == [7.0, 7.0]


def test_seconds_of_failures_are_converted_where_runs_report_another_unit():
    study = make(initial={"low": 5})
    worker = "w"
    for _ in range(3):
        trial = study.start(math.inf, worker)
        time.sleep(0.05)
        study.tell(trial, 1.0, measured_cost=100.0)
    now = study.snapshot()
    assert 500 < cost_per_second(now) < 2100
    assert attempt_cost(now, None, 2.0, failed=True) == pytest.approx(2.0 * cost_per_second(now))
    assert attempt_cost(now, None, 2.0, failed=False) == 2.0
    assert attempt_cost(now, 5.0, 2.0, failed=True) == 5.0
    assert cost_per_second(make().snapshot()) == 1.0


def test_what_runs_at_the_same_time_is_reserved():
    study = make(ladder=[fd.Fidelity("only", cost=1)], initial={"only": 2})
    with ThreadPoolExecutor(4) as threads:
        study.optimize(
            lambda p, f: {"value": p["a"], "cost": 3.0}, budget=12, executor=threads, workers=4, progress=False
        )
    assert study.spent <= 12 + 4 * 3.0  # no more than what was running
    assert study.spent >= 12 - 3.0


def test_a_retried_trial_costs_all_its_attempts():
    study = make(initial={"low": 1})
    trial = study.ask()
    study.tell(trial, failed="crashed", measured_cost=2.0)
    assert study.retry(0).cost == 4.0  # what it took, and as much again
    again = study.ask()
    assert study.tell(again, 1.0, measured_cost=3.0).cost == 5.0


def test_a_study_resumes_with_the_same_queries(tmp_path):
    def asked(storage, kills):
        study = make(storage=storage, name="s", strategy="sf-ei", initial={"high": 4})
        found = []
        for number in range(7):
            if number in kills:
                study.close()
                study = fd.load_study(storage, "s")
                assert study.definition.cost == "measured"
            trial = study.ask()
            found.append((trial.params, trial.cost))
            result = objective(trial.params, trial.fidelity)
            study.tell(trial, result["value"], measured_cost=result["cost"])
        spent = study.spent
        study.close()
        return found, spent

    whole = asked(f"sqlite:///{tmp_path}/a.db", ())
    assert asked(f"sqlite:///{tmp_path}/b.db", (1, 4, 5, 6)) == whole


def test_a_study_may_begin_to_measure(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/a.db"
    with make(storage=url, name="s", cost="declared") as study:
        study.tell(study.ask(), 1.0, measured_cost=50.0)
    with make(storage=url, name="s", load_if_exists=True) as study:
        assert "costs that count: declared -> measured" in caplog.text
        assert study.spent == 1.0  # what was charged stays
        assert study.ask().cost == pytest.approx(50.0, rel=0.1)  # but what it took is known


def test_a_queued_design_reserves_what_is_expected_of_it():
    study = make(initial={"low": 2})
    for _ in range(2):
        study.tell(study.ask(), 1.0, measured_cost=30.0)
    queued = study.enqueue({"a": 0.5, "b": 0.5}, "low")
    assert queued.cost == pytest.approx(30, rel=0.1)
    assert study.snapshot(100).remaining == pytest.approx(100 - 60 - queued.cost)
    started = study.ask()
    assert started.number == queued.number
    assert study.tell(started, 1.0, measured_cost=7.0).cost == 7.0


def test_the_progress_line_says_what_is_left(caplog):
    caplog.set_level(logging.INFO, logger="fidelium.study")
    study = make(initial={"low": 3})
    study.optimize(lambda p, f: {"value": 1.0, "cost": 2.0}, budget=30)
    assert " | left 28, enough for 13 low or 1 high" in caplog.text


def test_a_function_of_the_one_liner():
    study = fd.optimize(
        objective, {"a": fd.Real(0, 1)}, LADDER, direction="maximize", budget=20, strategy="random", cost="measured"
    )
    assert json.dumps([trial.cost for trial in study.trials]) == json.dumps([t.measured_cost for t in study.trials])


KILLED = """
import sys, time
import fidelium as fd

def slow(params, fidelity):
    print("started", flush=True)
    time.sleep(0.1)
    return {"value": params["a"], "cost": 2.0 + params["a"]}

ladder = [fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=10)]
study = fd.create_study({"a": fd.Real(0, 1), "b": fd.Real(0, 1)}, ladder, direction="maximize",
                        strategy="random", cost="measured", storage=sys.argv[1], name="s")
study.optimize(slow, budget=40, progress=False)
"""


def test_a_killed_run_is_resumed_and_paid_once(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    process = subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(4):  # three have ended, the fourth is running
        assert process.stdout.readline() == "started\n"
    process.kill()
    process.wait()
    process.stdout.close()
    with fd.load_study(url, "s") as study:
        before = study.trials
        assert len(before) == 4
        assert [trial.cost for trial in before[:3]] == [2.0 + trial.params["a"] for trial in before[:3]]
        assert str(before[3].state) == "running"
        assert before[3].cost == pytest.approx(study.snapshot().history.costs.of(before[3].params, 0), rel=0.2)
        study.optimize(lambda p, f: {"value": p["a"], "cost": 2.0 + p["a"]}, budget=40, progress=False)
        assert study.trials[:3] == before[:3]
        assert study.trials[3].attempt == 2
        for trial in study.trials:
            assert trial.cost == trial.measured_cost == 2.0 + trial.params["a"]
        assert 36 < study.spent <= 43
