"""Rules that stop a study: a goal, what a run is worth; what is recorded of a stop, and how a study goes on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import fidelium as fd
from fidelium.errors import SettingError
from fidelium.history import History
from fidelium.numerics.scaling import Scale
from fidelium.numerics.warping import Bend, Warp
from fidelium.strategies.base import Recommendation
from fidelium.strategies.expected_improvement import expected_improvement

SPACE = {"x": fd.Real(0, 1), "y": fd.Real(0, 1)}


def make(ladder=(("only", 1),), **options):
    rungs = [fd.Fidelity(name, cost=cost) for name, cost in ladder]
    settings = {"direction": "minimize", "strategy": "sf-ei", "seed": 0, "initial": {rungs[-1].name: 5}}
    return fd.create_study(SPACE, rungs, **(settings | options))


def best_value(study: fd.Study) -> float:
    assert study.best is not None
    assert study.best.value is not None
    return study.best.value


def bowl(params, fidelity):
    del fidelity
    return (params["x"] - 0.3) ** 2 + 2 * (params["y"] - 0.6) ** 2 + 0.3 * math.sin(3 * params["x"])


LOWEST = min(bowl({"x": x, "y": y}, None) for x in np.linspace(0, 1, 401) for y in np.linspace(0, 1, 401))


def test_a_goal_stops_in_either_direction_and_counts_feasible_trials_at_the_target_only():
    for direction, sign in (("minimize", 1), ("maximize", -1)):
        initial, rungs = {"coarse": 3, "fine": 0}, (("coarse", 1), ("fine", 2))
        study = make(rungs, direction=direction, strategy="random", initial=initial)
        values = iter([sign * value for value in (0.1, 0.2, 0.0, 0.9, 0.5, 0.3, 0.2)])
        study.optimize(lambda p, f, v=values: next(v), 30, progress=False, stop=fd.Stop(goal=sign * 0.3))
        assert [trial.value for trial in study.trials] == [sign * v for v in (0.1, 0.2, 0.0, 0.9, 0.5, 0.3)]
    study = make(strategy="random", constraints=["stress <= 1"])
    results = iter([{"value": 0.0, "stress": 2.0}, {"value": 0.5, "stress": 0.0}, {"value": 0.1, "stress": 0.0}])
    study.optimize(lambda p, f: next(results), 30, progress=False, stop=fd.Stop(goal=0.2))
    assert len(study.trials) == 3


@pytest.mark.parametrize("goal", [math.nan, math.inf, "low", True])
def test_a_goal_is_a_finite_number(goal):
    with pytest.raises(SettingError, match="goal must be a finite number"):
        fd.Stop(goal=goal)


@pytest.mark.parametrize("worth", [0, -1, "much"])
def test_a_worth_is_above_zero(worth):
    with pytest.raises(SettingError, match="worth must be a number above 0"):
        fd.Stop(worth=worth)


def test_a_stop_is_recorded_said_by_the_next_run_and_overruled_by_a_larger_budget(caplog, tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"

    def study():
        return make(strategy="random", storage=url, name="s", load_if_exists=True)

    study().optimize(lambda p, f: 0.25, 10, progress=False, stop=fd.Stop(goal=0.3))
    assert len(study().trials) == 1
    (change,) = study().changes()
    assert (change.action, change.trial) == ("stop", None)
    assert change.reason == "goal: trial 0 reaches the goal of 0.3 with 0.25 [budget 10]"
    # the same again: says so, starts nothing, and records it once
    caplog.clear()
    study().optimize(lambda p, f: 0.25, 10, progress=False, stop=fd.Stop(goal=0.3))
    assert "stopped before by: goal: trial 0 reaches the goal of 0.3 with 0.25" in caplog.text
    assert (len(study().trials), len(study().changes())) == (1, 1)
    # a larger budget overrules this rule, and no other
    caplog.clear()
    study().optimize(lambda p, f: 0.25, 12, progress=False, stop=fd.Stop(goal=0.3, trials=4))
    assert "the budget was 10 then: continuing without this rule" in caplog.text
    assert len(study().trials) == 4
    assert [change.reason.partition(":")[0] for change in study().changes()] == ["goal", "trials"]
    # without the rule the study goes on, and once it has, nothing is said of a stop
    study().optimize(lambda p, f: 0.25, 12, progress=False, stop=fd.Stop(trials=6))
    caplog.clear()
    study().optimize(lambda p, f: 0.25, 12, progress=False)
    assert len(study().trials) == 12
    study().optimize(lambda p, f: 0.25, 13, progress=False)
    assert "stopped before by" not in caplog.text.replace("stopped before by: trials: the study has 6 trials", "")


def test_expected_improvement_is_the_closed_form_and_the_integral_over_a_warp():
    """EI(mean -0.5, var 1, best 0) = 0.19780; with values bent to a logarithm above 0, the lognormal's closed form."""
    found = expected_improvement(np.array([-0.5, 0.0, -40.0]), np.array([1.0, 0.0, 1.0]), 0.0, Scale())
    np.testing.assert_allclose(found, [0.1977966, 0.0, 0.0], atol=1e-6)
    scaled = Scale(centre=10.0, spread=3.0, scale=2.0)
    found = expected_improvement(np.array([-0.5]), np.array([1.0]), 0.0, scaled)
    np.testing.assert_allclose(found, 6 * 0.1977966, rtol=1e-6)
    bent = Scale(warp=Warp(Bend(above=0.0)))  # y = exp(z) - 1 for z > 0
    means, stds, best = np.array([0.5, -1.0, -6.0, 1.0]), np.array([0.3, 1.0, 1.0, 0.01]), 0.2
    z = (means - best) / stds
    closed = np.exp(means + stds**2 / 2) * norm.cdf(z + stds) - np.exp(best) * norm.cdf(z)
    np.testing.assert_allclose(expected_improvement(means, stds, best, bent), closed, rtol=2e-3)


