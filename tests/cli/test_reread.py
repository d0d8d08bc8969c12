"""`reread`: the values of trials that ran, by a result rule that was corrected."""

from __future__ import annotations

import json

import pytest

STUDY = """\
name: deck
direction: minimize
budget: 12
strategy: random
initial: {coarse: 2, fine: 2}
parameters:
  x: {type: real, low: 0, high: 1}
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 5}
command: [sh, solve.sh, "{x}", "{here}"]
result: {regex: "RULE"}
"""
SOLVER = 'echo run >> "$2/started"; echo "mass $1 kg = heavy"; if [ -e "$2/broken" ]; then exit 3; fi\n'
WRONG, NOTHING, RIGHT = "= (.*)", "mas = (.*)", "^mass (.*) kg"


@pytest.fixture
def write(tmp_path):
    (tmp_path / "solve.sh").write_text(SOLVER)

    def write(rule, extra=""):
        (tmp_path / "study.yaml").write_text(STUDY.replace("RULE", rule) + extra)
        return tmp_path / "study.yaml"

    return write


def trials_of(call, path, tmp_path):
    assert call("export", path, tmp_path / "trials.json", "--overwrite").code == 0
    content = json.loads((tmp_path / "trials.json").read_text())
    return content if isinstance(content, list) else content["trials"]


def test_values_are_taken_from_the_folders_and_nothing_is_run(call, write, tmp_path):
    call("run", write(WRONG), "--quiet")
    path = write(RIGHT)
    started = (tmp_path / "started").read_text()
    assert [trial["state"] for trial in trials_of(call, path, tmp_path)] == ["failed"] * 4
    dry = call("reread", path, "--dry-run")
    assert dry.code == 0, dry
    assert "4 values would be taken; 0 trials without one" in dry.out
    assert {trial["state"] for trial in trials_of(call, path, tmp_path)} == {"failed"}
    one = call("reread", path, "3")
    assert "trial 3 at fine: " in one.out
    assert "1 value taken; 0 trials without one" in one.out
    assert "3 values taken" in call("reread", path).out
    trials = trials_of(call, path, tmp_path)
    assert [(trial["state"], trial["value"]) for trial in trials] == [
        ("done", trial["params"]["x"]) for trial in trials
    ]
    assert "0 values taken; 0 trials" in call("reread", path).out
    assert (tmp_path / "started").read_text() == started
    assert len(started.splitlines()) == 4
    changes = json.loads(call("changes", path, "--json").out)
    assert [change["trial"] for change in changes] == [3, 0, 1, 2]
    assert all("reread from" in change["reason"] for change in changes)


def test_a_trial_whose_rule_found_nothing_is_reread_whatever_its_state(call, write, tmp_path):
    call("run", write(NOTHING), "--quiet")
    path = write(RIGHT)
    ran = len((tmp_path / "started").read_text().splitlines())
    content = json.loads(call("reread", path, "--json").out)
    assert ran >= 1
    assert [trial["problem"] for trial in content["trials"]] == [None] * ran
    assert sum(trial["state"] == "done" for trial in trials_of(call, path, tmp_path)) == ran


def test_a_run_that_failed_is_not_reread(call, write, tmp_path):
    (tmp_path / "broken").touch()
    path = write(RIGHT)
    call("run", path, "--quiet")
    content = json.loads(call("reread", path, "--json").out)
    assert {trial["value"] for trial in content["trials"]} == {None}
    assert all("did not exit with 0, but: 'exit code 3'" in trial["problem"] for trial in content["trials"])
    assert {trial["state"] for trial in trials_of(call, path, tmp_path)} == {"failed"}


def test_a_folder_must_be_that_of_the_trial(call, write, tmp_path):
    """Another study in the same runs folder, a forged outcome, a missing folder, a rule that still finds nothing."""
    call("run", write(WRONG), "--quiet")
    path = write(RIGHT)
    folders = sorted((tmp_path / "runs").iterdir())
    query = json.loads((folders[0] / "query.json").read_text())
    (folders[0] / "query.json").write_text(json.dumps({**query, "params": {"x": 0.123}}))
    (folders[1] / "outcome.json").write_text('{"exit_code": false, "stopped": null}')
    (folders[2] / "outcome.json").write_text("[" * 100_000)
    (folders[3] / "stdout.txt").write_text("nothing")
    problems = [trial["problem"] for trial in json.loads(call("reread", path, "--json").out)["trials"]]
    for problem, text in zip(
        problems,
        ("no folder of attempt 1", "did not exit with 0", "did not exit with 0, but: 'unknown'", "nothing in stdout"),
        strict=True,
    ):
        assert text in problem


def test_the_newest_copy_of_a_folder_counts(call, write, tmp_path):
    call("run", write(WRONG), "--quiet")
    path = write(RIGHT)
    folder = sorted((tmp_path / "runs").iterdir())[0]
    for copy, value in ((1, 41), (10, 42)):
        (tmp_path / f"runs/{folder.name}.{copy}").mkdir()
        for name in ("query.json", "outcome.json"):
            (tmp_path / f"runs/{folder.name}.{copy}/{name}").write_text((folder / name).read_text())
        (tmp_path / f"runs/{folder.name}.{copy}/stdout.txt").write_text(f"mass {value} kg")
    (tmp_path / f"runs/{folder.name}.note").mkdir()
    assert "trial 0 at coarse: 42.0 from " in call("reread", path, "0").out


def test_what_cannot_be_reread_is_said(call, write, tmp_path):
    path = write(RIGHT)
    call("run", path, "--quiet")
    assert "trial 0 at coarse: no value: it is done" in call("reread", path, "0").out
    answer = call("reread", path, "99")
    assert (answer.code, answer.err) == (2, "error: this study has no trial 99; it has 4, numbered from 0\n")
    (tmp_path / "post.py").write_text("def mass(folder): return 1.0")
    post = path.read_text().replace('{regex: "^mass (.*) kg"}', "{python: 'post.py:mass'}")
    path.write_text(post)
    assert "0 values taken; 0 trials" in call("reread", path).out
    assert call("reread", "sqlite:///x.db").code == 2
