"""`retry`, `exclude`, `restore` and `changes`."""

from __future__ import annotations

import json


def failed_study(call, study_file, tmp_path):
    """A study whose two trials at fine have failed."""
    path = study_file(12)
    (tmp_path / "fail-fine").touch()
    call("run", path, "--quiet")
    (tmp_path / "fail-fine").unlink()
    return path


def states(call, path) -> dict[str, int]:
    return json.loads(call("status", path, "--json").out)["states"]


def test_failed_trials_are_queued_and_run_again_at_no_cost(call, study_file, tmp_path):
    path = failed_study(call, study_file, tmp_path)
    before = json.loads(call("status", path, "--json").out)
    assert (before["states"]["failed"], before["spent"], before["best"]) == (2, 12, None)
    answer = call("retry", path, "--failed", "--reason", "the mesher is fixed")
    assert answer.code == 0
    assert answer.out == f"2 trials (2, 3) queued again; run with: fidelium run {path}\n"
    assert states(call, path)["queued"] == 2
    assert call("retry", path, "--failed").out == "no trial queued again\n"
    assert call("run", path, "--quiet").code == 0
    after = json.loads(call("status", path, "--json").out)
    assert (after["states"]["done"], after["states"]["failed"], after["spent"]) == (4, 0, 12)
    assert after["best"]["attempt"] == 2


def test_single_trials_are_retried_excluded_and_restored(call, study_file, tmp_path):
    path, url = failed_study(call, study_file, tmp_path), f"sqlite:///{tmp_path}/parabola.db"
    assert json.loads(call("retry", url, "3", "--json").out) == {"queued": [3]}
    assert call("exclude", path, "0", "1", "0", "--reason", "wrong mesh").out == "2 trials (0, 1) excluded\n"
    assert "excluded: 0, 1\n" in call("status", path).out
    assert json.loads(call("status", path, "--json").out)["excluded"] == [0, 1]
    assert json.loads(call("restore", path, "1", "--json").out) == {"restored": [1]}
    assert json.loads(call("status", path, "--json").out)["excluded"] == [0]
    assert "excluded" not in call("best", path).out
    assert [(c["action"], c["trial"]) for c in json.loads(call("changes", path, "--json").out)] == [
        ("retry", 3),
        ("exclude", 0),
        ("exclude", 1),
        ("restore", 1),
    ]
    assert all(part in call("changes", url).out for part in ("4 changes", "wrong mesh", "before: failed", "restore"))


def test_an_excluded_trial_is_not_the_best(call, study_file):
    path = study_file(12)
    call("run", path, "--quiet")
    first = json.loads(call("best", path, "--json").out)["number"]
    call("exclude", path, first)
    second = json.loads(call("best", path, "--json").out)["number"]
    assert second != first
    call("restore", path, first)
    assert json.loads(call("best", path, "--json").out)["number"] == first


def test_if_one_cannot_be_changed_none_is(call, study_file, tmp_path):
    path = failed_study(call, study_file, tmp_path)
    for arguments, message in (
        (("retry", path, "3", "0"), "cannot retry trial 0: it is done"),
        (("retry", path, "3", "99"), "this study has no trial 99; it has 4"),
        (("exclude", path, "3", "99"), "this study has no trial 99; it has 4"),
        (("restore", path, "0"), "cannot restore trial 0: it is not excluded"),
        (("retry", path), "or --failed for all"),
        (("retry", path, "3", "--failed"), "or --failed for all"),
        (("exclude", path), "pass the numbers of the trials to exclude"),
        (("restore", path), "pass the numbers of the trials to restore"),
        (("exclude", path, "x"), "valid integer"),
        (("exclude", path, "99999999999999999999999"), "has no trial 99999999999999999999999"),
    ):
        answer = call(*arguments)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert message in answer.err
    assert json.loads(call("changes", path, "--json").out) == []
    assert call("changes", path).code == 0


def test_exclude_prints_what_the_model_expects(call, study_file):
    path = study_file(22)
    call("run", path, "--quiet")
    answer = call("exclude", path, "0", "1", "--explain", "--dry-run")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "no trial excluded")
    assert "trial 1: observed 0." in answer.out
    assert "the model without it expects" in answer.out
    assert call("changes", path, "--json").out.strip() == "[]"
    found = json.loads(call("exclude", path, "1", "--explain", "--json").out)
    assert found["excluded"] == [1]
    assert found["expectations"][0]["std"] > 0
    assert call("exclude", path, "0", "--dry-run").code == call("exclude", path, "--explain").code == 2
