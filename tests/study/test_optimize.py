"""The loop: budgets, failures, interruptions, workers."""

from __future__ import annotations

import io
import itertools
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fidelium as fd
from fidelium.errors import ObjectiveError, SettingError
from fidelium.study.progress import status_line


def make(costs=(1, 10, 100), **changes):
    ladder = [fd.Fidelity(f"f{index}", cost) for index, cost in enumerate(costs)]
    settings: dict[str, Any] = {"direction": "maximize", "strategy": "random"} | changes
    return fd.create_study({"x": fd.Real(0, 1)}, ladder, **settings)


COSTS = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=4, unique=True).map(sorted)


@given(costs=COSTS, share=st.floats(1.0, 60.0), workers=st.sampled_from([1, 2]))
def test_the_budget_is_never_exceeded_and_nothing_affordable_is_left(costs, share, workers):
    study = make(costs)
    budget = costs[0] * share
    with ThreadPoolExecutor(workers) as threads:
        study.optimize(lambda params, fidelity: params["x"], budget, executor=threads)
    assert study.spent <= budget
    # laws of exact money: the rest buys nothing, but for the last bit of a float
    assert study.spent + costs[0] > budget * (1 - 1e-15)
    assert not study.snapshot(budget).has_work


def test_ten_times_a_tenth_is_one():
    study = make([0.1], initial={})
    study.optimize(lambda params, fidelity: params["x"], 1.0)
    assert len(study.trials) == 10
    assert study.spent == 1.0


def test_the_strategy_is_told_what_is_left(fake):
    study = make(strategy=fake, initial={"f0": 1})
    study.optimize(lambda params, fidelity: params["x"], 4)
    assert fake.seen_remaining == [3.0, 2.0, 1.0]


def test_the_same_budget_again_does_nothing_and_a_larger_one_goes_on(caplog):
    study = make()
    study.optimize(lambda params, fidelity: params["x"], 300)
    before = study.trials
    with caplog.at_level(logging.WARNING, "fidelium.study"):
        study.optimize(lambda params, fidelity: params["x"], 300)
    assert study.trials == before
    assert "pass a larger total" in caplog.text
    study.optimize(lambda params, fidelity: params["x"], 500)
    assert study.trials[: len(before)] == before
    assert study.spent == 500


def test_what_the_initial_design_could_not_afford_comes_with_a_larger_budget(fake):
    study = make(strategy=fake, initial={"f0": 2, "f1": 2})
    study.optimize(lambda params, fidelity: params["x"], 15)
    # two of cost 1, one of 10, and what is left of the budget at the cheapest
    assert [t.fidelity.name for t in study.trials] == ["f0", "f0", "f1", "f0", "f0", "f0"]
    assert study.ask().fidelity.name == "f1"


def test_a_run_in_parts_is_the_run_in_one():
    whole, parts = make(seed=4, initial={"f0": 7, "f1": 2, "f2": 2}), make(seed=4, initial={"f0": 7, "f1": 2, "f2": 2})
    whole.optimize(lambda params, fidelity: params["x"], 1427)
    for budget in (3, 327, 827, 1427):
        parts.optimize(lambda params, fidelity: params["x"], budget)
    assert len(parts.trials) == 7 + 2 + 2 + 12
    assert parts.trials == whole.trials


def test_an_interruption_loses_nothing_and_the_study_goes_on_as_if_nothing_happened():
    calls = itertools.count()

    def interrupted(params, fidelity):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return params["x"]

    study = make()
    with pytest.raises(KeyboardInterrupt):
        study.optimize(interrupted, 600)
    assert [trial.state for trial in study.trials] == ["done"] * 5 + ["queued"]
    assert study.trials[5].reason == "interrupted"
    study.optimize(interrupted, 600)
    uninterrupted = make()
    uninterrupted.optimize(lambda params, fidelity: params["x"], 600)
    again = replace(study.trials[5], attempt=1)
    assert (*study.trials[:5], again, *study.trials[6:]) == uninterrupted.trials


