"""The regret experiment: equal starts, complete records, medians as numpy has them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fidelium import problems
from fidelium.errors import SettingError
from fidelium.experiments import speed
from fidelium.experiments.regret import Cell, Run, initial_observations, is_complete, load, run_cell, run_cells, spent
from fidelium.experiments.regret_report import checkpoints, markdown, rows


def test_every_strategy_starts_from_the_same_observations():
    problem = problems.get("branin")
    first, again, other = (list(initial_observations(problem, seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert [fidelity for _, fidelity, _ in first] == ["low"] * 20 + ["medium"] * 20 + ["high"] * 2
    for params, fidelity, value in first:
        assert value == problem.evaluate(params, fidelity)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regret")
    for seed in (0, 1):
        run_cell(Cell("park1", "random", seed, 45.0), folder)
    return folder


def test_a_record_tells_the_whole_course(folder):
    cell = Cell("park1", "random", 0, 45.0)
    run = load(cell, folder)
    problem = problems.get("park1")
    # random asks the target four times, and what is left at the lowest
    assert [query["fidelity"] for query in run.queries] == ["high"] * 4 + ["low"] * 5
    assert [query["spent"] for query in run.queries] == [10, 20, 30, 40, 41, 42, 43, 44, 45]
    seen = [value for _, fidelity, value in initial_observations(problem, 0) if fidelity == "high"]
    assert run.initial_regret == pytest.approx(problem.optimum - max(seen))
    for query in run.queries:
        assert query["value"] == problem.evaluate(query["params"], query["fidelity"])
        seen += [query["value"]] if query["fidelity"] == "high" else []
        assert query["simple_regret"] == pytest.approx(problem.optimum - max(seen))
        assert query["seconds"]["total"] > 0
    recommended = problem.evaluate(run.final["recommended"], "high")
    assert run.final["recommendation_regret"] == pytest.approx(problem.optimum - recommended)
    assert run.final["warnings"] == []
    assert run.simple_regret(5) == run.initial_regret
    assert run.simple_regret(25) == run.queries[1]["simple_regret"]


def test_a_cell_is_complete_only_at_its_end(folder, tmp_path):
    cell = Cell("park1", "random", 0, 45.0)
    text = cell.path(folder).read_text()
    assert is_complete(cell, folder)
    assert spent(cell, folder) == 45
    assert not is_complete(cell, tmp_path)
    assert spent(cell, tmp_path) == 0
    lines = text.splitlines(keepends=True)
    cell.path(tmp_path).write_text("".join(lines[:4]) + lines[4][:10])  # interrupted in the middle of a line
    assert not is_complete(cell, tmp_path)
    assert spent(cell, tmp_path) == 30


def test_complete_cells_are_not_run_again(folder):
    cells = [Cell("park1", "random", seed, 45.0) for seed in (0, 1)]
    before = [cell.path(folder).read_text() for cell in cells]
    ended: list[Cell] = []
    run_cells(cells, folder, 1, lambda cell, error: ended.append(cell), lambda: None)
    assert ended == []
    assert [cell.path(folder).read_text() for cell in cells] == before


def test_cells_run_in_processes_and_one_that_fails_is_told(tmp_path):
    cells = [Cell("park1", "no-such-strategy", 0, 45.0)]
    errors: list[BaseException | None] = []
    run_cells(cells, tmp_path, 1, lambda cell, error: errors.append(error), lambda: None)
    assert "unknown strategy 'no-such-strategy'" in str(errors[0])


def test_medians_over_seeds(folder):
    runs = [load(Cell("park1", "random", seed, 45.0), folder) for seed in (0, 1)]
    (row,) = rows(runs)
    assert list(row.regrets) == [30, 45]
    for cost, regret in row.regrets.items():
        assert regret == np.median([run.simple_regret(cost) for run in runs])
    assert row.recommendation == np.median([run.final["recommendation_regret"] for run in runs])
    assert row.queries == {"low": 5, "high": 4}
    text = markdown([row])
    assert "| strategy | 30 | 45 | recommended | queries (mean) | s / query |" in text
    assert f"| random | {row.regrets[30]:.2g} | {row.regrets[45]:.2g} |" in text


def test_checkpoints_are_the_papers_and_end_with_the_budget():
    assert checkpoints("branin", 1500) == (300, 500, 1000, 1500)
    assert checkpoints("park1", 300) == (30, 60, 100, 300)
    assert checkpoints("levy", 600) == (300, 500, 600)


def test_records_are_plain_json(folder):
    for line in Cell("park1", "random", 1, 45.0).path(folder).read_text().splitlines():
        assert json.loads(line)
    assert isinstance(load(Cell("park1", "random", 1, 45.0), folder), Run)


@pytest.mark.parametrize(
    ("text", "sizes"), [("20/20/2", (20, 20, 2)), ("42", (20, 20, 2)), ("500", (238, 238, 24)), ("3/0/0", (3, 0, 0))]
)
def test_sizes(text, sizes):
    assert speed.parse_sizes(text, problems.get("branin")) == sizes


@pytest.mark.parametrize("text", ["", "a", "1/2", "1/2/3/4", "-5", "0", "0/0/0"])
def test_bad_sizes(text):
    with pytest.raises(SettingError):
        speed.parse_sizes(text, problems.get("branin"))


def test_growth_is_measured_with_mostly_cheap_observations():
    few, many = speed.growth_sizes(problems.get("branin"))
    assert (sum(few), sum(many)) == (500, 4000)
    assert few[0] > 2 * sum(few[1:])
    assert many[0] > 2 * sum(many[1:])
