"""The turn to choose: a dead holder stops nobody, and an error while it is given back does not lose the trial."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import pytest

import fidelium as fd
from fidelium.errors import StorageError, UnsureError
from fidelium.history import TrialState
from fidelium.study import lock

LADDER = [fd.Fidelity("f", 1)]

HOLD = """
import sys, fidelium as fd
from fidelium.study import lock
lock.TURN = 1e6
with lock.choosing_lock(fd.load_study(sys.argv[1]).store):
    print("holding", flush=True)
    input()
"""


def make(url) -> fd.Study:
    return fd.create_study({"x": fd.Real(0, 1)}, LADDER, direction="minimize", strategy="random", storage=url)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("new_database")()


def no_nap(seconds: float) -> None:
    raise AssertionError(f"waits for the turn of a dead process, {seconds} s at a time")


def test_nobody_waits_for_a_killed_process_of_this_machine(url, monkeypatch):
    study = make(url)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"holding\n"
    monkeypatch.setattr(lock, "TURN", 1e6)
    monkeypatch.setattr(lock.time, "sleep", no_nap)
    with pytest.raises(AssertionError, match="waits"):  # it is alive
        study.ask()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert study.ask().number == 0
    study.close()


def test_an_error_while_the_turn_is_given_back_does_not_lose_the_trial(url, monkeypatch, caplog):
    study = make(url)

    def fail(holder: str) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(study.store, "end_turn", fail)
    with caplog.at_level(logging.WARNING):
        trial = study.ask()
    assert (trial.number, trial.state) == (0, TrialState.RUNNING)
    assert "the turn to choose ends by itself in 15 s: the disk is full" in caplog.text
    study.tell(trial, 1.0)
    study.close()


def test_an_error_while_the_turn_is_renewed_is_logged(tmp_path, monkeypatch, caplog):
    study = make(f"sqlite:///{tmp_path}/s.db")
    monkeypatch.setattr(lock, "TURN", 0.01)
    real, calls = study.store.take_turn, []

    def fail_later(*arguments) -> bool:
        calls.append(arguments)
        if len(calls) > 1:
            raise StorageError("the server is away")
        return real(*arguments)

    monkeypatch.setattr(study.store, "take_turn", fail_later)
    with caplog.at_level(logging.WARNING), lock.choosing_lock(study.store):
        while len(calls) < 3:  # it is tried again
            pass
    assert "the turn to choose is not renewed: the server is away" in caplog.text
    study.close()


def test_a_real_full_disk_after_the_trial_was_added(tiny_disk):
    study = make(f"sqlite:///{tiny_disk}/s.db")
    real = study.store.add

    def add_and_fill(*arguments, **options):
        added = real(*arguments, **options)
        fill(tiny_disk / "filler")
        return added

    study.store.add = add_and_fill
    trial = study.ask()
    with pytest.raises(StorageError, match="full"):
        study.tell(trial, 1.0)
    with pytest.raises(StorageError, match="full"):
        study.ask()
    assert [each.number for each in study.trials] == [0]  # an error means that nothing was added
    (tiny_disk / "filler").unlink()
    study.tell(trial, 1.0)
    study.store.add = real
    assert study.ask().number == 1
    study.close()


def fill(file) -> None:
    with file.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            return


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"needs the right to mount a small disk: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("when", ["in add", "after add"])
def test_ctrl_c_after_the_trial_was_stored_queues_it(tmp_path, monkeypatch, when):
    study = make(f"sqlite:///{tmp_path}/s.db")

    def interrupt(*arguments, **options):
        if when == "in add":
            real(*arguments, **options)
        raise KeyboardInterrupt

    method = "add" if when == "in add" else "end_turn"
    real = getattr(study.store, method)
    monkeypatch.setattr(study.store, method, interrupt)
    with pytest.raises(KeyboardInterrupt):
        study.ask()
    (left,) = study.trials
    assert (left.state, left.reason) == (TrialState.QUEUED, "interrupted")
    monkeypatch.undo()
    assert (study.ask().number, study.trials[0].attempt) == (0, 2)
    study.close()


@pytest.mark.parametrize("stored", [True, False])
def test_a_connection_lost_while_adding_is_looked_into(tmp_path, monkeypatch, stored):
    study = make(f"sqlite:///{tmp_path}/s.db")
    real = study.store.add

    def lose(*arguments, **options):
        if stored:
            real(*arguments, **options)
        raise UnsureError("the last change may be stored or not")

    monkeypatch.setattr(study.store, "add", lose)
    if stored:
        assert study.ask().state is TrialState.RUNNING
    else:
        with pytest.raises(UnsureError):
            study.ask()
    assert len(study.trials) == stored
    study.close()