def test_an_exception_is_a_failed_trial_with_its_traceback_and_the_study_goes_on():
    def objective(params, fidelity):
        if params["x"] < 0.5:
            raise ValueError("the mesh is tangled")
        return params["x"]

    study = make([1], initial={"f0": 16})
    study.optimize(objective, 40)
    assert len(study.trials) == 40
    for trial in study.trials:
        assert (trial.state == "failed") == (trial.params["x"] < 0.5)
        assert (trial.value is None) == (trial.params["x"] < 0.5)
    reason = next(trial.reason for trial in study.trials if trial.reason)
    assert reason.splitlines()[-1] == "ValueError: the mesh is tangled"
    assert "in objective" in reason
    assert "runner.py" not in reason


@pytest.mark.parametrize("result", [None, "three", [1, 2], {"value": "much"}, float("nan")])
def test_a_result_that_is_no_number_is_a_failed_trial(result):
    study = make([1], initial={})
    calls = itertools.count()
    study.optimize(lambda params, fidelity: result if next(calls) == 1 else 1.0, 3)
    assert [trial.state for trial in study.trials] == ["done", "failed", "done"]
    assert "number" in (study.trials[1].reason or "")


@pytest.mark.parametrize("workers", [1, 2])
def test_many_failures_in_a_row_stop_it_with_the_last_traceback(workers):
    def objective(params, fidelity):
        raise ValueError("licence expired")

    study = make([1], initial={})
    with pytest.raises(ObjectiveError, match=r"failed \d+ times in a row[\s\S]*ValueError: licence expired"):
        study.optimize(objective, 100, workers=workers, max_failures=4)
    assert 4 <= len(study.trials) <= 4 + workers - 1
    assert all(trial.state == "failed" for trial in study.trials)


def test_failures_are_only_counted_in_a_row():
    calls = itertools.count()

    def objective(params, fidelity):
        if next(calls) % 3:
            raise ValueError
        return 1.0

    study = make([1], initial={})
    study.optimize(objective, 30, max_failures=3)
    assert len(study.trials) == 30


def test_two_workers_run_two_at_once_and_know_of_each_other(fake):
    together = threading.Barrier(2, timeout=10)

    def objective(params, fidelity):
        together.wait()  # passes only if two are running
        return params["x"]

    study = make([1], strategy=fake, initial={"f0": 2})
    study.optimize(objective, 8, workers=2)  # a barrier cannot be sent to a process, so these are threads
    assert study.spent == 8
    assert {trial.state for trial in study.trials} == {"done"}
    assert max(len(pending) for pending in fake.seen_pending) == 1


class Ended(BaseException):
    """Not an `Exception`: what ends a thread or a task, such as `asyncio.CancelledError`."""


