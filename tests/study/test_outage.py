"""A storage that is away: a real server is stopped while a study runs, for longer than the storage itself retries."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fidelium as fd
from fidelium.errors import StorageError, StorageUnavailableError, UnsureError
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.execution.run_folder import folder_name
from fidelium.history import Trial, TrialState
from fidelium.storage.base import Result, StudyStore
from fidelium.storage.sql import database as databases
from fidelium.study import heartbeat as heartbeats
from fidelium.study import outage
from fidelium.study.kept_results import FILE, KeptResults
from tests.postgres import Server, postgres_server

KEPT = f"fidelium-unstored/*/{FILE}"


@pytest.fixture(scope="module")
def started_server() -> Iterator[Server]:
    with postgres_server() as started:
        yield started


@pytest.fixture
def server(started_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, a short patience of the storage and of the run, and a current folder of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(databases, "PAUSES", (0.01, 0.02))
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(outage, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(outage, "REPORT", 0.4)
    yield started_server
    started_server.bring_up()


def make(storage: str | None, name: str, **changes: Any) -> fd.Study:
    settings: dict[str, Any] = {"direction": "maximize", "strategy": "random", "initial": {}, "load_if_exists": True}
    return fd.create_study(
        {"x": fd.Real(0, 1)}, [fd.Fidelity("f0", 1)], storage=storage, name=name, **settings | changes
    )


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def kept(folder: Path) -> list[Path]:
    return list(folder.glob(KEPT))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_survives_a_server_that_is_away_and_stores_what_ended_meanwhile(server, tmp_path, caplog, workers):
    calls: list[float] = []
    seen: list[Any] = []

    def back_later() -> None:
        wait_for(lambda: kept(tmp_path))
        wait_for(lambda: "still waiting for the storage" in caplog.text)
        seen.append(json.loads(kept(tmp_path)[0].read_text()))
        server.bring_up()

    helper = threading.Thread(target=back_later)

    def objective(params, fidelity):
        calls.append(params["x"])
        if len(calls) == 3:
            server.take_down()
            helper.start()
        return 10 * params["x"]

    study = make(server.url, f"survives {workers}")
    with caplog.at_level(logging.INFO, "fidelium.study"), ThreadPoolExecutor(workers) as threads:
        study.optimize(objective, 8, executor=threads)
    helper.join()
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("done", 1)] * 8
    assert all(trial.value == 10 * trial.params["x"] for trial in study.trials)
    assert sorted(calls) == sorted(trial.params["x"] for trial in study.trials)  # nothing was run twice
    assert seen[0]["value"] == 10 * study.trials[seen[0]["number"]].params["x"]
    assert "waiting up to 30 min for the storage" in caplog.text
    assert "the storage is back after" in caplog.text
    assert not (tmp_path / "fidelium-unstored").exists()
    study.close()


def test_the_result_of_a_program_is_kept_in_its_folder(server, tmp_path):
    line = """touch ../../started; while [ ! -e ../../go ]; do sleep 0.05; done; echo '{"value": 3}' > result.json"""
    program = ExternalProgram({"f0": Command((line,), shell=True)}, tmp_path / "runs", tmp_path)
    file = tmp_path / "runs/00000-f0" / FILE

    def disturb() -> None:
        wait_for((tmp_path / "started").exists)
        server.take_down("immediate")
        (tmp_path / "go").touch()
        wait_for(file.exists)
        server.bring_up()

    helper = threading.Thread(target=disturb)
    helper.start()
    study = make(server.url, "program")
    study.optimize(program, 1, progress=False)
    helper.join()
    assert [(trial.value, trial.attempt) for trial in study.trials] == [(3.0, 1)]
    assert not file.exists()
    assert (tmp_path / "runs/00000-f0/result.json").exists()
    study.close()


SCRIPT = """
import sys, time
import fidelium as fd
from fidelium.storage.sql import database
from fidelium.study import heartbeat as heartbeats
from fidelium.study import outage

database.PAUSES = ()
outage.LONGEST_PAUSE = 0.2

def objective(params, fidelity):
    with open("evaluated", "a") as file:
        file.write("x")
    while True:  # until the server is away
        try:
            fd.load_study(sys.argv[1], sys.argv[2]).close()
        except fd.FideliumError:
            return 10 * params["x"]
        time.sleep(0.05)

