"""Regrets compared with a baseline's: the numbers, the verdict, the figure and the page."""

from __future__ import annotations

from typing import Any

import pytest

from fidelium.errors import SettingError
from fidelium.experiments.figures import ratio_figure
from fidelium.experiments.metrics import FLOOR, ratios
from fidelium.experiments.report import RATIOS, write_report
from fidelium.experiments.spec import make_spec, shipped_spec
from fidelium.experiments.tables import ratio_table

MOST = {"branin": 0.5, "park1": 1.25}


@pytest.fixture(scope="module")
def runs(make_run):
    ends = {
        ("branin", "dnn-mfbo"): (0.1, 0.2, 0.6),
        ("branin", "sf-ei"): (0.3, 0.5, 0.9),
        ("park1", "dnn-mfbo"): (0.0, 3.0, 4.0),
        ("park1", "sf-ei"): (1.0, 2.0, 2.0),
    }
    return [
        make_run(name, seed, [9.0, regret], problem)
        for (problem, name), regrets in ends.items()
        for seed, regret in enumerate(regrets)
    ]


def test_the_ratio_is_that_of_the_medians(runs):
    assert [(each.problem, each.strategy, each.median) for each in ratios(runs, "sf-ei")] == [
        ("branin", "dnn-mfbo", pytest.approx(0.4)),
        ("park1", "dnn-mfbo", pytest.approx(1.5)),
    ]


def test_regrets_too_small_to_matter_are_equal(make_run):
    both = [make_run("dnn-mfbo", 0, [1e-7]), make_run("sf-ei", 0, [0.0])]
    (found,) = ratios(both, "sf-ei")
    assert found.median == 1.0
    assert found.of(10 * FLOOR) == pytest.approx(10)


def test_a_problem_without_the_baseline_is_left_out(make_run, runs):
    alone = make_run("dnn-mfbo", 0, [1.0], "levy")
    assert [each.problem for each in ratios([*runs, alone], "sf-ei")] == ["branin", "park1"]


def test_the_table_marks_what_is_within_its_bound(runs):
    table = ratio_table(runs, "sf-ei", {"branin": 0.5})
    assert table.rows == (
        ("branin", "dnn-mfbo", "0.2", "0.5", "**0.4**", "0.5"),
        ("park1", "dnn-mfbo", "3", "2", "1.5", "–"),
    )


def test_the_figure_shows_median_quartiles_and_bound(runs):
    figure: Any = ratio_figure(runs, "sf-ei", MOST, "title")
    assert list(figure.layout.yaxis.ticktext) == ["branin", "park1"]
    assert figure.layout.xaxis.type == "log"
    points = [trace for trace in figure.data if trace.mode == "markers" and trace.x[0] is not None]
    assert [trace.x[0] for trace in points] == pytest.approx([0.4, 1.5])
    quartiles = [list(trace.x) for trace in figure.data if trace.mode == "lines" and trace.line.width == 3]
    assert quartiles[0] == pytest.approx([0.3, 0.8])
    bounds = [trace.x[0] for trace in figure.data if trace.mode == "lines" and trace.x[0] in MOST.values()]
    assert bounds == [0.5, 1.25]


def test_the_page_has_the_ratios(runs, tmp_path):
    problems = {name: {"at_most": bound} for name, bound in MOST.items()}
    spec = make_spec(
        {"name": "r", "problems": problems, "strategies": ["dnn-mfbo", "sf-ei"], "seeds": "0-2", "baseline": "sf-ei"},
        "here",
    )
    files = write_report(spec, runs, RATIOS, "command", tmp_path / "r.md", tmp_path)
    assert [file.name for file in files] == ["r.md", "r-ratio.html", "r-ratio.png"]
    assert all(file.stat().st_size > 0 for file in files)
    assert "| branin | dnn-mfbo | 0.2 | 0.5 | **0.4** | 0.5 |" in files[0].read_text()


def test_the_baseline_must_be_one_of_the_strategies():
    content = {"name": "r", "problems": ["branin"], "strategies": ["dnn-mfbo"], "seeds": "0", "baseline": "sf-ei"}
    with pytest.raises(SettingError, match=r"here.*the baseline must be one of the strategies, got 'sf-ei'"):
        make_spec(content, "here")


def test_the_shipped_suite_covers_what_it_should():
    spec = shipped_spec("robustness")
    cells = spec.cells()
    assert spec.baseline == "sf-ei"
    assert set(spec.at_most) == set(spec.problems)  # every problem has its bound
    assert {cell.strategy for cell in cells} == {"dnn-mfbo", "sf-ei"}
    assert len(cells) == len(spec.problems) * 2 * 5
