"""`check`: what can be wrong is found without running, and `--trial` runs one design and stores nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

STUDY = """\
name: deck
direction: minimize
budget: 60
strategy: random
initial: {coarse: 2, fine: 2}
parameters:
  x: {type: real, low: 0.5, high: 1.5}
  kind: {type: categorical, choices: [steel, foam]}
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 5}
templates: {deck.inp: deck.j2}
stdin: deck.inp
command: [sh, solve.sh]
result: {regex: "v=(.*)"}
"""
DECK = '{% if fidelity == "coarse" %}{% set n = 3 %}{% else %}{% set n = 8 %}{% endif %}{{ n }} {{ x }} {{ kind }}\n'
SOLVER = 'read n x kind; echo solving with $n cells; echo a warning >&2; echo "v=$x"\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "deck.j2").write_text(DECK)
    (tmp_path / "solve.sh").write_text(SOLVER)

    def write(**changes):
        text = STUDY
        for old, new in changes.values():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "study.yaml").write_text(text)
        return tmp_path / "study.yaml"

    return write


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_sound_study_is_all_right_and_nothing_is_made(call, write, tmp_path):
    path = write()
    before = files_of(tmp_path)
    answer = call("check", path)
    assert answer.code == 0, answer
    assert [line.split()[:2] for line in answer.out.splitlines()] == [
        ["ok", about]
        for about in ("file", "program", "template", "result", "runs", "storage", "budget", "workers", "strategy")
    ]
    assert "the initial design costs 12 of 60" in answer.out
    assert files_of(tmp_path) == before


def test_a_trial_shows_the_deck_the_output_and_the_value_and_stores_nothing(call, write, tmp_path):
    path = write()
    before = files_of(tmp_path)
    answer = call("check", path, "--trial")
    assert answer.code == 0, answer
    for text in (
        "3 1.0 steel",
        "8 1.0 steel",
        "solving with 8 cells",
        "a warning",
        "coarse: value 1.0",
        "fine: value 1.0",
    ):
        assert text in answer.out
    assert "coarse: running x = 1, kind = steel" in answer.err
    assert files_of(tmp_path) == before


def test_a_trial_of_a_chosen_design_at_one_fidelity(call, write, tmp_path):
    answer = call("check", write(), "--trial", "--json", "--fidelity", "fine", "--at", "x=1.25", "--keep")
    assert answer.code == 0
    content = json.loads(answer.out)
    (trial,) = content["trials"]
    assert content["ok"]
    assert (trial["fidelity"], trial["params"], trial["value"]) == ("fine", {"x": 1.25, "kind": "steel"}, 1.25)
    assert trial["decks"] == {"deck.inp": "8 1.25 steel\n"}
    assert (Path(trial["folder"]) / "query.json").exists()
    assert Path(trial["folder"]).is_relative_to(tmp_path / "tmp")
    assert not (tmp_path / "runs").exists()


def test_a_trial_that_fails_keeps_its_folder(call, write, tmp_path):
    (tmp_path / "solve.sh").write_text("echo no mesh >&2; exit 3")
    answer = call("check", write(), "--trial")
    assert answer.code == 1
    assert "coarse: failed in 0 s: exit code 3; stderr ends with: no mesh" in answer.out
    folders = [line.removeprefix("folder: ") for line in answer.out.splitlines() if line.startswith("folder: ")]
    assert len(folders) == 2
    assert all((Path(folder) / "stderr.txt").read_text() == "no mesh\n" for folder in folders)
    answer = call("check", write(), "--trial", "--json")
    assert answer.code == 1
    assert [trial["failed"][:11] for trial in json.loads(answer.out)["trials"]] == ["exit code 3"] * 2


@pytest.mark.parametrize(
    ("changes", "about", "text"),
    [
        ({"a": ("[sh, solve.sh]", "[no-such-solver]")}, "program", "coarse, fine: no-such-solver is not on the PATH"),
        ({"a": ("solve.sh", "solver.sh")}, "program", "solver.sh is not a file in"),
        ({"a": ("deck.j2", "partial.j2")}, "template", "fine: template partial.j2, line 1: 'n' is undefined"),
        ({"a": ("name: deck", "name: deck\nruns: deck.j2")}, "runs", "is not a folder; move it"),
        ({"a": ("name: deck", "name: deck\nstorage: sqlite:///no/such/deck.db")}, "storage", "no/such"),
        ({"a": ("budget: 60", "budget: 4")}, "budget", "4 does not pay for one run at fine"),
        ({"a": ("budget: 60", "budgt: 60")}, "file", "unknown key; did you mean budget?"),
        ({"a": ("v=(.*)", "v=.*")}, "file", "needs a group"),
    ],
)
def test_what_is_wrong_is_listed(call, write, tmp_path, changes, about, text):
    (tmp_path / "partial.j2").write_text("{% if fidelity == 'coarse' %}{% set n = 3 %}{% endif %}{{ n }}")
    answer = call("check", write(**changes), "--trial")
    assert answer.code == 2
    problems = [line for line in answer.out.splitlines() if line.startswith("problem")]
    assert problems, answer
    assert all(line.split()[1] == about for line in problems)
    assert any(text in line for line in problems), problems
    assert "value" not in answer.out  # nothing was run
    listed = json.loads(call("check", tmp_path / "study.yaml", "--json").out)
    assert not listed["ok"]
    assert any(text in one["text"] and one["level"] == "problem" for one in listed["findings"])


@pytest.mark.parametrize(
    ("changes", "about", "text"),
    [
        ({"a": ("name: deck", "name: deck\nworkers: 5000")}, "workers", "5000 workers on"),
        ({"a": ("budget: 60", "budget: 12")}, "budget", "the initial design costs 12 of 12: nothing is left to choose"),
        ({"a": ("deck.j2", "root.j2")}, "template", "template root.j2, line 1: math domain error; the design was"),
    ],
)
def test_what_is_doubtful_is_listed_too(call, write, tmp_path, changes, about, text):
    (tmp_path / "root.j2").write_text("{{ sqrt(x - 1) }}")
    answer = call("check", write(**changes))
    assert answer.code == 0
    assert any(line.split()[:2] == ["warning", about] and text in line for line in answer.out.splitlines()), answer.out


def test_a_full_disk_is_a_problem(call, write, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(runs)], capture_output=True).returncode:
        pytest.skip("MOUNTING A SMALL DISK IS NOT PERMITTED: run the tests as root")
    try:
        answer = call("check", write())
    finally:
        subprocess.run(["umount", str(runs)], check=True)
    assert answer.code == 2
    assert "free some space" in answer.out


def test_a_study_that_exists_must_be_the_same_problem(call, write):
    path = write()
    assert call("run", path, "--quiet", "--budget", "12").code == 0
    assert "(4 trials so far)" in call("check", path).out
    answer = call("check", write(a=("  kind:", "  sort:"), b=("budget: 60", "budget: 60")))
    assert answer.code == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--fidelity", "gone"), "gone"),
        (("--at", "y=1"), "unknown parameter 'y'"),
        (("--at", "x=7"), "expected a number in [0.5, 1.5], got 7"),
        (("--at", "x"), "a parameter must look like name=value"),
    ],
)
def test_a_design_that_is_not_valid_is_an_error_in_one_line(call, write, arguments, text):
    answer = call("check", write(), "--trial", *arguments)
    assert answer.code == 2
    assert text in answer.err
    assert len(answer.err.splitlines()) == 1


def test_checking_needs_a_file(call, tmp_path):
    assert call("check", "sqlite:///x.db").code == 2
    answer = call("check", tmp_path / "gone.yaml")
    assert answer.code == 2
    assert "cannot read" in answer.out
    assert os.listdir(tmp_path) == []


def test_parameter_constraints_hold_for_what_is_tried(call, write):
    bound = "  kind: {type: categorical, choices: [steel, foam]}\nparameter_constraints: [x >= 1.2, kind != 'steel']\n"
    path = write(bound=("  kind: {type: categorical, choices: [steel, foam]}\n", bound))
    answer = call("check", path, "--trial", "--json")
    assert answer.code == 0, answer
    found = json.loads(answer.out)
    assert [f["text"] for f in found["findings"] if f["about"] == "space"] == [
        "2 parameter constraints: about 14 % of random designs meet them"
    ]
    for trial in found["trials"]:
        assert trial["params"]["x"] >= 1.2
        assert trial["params"]["kind"] == "foam"
    answer = call("check", path, "--trial", "--at", "x=1")
    assert answer.code == 2
    assert "violates 'x >= 1.2': 1 >= 1.2" in answer.err
