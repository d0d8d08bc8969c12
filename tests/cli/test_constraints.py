"""Constraints on the command line: a study file with limits is checked, run, shown, told, reread and redefined."""

from __future__ import annotations

import io
import json
import sqlite3

import pytest

from fidelium.history import TrialState
from fidelium.storage import open_storage

STUDY = """\
name: beam
direction: minimize
budget: 30
strategy: random
seed: 2
parameters:
  x: {type: real, low: 0, high: 1}
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 5}
initial: {coarse: 2, fine: 4}
constraints:
  - stress <= 1.0e8
  - 0.1 <= frequency <= 0.9
command: [sh, solve.sh, "{x}"]
outcomes:
  stress: {file: out.txt, regex: "max stress (\\\\S+)"}
"""
SOLVER = """\
echo "max stress 0" > out.txt
awk -v x="$1" 'BEGIN { printf "max stress %.17g\\n", 2e8 * (1 - x) }' >> out.txt
awk -v x="$1" 'BEGIN { printf "{\\"value\\": %.17g, \\"frequency\\": %.17g, \\"mass\\": 2}", x, 1 - x }' > result.json
"""


@pytest.fixture
def write(tmp_path):
    def write(*changes: tuple[str, str], solver: str = SOLVER):
        text = STUDY
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "solve.sh").write_text(solver)
        (tmp_path / "study.yaml").write_text(text)
        return tmp_path / "study.yaml"

    return write


def trials(path):
    storage = open_storage(f"sqlite:///{path.parent}/beam.db")
    found = storage.open("beam").trials()
    storage.close()
    return found


def test_a_run_judges_its_trials_and_says_so(call, write):
    path = write()
    answer = call("run", path)
    assert answer.code == 0, answer
    found = trials(path)
    for trial in found:
        x = trial.params["x"]
        assert dict(trial.outcomes) == pytest.approx({"stress": 2e8 * (1 - x), "frequency": 1 - x, "mass": 2})
        assert trial.feasible == (0.5 <= x <= 0.9)
        infeasible = f"trial {trial.number} at {trial.fidelity.name}: {trial.value:.6g}, infeasible: "
        assert (infeasible in answer.err) == (not trial.feasible)
    at_fine = [trial for trial in found if trial.fidelity.name == "fine"]
    best = min((trial for trial in at_fine if trial.feasible), key=lambda trial: trial.value or 0)
    assert any(not trial.feasible for trial in at_fine)
    assert f"best observed: {best.value:.6g} in trial {best.number}" in answer.out
    assert f"({100 * (best.outcomes['stress'] / 1e8 - 1):+.2g} %)" in answer.out
    assert f"at fine; {sum(not trial.feasible for trial in at_fine)} infeasible" in answer.out

    shown = call("status", path).out
    assert f"best    {best.value:.6g} in trial {best.number}" in shown
    assert "        mass 2\n" in shown
    assert f"feasible {sum(bool(t.feasible) for t in at_fine)} of {len(at_fine)} trials at fine;" in shown
    content = json.loads(call("status", path, "--json").out)
    assert content["best"]["number"] == best.number
    assert content["best"]["outcomes"] == best.outcomes
    assert content["feasibility"]["constraints"] == ["stress <= 100000000.0", "0.1 <= frequency <= 0.9"]
    assert [each["name"] for each in content["feasibility"]["best"]] == ["stress", "frequency"]
    assert all(each["met"] for each in content["feasibility"]["best"])

    lines = call("best", path).out.splitlines()
    assert lines[0] == f"{best.value:.6g} at fine in trial {best.number}"
    assert {line.split()[0] for line in lines[2:]} == {"stress", "frequency", "mass"}
    record = json.loads(call("best", path, "--json").out)
    assert (record["feasible"], record["outcomes"]) == (True, best.outcomes)
    assert record["constraints"][0]["value"] == best.outcomes["stress"]


