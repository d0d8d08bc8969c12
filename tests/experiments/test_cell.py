"""A cell: equal starts, a record of the whole course, complete only at its end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fidelium import problems
from fidelium.errors import SettingError
from fidelium.experiments.cell import initial_observations, run_cell
from fidelium.experiments.records import Cell, is_complete, load_run, spent

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
        true_value = problem.evaluate(made["recommended"], "high")
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