class Scripted(Executor):
    """The first call never ends; the second gives its value while the third one ends the run."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, fn, /, *args, **kwargs):
        self.calls += 1
        future = Future()
        if self.calls == 2:
            future.set_result(fn(*args, **kwargs))
        elif self.calls == 3:
            future.set_exception(Ended("stop"))
        return future


def test_what_ends_a_run_loses_no_result_and_gives_back_what_runs():
    study = make([1], initial={})
    with pytest.raises(Ended, match="stop"):
        study.optimize(lambda params, fidelity: 7.0, 50, workers=3, executor=Scripted())
    states = [(trial.state, trial.value, trial.reason) for trial in study.trials]
    assert states == [("queued", None, "interrupted"), ("done", 7.0, None), ("queued", None, "interrupted")]


class Cancelling(ThreadPoolExecutor):
    """Its first future is cancelled, as by a scheduler that restarts."""

    cancelled = False

    def submit(self, fn, /, *args, **kwargs):
        if not self.cancelled:
            self.cancelled = True
            future = Future()
            future.cancel()
            return future
        return super().submit(fn, *args, **kwargs)


def test_a_trial_whose_future_is_cancelled_elsewhere_is_run_again():
    study = make([1], initial={})
    with Cancelling(1) as executor:
        study.optimize(lambda params, fidelity: 7.0, 2, executor=executor)
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("done", 2), ("done", 1)]


def test_workers_are_processes_of_their_own_and_take_any_function():
    here = os.getpid()
    study = make([1], initial={})
    study.optimize(lambda params, fidelity: float(os.getpid() != here), 6, workers=2)
    assert [trial.value for trial in study.trials] == [1.0] * 6


def test_a_process_that_is_killed_has_its_trial_run_again_and_nothing_else_is_lost(tmp_path):
    flag = tmp_path / "killed"

    def objective(params, fidelity):
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        return params["x"]

    study = make([1], initial={})
    study.optimize(objective, 8, workers=2)
    assert {trial.state for trial in study.trials} == {"done"}
    assert sorted(trial.attempt for trial in study.trials) == [1] * 7 + [2]
    assert all(trial.value == trial.params["x"] for trial in study.trials)


def test_a_failed_evaluation_is_retried_as_often_as_wanted():
    calls = itertools.count()

    def objective(params, fidelity):
        if next(calls) in (1, 2):
            raise ValueError("licence server is away")
        return params["x"]

    study = make([1], initial={})
    study.optimize(objective, 3, retries=1)
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("done", 1), ("failed", 2), ("done", 1)]
    assert "licence server is away" in (study.trials[1].reason or "")


class Remembering(Executor):
    """Runs a call at once, and counts earlier futures that somebody still refers to: Dask would run those again."""

    def __init__(self) -> None:
        self.futures: list[weakref.ref[Future[Any]]] = []
        self.kept: list[int] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.kept.append(sum(future() is not None for future in self.futures))
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        self.futures.append(weakref.ref(future))
        return future


def test_a_finished_future_is_forgotten_before_the_next_trial_starts():
    executor = Remembering()
    make((1,)).optimize(lambda params, fidelity: params["x"], 4, executor=executor, workers=1)
    assert executor.kept == [0, 0, 0, 0]


class Refusing(Executor):
    """Has no number of workers."""


def test_an_executor_that_does_not_say_its_size_needs_one():
    with pytest.raises(SettingError, match="pass workers="):
        make([1]).optimize(lambda params, fidelity: 1.0, 3, executor=Refusing())
    with pytest.raises(SettingError, match=r"must be a concurrent\.futures\.Executor"):
        make([1]).optimize(lambda params, fidelity: 1.0, 3, executor="dask")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("stop", "trials"),
    [
        (fd.Stop(trials=4), 4),
        (fd.Stop(no_improvement=3), 5),  # the best is the second, then three bring nothing
        (fd.Stop(wall_time=1e-9), 0),
    ],
)
def test_a_study_stops_before_its_budget_is_spent(stop, trials):
    values = iter([1.0, 5.0, *[0.0] * 20])
    study = make([1], initial={})
    study.optimize(lambda params, fidelity: next(values), 20, stop=stop)
    assert len(study.trials) == trials


def test_data_that_was_given_counts_for_no_rule():
    study = make([1], initial={})
    for x in (0.1, 0.2, 0.3):
        study.add_observation({"x": x}, "f0", x)
    study.optimize(lambda params, fidelity: 0.0, 20, stop=fd.Stop(trials=2))
    assert len(study.trials) == 5


def test_a_study_stops_when_the_next_query_is_worth_too_little():
    study = make([1], strategy="sf-ei", initial={"f0": 3})
    study.optimize(lambda params, fidelity: (params["x"] - 0.3) ** 2, 30, stop=fd.Stop(gain_per_cost=1e9))
    assert len(study.trials) == 3


@pytest.mark.parametrize("limit", [0, -1, "1 h", True])
def test_a_limit_must_be_a_number_above_zero(limit):
    with pytest.raises(SettingError, match="wall_time must be a number above 0"):
        fd.Stop(wall_time=limit)


def test_ctrl_c_once_finishes_what_runs_and_goes_through():
    study = make([1], initial={})
    before = signal.getsignal(signal.SIGINT)  # ignored, if the tests run behind nohup

    def objective(params, fidelity):
        if params["x"] == study.trials[2].params["x"]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return params["x"]

    for trial in [study.ask() for _ in range(3)]:
        study.give_back(trial)
    with pytest.raises(KeyboardInterrupt):
        study.optimize(objective, 10)
    assert [trial.state for trial in study.trials] == ["done"] * 3
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_twice_stops_at_once_and_queues_what_ran():
    def objective(params, fidelity):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
        return params["x"]

    study = make([1], initial={})
    with pytest.raises(KeyboardInterrupt):
        study.optimize(objective, 10)
    assert [trial.state for trial in study.trials] == ["queued"]


def test_the_log_has_a_line_per_trial_when_there_is_no_terminal(caplog):
    study = make([1], initial={})
    with caplog.at_level(logging.INFO, "fidelium.study"):
        study.optimize(lambda params, fidelity: 2.0, 3)
    assert [record.getMessage().split(";")[1].strip() for record in caplog.records] == [
        "spent 1 of 3",
        "spent 2 of 3",
        "spent 3 of 3",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("progress", "shown"), [(True, True), (False, False)])
def test_the_bar_shows_cost_best_and_counts_on_a_terminal(monkeypatch, progress, shown):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    study = make([1, 2], initial={})
    study.optimize(lambda params, fidelity: 2.5, 5, progress=progress)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert ("cost 5 of 5" in text) == shown
    assert ("best 2.5 | f0 1 · f1 2" in text) == shown
    assert status_line(study.snapshot()) == "best 2.5 | f0 1 · f1 2"


SCRIPT = """
import os, signal, sys
import fidelium as fd

