"""Experiments with constraints and failures: what is recorded, and what the tables say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fidelium import problems
from fidelium.cli import main
from fidelium.errors import SettingError, UnknownNameError
from fidelium.experiments import methods
from fidelium.experiments.constrained_tables import constraint_tables, failure_tables, relative_regret_table
from fidelium.experiments.records import Cell, Run, load_run
from fidelium.experiments.report import CONSTRAINTS, FAILURES, options_for
from fidelium.experiments.runner import run_cell
from fidelium.experiments.spec import make_spec, shipped_spec


def cell(problem: str, strategy: str = "random", budget: float = 150.0) -> Cell:
    return Cell(problem, strategy, 0, budget, (budget,), (), recommendations=1, own_start=True)


@pytest.fixture(scope="module")
def constrained(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("constrained")
    run_cell(cell("gramacy"), folder)
    return load_run(cell("gramacy"), folder)


@pytest.fixture(scope="module")
def failing(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("failing")
    run_cell(cell("fails-half-space"), folder)
    return load_run(cell("fails-half-space"), folder)


def test_the_regret_is_that_of_the_best_feasible_value(constrained):
    problem = problems.get("gramacy")
    best = math.inf
    for query in constrained.target_queries:
        value, feasible = problem.value(query["params"], "high"), problem.feasible_value(query["params"]) is not None
        assert query["feasible"] is feasible
        assert set(query["outcomes"]) == {"c1", "c2"}
        best = min(best, value) if feasible else best
        assert query["simple_regret"] == pytest.approx(best - problem.optimum)
    assert constrained.relative_regret(150.0) == pytest.approx((best - problem.optimum) / problem.optimum)


def test_the_first_feasible_design_has_its_cost_and_infeasible_ones_their_share(constrained):
    flags = [query["feasible"] for query in constrained.target_queries]
    assert any(flags)
    assert not all(flags)
    first = constrained.target_queries[flags.index(True)]
    assert constrained.first_feasible == first["spent"]
    assert constrained.infeasible_share == pytest.approx(flags.count(False) / len(flags))
    never = replace(constrained, queries=tuple({**query, "feasible": False} for query in constrained.queries))
    assert never.first_feasible == math.inf
    assert never.infeasible_share == 1


def test_a_violation_within_the_tolerance_is_accepted_and_no_regret_is_below_zero(constrained):
    assert constrained.tolerant_regret(0.0) == pytest.approx(constrained.relative_regret(150.0))
    optimum = problems.get("gramacy").optimum
    known = {"fidelity": "high", "failed": None}
    near = {**known, "value": 1.1 * optimum, "outcomes": {"c1": 5e-5, "c2": -1.0}}
    beyond = {**known, "value": 0.9 * optimum, "outcomes": {"c1": 5e-5, "c2": 5e-5}}
    assert replace(constrained, queries=(near,)).tolerant_regret(1e-4) == pytest.approx(0.1)
    assert replace(constrained, queries=(near,)).tolerant_regret(1e-5) == math.inf
    assert replace(constrained, queries=(near, beyond)).tolerant_regret(1e-4) == 0.0


def test_the_initial_design_is_paid(constrained):
    spent = [query["spent"] for query in constrained.queries]
    assert spent == sorted(spent)
    assert spent[0] > 0
    assert math.fsum(query["cost"] for query in constrained.queries) == spent[-1] <= 150
    assert constrained.start["simple_regret"] == math.inf


def test_failed_runs_are_recorded_with_their_reason_and_counted(failing):
    failed = [
        sum(query["params"].values()) > (1.1 if query["fidelity"] == "high" else 1.15) for query in failing.queries
    ]
    assert [query["failed"] is not None for query in failing.queries] == failed
    assert {query["failed"] for query in failing.queries} == {None, "the walls touch"}
    assert failing.failures == sum(failed) > 0
    longest = max(len(series) for series in "".join("x" if each else " " for each in failed).split())
    assert failing.failures_in_a_row == longest
    assert all(query["value"] is None for query in failing.queries if query["failed"])


def with_regrets(run: Run, strategy: str, regret: float) -> Run:
    queries = tuple({**query, "simple_regret": regret} for query in run.queries)
    return replace(run, cell=replace(run.cell, strategy=strategy), queries=queries)


def test_ours_is_compared_with_the_better_peer(constrained):
    optimum = problems.get("gramacy").optimum
    runs = [
        with_regrets(constrained, name, share * optimum)
        for name, share in (("dnn-mfbo", 0.01), ("egobox", 0.04), ("botorch-clogei", 0.02))
    ]
    table = relative_regret_table(runs)
    assert table.header == ("problem", "cost", "dnn-mfbo", "egobox", "botorch-clogei", "dnn-mfbo / better peer")
    assert table.rows == (("gramacy", "150", "**0.01**", "0.04", "0.02", "**0.5**"),)
    assert "violations up to 0.0001 accepted" in relative_regret_table(runs, 1e-4).title != table.title
    worse = relative_regret_table([with_regrets(constrained, "dnn-mfbo", optimum), *runs[1:]])
    assert worse.rows[0][-1] == "50"


def test_a_study_without_a_feasible_design_is_counted(constrained):
    never = replace(constrained, queries=tuple({**query, "feasible": False} for query in constrained.queries))
    never = with_regrets(never, "egobox", math.inf)
    tables = {table.title: table for table in constraint_tables([never, with_regrets(constrained, "random", 0.1)])}
    (first,) = [table for title, table in tables.items() if title.startswith("cost of the first feasible")]
    assert first.rows[0][1] == "inf"
    (share,) = [table for title, table in tables.items() if "found no feasible design" in title]
    assert share.rows[0][1:] == ("100%", "0%")


def test_failures_are_compared_with_the_baseline(failing):
    quarter = [each for number, each in enumerate(failing.queries) if each["failed"] is None or number % 4 == 0]
    ours = replace(failing, cell=replace(failing.cell, strategy="dnn-mfbo"), queries=tuple(quarter))
    before = replace(failing, cell=replace(failing.cell, strategy="dnn-mfbo-no-failure-model"))
    (table,) = failure_tables([ours, before], "dnn-mfbo-no-failure-model")
    rows = {row[1]: row for row in table.rows}
    assert float(rows["dnn-mfbo"][6]) == pytest.approx(ours.failures / before.failures, rel=0.1)
    assert rows["dnn-mfbo-no-failure-model"][6] == "–"


def test_a_strategy_may_learn_nothing_from_failures():
    assert methods.learns_failures("dnn-mfbo")
    assert not methods.learns_failures("dnn-mfbo-no-failure-model")
    methods.check_method("sf-ei-no-failure-model")
    with pytest.raises(UnknownNameError):
        methods.check_method("nobody-no-failure-model")


@pytest.mark.parametrize("problem", ["gramacy", "fails-ball"])
def test_problems_with_outcomes_or_failures_need_paid_starts(problem):
    spec = make_spec({"name": "s", "problems": [problem], "strategies": ["random"], "seeds": "0"}, "x")
    with pytest.raises(SettingError, match="own_start: true"):
        spec.cells()


@pytest.mark.parametrize(("name", "options"), [("constraints", CONSTRAINTS), ("failures", FAILURES)])
def test_the_shipped_specs_are_ten_seeds_of_all_such_problems(name, options):
    spec = shipped_spec(name)
    every = [problems.get(each) for each in problems.names()]
    wanted = {each.name for each in every if (each.constraints if name == "constraints" else each.fails)}
    assert set(spec.problems) == wanted - {"spring-three"}  # what suggestions are timed with
    assert spec.seeds == tuple(range(10))
    assert spec.own_start
    assert options_for(spec) == options


def test_the_command_prints_and_writes_the_tables(capsys, tmp_path):
    spec = tmp_path / "small.yaml"
    spec.write_text(
        "name: small\nproblems: {gramacy: {budget: 60}}\nstrategies: [random]\nseeds: 0-1\nown_start: true\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["bench", "run", str(spec), "--workers", "1", "--out", str(tmp_path / "out")])
    assert end.value.code == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "regret of the best feasible design as a share of the optimum" in page
    assert "own initial design, paid from the budget" in page
    assert "cost of the first feasible design" in " ".join(capsys.readouterr().out.split())
