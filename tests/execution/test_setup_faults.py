"""Faults that are not the design's: the run stops with what to do, and the trial is not a failed one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import cloudpickle
import pytest

import fidelium as fd
from fidelium.errors import EvaluationError, SetupError, UnreadableResultError
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.execution.result_rules import CsvCell, JsonPath, Pattern, ResultFile
from fidelium.history import TrialState

DONE = "echo '{\"value\": 1}' > result.json"


def new_study():
    space = fd.SearchSpace({"x": fd.Real(0, 1)})
    return fd.create_study(space, [fd.Fidelity("fine", cost=1)], direction="minimize", strategy="random")


@pytest.fixture
def small_disk(lab):
    """The folder of the runs is a disk of 256 kB."""
    lab.runs.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(lab.runs)], capture_output=True)
    if mounted.returncode:
        pytest.skip("MOUNTING A SMALL DISK IS NOT PERMITTED: run the tests as root")
    yield lab.runs
    subprocess.run(["umount", "--lazy", str(lab.runs)], check=True)


def emptied(folder: Path) -> None:
    for path in folder.glob("*/*"):
        path.unlink()


def test_a_disk_that_a_program_finds_full_is_not_a_failed_trial(lab, small_disk):
    line = "head -c 10000000 /dev/zero > big; echo '{\"value\": 1}' > result.json"
    with pytest.raises(SetupError, match=r"the disk of .*/runs.* is full \(No space left on device\): free some space"):
        lab.shell(line)  # no result.json: the shell exits with an error
    with pytest.raises(SetupError, match="is full"):
        lab.shell(DONE)  # nothing can be written any more, not even query.json
    emptied(small_disk)
    assert lab.shell(DONE).value == 1  # and the same study runs again


def test_a_disk_that_a_log_fills_is_not_a_failed_trial(lab, small_disk, living):
    forever = "touch $PIDS/$$; while true; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"
    with pytest.raises(SetupError, match="is full"):
        lab.shell(forever)
    assert living(1) == []
    emptied(small_disk)
    with pytest.raises(SetupError, match="is full"):
        lab.shell("head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2", limit=100_000)  # at the end


def test_a_disk_without_room_for_a_deck_is_not_a_failed_trial(lab, small_disk):
    (lab.folder / "deck.j2").write_text("{{ 'x' * 1000000 }}")
    with pytest.raises(SetupError, match="is full"):
        lab.shell(DONE, templates={"deck.inp": lab.folder / "deck.j2"})


def test_a_disk_without_a_free_inode_is_not_a_failed_trial(lab):
    lab.runs.mkdir()
    option = "size=4m,nr_inodes=3"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", option, "tmpfs", str(lab.runs)], capture_output=True).returncode:
        pytest.skip("MOUNTING A SMALL DISK IS NOT PERMITTED: run the tests as root")
    try:
        with pytest.raises(SetupError, match="is full"):
            lab.shell(DONE)
    finally:
        subprocess.run(["umount", "--lazy", str(lab.runs)], check=True)


def test_a_disk_that_is_mounted_read_only_is_not_a_failed_trial(lab, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(SetupError, match=r"\(Read-only file system\): make it writable, or set runs: "):
        lab.shell(DONE)


def test_a_design_that_always_fills_the_disk_fails_in_the_end(lab, small_disk):
    with pytest.raises(EvaluationError, match="No space left"):
        lab.shell("head -c 10000000 /dev/zero > big", attempt=4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no-such-solver", "a program cannot be started; install it, or correct the command: exit code 127; stderr"),
        ("touch data; ./data", "a program cannot be started; .*exit code 126"),
        ("echo 'write: No space left on device' >&2; exit 4", "a disk is full: free some space and run again; "),
    ],
)
def test_a_program_that_says_so_is_believed_a_few_times(lab, line, message):
    with pytest.raises(SetupError, match=f"(?s){message}"):
        lab.shell(line)
    assert message.partition(":")[0][:10] in json.loads((lab.trial / "outcome.json").read_text())["failed"]
    with pytest.raises(EvaluationError):  # else a program could keep a study from ever going on
        lab.shell(line, attempt=4)


def test_an_exit_code_alone_is_no_evidence(lab):
    with pytest.raises(EvaluationError, match="exit code 127"):
        lab.shell("echo the mesh is bad >&2; exit 127")


@pytest.mark.parametrize("line", ["{{ n }}", "{{ params.yung }}", "{{ x() }}", "{{ x | no_such_filter }}"])
def test_a_template_that_is_wrong_is_not_a_failed_trial(lab, line):
    (lab.folder / "deck.j2").write_text(line)
    with pytest.raises(SetupError, match=r"template deck\.j2, line 1"):
        lab.shell(DONE, params={"x": 1.0}, templates={"deck.inp": lab.folder / "deck.j2"})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (ResultFile(), "the program wrote no result.json"),
        (JsonPath("o.json", "mas"), "o.json has no mas"),
        (CsvCell("o.csv", "mas"), "o.csv has no column 'mas'"),
        (CsvCell("o.csv", "mass", row=7), "o.csv has no row 7"),
        (Pattern("mas = (.*)"), "nothing in stdout.txt matches"),
    ],
)
def test_a_rule_that_finds_nothing_is_told_from_a_bad_value(lab, rule, message):
    line = "echo '{\"mass\": 1}' > o.json; printf 'mass\\n1\\n' > o.csv; echo mass = 1"
    with pytest.raises(UnreadableResultError, match=message) as caught:
        lab.shell(line, result=rule)
    assert caught.value.folder == str(lab.trial)


def test_bad_content_is_a_failed_trial_at_once(lab):
    with pytest.raises(EvaluationError) as caught:
        lab.shell('echo \'{"value": "abc"}\' > result.json')
    assert not isinstance(caught.value, UnreadableResultError)


@pytest.mark.parametrize("dump", [pickle.dumps, cloudpickle.dumps])
def test_the_errors_survive_pickling(dump):
    error = UnreadableResultError("nothing")
    error.folder = "/runs/00001-fine"
    back = pickle.loads(dump(error))
    assert (type(back), str(back), back.folder) == (UnreadableResultError, "nothing", "/runs/00001-fine")
    assert str(pickle.loads(dump(SetupError("no disk")))) == "no disk"


def test_programs_are_looked_for_before_anything_is_run(lab):
    (lab.folder / "data.txt").write_text("x")
    (lab.folder / "solver.py").write_text("")

    def problems(*argv, **settings):
        return ExternalProgram({"fine": Command(argv, **settings)}, lab.runs, lab.folder).problems()

    assert problems("sh", "-c", "exit") == problems("{python}", str(lab.folder / "solver.py")) == ()
    assert problems("no-such-solver {x}", shell=True) == ()  # the shell's business
    assert problems("{x}/solver") == ()  # depends on the design
    assert problems("{here}/data.txt") == (f"fine: {lab.folder}/data.txt is not executable; chmod +x it",)
    for argv, message in (
        (("no-such-solver",), "fine: no-such-solver is not on the PATH; install it, or give its full path"),
        (("./gone",), f"fine: ./gone is not a file in {lab.folder}; correct the command, or its path"),
        (("/gone/solver",), "fine: /gone/solver does not exist; correct the command, or its path"),
        (("{here}",), f"fine: {lab.folder} is a folder, not a program"),
        (("{python}", "gone.py"), f"fine: gone.py is not a file in {lab.folder}; correct the command, or its path"),
        (("sh", "bin/gone.sh", "{x}"), f"fine: bin/gone.sh is not a file in {lab.folder}; correct the command, or its"),
    ):
        assert [problem.startswith(message) for problem in problems(*argv)] == [True], problems(*argv)
    assert problems("sh", "run.sh", templates={"run.sh": lab.folder / "solver.py"}) == ()
    assert problems("awk", "-f", "gone.awk") == ()  # options may mean anything
    assert problems("sh", "gone.sh", environment={"PATH": "/no/such/folder"}) == (
        "fine: sh is not on the PATH; install it, or give its full path",
        f"fine: gone.sh is not a file in {lab.folder}; correct the command, or its path",
    )


def test_a_local_run_does_not_start_without_its_programs(lab):
    program = ExternalProgram({"fine": Command(("no-such-solver",))}, lab.runs, lab.folder)
    study = new_study()
    with pytest.raises(SetupError, match="no-such-solver is not on the PATH"):
        study.optimize(program, budget=3)
    assert study.trials == ()
    assert os.listdir(lab.folder) == []


def test_a_full_disk_costs_nothing_and_the_study_goes_on(lab, small_disk):
    study = new_study()
    solver = "head -c 150000 /dev/zero > field; echo '{\"value\": 1}' > result.json"
    program = ExternalProgram({"fine": Command((solver,), shell=True)}, lab.runs, lab.folder)
    for done in (1, 2, 3):  # the field of the next run does not fit any more
        with nullcontext() if done == 3 else pytest.raises(SetupError, match="free some space"):
            study.optimize(program, budget=3)
        assert [trial.state for trial in study.trials].count(TrialState.DONE) == done
        for path in small_disk.glob("*/field"):
            path.unlink()
    assert (len(study.trials), study.spent) == (3, 3)


def test_a_machine_without_free_descriptors_is_not_a_failed_trial(lab):
    code = """
import os, resource, sys
from pathlib import Path
from fidelium.errors import SetupError
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
program = ExternalProgram({"fine": Command(("true",))}, Path("runs"), Path("."))
free = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + free, 4096))
try:
    program.run(Trial(0, {}, Fidelity("fine", cost=1)))
except SetupError as error:
    print(error)
"""
    for free in range(1, 8):
        answer = subprocess.run(
            [sys.executable, "-c", code, str(free)], cwd=lab.folder, capture_output=True, text=True, check=False
        )
        assert "Too many open files" in answer.stdout, answer
        assert "use fewer workers or raise" in answer.stdout
