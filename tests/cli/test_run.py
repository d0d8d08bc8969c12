"""`run` and `worker` with a real external program: to the end, through Ctrl-C, and through kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fidelium import load_study
from fidelium.history import TrialState
from fidelium.storage import open_storage


def trials(folder: Path):
    return open_storage(f"sqlite:///{folder}/parabola.db").open("parabola").trials()


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def started(folder: Path) -> int:
    file = folder / "started"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_run_spends_the_budget_and_says_what_it_found(call, study_file, tmp_path) -> None:
    path = study_file(12)
    answer = call("run", path)
    assert answer.code == 0
    done = trials(tmp_path)
    assert sum(trial.cost for trial in done) == 12
    assert all(trial.state is TrialState.DONE for trial in done)
    best = min((trial for trial in done if trial.fidelity.name == "fine"), key=lambda trial: trial.value or 0.0)
    assert best.value == pytest.approx((best.params["x"] - 0.3) ** 2)
    assert f"best observed: {best.value:.6g} in trial {best.number}" in answer.out
    assert "12 spent" in answer.out
    assert ["fine", "5", "2", "10"] in [line.split() for line in answer.out.splitlines()]
    assert f"trials:        sqlite:///{tmp_path}/parabola.db" in answer.out
    assert f"their folders: {tmp_path}/runs" in answer.out
    assert answer.err.startswith("a new study 'parabola' with random, 12 to spend\n")
    assert sum("trial" in line and "spent" in line for line in answer.err.splitlines()) == len(done)


def test_a_larger_budget_goes_on_and_a_spent_one_says_so(call, study_file, tmp_path) -> None:
    path = study_file(2)
    assert call("run", path, "--quiet") == (0, "", "")
    assert len(trials(tmp_path)) == 2
    answer = call("run", path, "--budget", "13", "--workers", "2")
    assert answer.code == 0
    assert answer.err.startswith("resuming with 2 trials, 2 of 13 spent\n")
    assert sum(trial.cost for trial in trials(tmp_path)) == 13
    again = call("run", path, "--quiet", "--budget", "13")
    assert again.code == 0
    assert "13 of the budget of 13 is spent" in again.err


def test_a_program_that_fails_is_the_studys_end_with_its_reason(call, study_file, tmp_path) -> None:
    path = study_file(40, **{"strategy: random": "strategy: random\nfailures: {then: stop}"})
    (tmp_path / "fail-coarse").touch()
    answer = call("run", path, "--quiet")
    assert answer.code == 1  # not 2: the command was right
    assert answer.out == ""
    assert "failed 1 times in a row" in answer.err
    assert "exit code 3" in answer.err
    assert "the mesh is bad" in answer.err
    status = json.loads(call("status", path, "--json").out)
    assert status["states"]["failed"] == 1
    assert status["failures"][0]["reason"].startswith("exit code 3")
    assert status["spent"] == 1  # a failure costs


def test_a_run_without_a_single_value_fails_with_the_reason_and_what_to_do(call, study_file, tmp_path) -> None:
    path = study_file(7)
    for name in ("coarse", "fine"):
        (tmp_path / f"fail-{name}").touch()
    answer = call("run", path)
    assert (answer.code, answer.out) == (1, "")  # no table, no advice to plot
    reason = "exit code 3; stderr ends with: the mesh is bad"
    assert answer.err.count(f": failed: {reason};") == len(trials(tmp_path)) == 3  # in the line of each
    assert answer.err.splitlines()[-3:] == [
        f"error: no value: 3 trials failed, with: {reason}",
        f"see all reasons with: fidelium status {path} --failures",
        f"after a fix, try one design with: fidelium check {path} --trial; "
        f"queue the failed trials again with: fidelium retry {path} --failed",
    ]
    assert call("worker", path, "--quiet").code == 1
    for name in ("coarse", "fine"):
        (tmp_path / f"fail-{name}").unlink()
    assert call("retry", path, "--failed").code == 0
    assert call("run", path).code == 0
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.DONE] * 3


def test_a_run_with_some_failures_and_excluded_trials_says_what_to_do(call, study_file, tmp_path) -> None:
    path = study_file(12)
    (tmp_path / "fail-coarse").touch()
    assert call("run", path, "--budget", "2", "--quiet").code == 1
    (tmp_path / "fail-coarse").unlink()
    assert call("run", path, "--budget", "7", "--quiet").code == 0
    call("exclude", path, "2")
    answer = call("run", path)
    assert answer.code == 0
    assert "failures:      2, with: exit code 3; stderr ends with: the mesh is bad" in answer.out
    assert f"queue them again with: fidelium retry {path} --failed" in answer.out
    assert f"excluded:      1 trial, list them with: fidelium changes {path}" in answer.out


def test_a_wrong_set_up_is_one_line_and_what_to_do_and_charges_nothing(call, study_file, tmp_path) -> None:
    path = study_file(12)
    (tmp_path / "runs").touch()  # in the place of the folder: no trial can have one
    answer = call("run", path, "--workers", "2")
    assert (answer.code, answer.out) == (2, "")
    lines = answer.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1
    assert "(Not a directory): repair that and run again" in lines[-2]
    assert lines[-1] == (
        f"after a fix, try one design with: fidelium check {path} --trial; resume with: fidelium run {path}"
    )
    states = [(trial.state, (trial.reason or "")[:12]) for trial in trials(tmp_path)]
    assert states == [(TrialState.QUEUED, "set-up error")] * len(states)
    (tmp_path / "runs").unlink()
    assert call("run", path, "--quiet") == (0, "", "")
    assert sum(trial.cost for trial in trials(tmp_path)) == 12
    assert {trial.state for trial in trials(tmp_path)} == {TrialState.DONE}


def test_a_result_that_is_not_there_in_the_first_run_stops_and_then_counts_as_failed(
    call, study_file, tmp_path
) -> None:
    path = study_file(12, **{"command:": "result: {file: out.txt, regex: 'v = (.*)'}\ncommand:"})
    answer = call("run", path, "--quiet")
    assert answer.code == 2
    assert "out.txt" in answer.err
    assert f"{tmp_path}/runs/00000-coarse" in answer.err
    assert "fidelium reread" in answer.err
    assert [(trial.state, trial.attempt) for trial in trials(tmp_path)] == [(TrialState.QUEUED, 1)]
    assert call("run", path, "--quiet").code == 2  # the second trial's first attempt, after the first one's second
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.FAILED, TrialState.QUEUED]


def test_a_worker_started_while_the_whole_budget_is_in_flight_stays_and_takes_over(spawn, study_file, tmp_path) -> None:
    path = study_file(7)
    (tmp_path / "wait-fine").touch()
    first = spawn("run", path)
    wait_for(lambda: started(tmp_path) == 3)  # the last one that the budget pays for
    second = spawn("worker", path)
    assert second.stderr is not None
    for line in second.stderr:
        if "nothing to start: waiting for 1 run of other workers, to take over if one dies" in line:
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    (tmp_path / "wait-fine").unlink()
    second.communicate(timeout=120)
    assert second.returncode == 0
    assert [(trial.state, trial.attempt) for trial in trials(tmp_path)] == [
        (TrialState.DONE, 1),
        (TrialState.DONE, 1),
        (TrialState.DONE, 2),
    ]


def test_ctrl_c_once_finishes_what_runs(spawn, study_file, tmp_path) -> None:
    path = study_file(12)
    (tmp_path / "wait-fine").touch()
    process = spawn("run", path)
    wait_for(lambda: started(tmp_path) == 3)  # two coarse ones are done, the first fine one waits
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    (tmp_path / "wait-fine").unlink()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "press Ctrl-C again to stop immediately" in err
    assert err.endswith(f"stopped; 3 trials, 7 of 12 spent are saved; resume with: fidelium run {path}\n")
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.DONE] * 3


def test_ctrl_c_twice_stops_at_once_and_the_trial_is_run_again(spawn, call, study_file, tmp_path) -> None:
    path = study_file(12)
    (tmp_path / "wait-fine").touch()
    process = spawn("run", path, "--workers", "2")
    wait_for(lambda: started(tmp_path) == 4)  # both fine ones wait
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1].endswith(f"resume with: fidelium run {path}")
    states = [trial.state for trial in trials(tmp_path)]
    assert states == [TrialState.DONE] * 2 + [TrialState.QUEUED] * 2
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"simulate.sh {tmp_path}" not in processes  # the programs have ended, too
    (tmp_path / "wait-fine").unlink()
    answer = call("run", path)
    assert answer.code == 0
    assert answer.err.startswith("resuming with 4 trials, 2 of 12 spent\n")
    assert [trial.attempt for trial in trials(tmp_path)] == [1, 1, 2, 2]
    assert all(trial.state is TrialState.DONE for trial in trials(tmp_path))


def test_kill_9_loses_nothing_and_the_run_goes_on_as_if_undisturbed(spawn, call, study_file, tmp_path) -> None:
    path = study_file(20)
    (tmp_path / "wait-fine").touch()
    process = spawn("run", path)
    wait_for(lambda: started(tmp_path) == 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = trials(tmp_path)
    assert [trial.state for trial in before] == [TrialState.DONE] * 2 + [TrialState.RUNNING]
    (tmp_path / "wait-fine").unlink()
    answer = call("run", path)
    assert answer.code == 0
    assert "resuming with 3 trials, 7 of 20 spent" in answer.err
    assert "trial 2 is queued: its worker" in answer.err
    killed = trials(tmp_path)
    assert killed[:2] == before[:2]
    (tmp_path / "parabola.db").unlink()
    assert call("run", path, "--quiet").code == 0
    undisturbed = trials(tmp_path)
    assert [(t.params, t.fidelity, t.value) for t in killed] == [(t.params, t.fidelity, t.value) for t in undisturbed]


def test_a_worker_joins_a_study_and_its_budget(spawn, call, study_file, tmp_path) -> None:
    path = study_file(30)
    refused = call("worker", path)
    assert refused.code == 2
    assert "has not been started; start it with: fidelium run" in refused.err
    (tmp_path / "wait-fine").touch()
    first = spawn("run", path, "--quiet")
    wait_for(lambda: started(tmp_path) == 3)
    second = spawn("worker", path)
    wait_for(lambda: started(tmp_path) == 4)  # the other fine one: two programs run at once
    (tmp_path / "wait-fine").unlink()
    _, err = second.communicate(timeout=60)
    assert "joining: resuming with 3 trials, 7 of 30 spent" in err
    first.communicate(timeout=60)
    assert first.returncode == second.returncode == 0
    done = trials(tmp_path)
    assert sum(trial.cost for trial in done) == 30
    assert started(tmp_path) == len(done)  # nothing was run twice
    assert len({trial.worker for trial in done}) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nope.yaml"], "nope.yaml"),
        (["run", "sqlite:///nope.db"], "needs the path of a study.yaml, not a URL"),
        (["run", "STUDY", "--budget", "0.5"], "is below the cheapest run"),
        (["run", "STUDY", "--workers", "0"], "1"),
        (["run", "STUDY", "--dask", "tcp://127.0.0.1:1"], "no Dask scheduler answers at 'tcp://127.0.0.1:1'"),
        (["run", "STUDY", "--dask", "nonsense"], "no Dask scheduler answers at 'nonsense'"),
    ],
)
def test_bad_input_is_one_line(call, study_file, monkeypatch, arguments, message) -> None:
    monkeypatch.setattr("fidelium.cli.run.PATIENCE", 1)
    path = study_file()
    answer = call(*(path if each == "STUDY" else each for each in arguments))
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


def test_no_dask_is_one_line(call, study_file, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    answer = call("run", study_file(), "--dask", "tcp://127.0.0.1:8786")
    assert answer == (2, "", "error: --dask needs the extra 'dask': pip install 'fidelium[dask]'\n")


def test_a_run_on_a_cluster_needs_workers_and_spends_the_budget_there(call, study_file, tmp_path, monkeypatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("fidelium.cli.run.PATIENCE", 1)
    path = study_file(12)
    local = {"processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=0, **local) as cluster:
        none = call("run", path, "--dask", cluster.scheduler_address)
        assert none.code == 2
        assert f"has no workers; start one with: dask worker {cluster.scheduler_address}" in none.err
        cluster.scale(2)
        answer = call("run", path, "--dask", cluster.scheduler_address, "--quiet")
    assert answer.code == 0
    assert sum(trial.cost for trial in trials(tmp_path)) == 12
    assert started(tmp_path) == len(trials(tmp_path))


def test_the_strategy_of_the_command_line_replaces_that_of_the_file(study_file, call):
    path = study_file()
    assert call("run", path, "--strategy", "sf-ei", "--budget", 3).code == 0
    wrong = call("run", path, "--option", "architecture=quick")
    assert wrong.code == 2
    assert "strategy 'random' has no option 'architecture'; it has none" in wrong.err
    assert "unknown strategy 'best'" in call("run", path, "--strategy", "best").err
    assert "--option must look like name=value" in call("run", path, "--option", "quick").err
    wrong = call("run", path, "--strategy", "dnn-mfbo-paper", "--option", "architecture={depths: [3]}")
    assert "architecture must be 'search', 'quick', or a mapping with depths, widths" in wrong.err


def test_a_changed_file_is_taken_up_with_a_line_for_every_difference(call, study_file, tmp_path) -> None:
    assert call("run", study_file()).code == 0
    trials = load_study(f"sqlite:///{tmp_path}/parabola.db").trials
    changed = {"x: {type: real, low: 0, high: 1}": "x: {type: real, low: 0.4, high: 2}", "cost: 5": "cost: 6"}
    path = study_file(24, **changed)
    assert "changed" not in call("predict", path, "--at", "x=1", "--at", "count=1", "--at", "kind=steel").err
    assert load_study(f"sqlite:///{tmp_path}/parabola.db").changes() == ()  # looking changes nothing
    answer = call("run", path)
    assert answer.code == 0
    first, second, budget, third, fourth, *_ = answer.err.splitlines()
    assert budget == f"changed: budget: 12 -> 24; {len(trials)} trials kept"
    assert first == f"changed: bounds of x: 0..1 -> 0.4..2; {len(trials)} trials kept"
    assert second == f"changed: cost of fine: 5 -> 6 for new trials; {len(trials)} trials kept"
    assert third.startswith("changed: ")
    assert "trials are outside of the present bounds" in third
    assert fourth == f"resuming with {len(trials)} trials, 12 of 24 spent"
    study = load_study(f"sqlite:///{tmp_path}/parabola.db")
    assert study.trials[: len(trials)] != ()
    assert {trial.cost for trial in study.trials[: len(trials)]} == {1, 5}
    assert all(study.space.contains(trial.params) for trial in study.trials[len(trials) :])
    assert study.spent == 24
    assert [change.action for change in study.changes()] == ["redefine"]


def test_a_changed_timeout_or_budget_is_said_and_recorded(call, study_file, tmp_path) -> None:
    path = study_file(6)
    assert call("run", path).code == 0
    text = path.read_text()
    path.write_text(f"timeout: 2 min\n{text}")
    lines = call("run", path).err.splitlines()
    assert lines[:2] == [f"changed: timeout of {name}: none -> 120; 6 trials kept" for name in ("coarse", "fine")]
    path.write_text(text.replace("budget: 6", "budget: 7"))
    assert "changed: budget: 6 -> 7; 6 trials kept" in call("run", path).err.splitlines()
    study = load_study(f"sqlite:///{tmp_path}/parabola.db")
    assert [change.reason.partition(";")[0] for change in study.changes()] == [
        "timeout of coarse: none -> 120",
        "budget: 6 -> 7",
    ]


def test_a_file_about_another_problem_is_refused_in_one_line_that_says_what_to_do(call, study_file) -> None:
    assert call("run", study_file()).code == 0
    answer = call("run", study_file(**{"direction: minimize": "direction: maximize"}))
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "the direction was minimize and is maximize; give the new one another name, and take over" in answer.err


def test_a_default_initial_design_that_is_too_dear_for_the_budget_is_reduced_and_said(call, study_file) -> None:
    path = study_file(30, **{"initial: {coarse: 2, fine: 2}\n": ""})
    answer = call("run", path)
    assert answer.code == 0
    assert answer.err.startswith(
        "a new study 'parabola' with random, 30 to spend; initial design reduced to a third of that: "
        "5 of 16 coarse, 1 of 7 fine\n"
    )
    again = study_file(400, **{"initial: {coarse: 2, fine: 2}\n": ""})
    assert "reduced" not in call("ask", again).err
