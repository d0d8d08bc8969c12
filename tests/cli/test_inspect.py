"""`status`, `best`, `recommend`, `predict` and `plot study`: the numbers of a study, for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import ClassVar

import pytest

from fidelium import Categorical, Fidelity, Real, create_study

HOSTILE = "\x1b[31mred[bold]\n; rm -rf ~"


@pytest.fixture
def storage(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def study(storage):
    """Three done, one failed, one running, one given; best at the target is 2."""
    space = {"x": Real(0, 1), "kind": Categorical(("steel", HOSTILE))}
    ladder = [Fidelity("low", 0.1), Fidelity("high", 1)]
    made = create_study(space, ladder, direction="maximize", strategy="random", storage=storage, name="s")
    made.add_observation({"x": 0.5, "kind": HOSTILE}, "high", 2.0)
    for value in (0.25, 0.5, 0.75):
        made.tell(made.ask(), value)
    made.tell(made.ask(), failed=f"exit code 3: {HOSTILE}\nmore")
    made.ask()
    return made


def test_status_counts_and_adds_up_as_decimals(call, study, storage) -> None:
    status = json.loads(call("status", storage, "--json").out)
    assert status["states"] == {"queued": 0, "running": 1, "done": 4, "failed": 1, "lost": 0}
    assert status["spent"] == study.spent == 0.5  # five times 0.1
    assert status["budget"] is None
    assert status["fidelities"] == [
        {"name": "low", "cost_each": 0.1, "trials": 5, "given": 0, "cost": 0.5},
        {"name": "high", "cost_each": 1, "trials": 0, "given": 1, "cost": 0.0},
    ]
    assert status["best"]["value"] == 2.0
    assert status["best"]["params"] == {"x": 0.5, "kind": HOSTILE}
    (running,) = status["running"]
    assert running["number"] == 5
    assert 0 <= running["seconds"] < 60
    (failure,) = status["failures"]
    assert failure["reason"] == f"exit code 3: {HOSTILE}\nmore"  # whole: JSON escapes what a terminal obeys


def test_status_for_people_says_the_same_and_obeys_no_escape_sequence(call, study, storage) -> None:
    answer = call("status", storage)
    assert answer.code == 0
    assert answer.err == ""
    for part in (
        "s: maximize at high with random",
        "trials  6 (1 running, 4 done, 1 failed)",
        "spent   0.5",
        "best    2 in trial 0",
        r"x = 0.5, kind = \x1b[31mred[bold]\n; rm -rf ~",
        "running: 1",
        "asked by hand",
        "1 failure, newest first",
        r"exit code 3: \x1b[31mred[bold]",
    ):
        assert part in answer.out
    assert "\x1b" not in answer.out


LONG = "result.json: no key 'value' " + "in a very long list of keys " * 12 + "at the end"


def test_status_wraps_long_reasons_and_shows_whole_ones(call, study, storage) -> None:
    study.tell(5, failed=LONG)
    study.tell(study.ask(), failed=f"Traceback (most recent call last):\n  File x\nValueError: {HOSTILE}")
    table = call("status", storage).out
    assert "…" not in table
    assert "at the end" in table
    assert r"ValueError: \x1b[31mred[bold]" in table or r"; rm -rf ~" in table
    answer = call("status", storage, "--failures")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "trial 6 at low: failed in attempt 1"
    assert lines[1:3] == ["    Traceback (most recent call last):", "      File x"]
    assert f"    {LONG}" in lines
    assert "\x1b" not in answer.out
    for other in ("--watch", "--json"):
        assert "--failures goes alone" in call("status", storage, "--failures", other).err


def test_status_of_a_file_knows_the_budget(call, study_file) -> None:
    path = study_file(8)
    call("ask", path)
    call("ask", path)
    assert "spent   2 of 8 (25%)" in call("status", path).out
    assert json.loads(call("status", path, "--json").out)["budget"] == 8
    assert "is called 'parabola'; drop --name" in call("status", path, "--name", "other").err
    assert "pass one of them" in call("status", path, "--watch", "--json").err


def test_status_reads_a_study_without_jax_and_pandas(study, storage) -> None:
    script = """