def test_while_nothing_is_feasible_the_nearest_design_is_named(call, write):
    path = write(("stress <= 1.0e8", "stress <= -1"))
    answer = call("run", path)
    assert answer.code == 0, answer
    nearest = max((trial for trial in trials(path) if trial.fidelity.name == "fine"), key=lambda t: t.params["x"])
    sentence = f"no feasible design at fine yet; the nearest is trial {nearest.number}: stress "
    assert f"best observed: {sentence}" in answer.out
    assert f"best    {sentence}" in call("status", path).out
    assert json.loads(call("status", path, "--json").out)["feasibility"]["nearest"] == nearest.number
    best = call("best", path)
    assert best.code != 0
    assert sentence in best.err


def test_check_shows_the_limits_and_a_trials_outcomes(call, write):
    path = write()
    answer = call("check", path, "--trial", "--at", "x=0.25")
    assert answer.code == 0, answer
    assert "limits    stress <= 100000000.0; 0.1 <= frequency <= 0.9" in answer.out
    assert "stress from out.txt regex 'max stress (\\\\S+)'" in answer.out
    assert "  stress 1.5e8 > 1e8 (+50 %)\n" in answer.out
    assert "  frequency 0.75 <= 0.9 (-17 %)\n" in answer.out
    assert "  mass 2.0\n" in answer.out
    content = json.loads(call("check", path, "--trial", "--fidelity", "fine", "--json").out)
    assert content["trials"][0]["outcomes"] == {"frequency": 0.5, "mass": 2.0, "stress": 1e8}


def test_a_constraint_on_what_nothing_reads_is_an_error_in_the_file(call, write):
    path = write(('command: [sh, solve.sh, "{x}"]', 'command: [sh, solve.sh]\nresult: {regex: "mass (.*)"}'))
    answer = call("run", path)
    assert answer.code == 2
    assert (
        "study.yaml:12: constraints: nothing reads the outcome 'frequency' at 'coarse', where result gives only the "
        "value; add outcomes: {frequency: {file: ..., regex: ...}}"
    ) in answer.err


def test_check_finds_a_run_without_a_constrained_outcome(call, write):
    path = write(solver="""echo '{"value": 1, "frequency": 0.5}' > result.json; echo none > out.txt""")
    answer = call("check", path, "--trial")
    assert answer.code == 1
    assert "failed in" in answer.out
    assert "the outcome 'stress': nothing in out.txt matches" in answer.out


def test_a_constrained_outcome_that_is_missing_is_a_failed_trial(call, write):
    path = write(solver=SOLVER.replace("frequency", "period"))
    answer = call("run", path, "--budget", "2")
    assert answer.code in (0, 1), answer
    assert [trial.state for trial in trials(path)] == [TrialState.FAILED] * 2
    reason = "the run gave no outcome 'frequency', which a constraint names; it gave period, mass, stress"
    assert {trial.reason for trial in trials(path)} == {reason}
    assert reason in call("status", path, "--failures").out


def test_outcomes_are_told_by_hand(call, write, monkeypatch):
    path = write(("initial: {coarse: 2, fine: 4}", "initial: {fine: 4}"))
    for _ in range(5):
        assert json.loads(call("ask", path).out)["outcomes"] == ["stress", "frequency"]
    told = call("tell", path, 0, 0.5, "--outcome", "stress=1.6E+08", "--outcome", "frequency = 0.5")
    assert told.err == "trial 0 is done, infeasible: stress 1.6e8 > 1e8 (+60 %); 4 trials pending\n"
    told = call("tell", path, 1, 0.5, "--outcome", "stress=1e7", "--outcome", "frequency=0.5", "--outcome", "mass=3")
    assert told.err == "trial 1 is done; 3 trials pending\n"
    given = json.dumps({"number": 2, "value": 0.25, "outcomes": {"stress": 1e7, "frequency": 0.5}})
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    assert call("tell", path, "-").code == 0
    assert call("tell", path, 3, 0.5).err.endswith("trial 3 is failed; 1 trial pending\n")
    assert call("tell", path, 4, 0.5, "--outcome", "stress=nan", "--outcome", "frequency=0.5").code == 0
    found = trials(path)
    assert [dict(trial.outcomes) for trial in found] == [
        {"stress": 1.6e8, "frequency": 0.5},
        {"stress": 1e7, "frequency": 0.5, "mass": 3.0},
        {"stress": 1e7, "frequency": 0.5},
        {},
        {},
    ]
    assert [trial.feasible for trial in found] == [False, True, True, None, None]
    assert json.loads(call("best", path, "--json").out)["number"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--outcome", "stress"], "--outcome must look like name=value, each name once, got 'stress'"),
        (["--outcome", "stress=high"], "a value must be a number, got 'high'"),
        (["--outcome", "stress="], "a value must be a number, got ''"),
        (["--outcome", "stress=1", "--outcome", "stress=2"], "each name once, got 'stress=2'"),
        (["--outcome", "x=1"], "'x' is a parameter, so an outcome cannot have this name"),
        (["--outcome", "value=1"], "'value' is reserved"),
        (["--outcome", "=1"], "the name of an outcome is a word"),
    ],
)
def test_outcomes_that_are_none_are_refused(call, write, options, message):
    path = write()
    call("ask", path)
    answer = call("tell", path, 0, 0.5, *options)
    assert answer.code == 2
    assert message in answer.err
    assert trials(path)[0].state is TrialState.RUNNING


