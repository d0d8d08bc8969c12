"""Figures with one colour per method throughout, and the page that shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from fidelium import problems
from fidelium.experiments.figures import method_style, regret_figure, time_figure
from fidelium.experiments.report import ARENA, PAPER, write_report
from fidelium.experiments.spec import make_spec, shipped_spec

METHODS = ("dnn-mfbo", "mf-mes", "random")


@pytest.fixture(scope="module")
def runs(make_run):
    rng = np.random.default_rng(0)
    return [
        make_run(name, seed, list(np.minimum.accumulate(rng.exponential(size=8))), problem)
        for problem in ("branin", "park1")
        for name in METHODS
        for seed in range(3)
    ]


def lines(figure, name):
    return [trace for trace in figure.data if trace.name == name and trace.x[0] is not None]


def test_a_curve_per_method_in_every_panel_always_in_its_colour(runs):
    figure: Any = regret_figure(runs, "title", ("simple regret", "inference regret"))
    for name in METHODS:
        drawn = lines(figure, name)
        assert len({(trace.xaxis, trace.yaxis) for trace in drawn}) == len(drawn) == 4
        assert {trace.line.color for trace in drawn} == {method_style(name).colour}
    keys = [trace.name for trace in figure.data if trace.showlegend]
    assert keys == list(METHODS)
    assert {figure.layout[f"yaxis{i}"].type for i in ("", 2, 3, 4)} == {"log"}


@pytest.mark.parametrize("average", ["median", "mean"])
def test_a_curve_is_the_average_over_the_seeds(runs, average):
    figure: Any = regret_figure(runs, "title", ("simple regret",), average)
    same = [run for run in runs if (run.cell.problem, run.cell.strategy) == ("branin", "mf-mes")]
    (curve, _) = lines(figure, "mf-mes")
    expected = [getattr(np, average)([run.simple_regret(cost) for run in same]) for cost in curve.x]
    assert np.asarray(curve.y) == pytest.approx(expected)


def test_simulated_problems_show_their_best_values_where_that_is_wanted(make_run, runs):
    values = [
        make_run("random", seed, [5.0, 2.0 + seed], problem) for problem in ("plate", "conductor") for seed in (0, 1)
    ]
    figure: Any = regret_figure(runs + values, "title", PAPER.measures, PAPER.average, best_values=True)
    axes = [figure.layout[f"yaxis{i}"] for i in ("", 2, 3, 4, 5, 6)]  # two columns of regrets, one of best values
    assert [axis.type for axis in axes] == ["log", "log", None, "log", "log", None]
    assert [axes[2].title.text, axes[5].title.text] == ["plate: best value", "conductor: best value"]
    plate, conductor = (trace for trace in lines(figure, "random") if trace.yaxis in ("y3", "y6"))
    assert plate.y[-1] == pytest.approx(problems.get("plate").optimum - 2.5)  # maximised
    assert conductor.y[-1] == pytest.approx(problems.get("conductor").optimum + 2.5)  # minimised


def test_all_methods_of_the_shipped_specs_have_their_own_colour():
    names = {name for spec in ("paper", "arena") for name in shipped_spec(spec).strategies}
    assert len({method_style(name).colour for name in names}) == len(names)
    assert method_style("somebody-elses").colour == method_style("somebody-elses").colour


def test_seconds_are_bars_with_their_errors(runs):
    figure: Any = time_figure(runs, "seconds")
    ends = [max(trace.x) for trace in figure.data if trace.line.color == method_style("mf-mes").colour]
    assert ends == pytest.approx([0.1, 0.1])
    assert list(figure.layout.yaxis.ticktext) == list(METHODS)


@pytest.mark.parametrize("style", [PAPER, ARENA])
def test_the_page_has_its_tables_its_pictures_and_the_command(runs, tmp_path, style):
    spec = make_spec(
        {"name": "small", "title": "Small", "problems": ["branin", "park1"], "strategies": METHODS, "seeds": "0-2"}, "x"
    )
    page, *files = write_report(
        spec, runs, style, "fidelium bench run small.yaml", tmp_path / "docs/p.md", tmp_path / "f"
    )
    text = page.read_text()
    assert "fidelium bench run small.yaml" in text
    assert "18 studies, seeds 0, 1, 2" in text
    assert "Not complete" not in text
    for measure in style.measures:
        assert f"park1: {measure}, median over 3 seeds" in text
    for name in ("small-regret.png", "small-time.png"):
        assert f"({name})" in text
        picture = imread(page.parent / name)
        assert picture.shape[1] >= 1400
        assert np.std(picture) > 0.05  # something is drawn
    assert all(file.exists() for file in files)


def test_what_is_missing_is_said(runs, tmp_path):
    spec = make_spec({"name": "s", "problems": ["branin", "park1"], "strategies": METHODS, "seeds": "0-2"}, "x")
    page = write_report(spec, runs[1:], ARENA, "c", tmp_path / "p.md", tmp_path)[0]
    assert "Not complete: dnn-mfbo (5 of 6)" in page.read_text()


def test_who_ran_out_of_time_is_named(runs, tmp_path):
    spec = make_spec({"name": "s", "problems": ["branin", "park1"], "strategies": METHODS, "seeds": "0-2"}, "x")
    late = [
        replace(run, cell=replace(run.cell, longest=2.5), end=run.end | {"stopped_at": 10.0 + run.cell.seed})
        for run in runs
        if run.cell.strategy == "mf-mes" and run.cell.problem == "park1"
    ]
    others = [run for run in runs if run.cell.strategy != "mf-mes"]
    page = write_report(spec, [*others, *late], ARENA, "c", tmp_path / "p.md", tmp_path)[0].read_text()
    assert "mf-mes was stopped after 2.5 processor minutes in 3 of 3 studies, after spending 10 to 12" in page
    assert "random was stopped" not in page


def test_a_figure_is_plain_json(runs):
    figure: Any = regret_figure(runs, "t", ("simple regret",))
    assert len(json.loads(figure.to_json())["data"]) == len(figure.data)
