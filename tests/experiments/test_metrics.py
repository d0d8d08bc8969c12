"""Summaries as numpy has them, ranks and the paired test as scipy has them, tables that mark the winner."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from fidelium.experiments.metrics import MEASURES, SMALLEST, mean_ranks, over_seeds, paired_test, summarise
from fidelium.experiments.records import Cell, Run, write_line, writing
from fidelium.experiments.runner import Clock
from fidelium.experiments.tables import rank_table, regret_tables, summary_tables, time_table

SIMPLE = MEASURES["simple regret"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_a_summary_is_numpys(values):
    found = summarise(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-6)
    quartiles = np.quantile(values, [0.25, 0.5, 0.75])
    assert (found.lower, found.median, found.upper) == pytest.approx(tuple(quartiles), abs=1e-6)
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    assert found.standard_error == pytest.approx(error, abs=1e-6)


def test_what_was_never_reached_is_infinite_and_the_rest_is_not():
    found = summarise([1.0, 2.0, 3.0, math.inf, math.inf])
    assert (found.lower, found.median, found.upper, found.mean) == (2.0, 3.0, math.inf, math.inf)
    assert summarise([math.inf, math.inf]).median == math.inf


def test_measures_at_a_cost(make_run):
    runs = [make_run("a", seed, [4.0, 2.0, seed]) for seed in (0, 1)]
    assert over_seeds(runs, SIMPLE, 25).median == 2.0
    assert over_seeds(runs, SIMPLE, 30).median == 0.5
    assert over_seeds(runs, SIMPLE, 5).median == 50.0
    assert over_seeds(runs, MEASURES["inference regret"], 30).median == 0.5  # of either sign
    assert over_seeds(runs, MEASURES["recommended design"], 30).median == 1.0
    assert runs[0].query_seconds == pytest.approx(0.1)  # the first one compiles, and does not count


def test_ranks_are_scipys_and_equal_regrets_share_them(make_run):
    ends = {"a": [0.1, 3.0, 0.0], "b": [0.2, 3.0, SMALLEST / 2], "c": [0.01, 2.0, 5.0]}
    runs = [make_run(name, seed, [9.0, end]) for name, values in ends.items() for seed, end in enumerate(values)]
    rows = [rankdata([max(ends[name][seed], SMALLEST) for name in ends]) for seed in range(3)]
    expected = dict(zip(ends, np.mean(rows, axis=0), strict=True))
    assert mean_ranks(runs, SIMPLE) == pytest.approx(expected)


def test_only_seeds_that_all_strategies_ran_are_ranked(make_run):
    runs = [make_run("a", 0, [1.0]), make_run("b", 0, [2.0]), make_run("a", 1, [9.0])]
    assert mean_ranks(runs, SIMPLE) == {"a": 1.0, "b": 2.0}


def test_the_paired_test_is_wilcoxons_of_the_logarithms(make_run):
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.normal(-1, 1, 8), 10 ** rng.normal(0, 1, 8)
    runs = [make_run(name, seed, [end]) for name, ends in (("a", a), ("b", b)) for seed, end in enumerate(ends)]
    expected = wilcoxon(np.log10(a) - np.log10(b))
    assert paired_test(runs, "a", "b", SIMPLE) == pytest.approx(expected.pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    assert paired_test(runs, "a", "b", SIMPLE) == paired_test(runs, "b", "a", SIMPLE)


def test_equal_strategies_are_not_told_apart(make_run):
    runs = [make_run(name, seed, [1.0]) for name in "ab" for seed in range(5)]
    assert paired_test(runs, "a", "b", SIMPLE) == 1.0


@pytest.fixture
def runs(make_run) -> list[Run]:
    ends = {"random": [9.0, 9.0], "dnn-mfbo": [8.0, 0.5]}
    made = [make_run(name, seed, regrets) for name, regrets in ends.items() for seed in range(3)]
    return made + [make_run(name, 0, regrets, "branin", 0.4) for name, regrets in ends.items()]


def test_the_lowest_median_at_each_checkpoint_is_marked(runs):
    park1, branin = regret_tables(runs)
    assert park1.title == "park1: simple regret, median over 3 seeds, when this cost was spent"
    assert park1.header == ("strategy", "10", "20")
    assert park1.rows == (("random", "9", "9"), ("dnn-mfbo", "**8**", "**0.5**"))
    assert branin.rows[1][2] == "**0.5**"
    assert "| dnn-mfbo | **8** | **0.5** |" in park1.markdown()


def test_the_other_tables(runs):
    summary = dict(zip(summary_tables(runs)[0].header, summary_tables(runs)[0].rows[1], strict=True))
    assert summary["strategy"] == "dnn-mfbo"
    assert summary["quartiles"] == "0.5 – 0.5"
    assert (summary["cost to 1"], summary["cost to 0.01"]) == ("20", "inf")
    assert (summary["recommended"], summary["queries (mean)"], summary["warnings"]) == ("1", "2 high", "3")
    assert time_table(runs, "random").rows[1] == ("dnn-mfbo", "0.1 (1×)", "0.4 (1×)")
    assert rank_table(runs, "dnn-mfbo").rows[0][:2] == ("dnn-mfbo", "1.00")
    assert rank_table(runs, "dnn-mfbo").rows[0][-1] == "–"


def test_problems_have_the_rows_of_the_time_table_if_there_are_more_of_them(make_run):
    runs = [make_run("dnn-mfbo", 0, [1.0, 1.0], problem, seconds=0.2) for problem in ("branin", "levy")]
    table = time_table(runs, "dnn-mfbo")
    assert table.header == ("problem", "dnn-mfbo")
    assert table.rows == (("branin", "0.2 (1×)"), ("levy", "0.2 (1×)"))


def test_the_time_left_comes_from_the_guess_then_from_what_was_measured(tmp_path):
    cells = [Cell("park1", "random", seed, 20.0, (20.0,), (("low", 5), ("high", 2))) for seed in range(4)]
    clock = Clock(cells, tmp_path, workers=2, minutes={"random": 1.0})
    assert clock.seconds_left() == 2 * 60
    with writing(cells[0], tmp_path) as file:
        write_line(file, "start", {"cell": _as_json(cells[0])})
        write_line(file, "end", {"seconds": 10.0})
    assert clock.seconds_left() == 3 * 10 / 2
    cells[1].partial(tmp_path).write_text('{"kind": "query", "spent": 10.0}\n')
    assert clock.seconds_left() == pytest.approx((5 + 10 + 10) / 2)


def _as_json(cell: Cell) -> dict[str, object]:
    return {**vars(cell)}