{before}

def objective(params, fidelity):
    calls.append(1)
    if len(calls) == 2:
        {during}
        raise ValueError("the mesh is tangled")
    return 2.0

calls = []
fd.optimize(objective, {{"x": fd.Real(0, 1)}}, [fd.Fidelity("f0", 1)], direction="maximize", strategy="random",
    budget=3, initial={{}}, progress={progress})
"""


def script_output(before: str = "", during: str = "pass", progress: bool = True) -> list[str]:
    """What a script with redirected output prints."""
    script = SCRIPT.format(before=before, during=during, progress=progress)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.stdout == ""
    return process.stderr.splitlines()


def test_a_script_with_redirected_output_prints_a_line_per_trial_with_the_reason_of_a_failure():
    lines = script_output()
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in lines] == [
        "trial 0 at f0: 2; spent 1 of 3; best 2 | f0 1",
        "trial 1 at f0: failed: ValueError: the mesh is tangled; spent 2 of 3; best 2 | f0 2",
        "trial 2 at f0: 2; spent 3 of 3; best 2 | f0 3",
    ]


def test_a_host_that_has_set_up_logging_gets_each_line_once():
    assert script_output("import logging; logging.basicConfig(level=logging.WARNING)") == []
    lines = script_output("import logging; logging.basicConfig(level=logging.INFO)")
    assert [line.split(";")[1] for line in lines if "trial" in line] == [
        " spent 1 of 3",
        " spent 2 of 3",
        " spent 3 of 3",
    ]
    own = "import logging; logging.getLogger('fidelium').addHandler(logging.NullHandler())"
    assert script_output(own) == []
    assert script_output(progress=False) == []


def test_ctrl_c_in_a_script_ends_with_what_is_saved_and_how_to_resume():
    lines = script_output(during="os.kill(os.getpid(), signal.SIGINT)")
    advice = (
        "stopped by Ctrl-C; 2 trials (2 of 3 spent) are in memory, until the process ends "
        "(storage='sqlite:///study.db' would keep them); with the same study object, call optimize(...) again with the "
        "same budget to resume"
    )
    assert sum(line.endswith(advice) for line in lines) == 1
    assert lines[-1].startswith("KeyboardInterrupt: stopped by Ctrl-C; nothing is left of a study in memory: create_")
    assert not any("During handling" in line for line in lines)


def test_ctrl_c_of_a_study_in_memory_says_that_its_object_has_everything():
    study = make([1], initial={})

    def objective(params, fidelity):
        os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    with pytest.raises(KeyboardInterrupt, match=r"1 trial \(1 of 9 spent\) are in memory.*with the same study object"):
        study.optimize(objective, 9)
    assert [trial.state for trial in study.trials] == ["done"]


def test_ctrl_c_of_a_stored_study_says_that_it_is_saved(tmp_path):
    study = make([1], initial={}, storage=f"sqlite:///{tmp_path}/s.db", name="s")

    def objective(params, fidelity):
        os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    with pytest.raises(
        KeyboardInterrupt, match=r"^stopped by Ctrl-C; 1 trial \(1 of 9 spent\) are saved; call optimize"
    ):
        study.optimize(objective, 9)
    assert [trial.state for trial in study.trials] == ["done"]


def test_a_failure_is_named_above_the_bar(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    study = make([1], initial={})
    study.optimize(lambda params, fidelity: {"value": float("nan")}, 1)
    assert "trial 0 at f0: failed: value is nan, not a finite number" in caplog.text


def test_a_persons_trial_does_not_keep_a_run_waiting(caplog):
    study = make([1], initial={})
    study.ask()
    study.optimize(lambda params, fidelity: 1.0, 1)
    assert [trial.state for trial in study.trials] == ["running"]
    assert "pass a larger total" in caplog.text
