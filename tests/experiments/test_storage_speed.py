"""The measurement asks and tells what it says, on a study that it leaves nothing of."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

from fidelium.errors import SettingError
from fidelium.experiments import storage_speed
from fidelium.experiments.storage_speed import StorageSpeed, measure_storage
from fidelium.history import Trial
from fidelium.storage import open_storage
from fidelium.storage.memory import MemoryStorage


def test_rates_are_trials_over_seconds():
    speed = StorageSpeed(processes=2, trials=100, ask_seconds=4.0, tell_seconds=2.0, load_seconds=0.1)
    assert (speed.asks_per_second, speed.tells_per_second) == (25.0, 50.0)


def test_two_processes_on_a_file(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    speed = measure_storage(url, processes=2, trials=9)
    assert (speed.processes, speed.trials) == (2, 9)
    assert min(speed.ask_seconds, speed.tell_seconds, speed.load_seconds) > 0
    assert open_storage(url).names() == ()


def test_threads_in_memory_ask_and_tell_every_trial_once(monkeypatch):
    clock = itertools.count()  # every look at the clock is a second later
    monkeypatch.setattr(storage_speed, "time", SimpleNamespace(perf_counter=lambda: next(clock), sleep=time.sleep))
    kept = MemoryStorage()
    left: list[Trial] = []
    forget = kept.delete
    monkeypatch.setattr(storage_speed, "open_storage", lambda url: kept)
    monkeypatch.setattr(kept, "delete", lambda name: (left.extend(kept.open(name).trials()), forget(name)))
    speed = measure_storage(None, processes=3, trials=50)
    assert speed == StorageSpeed(processes=3, trials=50, ask_seconds=1, tell_seconds=1, load_seconds=1)
    assert speed.asks_per_second == 50
    assert [(trial.number, trial.value, trial.attempt) for trial in left] == [(n, n / 3, 1) for n in range(50)]
    assert kept.names() == ()


def test_a_trial_per_process_is_needed():
    with pytest.raises(SettingError, match="at least one process and one trial per process are needed, got 3 and 2"):
        measure_storage(None, processes=3, trials=2)
