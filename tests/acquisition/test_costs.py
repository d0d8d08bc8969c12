"""Worths divided by expected costs: the surface that is climbed, and the search with it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fidelium as fd
from fidelium.acquisition.maximise import search
from fidelium.costs.learned import MeasuredRuns, learn_costs
from fidelium.expected_costs import ExpectedCosts
from fidelium.fidelity import FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.strategies.registry import resolve, strategy_names
from fidelium.surrogates.costs import cost_surfaces, log_cost, surface_costs

SPACE = fd.SearchSpace({"a": fd.Real(0, 1), "b": fd.Real(0, 1)})
LADDER = FidelityLadder((fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=10)))
DEPENDENT = FidelityLadder((fd.Fidelity("low", cost="1 + a"), fd.Fidelity("high", cost="10 * exp(b)"))).priced(SPACE)


def learned():
    generator = np.random.default_rng(0)
    x, m = generator.random((30, 2)), generator.integers(0, 2, 30)
    return learn_costs(MeasuredRuns(x, m, 2.3 * (x[:, 0] - 0.5) + 0.2 * m), 2)


@pytest.mark.parametrize("ladder", [LADDER, DEPENDENT])
@pytest.mark.parametrize("model", [None, learned()])
def test_the_surface_is_the_expected_cost(ladder, model):
    costs = ExpectedCosts(SPACE, ladder, model)
    if not costs.depend_on_design:
        assert cost_surfaces(costs) == ()
        return
    surfaces = cost_surfaces(costs)
    x, m = SPACE.sample(np.random.default_rng(5), 40), np.arange(40) % 2
    exact = np.where(m == 0, costs.at(x, 0), costs.at(x, 1))
    rtol = 1e-10 if ladder is LADDER else 2e-3  # declared functions are interpolated
    np.testing.assert_allclose(surface_costs(surfaces, x, m), exact, rtol=rtol)
    traced = jax.jit(lambda x, m: log_cost(surfaces, x, m))
    np.testing.assert_allclose([float(traced(x[i], m[i])) for i in range(4)], np.log(exact[:4]), rtol=0, atol=2e-3)
    slope = jax.grad(lambda x: log_cost(surfaces, x, 1))(jnp.asarray(x[0]))
    step = np.array([1e-5, 0.0])
    there = [math.log(surface_costs(surfaces, x[:1] + sign * step, m[1:2])[0]) for sign in (-1, 1)]
    assert float(slope[0]) == pytest.approx((there[1] - there[0]) / 2e-5, rel=1e-4, abs=1e-6)


def history(ladder, remaining=math.inf):
    return History(SPACE, ladder, Direction.MAXIMIZE, (), remaining)


def flat(posterior, context, x, fidelity):
    """A worth of 1 everywhere, or its logarithm."""
    return jnp.where(context > 0, 1.0, 0.0) + 0.0 * x[0]


@pytest.fixture
def ranked(linked):
    posterior = linked([0.0] * 2, [1.0] * 2, [1.0] * 2, lambda f: (f, jnp.ones_like(f)))

    def rank(ladder, remaining=math.inf, **settings):
        candidates = SPACE.sample(np.random.default_rng(1), 64)
        kept = jnp.asarray(-1.0 if settings.get("log_worth") else 1.0)
        return search(flat, [(posterior, kept)], history(ladder, remaining), (0, 1), candidates, 4, **settings)

    return rank


@pytest.mark.parametrize("log_worth", [False, True])
def test_of_equal_worths_the_cheapest_design_wins(ranked, log_worth):
    best = ranked(DEPENDENT, log_worth=log_worth)[0]
    assert best.fidelity == 0
    assert best.unit_x[0] == pytest.approx(0, abs=1e-3)
    assert best.worth == pytest.approx(0.0 if log_worth else 1.0, abs=2e-3)  # 1 / (1 + a) at a = 0
    high = next(each for each in ranked(DEPENDENT, log_worth=log_worth) if each.fidelity == 1)
    assert high.unit_x[1] == pytest.approx(0, abs=1e-3)


def test_without_dependence_the_worth_is_divided_by_the_number(ranked):
    assert {each.worth for each in ranked(LADDER) if each.fidelity == 1} == {0.1}
    assert {each.worth for each in ranked(LADDER, log_worth=True) if each.fidelity == 1} == {-math.log(10.0)}


def test_ranks_are_exact_where_the_surface_is_not(ranked):
    for each in ranked(DEPENDENT):
        declared = 1 + each.unit_x[0] if each.fidelity == 0 else 10 * math.exp(each.unit_x[1])
        assert each.worth == pytest.approx(1 / declared, rel=1e-9)


def test_the_items_of_a_table_are_ranked_by_their_own_costs(linked):
    items = fd.Catalogue({f"n{number}": {"size": float(number), "age": float(number % 3)} for number in range(1, 8)})
    space = fd.SearchSpace({"item": items})
    ladder = FidelityLadder((fd.Fidelity("low", cost="item.size / 8"), fd.Fidelity("high", cost="10 * item.size")))
    posterior = linked([0.0] * 2, [1.0] * 2, [1.0] * 2, lambda f: (f, jnp.ones_like(f)))
    known = History(space, ladder.priced(space), Direction.MAXIMIZE, (), 45.0)
    assert space.table is not None
    found = search(flat, [(posterior, jnp.asarray(1.0))], known, (0, 1), space.table[:4], 4)
    assert len(found) == 2 * 7
    for each in found:
        size = items[space.decode(each.unit_x)["item"]]["size"]
        cost = (size / 8, 10 * size)[each.fidelity]
        assert each.worth == (pytest.approx(1 / cost, rel=1e-9) if cost <= 45 else 0.0)
    assert space.decode(found[0].unit_x) == {"item": "n1"}


def test_starts_beyond_the_budget_rank_last(ranked):
    within = [each for each in ranked(DEPENDENT, remaining=12.0) if each.fidelity == 1]
    costs = [10 * math.exp(each.unit_x[1]) for each in within]
    assert min(costs) <= 12.0
    assert within[0].worth >= 1 / 12


def test_a_worth_of_either_sign_is_its_rise_above_a_level(ranked):
    best = ranked(DEPENDENT, log_worth=True, level=-1.0)[0]
    assert best.unit_x[0] == pytest.approx(0, abs=1e-3)
    assert best.worth == pytest.approx(math.log(1 / 0.05), abs=5e-3)  # softly: in units of 0.05


def told(number, x, fidelity):
    a, b = x
    declared = (1.0, 10.0)[fidelity]
    cost = declared * 10 ** (a - 0.5)
    value = -((a - 0.6) ** 2) - (b - 0.4) ** 2 + 0.1 * fidelity * a
    params = {"a": float(a), "b": float(b)}
    return Trial(number, params, LADDER[fidelity], TrialState.DONE, value, measured_cost=cost, charged=cost)


@pytest.mark.parametrize("name", [name for name in strategy_names() if name not in ("random", "dnn-mfbo-paper")])
def test_every_strategy_looks_at_the_cost_of_the_design(name):
    """With costs that differ by a hundred at the same worth, queries move to where they are cheap."""
    from fidelium.randomness import Key

    points = SPACE.sample(np.random.default_rng(2), 14)
    trials = tuple(told(n, x, int(n > 9)) for n, x in enumerate(points))
    plain = History(SPACE, LADDER, Direction.MAXIMIZE, trials)
    aware = History(SPACE, LADDER, Direction.MAXIMIZE, trials, measured_costs=True)
    assert aware.costs.depend_on_design
    strategy = resolve(name)
    keys = [Key((number,)) for number in range(2)]
    there, here = ([strategy.propose(each, (), key).params["a"] for key in keys] for each in (plain, aware))
    assert np.mean(here) <= np.mean(there) + 1e-6
    tight = History(SPACE, LADDER, Direction.MAXIMIZE, trials, 4.0, measured_costs=True)
    query = strategy.propose(tight, (), keys[0])
    assert tight.costs.of(query.params, query.fidelity) <= 4.0
