"""MF-GP-UCB on cases made by hand: the tightest bound, the fidelity, and when zeta, gamma and beta are doubled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.acquisition.base import Acquisition, Designs
from fidelium.acquisition.confidence import (
    Bound,
    ConfidenceSearch,
    distances,
    doublings,
    exploration,
    thresholds,
    upper_bound,
)
from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.randomness import Key, trial_key
from fidelium.space import Real, SearchSpace
from fidelium.strategies.recipes import mf_gp_ucb
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.gp.covariances import Independent
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.warped import Warped

X = jnp.array([0.3, 0.6])
PLANE = SearchSpace({"a": Real(-1, 1), "b": Real(0, 2)})
LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("middle", 3), Fidelity("high", 12)))
FEW = Designs(pool=64, local=16, starts=4)

Told = tuple[tuple[float, float], int, float]


def unused(f):
    return f, jnp.ones_like(f)


def history_of(told: Sequence[Told], ladder: FidelityLadder = LADDER, given: int = 0) -> History:
    """Done trials at points of the unit square, of which the user brought the first `given`."""
    trials = tuple(
        Trial(number, PLANE.decode(np.array(x)), ladder[m], TrialState.DONE, value, given=number < given)
        for number, (x, m, value) in enumerate(told)
    )
    return History(PLANE, ladder, Direction.MAXIMIZE, trials)


# values from 0 to 10, the initial design climbing to the target
TOLD: list[Told] = [((0.1, 0.1), 0, 0.0), ((0.2, 0.8), 0, 10.0), ((0.5, 0.5), 1, 4.0), ((0.9, 0.2), 2, 5.0)]


# --- the bound


@pytest.mark.parametrize(
    ("mean", "zeta", "expected"),
    [
        ([0.0, 2.0, 3.0], [0.5, 0.2, 0.0], 0.0 + 2.0 * 0.5 + 0.5),  # the lowest fidelity is the tightest
        ([5.0, 2.0, 3.0], [0.5, 0.2, 0.0], 2.0 + 2.0 * 0.3 + 0.2),
        ([5.0, 2.0, 1.0], [0.5, 0.2, 0.0], 1.0 + 2.0 * 0.1 + 0.0),
        ([5.0, 2.0, 3.0], [0.5, 9.0, 0.0], 3.0 + 2.0 * 0.1 + 0.0),  # a fidelity that may be far off binds nothing
    ],
)
def test_phi_is_the_lowest_of_the_bounds(linked, mean, zeta, expected):
    posterior = linked(mean, [0.25, 0.09, 0.01], [0.0] * 3, unused)
    bound = Bound(jnp.asarray(2.0), jnp.array(zeta))
    assert [float(upper_bound(posterior, bound, X, m)) for m in range(3)] == pytest.approx([expected] * 3, rel=1e-14)


def test_the_gradient_of_phi_matches_finite_differences(random_stack):
    posterior, bound = random_stack(2), Bound(jnp.asarray(1.3), jnp.array([0.4, 0.0]))
    direction = jnp.array([0.6, -0.8])

    @jax.jit
    @jax.value_and_grad
    def along(step):
        return upper_bound(posterior, bound, X + step * direction, 1)

    (behind, _), (_, slope), (ahead, _) = (along(step) for step in (-1e-5, 0.0, 1e-5))
    assert float(slope) == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-6)


def test_beta_grows_with_the_queries_of_the_study_and_with_the_dimension():
    assert exploration(history_of(TOLD)) == pytest.approx(math.sqrt(0.2 * 2 * math.log(8)))
    assert exploration(history_of(TOLD, given=3)) == pytest.approx(math.sqrt(0.2 * 2 * math.log(2)))
    assert exploration(history_of(TOLD, given=4)) == exploration(history_of(TOLD, given=3))  # t is at least 1


# --- zeta: the range of TOLD is 10, so that zeta starts at 0.1 and gamma too


@pytest.mark.parametrize(
    ("low", "middle", "zeta"),
    [
        (4.3, 4.9, 0.4),  # y_1 = 4 is 0.3 from f_0; y_2 = 5 is 0.1 from f_1 and 0.7, in two steps, from f_0
        (4.0, 5.0, 0.8),  # 0, 0 and 1 in two steps
        (4.5, 5.0, 0.8),  # 0.5, 0 and 0.5 in two steps
        (4.0, 4.0, 1.6),  # 0, 1 and 1 in two steps
        (4.95, 4.95, 1.6),  # 0.95, 0.05 and 0.05 in two steps
    ],
)
def test_zeta_is_doubled_until_the_data_do_not_contradict_it(linked, low, middle, zeta):
    posterior = linked([low, middle, 5.0], [1e-12] * 3, [0.0] * 3, unused)
    assert distances(posterior, history_of(TOLD), 1.0) == pytest.approx([2 * zeta, zeta, 0.0])


def test_zeta_starts_at_a_hundredth_of_the_range(linked):
    told = [((0.1, 0.1), 0, 0.0), ((0.2, 0.8), 0, 10.0), ((0.5, 0.5), 1, 4.0), ((0.9, 0.2), 2, 4.0)]
    agreeing = linked([4.05, 4.05, 4.0], [1e-12] * 3, [0.0] * 3, unused)
    assert distances(agreeing, history_of(told), 1.0) == pytest.approx([0.2, 0.1, 0.0])
    apart = linked([4.11, 4.05, 4.0], [1e-12] * 3, [0.0] * 3, unused)
    assert distances(apart, history_of(told), 1.0) == pytest.approx([0.4, 0.2, 0.0])


def test_what_is_open_about_the_fidelity_below_or_noisy_does_not_contradict_zeta(linked):
    history = history_of(TOLD)
    for var, noise in (([4.0, 4.0, 0.0], [0.0] * 3), ([1e-12] * 3, [0.0, 4.0, 4.0])):
        unsure = linked([3.0, 4.0, 5.0], var, noise, unused)
        assert distances(unsure, history, 1.0) == pytest.approx([0.2, 0.1, 0.0])
        assert distances(unsure, history, 0.0) == pytest.approx([3.2, 1.6, 0.0])  # y_1 and y_2 are 1 a step from f_0


# --- gamma

COSTS = (1.0, 3.0, 12.0)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], [0, 0]),
        ([0] * 9 + [1] * 9 + [2], [0, 0]),  # an initial design
        ([0] * 9 + [1] * 9 + [2, 0, 0, 0], [0, 0]),  # three in a row are not more than 3
        ([0] * 9 + [1] * 9 + [2, 0, 0, 0, 0], [1, 0]),
        ([2, 0, 0, 0, 0, 0, 0, 0], [1, 1]),  # the count begins again, 7 is less than twice 4; 5 in a row below 2
        ([2, 0, 0, 0, 0, 0, 0, 0, 0], [2, 1]),
        ([2, 0, 0, 0, 1, 0, 0, 0], [0, 1]),  # going up to 1 interrupts the run at 0, not the one below 2
        ([2, 0, 0, 2, 0, 0, 2, 0, 0], [0, 0]),
        ([2, 1, 1, 1, 1, 1], [0, 1]),
        ([2, 1, 1, 1, 1, 2, 1, 1, 1, 1], [0, 0]),
        ([0, 0, 0, 0], [1, 0]),  # no initial design at the target: everything counts
        ([0, 1, 0, 0, 0, 0, 2], [1, 1]),  # not a climb
    ],
)
def test_gamma_is_doubled_when_more_queries_in_a_row_than_the_cost_ratio_are_not_above(asked, expected):
    assert doublings(asked, COSTS) == expected


def test_gamma_starts_at_a_hundredth_of_the_range_and_is_zero_at_the_target(linked):
    posterior = linked([0.0] * 3, [1.0] * 3, [0.0] * 3, unused)
    stuck = TOLD + [((0.1 * i, 0.3), 0, 1.0) for i in range(8)]
    assert thresholds(posterior, history_of(TOLD)) == pytest.approx([0.1, 0.1, 0.0])
    assert thresholds(posterior, history_of(stuck)) == pytest.approx([0.4, 0.2, 0.0])
    assert thresholds(posterior, history_of(stuck, given=len(stuck))) == pytest.approx([0.1, 0.1, 0.0])


# --- the search

NARROW = 1e-6


@pytest.mark.parametrize(
    ("std", "allowed", "fidelity"),
    [
        ([1.0, 1.0, 1.0], (0, 1, 2), 0),
        ([NARROW, 1.0, 1.0], (0, 1, 2), 1),
        ([NARROW, NARROW, 1.0], (0, 1, 2), 2),
        ([NARROW, NARROW, NARROW], (0, 1, 2), 2),
        ([1.0, NARROW, NARROW], (0, 1, 2), 0),
        ([NARROW, 1.0, 1.0], (0,), 0),  # not allowed: the highest allowed below it
        ([NARROW, NARROW, 1.0], (0, 1), 1),
        ([1.0, 1.0, 1.0], (1, 2), 1),  # none below: the lowest allowed
    ],
)
def test_the_lowest_fidelity_whose_band_is_wide_is_asked_where_phi_is_highest(linked, std, allowed, fidelity):
    # all means rise towards (1, 1), above the incumbent's 5
    posterior = linked([5.0] * 3, [s**2 for s in std], [0.0] * 3, unused, 1.0)
    ranked = ConfidenceSearch(FEW).rank(posterior, history_of(TOLD), allowed, Key((0,)))
    np.testing.assert_allclose(ranked[0].unit_x, 1.0, atol=1e-6)
    assert {candidate.fidelity for candidate in ranked} == {fidelity}


def test_a_stuck_search_goes_up(linked):
    # sqrt(beta) std_0 is about 0.14: wide for gamma = 0.1, narrow once it was doubled
    posterior = linked([5.0] * 3, [0.01, 1.0, 1.0], [0.0] * 3, unused, 1.0)
    for stuck, fidelity in ((3, 0), (4, 1)):
        history = history_of(TOLD + [((0.1 * i, 0.3), 0, 1.0) for i in range(stuck)])
        assert 0.1 < 0.1 * exploration(history) < 0.2
        assert ConfidenceSearch(FEW).rank(posterior, history, (0, 1, 2), Key((0,)))[0].fidelity == fidelity


def test_when_no_bound_is_above_the_incumbent_beta_is_doubled(linked):
    # the target's mean is at most 4.5, its std 0.3: phi exceeds the incumbent's 5 from sqrt(beta) = 5/3 on
    posterior = linked([2.5, 2.5, 2.5], [100.0, 100.0, 0.09], [0.0] * 3, unused, 1.0)
    history = history_of(TOLD)
    assert exploration(history) < 5 / 3 < 2 * exploration(history)
    ranked = ConfidenceSearch(FEW).rank(posterior, history, (2,), Key((0,)))
    phi = 4.5 + 0.3 * 2 * exploration(history)
    assert ranked[0].worth == pytest.approx(phi - math.log(12), rel=1e-9)
    hopeless = linked([-1e9] * 3, [1e-12] * 3, [0.0] * 3, unused, 1.0)
    assert math.isfinite(ConfidenceSearch(FEW).rank(hopeless, history, (2,), Key((0,)))[0].worth)


# --- with its process

PAIR = FidelityLadder((LADDER[0], LADDER[2]))
SMALL = GaussianProcess(Independent(shares_units=True), starts=2, steps=10, frequencies=8)
DEGENERATE: dict[str, list[Told]] = {
    "one value": [((0.1, 0.2), 0, 3.0)],
    "one target value": [((0.1, 0.2), 1, 3.0)],
    "constant": [((0.1, 0.2), 0, 2.0), ((0.9, 0.3), 0, 2.0), ((0.4, 0.4), 1, 2.0), ((0.3, 0.8), 1, 2.0)],
    "repeated": [((0.1, 0.2), 0, 1.0)] * 3 + [((0.1, 0.2), 1, 1.5)] * 3,
    "huge": [((0.1, 0.2), 0, 1e12), ((0.9, 0.3), 0, -1e12), ((0.4, 0.4), 1, 3e12)],
}


def test_fidelities_in_different_units_are_refused():
    history = history_of(TOLD + [((0.3, 0.3), m, 100.0 * m) for m in range(3)])
    posterior = GaussianProcess(Independent(), starts=1, steps=1, frequencies=8).fit(history.observations, Key((0,)))
    with pytest.raises(SettingError, match="same units"):
        ConfidenceSearch(FEW).rank(posterior, history, (0, 1, 2), Key((0,)))


@pytest.mark.parametrize("told", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_degenerate_data_give_finite_ranks_of_valid_designs(told):
    history = history_of(told, PAIR)
    posterior = SMALL.fit(history.observations, Key((0,)))
    ranked = ConfidenceSearch(FEW).rank(posterior, history, (0, 1), Key((1,)))
    assert all(abs(candidate.worth) < 1e300 for candidate in ranked)
    assert all(PLANE.snap(candidate.unit_x[None])[0].tobytes() == candidate.unit_x.tobytes() for candidate in ranked)
    assert np.all(thresholds(posterior, history)[:-1] > 0)  # else it would be stuck for ever


@pytest.mark.parametrize("ladder", [FidelityLadder((LADDER.target,)), PAIR, LADDER], ids=["one", "two", "three"])
def test_the_strategy_proposes_a_valid_new_query_and_the_same_again(ladder):
    generator = np.random.default_rng(0)
    told = [
        ((x, y), m, -((x - 0.6) ** 2) - y + 0.1 * m)
        for m in range(len(ladder))
        for x, y in generator.random((3, 2)).tolist()
    ]
    history, whole = history_of(told, ladder), mf_gp_ucb()
    assert isinstance(whole.acquisition, Acquisition)
    assert whole.surrogate == Warped(GaussianProcess(SMALL.family), shares_units=True)
    strategy = SurrogateStrategy(SMALL, ConfidenceSearch(FEW))
    query = strategy.propose(history, (), trial_key(0, len(told)))
    assert query == strategy.propose(history, (), trial_key(0, len(told)))
    assert PLANE.validate(query.params) == query.params
    assert (query.params, ladder[query.fidelity]) not in [(t.params, t.fidelity) for t in history.trials]
    assert strategy.propose(history, (query,), trial_key(0, len(told))) != query
