"""The measurement asks and tells what it says, on a study that it leaves nothing of."""

from __future__ import annotations

import pytest

from fidelium.errors import SettingError
from fidelium.experiments.storage_speed import StorageSpeed, measure_storage
from fidelium.storage import open_storage


def test_rates_are_trials_over_seconds():
    speed = StorageSpeed(processes=2, trials=100, ask_seconds=4.0, tell_seconds=2.0, load_seconds=0.1)
    assert (speed.asks_per_second, speed.tells_per_second) == (25.0, 50.0)


def test_two_processes_on_a_file(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    speed = measure_storage(url, processes=2, trials=9)
    assert (speed.processes, speed.trials) == (2, 9)
    assert min(speed.ask_seconds, speed.tell_seconds, speed.load_seconds) > 0
    assert open_storage(url).names() == ()


def test_threads_in_memory():
    assert measure_storage(None, processes=3, trials=50).asks_per_second > 50


def test_a_trial_per_process_is_needed():
    with pytest.raises(SettingError, match="at least one process and one trial per process are needed, got 3 and 2"):
        measure_storage(None, processes=3, trials=2)
