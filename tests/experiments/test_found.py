"""The experiment on listed designs: a study ends when the best is found, and the table says what that cost."""

from pathlib import Path

import pytest

from fidelium import problems
from fidelium.experiments.found_tables import found_tables
from fidelium.experiments.records import load_run
from fidelium.experiments.report import FOUND, options_for
from fidelium.experiments.runner import run_cell
from fidelium.experiments.spec import make_spec, shipped_spec


def test_the_shipped_experiment_compares_with_the_single_fidelity_method() -> None:
    spec = shipped_spec("catalogue")
    assert spec.baseline == "sf-ei"
    assert len(spec.seeds) == 10
    assert options_for(spec) is FOUND


def test_a_study_ends_with_the_best_item_and_its_cost_is_in_the_table(tmp_path: Path) -> None:
    spec = make_spec(
        {"name": "small", "problems": {"candidates": {"budget": 700}}, "strategies": ["random"], "seeds": [0, 1],
         "recommendations": 1, "baseline": "random"}, "test",
    )  # fmt: skip
    runs = []
    for cell in spec.cells():
        run_cell(cell, tmp_path)
        runs.append(load_run(cell, tmp_path))
    best = problems.get("candidates").optimisers[0]["candidate"]
    for run in runs:
        items = [query["params"]["candidate"] for query in run.queries]
        assert items[-1] == best
        assert best not in items[:-1]
        assert len(set(items)) == len(items)
        assert run.cost_to_reach(0.0) == pytest.approx(len(items))
    (table,) = found_tables(runs, "random")
    (row,) = table.rows
    costs = [run.cost_to_reach(0.0) for run in runs]
    assert row[0] == "random"
    assert [float(cell) for cell in row[1:4]] == pytest.approx([*costs, sum(costs) / 2], rel=1e-2)
