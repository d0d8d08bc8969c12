"""Several processes on one study, killed ones, forked ones, and a full disk: nothing is lost or doubled."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from fidelium.errors import StorageError
from fidelium.history import TrialState
from fidelium.storage import open_storage
from fidelium.storage.sql.storage import SqlStorage
from fidelium.testing.storage_cases import make_definition, make_trial

WORKER = Path(__file__).with_name("worker.py")
TRIALS = 400


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


def calls(log: Path) -> list[tuple[str, ...]]:
    """The calls that had returned; a line that was cut by the kill is none."""
    return [tuple(line.split()) for line in log.read_text().split("\n")[:-1]] if log.exists() else []


def test_four_processes_lose_and_double_nothing(url, tmp_path):
    storage = open_storage(url)
    store = storage.create(make_definition("shared"))
    logs = [tmp_path / f"{worker}.log" for worker in range(4)]
    for process in [start("share", url, "shared", f"w{number}", TRIALS, log) for number, log in enumerate(logs)]:
        finish(process)
    done = {(*call, f"w{worker}") for worker, log in enumerate(logs) for call in calls(log)}
    trials = store.trials()
    storage.close()
    assert [trial.number for trial in trials] == list(range(TRIALS))
    assert all(trial.state is TrialState.DONE and trial.attempt == 1 for trial in trials)
    assert [trial.value for trial in trials] == [number / 7 for number in range(TRIALS)]
    assert [trial.params for trial in trials] == [make_trial(number).params for number in range(TRIALS)]
    assert Counter(call[0] for call in done) == {"add": TRIALS, "claim": TRIALS, "finish": TRIALS}
    assert {("finish", str(trial.number), "1", trial.worker) for trial in trials} <= done


def test_killed_processes_lose_nothing_that_had_returned(url, tmp_path):
    storage = open_storage(url)
    store = storage.create(make_definition("killed"))
    log = tmp_path / "calls.log"
    generator = random.Random(0)
    for round_number in range(6):
        seen = len(calls(log))
        process = start("share", url, "killed", f"w{round_number}", 10**6, log)
        while len(calls(log)) < seen + 5:  # it has begun to write
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        time.sleep(generator.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
        taken = store.recover(1e9, [f"w{round_number}"], retries=100)
        assert len(taken) <= 1
        check_against_log(store.trials(), calls(log))
    storage.close()
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def check_against_log(trials, returned):
    """Everything that had returned is there; beyond it at most the call in which each process was killed."""
    assert [trial.number for trial in trials] == list(range(len(trials)))
    added = {int(call[1]) for call in returned if call[0] == "add"}
    finished = [int(call[1]) for call in returned if call[0] == "finish"]
    assert len(finished) == len(set(finished))  # told once
    assert max(added) < len(trials) <= len(added) + 6
    for number in finished:
        assert (trials[number].state, trials[number].value) == (TrialState.DONE, number / 7)
    assert sum(trial.state is TrialState.DONE for trial in trials) <= len(finished) + 6


def test_a_storage_survives_forks(url):
    finish(start("fork", url, "forked", 4, 5))
    storage = open_storage(url)
    trials = storage.open("forked").trials()
    storage.close()
    assert len(trials) == 1 + 4 * 5 * 2
    assert [trial.params for trial in trials] == [make_trial(number).params for number in range(len(trials))]


def test_a_disk_that_does_not_write_loses_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    message, added = finish(start("fill", url, "full", 300_000)).splitlines()
    assert "check that it is not full" in message
    storage = open_storage(url)
    trials = storage.open("full").trials()
    storage.close()
    assert len(trials) == int(added) + 1 > 10
    with sqlite3.connect(tmp_path / "study.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_full_database_says_so_and_goes_on_when_there_is_room(tmp_path):
    storage = SqlStorage(f"sqlite:///{tmp_path}/study.db")
    store = storage.create(make_definition("full"))
    set_pages = "PRAGMA max_page_count={}"
    storage._database.write(lambda connection: connection.exec_driver_sql(set_pages.format(30)).all())
    with pytest.raises(StorageError, match="the disk is full; free some space and run again"):
        add_many(store, 1000)
    count = len(store.trials())
    storage._database.write(lambda connection: connection.exec_driver_sql(set_pages.format(10**6)).all())
    added = store.add(make_trial(count))
    assert added is not None
    assert added.number == count > 10
    storage.close()


def add_many(store, count):
    for number in range(count):
        store.add(make_trial(number))
