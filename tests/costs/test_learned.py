"""The model of measured costs: few runs, many runs, equal costs, costs that depend on the design."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fidelium as fd
from fidelium.costs.learned import MOST_RUNS, MeasuredRuns, _Density, _levels, learn_costs
from fidelium.expected_costs import ExpectedCosts
from fidelium.fidelity import FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState

LADDER = FidelityLadder((fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=10)))
SPACE = fd.SearchSpace({"a": fd.Real(0, 1), "b": fd.Real(0, 1)})


def runs(seed, count, noise, rise=0.0, dimension=2, shift=0.7):
    generator = np.random.default_rng(seed)
    x, m = generator.random((count, dimension)), generator.integers(0, 2, count)
    return MeasuredRuns(x, m, shift + 0.3 * m + rise * (x[:, 0] - 0.5) + noise * generator.normal(size=count))


def test_one_cheap_run_says_what_unit_the_costs_are_in():
    model = learn_costs(MeasuredRuns(np.full((1, 2), 0.5), np.array([0]), np.array([math.log(30.0)])), 2)
    assert not model.depends_on_design
    assert math.exp(model.level[0]) == pytest.approx(30, rel=0.05)
    assert math.exp(model.level[1]) == pytest.approx(30, rel=0.15)  # not yet run: as much dearer as the other


def test_many_runs_outweigh_what_is_declared():
    model = learn_costs(runs(0, 80, 0.05), 2)
    np.testing.assert_allclose(model.level, [0.7, 1.0], atol=0.03)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1, 0.3])
def test_equal_costs_stay_equal(noise):
    found = [learn_costs(runs(seed, 8 + seed % 25, noise), 2).depends_on_design for seed in range(60)]
    assert np.mean(found) <= 0.04


@pytest.mark.parametrize("dimension", [2, 6, 40])
def test_a_tenfold_rise_is_learned(dimension):
    rise = math.log(10)
    model = learn_costs(runs(1, 40, 0.05, rise, dimension), 2)
    assert model.depends_on_design
    x = np.random.default_rng(9).random((200, dimension))
    off = model.log_ratio(x, 1) - 1.0 - rise * (x[:, 0] - 0.5)
    assert np.sqrt(np.mean(off**2)) < (0.1 if dimension < 10 else 0.6)  # 0.66 is the spread of the rise itself


def test_old_runs_are_thinned_out():
    many = runs(2, 1000, 0.05, math.log(10))
    assert len(many.chosen(MOST_RUNS)) == MOST_RUNS
    assert learn_costs(many, 2).weights.shape == (MOST_RUNS,)


def test_parameters_are_learned_again_at_milestones_only():
    many = runs(2, 300, 0.05, math.log(10))
    lengths = [learn_costs(many.first(count), 2).lengths.tolist() for count in (288, 290, 295)]
    assert lengths[0] == lengths[1] == lengths[2]  # the next milestone is 320


def test_a_run_that_has_no_declared_cost_any_more_is_left_out():
    ladder = FidelityLadder((fd.Fidelity("low", cost=1), fd.Fidelity("high", cost="10 + log(a + 0.4)"))).priced(SPACE)
    outside = Trial(
        0, {"a": -0.45, "b": 0.5}, ladder[1], TrialState.DONE, 1.0, measured_cost=5.0, charged=5.0
    )  # within half of the range: near enough for a model
    found = History(SPACE, ladder, Direction.MAXIMIZE, (outside,), measured_costs=True)
    assert found.costs.model is None


def test_the_gradient_of_the_density_is_right():
    data = runs(3, 12, 0.1, 1.0)
    x = data.unit_x
    density = _Density(data.log_ratio, _levels(data.fidelity, data.fidelity), (x.T[:, :, None] - x.T[:, None, :]) ** 2)
    theta = np.array([-2.0, -0.3, 0.2, -0.5])
    _, gradient = density(theta)
    for i in range(4):
        step = np.zeros(4)
        step[i] = 1e-6
        assert gradient[i] == pytest.approx((density(theta + step)[0] - density(theta - step)[0]) / 2e-6, rel=1e-5)


def trial(number, a, fidelity, cost, **changes):
    rung = LADDER[fidelity]
    params = {"a": a, "b": 0.5}
    return Trial(number, params, rung, TrialState.DONE, 1.0, measured_cost=cost, charged=cost, **changes)


def history(trials, remaining=math.inf, measured=True):
    return History(SPACE, LADDER, Direction.MAXIMIZE, tuple(trials), remaining, measured_costs=measured)


def rising(number):
    a = (number % 12) / 11
    return trial(number, a, number % 2, (1, 10)[number % 2] * 10 ** (a - 0.5))


def test_declared_costs_are_taken_as_they_are():
    costs = history([rising(n) for n in range(20)], measured=False).costs
    assert costs.are_declared
    assert costs.typical == costs.cheapest == LADDER.costs == (1.0, 10.0)
    assert costs.of({"a": 0.1, "b": 0.2}, 1) == 10.0


def test_expected_costs_follow_the_design():
    found = history([rising(n) for n in range(24)], remaining=5.0)
    assert found.costs.depend_on_design
    assert found.costs.of({"a": 0.1, "b": 0.5}, 1) == pytest.approx(10**0.6, rel=0.05)
    assert found.costs.at(np.array([[0.9, 0.5]]), 0)[0] == pytest.approx(10**0.4, rel=0.05)
    assert found.costs.typical == pytest.approx((1, 10), rel=0.15)
    assert found.affordable == (0, 1)  # a cheap design of the target
    assert found.pays_for(np.array([[0.1, 0.5], [0.9, 0.5]]), 1).tolist() == [True, False]
    assert found.target_cost == pytest.approx(10 ** (0.5 + 1 / 11), rel=0.05)  # at the first of equally good designs


def test_failures_retries_and_given_data_say_nothing_about_costs():
    crashed = Trial(0, {"a": 0.5, "b": 0.5}, LADDER[0], TrialState.FAILED, reason="no", measured_cost=0.01)
    again = trial(1, 0.5, 0, 50.0, attempt=2)
    excluded = trial(2, 0.5, 0, 50.0, excluded=True)
    given = trial(3, 0.5, 0, 50.0, given=True)
    assert history([crashed, again, excluded, given]).costs.are_declared


def test_a_cost_of_zero_is_finite():
    assert all(0 < cost < 1 for cost in history([trial(n, 0.1 * n, 0, 0.0) for n in range(9)]).costs.typical[:1])


def test_costs_outside_of_the_bounds_have_no_place_in_the_model():
    costs = history([rising(n) for n in range(24)]).costs
    assert costs.of({"a": 90.0, "b": 0.5}, 0) > 0


def test_learned_factors_multiply_declared_expressions():
    ladder = FidelityLadder((fd.Fidelity("low", cost=1), fd.Fidelity("high", cost="10 + a"))).priced(SPACE)
    model = learn_costs(MeasuredRuns(np.full((3, 2), 0.5), np.zeros(3, dtype=np.int64), np.full(3, math.log(2))), 2)
    costs = ExpectedCosts(SPACE, ladder, model)
    assert costs.depend_on_design
    assert costs.of({"a": 0.4, "b": 0.0}, 1) == pytest.approx(10.4 * math.exp(model.level[1]), rel=1e-12)
