"""Experiments with costs that depend on the design: what is counted, and what the tables say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fidelium import problems
from fidelium.experiments import methods
from fidelium.experiments.cost_tables import cost_tables
from fidelium.experiments.records import Cell, Run, load_run
from fidelium.experiments.report import COSTS, options_for
from fidelium.experiments.runner import run_cell
from fidelium.experiments.spec import shipped_spec
from fidelium.fidelity import Fidelity


def cell(strategy: str, seed: int = 0) -> Cell:
    return Cell("costs-peaks", strategy, seed, 90.0, (45.0, 90.0), (), recommendations=1, own_start=True)


@pytest.fixture(scope="module", params=["random", "random-measured-costs"])
def run(request, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("costs")
    run_cell(cell(request.param), folder)
    return load_run(cell(request.param), folder)


def test_what_is_spent_is_what_runs_really_cost_whatever_the_study_counts(run):
    problem = problems.get("costs-peaks")
    spent = 0.0
    for query in run.queries:
        assert query["cost"] == pytest.approx(problem.cost(query["params"], query["fidelity"]))
        spent += query["cost"]
        assert query["spent"] == pytest.approx(spent)
    last = run.queries[-1]
    assert last["spent"] - last["cost"] < 90  # nothing was started beyond the budget
    assert last["spent"] > 70


def test_regrets_are_compared_at_the_same_true_cost(run):
    other = replace(run, cell=replace(run.cell, strategy="other"), queries=run.queries[:-1])
    worse = tuple({**query, "simple_regret": 2 * query["simple_regret"]} for query in run.queries)
    base = replace(run, cell=replace(run.cell, strategy="base"), queries=worse)
    table, spending = cost_tables([run, other, base], "base", {"costs-peaks": 0.7})
    row = next(row for row in table.rows if row[1] == run.cell.strategy)
    assert row[2] == "90"
    assert (row[5], row[6], row[7]) == ("**0.5**", "0.7", "0.5")
    assert row[8] == "45: 0.5"
    assert {row[1]: row[2] for row in spending.rows}["base"] == f"{len(run.queries):.3g}"


def test_a_strategy_may_count_measured_costs():
    assert methods.measures_costs("dnn-mfbo-measured-costs")
    assert not methods.measures_costs("dnn-mfbo")
    assert methods.without_suffix("dnn-mfbo-measured-costs") == "dnn-mfbo"
    methods.check_method("dnn-mfbo-measured-costs")


def test_the_shipped_spec_has_all_such_problems_with_their_bars():
    spec = shipped_spec("costs")
    assert set(spec.problems) == {name for name in problems.names() if name.startswith("costs-")}
    assert spec.seeds == tuple(range(10))
    assert options_for(spec) is COSTS
    assert spec.at_most == {name: 1.1 if "equal" in name else 0.7 for name in spec.problems}
    assert spec.cells()


@pytest.mark.parametrize("name", [name for name in problems.names() if name.startswith("costs-")])
def test_costs_vary_tenfold_or_by_chance_alone(name):
    import numpy as np

    problem = problems.get(name)
    designs = [problem.space.decode(row) for row in problem.space.sample(np.random.default_rng(0), 400)]
    factors = [problem.cost(params, problem.ladder.target.name) / problem.ladder.costs[-1] for params in designs]
    assert math.exp(np.mean(np.log(factors))) == pytest.approx(1, rel=0.1)
    if "equal" in name:
        assert np.std(np.log(factors)) == pytest.approx(0.1, rel=0.2)
    else:
        assert 8 < max(factors) / min(factors) <= 10.0001
    rung = Fidelity(problem.ladder.target.name, cost=problem.ladder.costs[-1])
    assert problem(designs[0], rung)["cost"] == factors[0] * problem.ladder.costs[-1]