def test_outcomes_on_stdin_must_be_a_mapping(call, write, monkeypatch):
    path = write()
    call("ask", path)
    for outcomes in ([1], "stress", {"stress": "high"}, {"stress": None}):
        given = json.dumps({"number": 0, "value": 1, "outcomes": outcomes})
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        answer = call("tell", path, "-")
        assert answer.code == 2
        assert "outcome" in answer.err


def test_reread_takes_outcomes_by_a_corrected_rule(call, write):
    rule = "max stress"
    path = write(('regex: "max stress', 'regex: "peak stress'))
    assert call("run", path, "--budget", "1").code != 0  # nothing was ever read: the rule may be wrong
    assert trials(path)[0].state is TrialState.QUEUED
    path = write()
    shown = call("reread", path, "--dry-run")
    assert shown.code == 0, shown
    assert ", stress " in shown.out
    assert json.loads(call("reread", path, "--json").out)["trials"][0]["outcomes"].keys() == {
        "frequency",
        "mass",
        "stress",
    }
    (trial,) = trials(path)
    assert (trial.state, len(trial.outcomes)) == (TrialState.DONE, 3)
    assert rule in (path.parent / "runs/00000-coarse/out.txt").read_text()


def test_changed_constraints_are_taken_up_or_refused(call, write):
    path = write()
    assert call("run", path, "--budget", "7").code == 0
    count = len(trials(path))
    path = write(("stress <= 1.0e8", "stress <= 5.0e7\n  - mass <= 3"), ("  - 0.1 <= frequency <= 0.9\n", ""))
    line = "constraints: stress <= 100000000.0, 0.1 <= frequency <= 0.9 -> stress <= 50000000.0, mass <= 3.0"
    assert f"changed: {line}" in call("check", path).out
    answer = call("run", path, "--budget", "12")
    assert answer.code == 0, answer
    assert f"{line}; {count} trials kept" in answer.err
    assert [trial.feasible for trial in trials(path)] == [trial.outcomes["stress"] <= 5e7 for trial in trials(path)]
    path = write(("stress <= 1.0e8", "drag <= 1"))
    refused = "trial 0 has no outcome 'drag', which the constraint 'drag <= 1.0' names"
    assert f"problem  storage   {refused}" in call("check", path).out
    answer = call("run", path, "--budget", "20")
    assert answer.code == 2
    assert f"{refused}; it has" in answer.err


def test_a_study_with_a_damaged_outcome_is_an_error_that_names_it(call, write):
    path = write()
    assert call("run", path, "--budget", "7").code == 0
    with sqlite3.connect(path.parent / "beam.db") as database:
        database.execute("UPDATE fidelium_trials SET outcomes = '{\"stress\": null}' WHERE number = 0")
    answer = call("status", path)
    assert answer.code != 0
    assert "trial 0 of study 'beam'" in answer.err
    assert "outcome 'stress' is 'None', expected a finite number" in answer.err
