"""The live display of a running experiment."""

from __future__ import annotations

import pytest

from fidelium.cli.bench_live import regret_table
from fidelium.experiments.records import Cell, Run


def _cell(problem: str, strategy: str, seed: int) -> Cell:
    return Cell(problem, strategy, seed, 10.0, (10.0,), (("low", 5), ("high", 2)))


def _run(cell: Cell, regret: float) -> Run:
    query = {"fidelity": "high", "cost": 10, "spent": 10.0, "simple_regret": regret, "seconds": {"cpu": 0.1}}
    return Run(cell, {"simple_regret": 50.0}, (query,), (), {"seconds": 1.0, "warnings": []})


@pytest.mark.parametrize(
    ("problems", "strategies", "header"),
    [
        (("branin",), ("dnn-mfbo", "sf-ei"), ["strategy", "branin"]),
        (("branin", "levy", "park1"), ("dnn-mfbo", "sf-ei"), ["problem", "dnn-mfbo", "sf-ei"]),
    ],
)
def test_the_longer_of_problems_and_strategies_are_the_rows(problems, strategies, header):
    cells = [_cell(problem, strategy, seed) for problem in problems for strategy in strategies for seed in (0, 1, 2)]
    done = {cell: _run(cell, cell.seed + 1.0) for cell in cells if cell.problem == "branin" and cell.seed < 2}
    grid = regret_table(cells, done)
    assert [column.header for column in grid.columns] == header
    assert list(grid.columns[0].cells) == list(strategies if header[0] == "strategy" else problems)
    assert next(iter(grid.columns[1].cells)) == "2/3  1.5"
    if header[0] == "problem":
        assert list(grid.columns[2].cells) == ["2/3  1.5", "0/3", "0/3"]