study = fd.load_study(sys.argv[1], sys.argv[2])
study.optimize(objective, 2)
"""


@pytest.mark.parametrize("end", ["kill -9", "Ctrl-C twice"])
def test_a_result_kept_by_a_run_that_ended_is_stored_by_the_next(server, tmp_path, caplog, end):
    make(server.url, end).close()
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, "run.py", server.url, end]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for((tmp_path / "evaluated").exists)
    server.take_down()
    wait_for(lambda: kept(tmp_path))
    if end == "kill -9":
        process.kill()
        process.communicate(timeout=60)
    else:
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None  # it finishes what is to be done: storing the result
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert f"is stored when the study is resumed, from {kept(tmp_path)[0]}" in err
        assert err.splitlines()[-1].startswith("KeyboardInterrupt: stopped by Ctrl-C; 1 trial (1 of 2 spent) are saved")
    server.bring_up()
    study = make(server.url, end)
    assert [trial.state for trial in study.trials] == ["running"]
    with caplog.at_level(logging.WARNING, "fidelium.study"):
        study.optimize(lambda params, fidelity: 10 * params["x"], 2)
    assert "the result of trial 0, kept in" in caplog.text
    assert [(trial.state, trial.attempt) for trial in study.trials] == [("done", 1)] * 2
    assert all(trial.value == 10 * trial.params["x"] for trial in study.trials)
    assert (tmp_path / "evaluated").read_text() == "x"
    assert not (tmp_path / "fidelium-unstored").exists()
    study.close()


def test_a_run_gives_up_after_a_while_and_says_where_the_result_is(server, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(outage, "PATIENCE", 0.3)

    def objective(params, fidelity):
        server.take_down()
        return 7.0

    study = make(server.url, "gives up")
    with pytest.raises(
        StorageError, match=r"gave up after .* the server cannot be reached.*; run again when it is back"
    ):
        study.optimize(objective, 2)
    assert f"is stored when the study is resumed, from {kept(tmp_path)[0]}" in caplog.text
    server.bring_up()
    study.optimize(lambda params, fidelity: 8.0, 2)
    assert [(trial.value, trial.attempt) for trial in study.trials] == [(7.0, 1), (8.0, 1)]
    study.close()


def test_ctrl_c_ends_a_run_that_waits_for_its_storage_and_has_nothing_to_store(server, tmp_path, monkeypatch):
    study = make(server.url, "nothing to store")
    real = study.start

    def start_late(*arguments: Any) -> Trial:
        if study.trials:
            server.take_down()
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        return real(*arguments)

    monkeypatch.setattr(study, "start", start_late)
    with pytest.raises(KeyboardInterrupt, match=r"1 trial \(1 of 9 spent\) are saved; call optimize"):
        study.optimize(lambda params, fidelity: 1.0, 9)
    server.bring_up()
    assert [trial.state for trial in study.trials] == ["done"]
    study.close()


@pytest.fixture
def stored(tmp_path, monkeypatch) -> fd.Study:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.01)
    return make(f"sqlite:///{tmp_path}/study.db", "unsure")


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("method", ["finish", "claim", "requeue", "add"])
def test_a_change_that_may_be_stored_or_not_is_looked_up(stored, monkeypatch, method, written):
    """As after a connection that is lost at a commit, before or after the server did it."""
    real = getattr(stored.store, method)
    lost: list[str] = []

    def lossy(*arguments: Any, **options: Any) -> Any:
        if lost:
            return real(*arguments, **options)
        lost.append(method)
        if written:
            real(*arguments, **options)
        raise UnsureError("the last change may be stored or not")

    stored.give_back(stored.ask())
    monkeypatch.setattr(stored.store, method, lossy)
    calls: list[float] = []

    def objective(params, fidelity):
        calls.append(params["x"])
        if method == "requeue" and len(calls) == 1:
            raise ValueError("once")
        return params["x"]

    stored.optimize(objective, 3, retries=2)
    assert lost == [method]
    assert [trial.state for trial in stored.trials] == ["done"] * 3
    assert len(calls) == 3 + (method == "requeue")  # nothing is run twice, and nothing is left running


def test_a_result_is_taken_if_the_trial_was_only_queued_again(stored):
    """Others took the worker for dead, because its heartbeats could not be stored; nobody has started the trial yet."""

    def objective(params, fidelity):
        other = fd.load_study("sqlite:///study.db")
        (running,) = other.snapshot().running
        (queued,) = other.store.recover(1e9, {str(running.worker)}, 5)
        assert queued.state is TrialState.QUEUED
        other.close()
        return params["x"]

    stored.optimize(objective, 2)
    assert [(trial.state, trial.attempt) for trial in stored.trials] == [("done", 1)] * 2


def test_a_result_that_another_worker_has_overtaken_is_dropped(stored, caplog):
    def objective(params, fidelity):
        (running,) = stored.snapshot().running
        if running.attempt == 1:
            stored.store.recover(1e9, {str(running.worker)}, 5)
            again = stored.store.claim("elsewhere/1/a")
            assert again is not None
            stored.tell(again, -1.0)
        return params["x"]

    stored.optimize(objective, 1)
    assert [(trial.value, trial.attempt) for trial in stored.trials] == [(-1.0, 2)]
    assert "the result of trial 0 came too late" in caplog.text


@pytest.mark.parametrize("loses", [True, False])
def test_who_has_lost_the_storage_does_not_take_others_for_dead_when_it_is_back(stored, monkeypatch, loses):
    """They were silent for the same reason."""
    monkeypatch.setattr(heartbeats, "BEAT", 0.01)
    beats: list[str] = []
    judged: list[StudyStore] = []

    def beat(worker: str) -> None:
        beats.append(worker)
        if loses and len(beats) == 1:
            raise StorageUnavailableError("the server cannot be reached")

    monkeypatch.setattr(stored.store, "beat", beat)
    with heartbeats.heartbeat(stored.store, "desk/1/abc", judged.append):
        wait_for(lambda: len(beats) > 5)
    assert bool(judged) != loses


TRIAL = Trial(12, {"x": 0.5}, fd.Fidelity("fine", 1), attempt=2, worker="desk/1/abc")
DONE = Result(TrialState.DONE, 0.1 + 0.2, measured_cost=2.5, outcomes={"stress": 1 / 3, "u": -1.5e-9})


def test_a_result_is_kept_in_the_newest_folder_of_its_trial(tmp_path):
    (tmp_path / "00012-fine-2").mkdir()
    (tmp_path / "00012-fine-2.10").mkdir()
    (tmp_path / "00012-fine-2.9").mkdir()
    (tmp_path / f"00012-fine-2.10/{FILE}").symlink_to(tmp_path / "elsewhere")  # a trap that the program left
    results = KeptResults("plate", tmp_path)
    file = results.write(TRIAL, DONE)
    assert file is not None
    assert file == tmp_path / f"00012-fine-2.10/{FILE}"
    assert not (tmp_path / "elsewhere").exists()
    queued = replace(TRIAL, state=TrialState.QUEUED)
    assert list(results.found([queued])) == [(file, queued, DONE)]
    results.discard(file)
    assert list(results.found([queued])) == []
    assert (tmp_path / "00012-fine-2.10").is_dir()  # what the program wrote stays


@pytest.mark.parametrize(
    "other",
    [
        replace(TRIAL, state=TrialState.DONE, value=1.0),
        replace(TRIAL, attempt=3),
        replace(TRIAL, worker="desk/1/other"),  # of a database that was deleted since
        replace(TRIAL, number=13),
    ],
)
def test_a_kept_result_is_that_of_one_attempt(tmp_path, other):
    KeptResults("plate", tmp_path).write(TRIAL, DONE)
    assert list(KeptResults("plate", tmp_path).found([other])) == []
    assert list(KeptResults("beam", tmp_path).found([TRIAL])) == []


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"value": NaN}', b"[" * 100_000])
def test_a_damaged_file_is_no_result(tmp_path, content):
    results = KeptResults("plate", tmp_path)
    file = results.write(TRIAL, Result(TrialState.FAILED, reason="no mesh \ud800"))
    assert [found[2].reason for found in results.found([TRIAL])] == ["no mesh \ud800"]
    assert file is not None
    file.write_bytes(content)
    assert list(results.found([TRIAL])) == []


def test_a_result_that_cannot_even_be_kept_is_in_the_log(tmp_path, caplog):
    (tmp_path / folder_name(TRIAL)).touch()
    assert KeptResults("plate", tmp_path).write(TRIAL, DONE) is None
    assert "cannot keep the result of trial 12 in a file" in caplog.text
