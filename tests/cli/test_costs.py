"""Measured costs and costs of the design from the command line."""

from __future__ import annotations

import json

import pytest

MEASURED = {"direction: minimize": "direction: minimize\ncost: measured", "budget: 12": "budget: 40"}
REPORTING = (
    """awk -v x="$2" 'BEGIN { printf "{\\"value\\": %.17g, \\"cost\\": %.17g}", (x - 0.3) ^ 2, 1 + x }' > "$4"\n"""
)


def test_a_run_pays_what_its_programs_report(call, study_file, tmp_path):
    path = study_file(**MEASURED)
    (tmp_path / "simulate.sh").write_text(REPORTING)
    answer = call("run", path)
    assert answer.code == 0, answer.err
    status = json.loads(call("status", path, "--json").out)
    assert status["cost"] == "measured"
    assert 30 < status["spent"] <= 42
    assert status["forecast"]["left"] == pytest.approx(max(40 - status["spent"], 0), abs=1e-9)
    for used in status["fidelities"]:
        assert 1 <= used["cost_each"] <= 2.5  # declared were 1 and 5
    assert "left:" not in answer.out  # nothing is left
    assert "enough for" in answer.err  # the line of a trial
    call("export", path, tmp_path / "out.json")
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported["cost"] == "measured"
    assert all(trial["cost"] == trial["measured_cost"] for trial in exported["trials"])


def test_without_a_report_the_seconds_count(call, study_file):
    path = study_file(**MEASURED | {"budget: 12": "budget: 5", "cost: 1}": "cost: 0.5}", "cost: 5}": "cost: 1}"})
    (path.parent / "fail-fine").touch()
    answer = call("run", path)
    status = json.loads(call("status", path, "--json").out)
    assert status["failures"], answer.err
    call("export", path, path.parent / "out.json")
    trials = json.loads((path.parent / "out.json").read_text())["trials"]
    assert trials
    assert all(0 < trial["cost"] == trial["measured_cost"] < 5 for trial in trials)  # failed ones, too


def test_ask_says_what_is_expected_and_tell_what_it_was(call, study_file):
    path = study_file(**MEASURED)
    assert json.loads(call("ask", path).out)["cost"] == 1
    assert call("tell", path, "0", "0.5", "--measured-cost", "7.5").code == 0
    status = json.loads(call("status", path, "--json").out)
    assert status["spent"] == 7.5
    assert 7 < json.loads(call("ask", path).out)["cost"] < 8.5
    assert "left    " in call("status", path).out


def test_an_expression_is_charged_and_written_into_the_query(call, study_file, tmp_path):
    path = study_file(**{"cost: 5}": 'cost: "4 + count"}', "budget: 12": "budget: 30"})
    assert call("run", path).code == 0
    call("export", path, tmp_path / "out.json")
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported["fidelities"][1] == {"name": "fine", "cost": "4 + count"}
    fine = [trial for trial in exported["trials"] if trial["fidelity"] == "fine"]
    assert fine
    for trial in fine:
        assert trial["cost"] == 4 + trial["params"]["count"]
        query = json.loads((tmp_path / "runs" / f"{trial['number']:05d}-fine" / "query.json").read_text())
        assert query["cost"] == trial["cost"]
    assert "fine costs 4 + count" in call("check", path).out
    assert "cost of fine: 4 + count -> 9" in call("run", study_file(budget=31, **{"cost: 5}": "cost: 9}"})).err


def test_a_bad_expression_is_one_line_and_exit_code_2(call, study_file):
    answer = call("run", study_file(**{"cost: 5}": 'cost: "2 - count"}'}))
    assert answer.code == 2
    assert "must be finite and above 0 for every design, but it is" in answer.err
    assert answer.err.count("\n") == 1


def test_a_run_that_stops_early_says_what_is_left(call, study_file):
    path = study_file(budget=40, **{"strategy: random": "strategy: random\nstop: {trials: 4}"})
    answer = call("run", path)
    assert "left:          28, enough for 28 coarse or 5 fine; with the shares so far 5 coarse and 5 fine" in answer.out
