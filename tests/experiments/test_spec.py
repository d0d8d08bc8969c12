"""Specs: what a file says is what is run, and every mistake is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium import problems
from fidelium.errors import BudgetError, FidelityError, SettingError, UnknownNameError
from fidelium.experiments.spec import load_spec, make_spec, parse_seeds, parse_spec, shipped_spec

TEXT = """
name: small
problems:
  branin:
  park1: {budget: 100, checkpoints: [30, 60, 400], initial: {low: 3}}
strategies: [random, sf-ei, random]
seeds: 0-1
"""


def test_every_problem_seed_and_strategy_is_a_cell_once():
    cells = parse_spec(TEXT, "small.yaml").cells()
    assert [(c.problem, c.seed, c.strategy) for c in cells] == [
        (problem, seed, strategy)
        for problem in ("branin", "park1")
        for seed in (0, 1)
        for strategy in ("random", "sf-ei")
    ]
    assert len({cell.name for cell in cells}) == len(cells)


def test_what_is_not_said_is_the_papers():
    branin, *_, park1 = parse_spec(TEXT, "small.yaml").cells()
    assert (branin.budget, branin.checkpoints) == (1500, (300, 500, 1000, 1500))
    assert dict(branin.initial) == problems.get("branin").initial
    assert (park1.budget, park1.checkpoints) == (100, (30, 60, 100))  # 400 is never reached
    assert park1.initial == (("low", 3), ("high", 0))


def test_quick_is_two_seeds_and_a_third_of_the_budget():
    spec = make_spec({"name": "x", "problems": ["levy"], "strategies": ["random"], "seeds": "0-4"}, "x").quick()
    cells = spec.cells()
    assert [cell.seed for cell in cells] == [0, 1]
    assert cells[0].budget == 500
    assert cells[0].checkpoints == (300, 500)
    assert cells[0].recommendation_costs == (125, 250, 300, 375, 500)


def test_a_spec_says_how_often_a_study_recommends():
    content = {"name": "x", "problems": {"levy": {"checkpoints": []}}, "strategies": ["random"], "seeds": 0}
    assert make_spec(content | {"recommendations": 2}, "x").cells()[0].recommendation_costs == (750, 1500)
    with pytest.raises(SettingError, match="recommendations"):
        make_spec(content | {"recommendations": 0}, "x")


def test_a_strategy_may_be_given_so_much_time_and_quickly_a_third_of_it():
    content = {
        "name": "x",
        "problems": ["levy"],
        "strategies": ["random", "sf-ei"],
        "seeds": 0,
        "longest": {"sf-ei": 9},
    }
    spec = make_spec(content, "x")
    assert [cell.longest for cell in spec.cells()] == [None, 9]
    assert [cell.longest for cell in spec.quick().cells()] == [None, 1.5]
    with pytest.raises(SettingError, match=r"longest.sf-ei: .*greater than 0, got 0"):
        make_spec({**content, "longest": {"sf-ei": 0}}, "x")


def test_recommendations_are_asked_at_every_checkpoint_and_evenly():
    cell = parse_spec(TEXT, "small.yaml").cells()[0]
    assert set(cell.checkpoints) < set(cell.recommendation_costs)
    assert {150.0 * i for i in range(1, 11)} < set(cell.recommendation_costs)
    assert list(cell.recommendation_costs) == sorted(cell.recommendation_costs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not YAML"),
        ("[" * 100_000, "is not YAML: nested too deeply"),
        (
            "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}' if i else 'x'] * 9)}]\n" for i in range(9)),
            "too many values",
        ),
        ("when: 2020-13-45", "name: Field required"),
        ("- a", "must have name, problems, strategies and seeds"),
        (TEXT.replace("seeds: 0-1", ""), "seeds: Field required"),
        (TEXT.replace("0-1", "one"), "seeds must look like 0-4 or 0,3,7, got 'one'"),
        (TEXT.replace("0-1", "[0, -1]"), r"seeds\.1: .*greater than or equal to 0, got -1"),
        (TEXT.replace("strategies:", "strategy:"), "strategies: Field required"),
        (TEXT + "colour: red", "colour: Extra inputs are not permitted, got 'red'"),
        (TEXT.replace("100,", "-5,"), r"problems\.park1\.budget: .*greater than 0, got -5"),
        (TEXT.replace("name: small", "name: ../evil"), "name: "),
        (TEXT.replace("[random, sf-ei, random]", "[]"), "strategies: "),
    ],
)
def test_a_mistake_is_named_with_its_place(text, message):
    with pytest.raises(SettingError, match=message):
        parse_spec(text, "small.yaml")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("branin:", "brainin:", UnknownNameError),
        ("sf-ei", "sf-eye", UnknownNameError),
        ("budget: 100", "budget: 0.5", BudgetError),
        ("{low: 3}", "{lower: 3}", FidelityError),
    ],
)
def test_unknown_names_and_budgets_that_buy_nothing_are_refused_before_anything_runs(old, new, error):
    with pytest.raises(error):
        parse_spec(TEXT.replace(old, new), "small.yaml").cells()


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(SettingError, match=r"cannot read the spec .*nope\.yaml: No such file"):
        load_spec(tmp_path / "nope.yaml")


@pytest.mark.parametrize("name", ["paper", "arena"])
def test_the_shipped_specs_are_five_seeds_of_the_papers_problems(name):
    spec = shipped_spec(name)
    assert spec.seeds == (0, 1, 2, 3, 4)
    assert {"branin", "park1", "levy"} <= set(spec.problems)
    assert spec.strategies[0] == "dnn-mfbo"
    assert set(spec.minutes) == set(spec.strategies)


@given(st.lists(st.integers(0, 99), min_size=1))
def test_a_list_of_seeds_is_read_back(seeds):
    assert parse_seeds(",".join(map(str, seeds))) == seeds
    assert parse_seeds(f"{seeds[0]}-{seeds[0] + 3}") == [seeds[0] + i for i in range(4)]


@pytest.mark.parametrize("text", ["", "a", "3-", "-3", "1,,2", "4-2"])
def test_bad_seeds(text):
    with pytest.raises(SettingError, match="seeds must look like"):
        parse_seeds(text)
