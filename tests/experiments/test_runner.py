"""The runner, killed: nothing complete is lost or run twice, and the result is that of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fidelium.experiments.records import Cell, is_complete, load_run
from fidelium.experiments.report import regret_tables, summary_tables
from fidelium.experiments.runner import BusyFolderError, _alone_in, run_cells
from fidelium.experiments.spec import load_spec

SPEC = """
name: killed
problems: {park1: {budget: 800, checkpoints: [100]}}
strategies: [random]
seeds: 0-3
"""


def start(spec: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [Path(sys.executable).parent / "fidelium", "bench", "run", spec, "--out", out]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tables(spec: Path, folder: Path) -> list[str]:
    runs = [load_run(cell, folder) for cell in load_spec(spec).cells()]
    return [table.markdown() for table in [*regret_tables(runs), *summary_tables(runs)]]


def complete_files(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("*.jsonl")}


def descendants(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in children}.union(*(descendants(int(child)) for child in children))


def wait_until(condition, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
def test_killed_at_any_moment_it_loses_nothing_and_repeats_nothing(tmp_path):
    spec = tmp_path / "killed.yaml"
    spec.write_text(SPEC)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert start(spec, undisturbed).wait() == 0
    # in the middle of a cell, and right after cells have ended
    moments = (
        lambda: any(path.stat().st_size > 3_000 for path in killed.glob("*.partial")),
        lambda: len(list(killed.glob("*.jsonl"))) >= 2,
        lambda: len(list(killed.glob("*.jsonl"))) >= 3,
    )
    kept: dict[str, tuple[int, int]] = {}
    for moment in moments:
        runner = start(spec, killed)
        wait_until(moment)
        workers = descendants(runner.pid)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 20)  # noqa: B023 - called at once
        now = complete_files(killed)
        assert kept.items() <= now.items()  # the same files, never written again
        kept = now
    assert start(spec, killed).wait() == 0
    assert kept.items() <= complete_files(killed).items()
    assert tables(spec, killed) == tables(spec, undisturbed)
    assert list(killed.glob("*.partial")) == []


def test_complete_cells_are_not_run_again_and_one_that_fails_is_told(tmp_path):
    good, bad = (Cell("park1", name, 0, 20.0, (20.0,), (("low", 5), ("high", 2))) for name in ("random", "no-such"))
    ended: list[tuple[Cell, BaseException | None]] = []
    run_cells([good, bad], tmp_path, 2, lambda cell, error: ended.append((cell, error)), lambda: None)
    assert {cell for cell, _ in ended} == {good, bad}
    assert "unknown strategy 'no-such'" in str(dict(ended)[bad])
    assert is_complete(good, tmp_path)
    before = complete_files(tmp_path)
    ended.clear()
    run_cells([good], tmp_path, 1, lambda cell, error: ended.append((cell, error)), lambda: None)
    assert ended == []
    assert complete_files(tmp_path) == before


def test_a_folder_has_one_runner_at_a_time(tmp_path):
    with _alone_in(tmp_path), pytest.raises(BusyFolderError, match="another run is at work"):
        run_cells([], tmp_path, 1, lambda cell, error: None, lambda: None)
    run_cells([], tmp_path, 1, lambda cell, error: None, lambda: None)
    assert os.listdir(tmp_path) == [".lock"]