def test_the_rule_is_the_largest_index_of_pandoras_box_by_brute_force():
    """EI(x; best) <= cost / worth for all x, exactly where the best is at least every g(x), EI(x; g) = cost / worth."""
    study = make()
    study.optimize(bowl, 9, progress=False)
    model = study._fitted()
    grid = np.array([[x, y] for x in np.linspace(0, 1, 61) for y in np.linspace(0, 1, 61)])
    mean, std = model.predict(grid, 0)  # to be maximised, in the objective's units
    best = -best_value(study)
    draws = np.random.default_rng(0).normal(size=20_000)
    top = int(np.argmax(expected_improvement(mean, std, best, Scale())))
    sampled = np.mean(np.maximum(mean[top] + std[top] * draws - best, 0.0))
    found = study.improvement()
    assert found is not None
    assert found.expected == pytest.approx(sampled, rel=0.1)
    assert found.expected >= np.max(expected_improvement(mean, std, best, Scale())) * 0.999
    # the index of every design, by bisection: EI(x; g) = cost / worth
    for worth in (0.9 / found.expected, 1.1 / found.expected):
        low, high = np.full(len(grid), best - 10.0), np.full(len(grid), best + 10.0)
        for _ in range(60):
            middle = (low + high) / 2
            rises = expected_improvement(mean - middle, std, 0.0, Scale())
            low, high = np.where(rises > 1 / worth, middle, low), np.where(rises > 1 / worth, high, middle)
        stops = worth * found.expected <= found.cost
        assert stops == (np.max(low) <= best)


def test_it_stops_early_for_less_in_total_and_never_within_the_initial_design():
    """Regret times worth plus cost: less with the rule than with the whole budget, in the mean of four seeds."""
    totals = {True: 0.0, False: 0.0}
    for seed in range(4):
        for stops in totals:
            study = make(seed=seed)
            study.optimize(bowl, 40, progress=False, stop=fd.Stop(worth=200) if stops else fd.Stop())
            regret = best_value(study) - LOWEST
            totals[stops] += 200 * regret + study.spent
            assert len(study.trials) >= 6 or not stops
    assert totals[True] < 0.7 * totals[False]
    study = make(initial={"only": 12})
    study.optimize(bowl, 40, progress=False, stop=fd.Stop(worth=1e-6))
    assert len(study.trials) == 12


@pytest.mark.parametrize("strategy", ["dnn-mfbo", "mf-mes", "random"])
def test_the_rule_works_with_several_fidelities_constraints_and_failures(strategy):
    def limited(params, fidelity):
        if params["x"] > 0.95:
            raise ValueError("no mesh")
        return {
            "value": bowl(params, fidelity) + (fidelity.name == "coarse") * 0.05,
            "stress": params["x"] + params["y"],
        }

    study = make(
        (("coarse", 1), ("fine", 5)),
        strategy=strategy,
        initial={"coarse": 6, "fine": 3},
        constraints=["stress <= 1.2"],
    )
    study.optimize(limited, 200, progress=False, stop=fd.Stop(worth=30))
    assert study.spent < 150
    assert study.changes()[-1].reason.startswith("worth: the best next design is expected to improve the objective by")
    found = study.improvement(worth=30)
    assert found is not None
    assert 30 * found.expected <= found.cost == 5
    assert study.space.contains(found.params)


def test_without_a_feasible_value_there_is_no_index_and_no_stop():
    study = make(strategy="sf-ei", constraints=["stress <= 0"])
    study.optimize(lambda p, f: {"value": 1.0, "stress": 1.0 + p["x"]}, 8, progress=False, stop=fd.Stop(worth=1e-9))
    assert study.spent == 8
    assert study.improvement() is None


class Blind:
    """A strategy whose model predicts and recommends only."""

    class Flat:
        def predict(self, unit_x, fidelity):
            del fidelity
            return np.zeros(len(unit_x)), np.ones(len(unit_x))

        def recommend(self):
            return Recommendation(np.full(2, 0.5), 0.0, 1.0)

    def propose(self, history: History, pending, key):
        from fidelium.strategies.initial_design import RandomSearch

        return RandomSearch().propose(history, pending, key)

    def model(self, history, key):
        del history, key
        return self.Flat()


def test_a_model_without_expected_improvements_is_said_to_have_none():
    study = make(strategy=Blind())
    with pytest.raises(SettingError, match="worth needs a strategy whose model knows the expected improvement"):
        study.optimize(bowl, 9, progress=False, stop=fd.Stop(worth=3))
    assert len(study.trials) == 5
