"""Studies that survive: the runner and its workers are killed for real, again and again."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fidelium as fd

RUN = """
import sys, time
import fidelium as fd
import fidelium.study.resume

fidelium.study.resume.RESTARTS = 30  # on a busy machine, more than ten of the kills may hit the same trial

def objective(params, fidelity):
    time.sleep(0.02 if fidelity.name == "coarse" else 0.15)
    with open(sys.argv[2], "a") as file:
        file.write(f"{params['x']!r}\\n")
    return 10 * params["x"]

study = fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 5)],
    direction="maximize", strategy="random", storage=sys.argv[1], name="night",
    initial={"coarse": 30, "fine": 18}, load_if_exists=True)
study.optimize(objective, 180, workers=int(sys.argv[3]))
"""
FIELDS = "number, params, fidelity, value"


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "run.py"
    path.write_text(RUN)
    return path


def start(script: Path, url: str, workers: int) -> subprocess.Popen[bytes]:
    log = script.parent / "evaluated.txt"
    return subprocess.Popen([sys.executable, str(script), url, str(log), str(workers)], start_new_session=True)


def finished(file: Path) -> dict[int, tuple[object, ...]]:
    if not file.exists():
        return {}
    study = fd.load_study(f"sqlite:///{file}")
    return {t.number: (t.params["x"], t.fidelity.name, t.value) for t in study.trials if t.state == "done"}


def undisturbed() -> fd.Study:
    return fd.create_study(
        {"x": fd.Real(0, 1)},
        [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 5)],
        direction="maximize",
        strategy="random",
        initial={"coarse": 30, "fine": 18},
    )


@pytest.mark.slow
def test_thirty_kills_lose_nothing_and_double_nothing(script, tmp_path):
    file = tmp_path / "night.db"
    url = f"sqlite:///{file}"
    moments = random.Random(5)
    before: dict[int, tuple[object, ...]] = {}
    for _ in range(30):
        runner = start(script, url, 2)
        time.sleep(moments.uniform(0.2, 1.6))
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        now = finished(file)
        assert before.items() <= now.items()  # what was told stays as it was told
        before = now
    assert start(script, url, 2).wait() == 0
    study = fd.load_study(url)
    assert [trial.number for trial in study.trials] == list(range(len(study.trials)))
    assert {trial.state for trial in study.trials} == {"done"}
    assert before.items() <= finished(file).items()
    assert study.spent == 180 == sum(trial.fidelity.cost for trial in study.trials)
    assert len({(trial.params["x"], trial.fidelity.name) for trial in study.trials}) == len(study.trials) >= 60
    assert all(trial.value == 10 * trial.params["x"] for trial in study.trials)
    evaluated = (tmp_path / "evaluated.txt").read_text().split()
    assert set(evaluated) == {repr(trial.params["x"]) for trial in study.trials}
    with sqlite3.connect(file) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_a_sequential_study_killed_at_any_moment_asks_what_the_undisturbed_one_does(script, tmp_path):
    url = f"sqlite:///{tmp_path}/night.db"
    moments = random.Random(6)
    for _ in range(5):
        runner = start(script, url, 1)
        time.sleep(moments.uniform(0.9, 2.5))
        runner.send_signal(signal.SIGKILL)
        runner.wait()
    assert start(script, url, 1).wait() == 0
    whole = undisturbed()
    whole.optimize(lambda params, fidelity: 10 * params["x"], 180)
    killed = fd.load_study(url).trials
    assert [(t.number, t.params, t.fidelity, t.value) for t in killed] == [
        (t.number, t.params, t.fidelity, t.value) for t in whole.trials
    ]
    assert len((tmp_path / "evaluated.txt").read_text().split()) >= len(killed)


def test_workers_end_with_the_runner_that_was_killed(script, tmp_path):
    runner = start(script, f"sqlite:///{tmp_path}/night.db", 2)
    time.sleep(2.5)
    group = os.getpgid(runner.pid)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    deadline = time.monotonic() + 20
    while is_there(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_there(group)


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
