"""`run --from`: a new study starts with the data of another one that fit, and nothing is taken over twice."""

from __future__ import annotations

import os
import signal
import time

import pytest

from fidelium import load_study
from fidelium.storage import open_storage
from fidelium.study import start_study

NEW = {
    "name: parabola": "name: second",
    "  count: {type: integer, low: 1, high: 3}\n": "  count: {type: integer, low: 1, high: 3}\n"
    "  angle: {type: real, low: 0, high: 90}\n",
}


@pytest.fixture
def old(call, study_file, tmp_path):
    """A study that was run; its file is old.yaml."""
    path = study_file(12).rename(tmp_path / "old.yaml")
    assert call("run", path).code == 0
    return path


def test_the_data_that_fit_are_taken_over_once(call, study_file, tmp_path, old) -> None:
    before = load_study(f"sqlite:///{tmp_path}/parabola.db").trials
    new = study_file(7, **NEW)
    answer = call("run", new, "--from", old, "--fill", "angle=45")
    assert answer.code == 0
    first, second, *_ = answer.err.splitlines()
    assert first == f"{len(before)} of {len(before)} trials of study 'parabola' taken over"
    assert second == f"a new study 'second' with random, 7 to spend, {len(before)} observations given"
    study = load_study(f"sqlite:///{tmp_path}/second.db")
    given = [trial for trial in study.trials if trial.given]
    assert [(trial.params, trial.fidelity.name, trial.value) for trial in given] == [
        (
            {"x": t.params["x"], "count": t.params["count"], "angle": 45.0, "kind": t.params["kind"]},
            t.fidelity.name,
            t.value,
        )
        for t in before
    ]
    assert study.spent == 7
    again = call(
        "run", new, "--from", f"sqlite:///{tmp_path}/parabola.db", "--from-name", "parabola", "--fill", "angle=45"
    )
    assert again.err.startswith(
        f"0 of {len(before)} trials of study 'parabola' taken over, {len(before)} were taken over before"
    )
    assert load_study(f"sqlite:///{tmp_path}/second.db").trials == study.trials
    assert load_study(f"sqlite:///{tmp_path}/parabola.db").trials == before


def test_what_does_not_fit_is_counted_with_the_reason(call, study_file, old) -> None:
    narrow = {"name: parabola": "name: second", "low: 0, high: 1}": "low: 0.5, high: 1}", "name: coarse": "name: rough"}
    answer = call("run", study_file(7, **(narrow | {"coarse: 2": "rough: 2"})), "--from", old)
    assert answer.code == 0
    assert "left out: " in answer.err
    assert "at fidelity 'coarse', which the new study has not" in answer.err
    none = call("run", study_file(7, **(NEW | {"name: parabola": "name: third"})), "--from", old)
    assert "0 of " in none.err
    assert "without the parameter 'angle' (--fill angle=VALUE says which value they had)" in none.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "/nope.yaml"], "cannot read /nope.yaml"),
        (["--from", "NONE"], "there is no study"),
        (["--from", "OLD", "--fill", "angle"], "--fill must look like name=value, each name once, got 'angle'"),
        (["--from", "OLD", "--fill", "angle=91"], "parameter 'angle': expected a number in [0, 90], got 91.0"),
        (["--from", "OLD", "--fill", "nope=1"], "neither study has a parameter 'nope'"),
        (["--from", "OLD", "--fill", "x=1"], "both studies have the parameter 'x'"),
        (["--fill", "angle=1"], "--from-name and --fill need --from STUDY"),
        (["--from-name", "parabola"], "--from-name and --fill need --from STUDY"),
    ],
)
def test_a_mistake_is_one_line_and_creates_nothing(call, study_file, tmp_path, old, options, message) -> None:
    places = {"OLD": old, "NONE": f"sqlite:///{tmp_path}/parabola.db"}
    if "NONE" in options:
        options = [*options, "--from-name", "other"]
    answer = call("run", study_file(7, **NEW), *(places.get(each, each) for each in options))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert not (tmp_path / "second.db").exists()


def test_a_study_is_not_taken_over_into_itself(call, study_file, old) -> None:
    answer = call("run", study_file(12), "--from", old)
    assert answer.code == 2
    assert "--from names the study itself, 'parabola'; give the new one another name" in answer.err


def test_killed_while_taking_over_the_same_command_does_the_rest(call, study_file, spawn, tmp_path) -> None:
    from fidelium.config.load import load_study_file

    old = study_file(12).rename(tmp_path / "old.yaml")
    storage = open_storage(f"sqlite:///{tmp_path}/parabola.db")
    study = start_study(load_study_file(old).definition, storage)
    for number in range(400):
        params = {"x": number // 2 / 200, "count": 1, "kind": "steel"}  # each of them twice
        study.add_observation(params, "coarse", params["x"])
    study.close()
    new, url = study_file(7, **{"name: parabola": "name: second"}), f"sqlite:///{tmp_path}/second.db"
    killed_at = []
    for _ in range(4):
        process = spawn("run", new, "--from", old, "--budget", "1")
        known = killed_at[-1] if killed_at else 0
        while process.poll() is None and _count(url) < known + 40:
            time.sleep(0.005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        killed_at.append(_count(url))
    assert 0 < killed_at[0] < 400  # it was killed in the middle
    assert call("run", new, "--from", old).code == 0
    given = [trial.params["x"] for trial in load_study(url).trials if trial.given]
    assert sorted(given) == [number // 2 / 200 for number in range(400)]


def _count(url: str) -> int:
    if not os.path.exists(url.removeprefix("sqlite:///")):
        return 0
    storage = open_storage(url)
    try:
        return len(storage.open("second").trials()) if "second" in storage.names() else 0
    finally:
        storage.close()
