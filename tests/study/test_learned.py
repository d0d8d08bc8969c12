"""What the model has learned: how fidelities correlate, whether one is useless, whether runs succeed."""

from __future__ import annotations

import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import SettingError, UnknownNameError

LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 4)]
SPACE = {"a": fd.Real(0, 1), "b": fd.Real(0, 1)}


def value(a: float, b: float) -> float:
    return float(np.sin(5 * a) + b**2)


def study_of(coarse, constraints=(), fails=None) -> fd.Study:
    study = fd.create_study(SPACE, LADDER, direction="maximize", strategy="mf-mes", initial={}, constraints=constraints)
    generator = np.random.default_rng(0)
    for fidelity, count in (("coarse", 24), ("fine", 12)):
        for a, b in generator.random((count, 2)).tolist():
            if fails is not None and fails(a, b):
                continue
            f = coarse(a, b) if fidelity == "coarse" else value(a, b)
            study.add_observation({"a": a, "b": b}, fidelity, f, {"sum": a + b, "extra": a - b})
    return study


def test_a_good_cheap_fidelity_correlates_and_a_useless_one_is_named():
    good = study_of(lambda a, b: 2 * value(a, b) + 0.1 * a).learned()
    assert good.correlations["coarse"] > 0.9
    assert good.lines == (f"coarse and fine correlate by {good.correlations['coarse']:.2f}",)
    assert good.success is None
    useless = study_of(lambda a, b: float(np.sin(17 * b + 3 * a))).learned()
    assert abs(useless.correlations["coarse"]) < 0.3
    assert any("single-fidelity search would do" in line for line in useless.lines)


def test_outcomes_and_feasibility_are_predicted():
    study = study_of(value, ["sum <= 1"])
    designs = [{"a": 0.2, "b": 0.2}, {"a": 0.9, "b": 0.8}]
    mean, std = study.predict(designs, outcome="sum")
    np.testing.assert_allclose(mean, [0.4, 1.7], atol=0.1)
    assert np.all(std < 0.2)
    np.testing.assert_allclose(study.predict(designs, outcome="extra")[0], [0.0, 0.1], atol=0.1)
    low, high = study.feasibility(designs)[[1, 0]]
    assert low < 0.02
    assert high > 0.98
    with pytest.raises(UnknownNameError, match="'drag'"):
        study.predict(designs, outcome="drag")
    best = study.best
    assert best is not None
    assert best.feasible
    assert best.outcomes["sum"] <= 1
    choice = study.recommend()
    assert sum(choice.params.values()) <= 1.02
    assert choice.feasible_probability is not None
    assert choice.feasible_probability >= 0.9


def test_failures_lower_the_probability_of_success():
    study = study_of(value, fails=lambda a, b: a > 0.6)
    for b in np.linspace(0.05, 0.95, 8).tolist():
        trial = study.ask()
        study.tell(trial, failed="no mesh") if trial.params["a"] > 0.6 else study.tell(trial, value(**trial.params))
        del b
    failed = [trial for trial in study.trials if trial.state == "failed"]
    if not failed:
        pytest.fail("the search never went where runs fail; make the region larger")
    chances = study.feasibility([{"a": 0.3, "b": 0.5}, {"a": 0.95, "b": 0.5}])
    assert chances[0] > chances[1]
    success = study.learned().success
    assert success is not None
    assert success > 0.5


def test_strategies_without_constraints_say_so():
    with pytest.raises(SettingError, match="takes no constraints"):
        fd.create_study(SPACE, LADDER, direction="maximize", strategy="mf-gp-ucb", constraints=["sum <= 1"])
