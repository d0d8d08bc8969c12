"""The numbers in the pictures are the study's, and the files are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import fidelium as fd
from fidelium import plots
from fidelium.errors import NoDataError, SettingError
from fidelium.plots.convergence import curve
from fidelium.plots.slices import compute_slices
from fidelium.strategies.base import Recommendation


@dataclass(frozen=True)
class LinearModel:
    """Predicts 10 times the first column plus the fidelity, std 0.5; recommends the middle."""

    def predict(self, unit_x, fidelity):
        return 10.0 * unit_x[:, 0] + fidelity, np.full(len(unit_x), 0.5)

    def recommend(self):
        return Recommendation(np.array([0.5, 0.5, 1.0, 0.0]), 6.0, 0.5)


class LinearStrategy:
    def propose(self, history, pending, key):
        raise AssertionError("these tests only add and tell")

    def model(self, history, key):
        return LinearModel()


@pytest.fixture
def study() -> fd.Study:
    """A study with given, done and failed trials; parameter `a` is 0 to 4, `n` 1 to 100 in logs, `kind` one of two."""
    space = {"a": fd.Real(0, 4), "n": fd.Integer(1, 100, log=True), "kind": fd.Categorical(["steel", "copper"])}
    ladder = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]
    initial = {"coarse": 3, "fine": 4}
    study = fd.create_study(
        space, ladder, direction="minimize", strategy=LinearStrategy(), initial=initial, name="plate"
    )
    study.add_observation({"a": 1, "n": 10, "kind": "steel"}, "fine", 9.0)
    for value in (50.0, 60.0):
        study.tell(study.ask(), value)
    study.tell(study.ask(), failed="mesher crashed")
    for value in (12.0, 7.0, 8.0, 3.0):
        study.tell(study.ask(), value)
    return study


def trace(figure: Any, name: str, mode: str, xaxis: str) -> Any:
    (found,) = [t for t in figure.data if (t.name, t.mode, t.xaxis) == (name, mode, xaxis) and t.x[0] is not None]
    return found


def test_the_staircase_is_the_running_best(study):
    assert curve(study).steps == ((0.0, 9.0), (13.0, 9.0), (23.0, 7.0), (33.0, 7.0), (43.0, 3.0))
    stairs = trace(plots.convergence(study), "best so far", "lines", "x")
    assert list(stairs.x) == [0, 13, 23, 33, 43, 43]
    assert list(stairs.y) == [9, 9, 7, 7, 3, 3]
    assert stairs.line.shape == "hv"


def test_with_the_optimum_it_is_the_simple_regret_on_a_log_axis(study):
    figure: Any = plots.convergence(study, optimum=2.0)
    assert list(trace(figure, "best so far", "lines", "x").y) == [7, 7, 5, 5, 1, 1]
    markers = trace(figure, "fine (cost 10, target)", "markers", "x")
    assert list(markers.y) == [7, 10, 5, 6, 1]
    assert figure.layout.yaxis.type == "log"


def test_a_regret_of_zero_is_drawn_on_the_log_axis(study):
    stairs = trace(plots.convergence(study, optimum=3.0), "best so far", "lines", "x")
    assert 0 < stairs.y[-1] < 1e-6


def test_the_strip_has_every_query_at_its_cost(study):
    figure: Any = plots.convergence(study)
    coarse = trace(figure, "coarse (cost 1)", "markers", "x2")
    assert list(coarse.x) == [1, 2, 3]
    assert list(coarse.marker.symbol) == ["circle", "circle", "x"]
    assert list(trace(figure, "fine (cost 10, target)", "markers", "x2").x) == [0, 13, 23, 33, 43]


def test_the_slices_are_the_models_predictions(study):
    rows = compute_slices(study, ["a", "kind"], points=5)
    for m, (along_a, along_kind) in enumerate(rows):
        np.testing.assert_allclose(along_a.x, [0, 1, 2, 3, 4])
        np.testing.assert_allclose(along_a.mean, -(np.array([0, 2.5, 5, 7.5, 10]) + m))  # minimised: the sign turns
        np.testing.assert_allclose(along_a.std, 0.5)
        np.testing.assert_allclose(along_kind.x, [-0.5, 0.5, 0.5, 1.5])
        np.testing.assert_allclose(along_kind.mean, -(5.0 + m))


def test_the_band_is_two_standard_deviations_wide(study):
    figure: Any = plots.slices(study, parameters=["a"], points=3)
    upper, lower = [t for t in figure.data if t.hoverinfo == "skip" and t.xaxis == "x2"]  # the target's panel
    np.testing.assert_allclose(upper.y, [0.0, -5.0, -10.0])
    np.testing.assert_allclose(lower.y, [-2.0, -7.0, -12.0])
    assert lower.fill == "tonexty"


def test_only_observations_near_a_slice_are_drawn_on_it(study):
    study.add_observation({"a": 3, "n": 10, "kind": "steel"}, "coarse", 1.0)
    study.add_observation({"a": 3, "n": 100, "kind": "steel"}, "coarse", 2.0)
    study.add_observation({"a": 3, "n": 10, "kind": "copper"}, "coarse", 4.0)
    along_a = compute_slices(study, ["a"])[0][0]
    assert 1.0 in along_a.seen_y
    assert not {2.0, 4.0} & set(along_a.seen_y)
    assert np.all(along_a.seen_distance <= 0.2)


def test_an_integer_slice_has_whole_numbers_within_its_bounds(study):
    along_n = compute_slices(study, ["n"])[0][0]
    assert along_n.x[0] == 1
    assert along_n.x[-1] == 100
    np.testing.assert_array_equal(along_n.x, np.round(along_n.x))
    assert np.all(np.diff(along_n.x) > 0)


def test_the_problems_truth_is_drawn():
    problem = fd.problems.get("branin")
    study = fd.create_study(problem.space, problem.ladder, direction="maximize", strategy=LinearStrategy(), initial={})
    study.add_observation({"x1": 0, "x2": 0}, "high", -1.0)

    class Model(LinearModel):
        def recommend(self):
            return Recommendation(np.array([0.5, 0.5]), 0.0, 1.0)

    study._model = (study.trials, None, Model())
    truth = compute_slices(study, ["x1"], problem, points=3)[2][0].truth
    expected = [problem.value({"x1": x1, "x2": 7.5}, "high") for x1 in (-5, 2.5, 10)]
    np.testing.assert_allclose(truth, expected)


def test_the_overview_is_both_pictures_and_each_thing_is_in_the_legend_once(study):
    figure: Any = plots.overview(study, optimum=2.0)
    assert figure.layout.title.text == "plate with LinearStrategy: 7 queries for a cost of 43"
    keys = [t.name for t in figure.data if t.showlegend]
    assert keys == ["coarse (cost 1)", "fine (cost 10, target)", "best so far", "model mean, ± 2 std", "recommended"]
    assert {t.xaxis for t in figure.data} == {"x", "x2", "x3", "x4", "x5", "x6"}


def test_the_files_are_written_and_need_no_network(study, tmp_path: Path):
    html, png = tmp_path / "new" / "picture.html", tmp_path / "new" / "picture.png"
    plots.write(plots.overview(study), html, png)
    text = html.read_text()
    assert len(text) > 1_000_000  # the script is inside
    assert 'src="http' not in text
    image = imread(png)
    assert image.shape[:2] == (1400, 2800)
    assert 0.02 < (image[:, :, :3].min(axis=2) < 0.9).mean() < 0.5  # something is drawn, on white


def test_bad_input_is_refused(study):
    with pytest.raises(SettingError, match="unknown parameter 'b'"):
        plots.slices(study, parameters=["b"])
    empty = fd.create_study({"a": fd.Real(0, 1)}, [fd.Fidelity("only", 1)], direction="maximize")
    with pytest.raises(NoDataError):
        plots.slices(empty)
    figure: Any = plots.convergence(empty)
    assert curve(empty).steps == ()
    assert len(figure.data) > 0
