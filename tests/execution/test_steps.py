"""Several programs in one folder, one after another, and standard input from a file."""

from __future__ import annotations

import json
import threading

import pytest

from fidelium.errors import EvaluationError, SettingError, SetupError
from fidelium.execution.invocation import Step
from fidelium.execution.result_rules import Pattern

AWK = ("awk", '{{ sum += $1 }} END {{ print "v=" sum }}')


@pytest.fixture
def deck(lab):
    (lab.folder / "deck.j2").write_text("{{ x }}\n{{ 2 * x }}\n")
    return {"deck.inp": lab.folder / "deck.j2"}


def test_a_program_reads_its_deck_from_standard_input(lab, deck):
    measured = lab.run(AWK, {"x": 1.25}, stdin="deck.inp", templates=deck, result=Pattern("v=(.*)"))
    assert measured.value == 3.75


def test_a_shell_reads_its_deck_from_standard_input(lab, deck):
    line = "read a; read b; echo v=$b"
    assert lab.shell(line, params={"x": 2}, stdin="deck.inp", templates=deck, result=Pattern("v=(.*)")).value == 4


def test_mesh_solve_and_post_run_in_one_folder(lab, deck):
    measured = lab.run(
        ("sh", "-c", "echo meshing; cp deck.inp mesh.msh"),
        {"x": 3},
        templates=deck,
        then=(
            Step(("sh", "-c", "cat > solution.txt; echo solving; echo warning >&2"), "mesh.msh"),
            Step(("{python}", "-S", "-c", "print('v=%s' % open('solution.txt').read().split()[1]) # {x}")),
        ),
        result=Pattern("v=(.*)"),
    )
    assert measured.value == 6
    assert (lab.trial / "stdout.txt").read_text() == "meshing\nsolving\nv=6\n"
    assert (lab.trial / "stderr.txt").read_text() == "warning\n"
    assert json.loads((lab.trial / "outcome.json").read_text())["exit_code"] == 0


def test_the_step_that_fails_is_named_and_is_the_last_one(lab):
    with pytest.raises(EvaluationError, match=r"step 2 of 3 \(sh\): exit code 3; stderr ends with: no convergence"):
        lab.run(
            ("true",), then=(Step(("sh", "-c", "echo no convergence >&2; exit 3")), Step(("sh", "-c", "touch third")))
        )
    assert not (lab.trial / "third").exists()
    assert json.loads((lab.trial / "outcome.json").read_text())["exit_code"] == 3


def test_the_timeout_is_for_all_steps_together(lab):
    slow = Step(("sleep", "0.6"))
    with pytest.raises(EvaluationError, match=r"step \d of 30 \(sleep\): timed out after 2.5 s"):
        lab.run(("sleep", "0.6"), then=(slow,) * 29, timeout=2.5)


def test_a_cancelled_run_starts_no_further_step(lab):
    cancelled = threading.Event()
    threading.Timer(1, cancelled.set).start()
    with pytest.raises(EvaluationError, match="cancelled"):
        lab.run(("sleep", "100"), then=(Step(("touch", "{here}/second")),), cancelled=cancelled)
    assert not (lab.folder / "second").exists()


def test_a_later_program_that_is_missing(lab):
    with pytest.raises(SetupError, match="cannot start 'no-such-solver': not found"):
        lab.run(("true",), then=(Step(("no-such-solver",)),))
    with pytest.raises(EvaluationError, match=r"cannot start './a.out': not found"):  # the first step should write it
        lab.run(("true",), then=(Step(("./a.out",)),))
    with pytest.raises(EvaluationError, match=r"cannot read mesh\.msh, the standard input of step 2: No such file"):
        lab.run(("true",), then=(Step(("cat",), "mesh.msh"),))
    with pytest.raises(EvaluationError, match=r"cannot read pipe, the standard input of step 2: not a regular file"):
        lab.run(("mkfifo", "pipe"), then=(Step(("cat",), "pipe"),))
    with pytest.raises(EvaluationError, match="the trial's folder is gone before step 2"):
        lab.run(("sh", "-c", 'rm -r "$PWD"'), then=(Step(("true",)),))


def test_every_step_is_checked_at_construction(lab):
    with pytest.raises(SettingError, match="a command needs a program"):
        lab.run(("true",), then=(Step(()),))
    with pytest.raises(SettingError, match="one line of text"):
        lab.run(("true",), shell=True, then=(Step(("true",)),))
    with pytest.raises(SettingError, match="inside the trial's folder"):
        lab.run(("true",), stdin="/etc/passwd")