import sys
from fidelium.cli import main
try:
    main(["status", sys.argv[1]])
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {"jax", "scipy", "pandas", "plotly", "matplotlib", "alembic", "loky", "jinja2", "distributed"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    process = subprocess.run([sys.executable, "-c", script, storage], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "best    2 in trial 0" in process.stdout


def test_watching_shows_what_happens_until_ctrl_c(call, study, storage, monkeypatch) -> None:
    class Clock:
        """Something happens during the first nap, and Ctrl-C comes during the second."""

        time = staticmethod(time.time)
        naps: ClassVar[list[float]] = []

        def sleep(self, seconds: float) -> None:
            self.naps.append(seconds)
            if len(self.naps) > 1:
                raise KeyboardInterrupt
            study.tell(5, 1.0)

    monkeypatch.setattr("fidelium.cli.inspect.time", Clock())
    answer = call("status", storage, "--watch", "--every", "0.5")
    assert (answer.code, answer.err) == (0, "")
    assert Clock.naps == [0.5, 0.5]
    assert "trials  6 (5 done, 1 failed)" in answer.out


def test_best_is_the_best_at_the_target(call, study, storage) -> None:
    best = json.loads(call("best", storage, "--json").out)
    assert (best["number"], best["value"], best["fidelity"], best["given"]) == (0, 2.0, "high", True)
    assert call("best", storage).out.startswith("2 at high in trial 0\nx = 0.5, kind = ")


def test_no_best_is_one_line(call, study_file) -> None:
    path = study_file(8)
    call("ask", path)
    answer = call("best", path)
    assert answer == (2, "", "error: no trial at the target, 'fine', has a value yet\n")
    assert call("recommend", path).err == (
        "error: nothing has been observed yet; tell the value of a trial or add an observation first\n"
    )


def test_the_model_answers_as_in_python(call, storage, tmp_path) -> None:
    space, ladder = {"x": Real(0, 1)}, [Fidelity("low", 1), Fidelity("high", 4)]
    study = create_study(space, ladder, direction="minimize", strategy="mf-mes", storage=storage, name="model")
    for step in range(6):
        x = step / 5
        study.add_observation({"x": x}, "low", (x - 0.3) ** 2 + 0.1)
        study.add_observation({"x": x}, "high", (x - 0.3) ** 2)
    choice = study.recommend()
    told = json.loads(call("recommend", storage, "--json").out)
    assert told == {"params": choice.params, "mean": choice.mean, "std": choice.std, "trial": choice.trial}
    assert told["params"]["x"] == pytest.approx(0.3, abs=0.05)
    (mean,), (std,) = study.predict([{"x": 0.9}], "low")
    answer = json.loads(call("predict", storage, "--at", "x=0.9", "--fidelity", "low", "--json").out)
    assert answer == {"fidelity": "low", "predictions": [{"params": {"x": 0.9}, "mean": mean, "std": std}]}
    (tmp_path / "designs.csv").write_text("note,x\nfirst,0.9\nsecond,0.1\n")
    many = json.loads(call("predict", storage, "--designs", tmp_path / "designs.csv", "--json").out)
    assert [each["params"]["x"] for each in many["predictions"]] == [0.9, 0.1]
    assert many["predictions"][0]["mean"] == pytest.approx(0.36, abs=0.05)
    drawn = call("plot", "study", storage, "--out", tmp_path / "plots")
    assert drawn.out == f"picture: {tmp_path}/plots/model-overview.html and {tmp_path}/plots/model-overview.png\n"
    assert (tmp_path / "plots/model-overview.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "plots/model-overview.html").stat().st_size > 1_000_000


def test_the_design_that_was_best_is_recommended_with_its_value_and_its_trial(call, storage) -> None:
    ladder = [Fidelity("low", 1), Fidelity("high", 4)]
    study = create_study({"x": Real(0, 1)}, ladder, direction="minimize", strategy="mf-mes", storage=storage, name="m")
    for step in range(11):  # the best one is beyond doubt
        study.add_observation({"x": step / 10}, "high", abs(step - 4) ** 0.5)
    choice = study.recommend()
    assert (choice.params["x"], choice.mean, choice.std, choice.trial) == (0.4, 0.0, 0.0, 4)
    assert call("recommend", storage).out == "0 observed in trial 4\nx = 0.4\n"
    assert json.loads(call("recommend", storage, "--json").out)["trial"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict"], "--at name=value for each parameter, or --designs"),
        (["predict", "--at", "x"], "must look like name=value, each name once, got 'x'"),
        (["predict", "--at", "x=1", "--at", "x=0"], "each name once, got 'x=0'"),
        (["predict", "--at", "y=1"], "unknown parameter 'y'"),
        (["predict", "--at", "x=0.5"], "missing parameter 'kind'"),
        (["predict", "--at", "x=left", "--at", "kind=steel"], "expected a number, got 'left'"),
        (["predict", "--at", "x=0.5", "--at", "kind=tin"], "expected one of 'steel'"),
        (["predict", "--at", "x=0.5", "--at", "kind=steel", "--fidelity", "no"], "unknown fidelity 'no'"),
        (["predict", "--designs", "/nope.csv"], "cannot read '/nope.csv'"),
    ],
)
def test_bad_questions_are_one_line(call, study, storage, arguments, message) -> None:
    command, *rest = arguments
    answer = call(command, storage, *rest)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


def test_problems_and_strategies_as_json(call) -> None:
    assert json.loads(call("strategies", "--json").out)[0] == "dnn-mfbo"
    problems = {problem["name"]: problem for problem in json.loads(call("problems", "--json").out)}
    assert problems["branin"]["parameters"] == ["x1", "x2"]
    assert problems["plate"]["fidelities"][1] == {"name": "fine", "cost": 10}
