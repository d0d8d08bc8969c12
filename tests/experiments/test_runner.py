"""A cell: equal starts, a record of the whole study, complete only at its end. The runner, killed: nothing complete is
lost or run twice, and the result is that of an undisturbed run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fidelium import problems
from fidelium.errors import SettingError
from fidelium.experiments.records import Cell, is_complete, load_run, spent
from fidelium.experiments.runner import BusyFolderError, _alone_in, initial_observations, run_cell, run_cells
from fidelium.experiments.spec import load_spec
from fidelium.experiments.tables import regret_tables, summary_tables

INITIAL = (("low", 5), ("high", 2))


def cell_of(seed: int = 0, strategy: str = "random") -> Cell:
    return Cell("park1", strategy, seed, 45.0, (30.0, 45.0), INITIAL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    run_cell(cell_of(), folder)
    return folder


def test_every_strategy_starts_from_the_same_observations():
    problem = problems.get("branin")
    first, again, other = (list(initial_observations(problem, seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert [fidelity for _, fidelity, _ in first] == ["low"] * 20 + ["medium"] * 20 + ["high"] * 2
    for params, fidelity, value in first:
        assert value == problem.evaluate(params, fidelity)


def test_initial_sizes_can_be_chosen():
    chosen = list(initial_observations(problems.get("branin"), 3, {"low": 2, "high": 1}))
    assert [fidelity for _, fidelity, _ in chosen] == ["low", "low", "high"]


def test_a_record_tells_the_whole_course(folder):
    run = load_run(cell_of(), folder)
    problem = problems.get("park1")
    # random asks the target four times, and what is left at the lowest
    assert [query["fidelity"] for query in run.queries] == ["high"] * 4 + ["low"] * 5
    assert [query["spent"] for query in run.queries] == [10, 20, 30, 40, 41, 42, 43, 44, 45]
    seen = [value for _, fidelity, value in initial_observations(problem, 0) if fidelity == "high"]
    assert run.start["simple_regret"] == pytest.approx(problem.optimum - max(seen))
    for query in run.queries:
        assert query["value"] == problem.evaluate(query["params"], query["fidelity"])
        seen += [query["value"]] if query["fidelity"] == "high" else []
        assert query["simple_regret"] == pytest.approx(problem.optimum - max(seen))
        assert query["seconds"]["total"] > 0
    assert run.end["warnings"] == []
    assert {"python", "fidelium", "jax"} <= set(run.start["versions"])
    assert run.start["machine"]["cores"] >= 1


def test_without_a_model_the_best_observed_design_is_recommended_from_what_was_known_at_that_cost(folder):
    run = load_run(cell_of(), folder)
    assert [made["cost"] for made in run.recommendations] == sorted(cell_of().recommendation_costs)
    for made in run.recommendations:
        assert made["recommendation_regret"] == pytest.approx(run.simple_regret(made["cost"]))
        assert made["inference_regret"] == pytest.approx(run.simple_regret(made["cost"]))


def test_a_model_recommends_what_it_believes(tmp_path):
    cell = replace(cell_of(strategy="sf-ei"), budget=20.0, checkpoints=(15.0, 20.0))
    run_cell(cell, tmp_path)
    run, problem = load_run(cell, tmp_path), problems.get("park1")
    for made in run.recommendations:
        true_value = problem.value(made["recommended"], "high")
        assert made["recommendation_regret"] == pytest.approx(problem.optimum - true_value)
        assert made["inference_regret"] == pytest.approx(problem.optimum - made["mean"])
    assert run.inference_regret(15.0) == run.recommendations[-3]["inference_regret"]


def test_a_run_answers_for_every_cost(folder):
    run = load_run(cell_of(), folder)
    assert run.simple_regret(5) == run.start["simple_regret"]
    assert run.simple_regret(25) == run.queries[1]["simple_regret"]
    assert run.best_value(25) == pytest.approx(problems.get("park1").optimum - run.simple_regret(25))
    assert run.cost_to_reach(run.queries[-1]["simple_regret"]) <= 40
    assert run.cost_to_reach(1e9) == 0
    assert run.cost_to_reach(-1.0) == float("inf")


def test_a_cell_is_complete_only_at_its_end(folder, tmp_path):
    cell = cell_of()
    assert is_complete(cell, folder)
    assert not cell.partial(folder).exists()
    assert spent(cell, folder) == 45
    assert not is_complete(cell, tmp_path)
    assert spent(cell, tmp_path) == 0
    lines = cell.path(folder).read_text().splitlines(keepends=True)
    third = next(i for i, line in enumerate(lines) if json.loads(line).get("spent") == 30)
    cell.partial(tmp_path).write_text("".join(lines[: third + 1]) + lines[third + 1][:10])  # killed in mid-line
    assert not is_complete(cell, tmp_path)
    assert spent(cell, tmp_path) == 30


def test_an_error_leaves_no_complete_record(tmp_path):
    cell = replace(cell_of(), strategy="no-such-strategy")
    with pytest.raises(ValueError, match="unknown strategy"):
        run_cell(cell, tmp_path)
    assert not is_complete(cell, tmp_path)


def test_records_of_another_experiment_are_not_mixed_in(folder):
    with pytest.raises(SettingError, match="other checkpoints or initial points; choose another folder"):
        load_run(replace(cell_of(), checkpoints=(45.0,)), folder)


def test_a_cell_whose_time_is_up_stops_with_what_it_has(folder, tmp_path):
    limited = replace(cell_of(), longest=1e-9)
    run_cell(limited, tmp_path)
    stopped, whole = load_run(limited, tmp_path), load_run(cell_of(), folder)
    assert [query["spent"] for query in stopped.queries] == [10]
    assert stopped.stopped_at == 10
    assert whole.stopped_at is None
    assert stopped.simple_regret(45) == whole.simple_regret(10)
    assert [made["cost"] for made in stopped.recommendations] == [made["cost"] for made in whole.recommendations]
    assert not is_complete(cell_of(), tmp_path)  # nobody takes it for the whole study


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
    with _alone_in(tmp_path), pytest.raises(BusyFolderError, match="another run is using"):
        run_cells([], tmp_path, 1, lambda cell, error: None, lambda: None)
    run_cells([], tmp_path, 1, lambda cell, error: None, lambda: None)
    assert os.listdir(tmp_path) == [".lock"]
