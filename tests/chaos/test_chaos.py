"""`make chaos` in short: real kills, a real server, inputs of every kind; and what the harness itself must see."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from tests.chaos.fuzz import SHARES, Tally, make_target, try_one
from tests.chaos.plan import plan_study
from tests.chaos.processes import marked
from tests.chaos.siege import Quota, Siege
from tests.chaos.simulator import value_of
from tests.chaos.verdict import Kill, Run, judge, look

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3], ids=["SQLite with workers", "PostgreSQL with restarts"])
def test_a_study_under_fire_loses_nothing_and_doubles_nothing(number, tmp_path, database_server):
    plan = replace(plan_study(7, number), budget=60)
    is_local = plan.storage == "sqlite"
    url = f"sqlite:///{tmp_path}/study.db" if is_local else database_server.new_database()
    siege = Siege(plan, tmp_path, url, tmp_path / "cache", None if is_local else database_server)
    verdict = siege.run(Quota(8))
    assert verdict.findings == ()
    assert len(verdict.kills) >= 1
    assert verdict.states.total() >= 10
    assert marked(str(tmp_path)) == []


@pytest.mark.parametrize("name", SHARES)
def test_every_input_is_accepted_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target, tally = make_target(name, tmp_path / "a" / "b"), Tally()
    for index in range(200):
        try_one(target, name, 11, index, tally)
    assert tally.faults == []
    assert tally.accepted > 0
    assert tally.refused > 0


def done(number: int, x: float = 0.1, attempt: int = 1, finished: float = 20.0) -> Trial:
    params = {"x": x, "tiles": 2, "kind": "foam"}
    value = value_of(x, 2, "foam", "fine")
    return Trial(number, params, Fidelity("fine", 4.0), TrialState.DONE, value, attempt=attempt, finished=finished)


def faults(trials: list[Trial], runs: list[Run], kills: list[Kill]) -> list[str]:
    plan = replace(plan_study(0, 0), budget=4.0 * len(trials), retries=0)
    return [finding.fault for finding in judge(plan, trials, runs, kills)]


FIRST, SECOND = Run(0, 1, "runner-0", 10.0, "finish", 2.08), Run(0, 2, "runner-1", 15.0, "finish", 2.08)


def test_a_run_that_is_repeated_without_a_kill_is_doubled():
    trial = done(0, attempt=2)
    assert faults([trial], [FIRST, SECOND], []) == ["doubled"]
    assert faults([trial], [FIRST, SECOND], [Kill(12.0, "runner", "runner-0")]) == []
    assert faults([trial], [FIRST, SECOND], [Kill(12.0, "runner", "runner-7")]) == ["doubled"]
    assert faults([trial], [FIRST, SECOND], [Kill(16.0, "runner", "runner-0")]) == ["doubled"]
    assert faults([trial], [FIRST, SECOND], [Kill(12.0, "guard", "runner-0", 0, 1)]) == []
    assert faults([trial], [FIRST, SECOND], [Kill(12.0, "guard", "runner-0", 5, 1)]) == ["doubled"]


def test_a_run_after_the_value_was_stored_is_doubled():
    kills = [Kill(12.0, "runner", "runner-0")]
    assert faults([done(0, attempt=2, finished=14.0)], [FIRST, SECOND], kills) == ["doubled"]


def test_a_value_that_is_not_the_designs_is_lost():
    assert faults([done(0)], [FIRST], []) == []
    assert faults([replace(done(0), value=7.0)], [FIRST], []) == ["lost"]
    assert faults([done(0)], [], []) == ["lost"]


def test_a_failure_needs_a_cause():
    failed = replace(done(0), state=TrialState.FAILED, value=None, reason="its guard process was killed")
    assert faults([failed], [FIRST], []) == ["lost"]
    assert faults([failed], [FIRST], [Kill(11.0, "guard", "runner-0", 0, 1)]) == []


def test_what_is_left_running_or_unspent_is_stuck():
    running = replace(done(0), state=TrialState.RUNNING, value=None, finished=None)
    assert faults([running], [FIRST], []) == ["stuck"]
    assert [found.fault for found in judge(replace(plan_study(0, 0), budget=5.0), [done(0)], [FIRST], [])] == ["stuck"]


def test_a_look_sees_what_vanished_changed_or_was_overspent():
    plan = replace(plan_study(0, 0), budget=8.0)
    one, two = done(0), done(1, x=0.2)
    assert list(look(plan, [one], [one, two])) == []
    assert [found.fault for found in look(plan, [one, two], [one])] == ["lost"]
    assert [found.fault for found in look(plan, [one], [replace(one, value=1.0)])] == ["lost"]
    assert [found.fault for found in look(plan, [], [one, two, done(2, x=0.3)])] == ["overspent"]


@pytest.mark.slow
def test_ctrl_c_prints_the_table_so_far(tmp_path):
    command = [sys.executable, "-m", "tests.chaos", "--kills", "0", "--inputs", "1000000", "--processes", "1"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert "inputs" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "| command lines" in out
    assert out.endswith("interrupted: that was so far\n")
