"""`ask` and `tell`: JSON out, JSON in, and errors that change nothing."""

from __future__ import annotations

import io
import json
import math
import os

import pytest

from fidelium import create_study, load_study
from fidelium.fidelity import Fidelity
from fidelium.space import Real


@pytest.fixture
def storage(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/hand.db"


@pytest.fixture
def study(storage):
    ladder = [Fidelity("low", 1), Fidelity("high", 4)]
    return create_study(
        {"x": Real(0, 1)}, ladder, direction="maximize", strategy="random", storage=storage, name="hand"
    )


def test_ask_from_a_file_starts_the_study_and_ends_with_its_budget(call, study_file, tmp_path) -> None:
    path = study_file(7)
    asked = []
    while (answer := call("ask", path)).code == 0:
        asked.append(json.loads(answer.out))
        assert answer.err == ""
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("nothing to ask: the rest of the budget")
    assert [trial["number"] for trial in asked] == list(range(len(asked)))
    assert sum(trial["cost"] for trial in asked) == 7
    assert set(asked[0]) == {"number", "params", "fidelity", "cost"}
    assert set(asked[0]["params"]) == {"x", "count", "kind"}
    assert json.loads(call("ask", path, "--budget", "8").out)["number"] == len(asked)


def test_tell_takes_values_of_any_sign_costs_and_failures(call, study, storage) -> None:
    for _ in range(4):
        assert call("ask", storage).code == 0
    assert call("tell", storage, 0, "-1.5e-3", "--measured-cost", "2.5").err == "trial 0 is done; 3 trials pending\n"
    assert call("tell", storage, 1, "--failed", "the mesher\ncrashed").code == 0
    assert call("tell", storage, 2, "nan").err.endswith("trial 2 is failed; 1 trial pending\n")
    assert call("tell", storage, 3, "--give-back").err == "trial 3 is queued; 1 trial pending\n"
    trials = load_study(storage).trials
    assert [(trial.value, trial.measured_cost) for trial in trials] == [
        (-1.5e-3, 2.5),
        (None, None),
        (None, None),
        (None, None),
    ]
    assert trials[1].reason == "the mesher\ncrashed"
    assert json.loads(call("ask", storage).out)["number"] == 3  # the next ask gets it
    assert load_study(storage).trials[3].attempt == 2


def test_tell_reads_json_from_stdin(call, study, storage, monkeypatch) -> None:
    for value in (0.1 + 0.2, math.pi):
        number = json.loads(call("ask", storage, "--name", "hand").out)["number"]
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"number": number, "value": value})))
        assert call("tell", storage, "-").code == 0
        assert load_study(storage).trials[number].value == value  # to the last bit
    number = json.loads(call("ask", storage).out)["number"]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"number": number, "failed": 'a "quoted" $(reason)'})))
    assert call("tell", storage, "-").code == 0
    assert load_study(storage).trials[number].reason == 'a "quoted" $(reason)'


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["0"], "", "either a value or failed="),
        (["0", "1", "--failed", "why"], "", "either a value or failed="),
        (["0", "much"], "", "a value must be a number, got 'much'"),
        (["0", "--nope"], "", "a value must be a number, got '--nope'"),
        (["0", "1_000"], "", "a value must be a number, got '1_000'"),
        (["0", "１２"], "", "a value must be a number, got '１２'"),
        (["7", "1"], "", "has no trial 7"),
        (["-1", "1"], "", "must be a whole number from 0, got '-1'"),
        (["x", "1"], "", "must be a whole number from 0, got 'x'"),
        (["0", "1", "--measured-cost", "-2"], "", "measured_cost must be a number >= 0"),
        (["-", "1"], "", "the result is read from stdin"),
        (["-"], "1", "expected JSON like"),
        (["-"], "{", "this is not JSON"),
        (["-"], '{"value": 1}', "expected JSON like"),
        (["-"], '{"number": 0, "valeu": 1}', "expected JSON like"),
        (["-"], '{"number": 0.5, "value": 1}', "must be a whole number from 0, got 0.5"),
        (["-"], '{"number": 0, "value": "1"}', "value must be a number, got '1'"),
        (["-"], "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (["-"], '{"number": 0, "value": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
        (["-"], '{"number": 0, "value": ' + "[" * 500 + "]" * 500 + "}", "value must be a number, got [[["),
        (["-"], '{"number": 0, "value": ' + "9" * 6000 + "}", "a number has 6000 digits"),
        (["-"], '{"number": ' + "9" * 6000 + ', "value": 1}', "a number has 6000 digits"),
        (["-"], '{"number": ' + "9" * 300 + ', "value": 1}', "this study has no trial 999"),
        (["-"], '{"number": 0, "value": 1, "value": 2}', "a key is given twice: 'number', 'value', 'value'"),
        (["-"], '{"number": 0, "value": 1, "measured_cost": 1e999}', "a measured cost is a finite number"),
        (["-"], '{"number": 0, "value": 1, "measured_cost": NaN}', "measured_cost must be a number >= 0, got nan"),
        (["9" * 6000, "1"], "", "must be a whole number from 0, got '999"),
        (["0", "x" * 6000], "", "a value must be a number, got 'xxx"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    call, study, storage, monkeypatch, arguments, stdin, message
) -> None:
    study.ask()
    before = study.trials
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    answer = call("tell", storage, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert study.trials == before


@pytest.mark.parametrize("budget", ["nan", "-nan", "much", "0x1"])
def test_a_budget_that_is_not_a_number_is_refused_and_asks_nothing(call, study, storage, budget) -> None:
    answer = call("ask", storage, f"--budget={budget}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert study.trials == ()


def test_a_path_that_is_not_text_is_not_a_traceback(call, study, storage, tmp_path) -> None:
    strange = os.fsdecode(b"strange-\xff.db")
    answer = call("status", f"sqlite:///{tmp_path}/{strange}")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "udcff.db has these studies: none yet" in answer.err


def test_a_trial_is_recorded_once(call, study, storage) -> None:
    study.ask()
    assert call("tell", storage, 0, 1.0).code == 0
    answer = call("tell", storage, 0, 2.0)
    assert answer.code == 2
    assert "already finished (value 1)" in answer.err
    assert study.trials[0].value == 1.0


def test_which_study_is_meant_must_be_clear(call, study, storage, tmp_path) -> None:
    ladder = [Fidelity("low", 1)]
    create_study({"x": Real(0, 1)}, ladder, direction="maximize", storage=storage, name="other", strategy="random")
    assert "has these studies: 'hand', 'other'" in call("status", storage).err
    assert "'nope'" in call("status", storage, "--name", "nope").err
    assert json.loads(call("status", storage, "--name", "other", "--json").out)["name"] == "other"
    assert "there is no study 'nope'" in call("ask", storage, "--name", "nope").err
    empty = call("status", f"sqlite:///{tmp_path}/none.db")
    assert empty.code == 2
    assert not (tmp_path / "none.db").exists()  # looking makes nothing
