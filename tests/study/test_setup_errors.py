"""Faults of the set-up: the trial is queued again, what is running is finished, and the run stops with the reason."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fidelium as fd
from fidelium.errors import SetupError
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram


def make(**changes):
    settings = {"direction": "maximize", "strategy": "random", "initial": {}} | changes
    return fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("f0", 1)], **settings)


def full_disk(params, fidelity):
    raise SetupError("the disk is full: free some space and run again")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fault_of_the_set_up_stops_the_run_and_fails_no_trial(workers):
    """With two workers the error comes from another process, pickled."""
    study = make()
    with pytest.raises(SetupError, match="the disk is full: free some space and run again"):
        study.optimize(full_disk, 9, workers=workers, progress=False)
    assert 1 <= len(study.trials) <= workers
    for trial in study.trials:
        assert (trial.state, trial.attempt) == ("queued", 1)
        assert trial.reason == "set-up error: the disk is full: free some space and run again"
    study.optimize(lambda params, fidelity: params["x"], 9, progress=False)
    assert [trial.state for trial in study.trials] == ["done"] * 9
    assert study.spent == 9


def test_what_is_running_is_finished_and_stored_before_the_run_stops():
    broken = threading.Event()

    def objective(params, fidelity):
        if next(calls) == 0:
            broken.wait(30)
            time.sleep(0.2)  # the loop has seen the error by now
            return 4.0
        broken.set()
        raise SetupError("no licence file")

    calls = itertools.count()
    study = make()
    with ThreadPoolExecutor(2) as threads, pytest.raises(SetupError, match="no licence file"):
        study.optimize(objective, 9, executor=threads, progress=False)
    assert sorted((trial.state, trial.value) for trial in study.trials) == [("done", 4.0), ("queued", None)]


def test_several_workers_with_the_same_fault_all_give_their_trials_back():
    together = threading.Barrier(3, timeout=30)

    def objective(params, fidelity):
        together.wait()
        raise SetupError("no licence file")

    study = make()
    with ThreadPoolExecutor(3) as threads, pytest.raises(SetupError):
        study.optimize(objective, 9, executor=threads, progress=False)
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("queued", 1)] * 3


def test_a_fault_of_the_set_up_is_no_retry():
    """Its attempt does not count: after the fix, the trial is retried as often as any other."""
    ends = iter([SetupError("no licence file"), ValueError("first"), ValueError("second"), None])

    def objective(params, fidelity):
        if (error := next(ends)) is not None:
            raise error
        return 1.0

    study = make()
    with pytest.raises(SetupError):
        study.optimize(objective, 1, retries=2, max_failures=1, progress=False)
    study.optimize(objective, 1, retries=2, max_failures=1, progress=False)
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("done", 4)]


def program(folder: Path, line: str) -> ExternalProgram:
    return ExternalProgram({"f0": Command((line,), shell=True)}, folder / "runs", folder)


def test_a_result_that_is_not_found_is_a_set_up_error_only_while_nothing_was_ever_found(tmp_path):
    study = make()
    with pytest.raises(SetupError, match=r"runs/00000-f0: .*result\.json.*correct it and run again.*fidelium reread"):
        study.optimize(program(tmp_path, "true"), 9, progress=False)
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("queued", 1)]
    # the same trial again is a failed one, so nothing is ever stuck; the next new trial stops the run again
    with pytest.raises(SetupError):
        study.optimize(program(tmp_path, "true"), 9, progress=False)
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("failed", 2), ("queued", 1)]
    works = """test "$FIDELIUM_NUMBER" = 3 || echo '{"value": 2}' > result.json"""
    study.optimize(program(tmp_path, works), 9, progress=False)
    assert [trial.state for trial in study.trials] == ["failed", "done", "done", "failed", *["done"] * 5]


def test_data_that_was_given_does_not_show_that_the_rule_works(tmp_path):
    study = make()
    study.add_observation({"x": 0.5}, "f0", 1.0)
    with pytest.raises(SetupError):
        study.optimize(program(tmp_path, "true"), 9, progress=False)
