"""Pictures of studies with constraints: infeasible trials are grey, and only feasible ones are the best so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import fidelium as fd
from fidelium import plots
from fidelium.plots.convergence import curve
from fidelium.plots.slices import compute_slices
from fidelium.strategies.base import Recommendation

GREY, TARGET = "#B0B0B0", "#D55E00"


class FlatModel:
    """Predicts 1 everywhere and recommends the middle."""

    def predict(self, unit_x, fidelity):
        return np.ones(len(unit_x)), np.full(len(unit_x), 0.5)

    def recommend(self):
        return Recommendation(np.array([0.5, 0.5]), 1.0, 0.5)


class FlatStrategy:
    def propose(self, history, pending, key):
        raise AssertionError("these tests only add and tell")

    def model(self, history, key):
        return FlatModel()


@pytest.fixture
def study() -> fd.Study:
    """Target runs with values 5, 1, 4 and 2, of which those with 5 and 4 are feasible; two designs failed."""
    ladder = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]
    study = fd.create_study(
        {"a": fd.Real(0, 1), "b": fd.Real(0, 1)},
        ladder,
        direction="minimize",
        strategy=FlatStrategy(),
        initial={"fine": 6},
        constraints=["stress <= 10", "gap >= 0"],
    )
    for value, stress in ((5.0, 9.95), (1.0, 20.0), (4.0, 5.0), (2.0, 11.0)):
        study.tell(study.ask(), value, outcomes={"stress": stress, "gap": 1.0, "mass": 3.0})
    study.tell(study.ask(), failed="the mesher died")
    study.tell(study.ask(), failed="not run: the design is outside of the study's present bounds")
    return study


def trace(figure: Any, name: str, mode: str, xaxis: str) -> Any:
    (found,) = [t for t in figure.data if (t.name, t.mode, t.xaxis) == (name, mode, xaxis) and t.x[0] is not None]
    return found


def test_the_best_so_far_is_the_best_feasible_one(study):
    course = curve(study)
    assert course.steps == ((10.0, 5.0), (30.0, 4.0))
    assert [trial.value for _, trial in course.targets] == [5.0, 1.0, 4.0, 2.0]
    stairs = trace(plots.convergence(study), "best so far", "lines", "x")
    assert list(zip(stairs.x, stairs.y, strict=True)) == [(10, 5), (30, 4), (60, 4)]


def test_infeasible_trials_are_grey_with_their_violations(study):
    figure: Any = plots.convergence(study)
    above = trace(figure, "fine (cost 10, target)", "markers", "x")
    assert list(above.marker.color) == [TARGET, GREY, TARGET, GREY]
    assert "(infeasible)" in above.text[1]
    assert "stress 20 &gt; 10 (+100 %)" in above.text[1]
    assert "stress 9.95 &lt;= 10 (-0.5 %), active" in above.text[0]
    assert "mass 3" in above.text[0]
    strip = trace(figure, "fine (cost 10, target)", "markers", "x2")
    assert list(strip.marker.color) == [TARGET, GREY, TARGET, GREY, TARGET, TARGET]
    assert list(strip.marker.symbol) == ["diamond"] * 4 + ["x"] * 2
    assert [t.name for t in figure.data if t.showlegend][-1] == "infeasible"


def test_an_infeasible_trial_has_no_regret(study):
    above = trace(plots.convergence(study, optimum=3.0), "fine (cost 10, target)", "markers", "x")
    assert list(above.y) == [2.0, 1.0]


def test_nothing_feasible_yet_is_a_picture_too(tmp_path: Path):
    ladder = [fd.Fidelity("only", 1)]
    study = fd.create_study({"a": fd.Real(0, 1)}, ladder, direction="minimize", constraints=["s <= 0"], initial={})
    study.add_observation({"a": 0.5}, "only", 1.0, {"s": 1.0})
    assert curve(study).steps == ()
    plots.write(plots.convergence(study), path_png=tmp_path / "none.png")
    plots.write(plots.convergence(study, optimum=0.5), path_png=tmp_path / "regret.png")
    assert imread(tmp_path / "none.png").shape[:2] == (1200, 1600)


def test_slices_show_infeasible_and_failed_designs_where_they_lie(study, tmp_path: Path):
    for a, stress in ((0.2, 5.0), (0.6, 15.0)):
        study.add_observation({"a": a, "b": 0.5}, "fine", 1.5, {"stress": stress, "gap": 1.0})
    along_a = compute_slices(study, ["a"])[1][0]
    failed = study.trials[4].params
    assert along_a.failed_x == ((failed["a"],) if abs(failed["b"] - 0.5) <= 0.2 else ())
    along_b = compute_slices(study, ["b"])[1][0]
    assert along_b.failed_x == ((failed["b"],) if abs(failed["a"] - 0.5) <= 0.2 else ())
    figure: Any = plots.slices(study)
    seen = trace(figure, "fine (cost 10, target)", "markers", "x3")
    colours = dict(zip(seen.x, seen.marker.color, strict=True))
    assert (colours[0.2], colours[0.6]) == (TARGET, GREY)
    plots.write(plots.overview(study), path_png=tmp_path / "overview.png")
    image = imread(tmp_path / "overview.png")
    grey = np.all(np.abs(image[:, :, :3] - int(GREY[1:3], 16) / 255) < 0.01, axis=2)
    assert grey.sum() > 100  # of an infeasible marker, in the file too


def test_a_failed_design_on_the_slice_is_marked_on_the_axis(study):
    params = study.trials[4].params

    class Model(FlatModel):
        def recommend(self):
            return Recommendation(np.array([0.9, params["b"]]), 1.0, 0.5)

    study._model = (study.trials, None, Model())
    figure: Any = plots.slices(study, parameters=["a"])
    marks = trace(figure, "failed", "markers", "x2")
    assert list(marks.x) == [params["a"]]
    assert marks.marker.symbol == "x"
    assert [t.name for t in figure.data if t.showlegend][-2:] == ["infeasible", "failed"]
