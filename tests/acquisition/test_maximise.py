"""The search: the best query of a known gain, among the fidelities allowed, at a design that exists."""

from __future__ import annotations

import math
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from fidelium.acquisition.base import Candidate
from fidelium.acquisition.maximise import search, starts_per_fidelity
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History
from fidelium.space import Categorical, Integer, Real, SearchSpace

COSTS = (1.0, 10.0, 100.0)
LADDER = FidelityLadder(tuple(Fidelity(str(m), cost) for m, cost in enumerate(COSTS)))
CENTRES = jnp.array([[0.2, 0.7], [0.55, 0.35], [0.8, 0.9]])
HEIGHTS = jnp.array([1.0, 40.0, 350.0])  # per cost: 1, 4, 3.5
F_STAR = jnp.array([0.0])


def bumps(posterior, f_star: Array, x: Array, fidelity: int) -> Array:
    """A gain with one maximum per fidelity."""
    return HEIGHTS[fidelity] * jnp.exp(-4 * jnp.sum((x[:2] - CENTRES[fidelity]) ** 2))


@pytest.fixture
def posterior(linked):
    return linked([0.0] * 3, [1.0] * 3, [1.0] * 3, lambda f: (f, jnp.ones_like(f)))


PLANE = SearchSpace({"a": Real(-5, 10), "b": Real(1e-3, 1e3, log=True)})


def found(gain, posterior, space=PLANE, fidelities=(0, 1, 2), seed=0, **options) -> list[Candidate]:
    candidates = space.sample(np.random.default_rng(seed), 64)
    history = History(space, LADDER, Direction.MAXIMIZE, (), math.inf)
    return search(gain, [(posterior, F_STAR)], history, fidelities, candidates, 4, **options)


def test_the_best_query_of_a_known_gain_is_found(posterior):
    best = found(bumps, posterior)[0]
    assert best.fidelity == 1
    np.testing.assert_allclose(best.unit_x, CENTRES[1], atol=1e-4)
    assert best.worth == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("fidelities", [(0,), (2,), (0, 2), (0, 1, 2)])
def test_only_the_fidelities_allowed_are_considered(posterior, fidelities, together):
    ranked = found(bumps, posterior, fidelities=fidelities, together=together)
    assert {candidate.fidelity for candidate in ranked} == set(fidelities)
    best = max(fidelities, key=lambda m: float(HEIGHTS[m]) / COSTS[m])
    assert ranked[0].fidelity == best
    np.testing.assert_allclose(ranked[0].unit_x, CENTRES[best], atol=1e-4)


def test_candidates_come_best_first_with_the_gain_per_cost_of_the_design_they_stand_for(posterior):
    ranked = found(bumps, posterior)
    assert all(first.worth >= second.worth for first, second in pairwise(ranked))
    for candidate in ranked:
        gain = float(bumps(posterior, F_STAR, jnp.asarray(candidate.unit_x), candidate.fidelity))
        assert candidate.worth == pytest.approx(gain / COSTS[candidate.fidelity], rel=1e-9)


def shifted(posterior, centre: Array, x: Array, fidelity: Array) -> Array:
    """A parabola about a centre, of every fidelity."""
    return 3 - jnp.sum((x - centre) ** 2)


@pytest.mark.parametrize("together", [False, True])
def test_several_members_are_averaged(posterior, together):
    # the average of parabolas is one about the average of the centres
    centres = np.array([[0.2, 0.4], [0.6, 0.9]])
    candidates = PLANE.sample(np.random.default_rng(0), 64)
    history = History(PLANE, LADDER, Direction.MAXIMIZE, (), math.inf)
    members = [(posterior, jnp.asarray(centre)) for centre in centres]
    best = search(shifted, members, history, (0, 1), candidates, 4, together=together)[0]
    assert best.fidelity == 0
    np.testing.assert_allclose(best.unit_x, centres.mean(axis=0), atol=1e-4)
    assert best.worth == pytest.approx(3 - np.mean(np.sum((centres - centres.mean(axis=0)) ** 2, axis=1)), rel=1e-6)


MIXED = SearchSpace({"n": Integer(0, 10), "x": Real(300, 301), "c": Categorical(("oak", "steel", "glass"))})


def mixed_gain(posterior, f_star: Array, x: Array, fidelity: int) -> Array:
    """Highest at n = 7, x = 300.25 and steel (columns n, x, oak, steel, glass)."""
    return jnp.exp(-((x[0] - 7.5 / 11) ** 2) - (x[1] - 0.25) ** 2 + x[3] - x[2] - x[4])


def test_integers_and_categories_are_found_and_every_candidate_is_a_valid_design(posterior):
    ranked = found(mixed_gain, posterior, MIXED, (0,))
    best = MIXED.decode(ranked[0].unit_x)
    assert (best["n"], best["c"]) == (7, "steel")
    assert best["x"] == pytest.approx(300.25, abs=1e-4)
    for candidate in ranked:
        assert MIXED.snap(candidate.unit_x[None])[0].tobytes() == candidate.unit_x.tobytes()
        assert MIXED.encode(MIXED.decode(candidate.unit_x)).tobytes() == candidate.unit_x.tobytes()


def test_a_design_is_judged_where_it_landed_not_where_the_climb_ended(posterior):
    # the gain peaks between the integers 3 and 4, nearer to 4: what counts is its value at 4
    space = SearchSpace({"n": Integer(0, 9)})
    peak = 0.415

    def sharp(posterior, f_star: Array, x: Array, fidelity: int) -> Array:
        return 1 / (0.01 + (x[0] - peak) ** 2)

    ranked = found(sharp, posterior, space, (0,))
    assert space.decode(ranked[0].unit_x) == {"n": 4}
    assert ranked[0].worth == pytest.approx(1 / (0.01 + (0.45 - peak) ** 2), rel=1e-9)


def test_gains_that_are_no_numbers_lose(posterior):
    def holed(posterior, f_star: Array, x: Array, fidelity: int) -> Array:
        return jnp.where(x[0] > 0.5, jnp.nan, bumps(posterior, f_star, x, fidelity))

    ranked = found(holed, posterior)
    assert all(np.isfinite(candidate.worth) for candidate in ranked)
    assert ranked[0].unit_x[0] <= 0.5
    assert ranked[0].worth > 3.5  # close to the hole's wall, at the middle fidelity


def test_a_gain_of_nothing_but_nan_still_gives_valid_designs(posterior):
    ranked = found(lambda posterior, f_star, x, fidelity: jnp.nan * x[0], posterior, MIXED)
    assert len(ranked) > 0
    assert all(candidate.worth == 0.0 for candidate in ranked)
    assert all(MIXED.validate(MIXED.decode(candidate.unit_x)) for candidate in ranked)


def test_many_fidelities_share_the_climbs_of_three():
    assert [starts_per_fidelity(5, count) for count in (1, 2, 3, 4, 6, 8, 20)] == [5, 5, 5, 4, 3, 2, 2]
    assert starts_per_fidelity(1, 6) == 1


@pytest.mark.parametrize(("together", "climbs"), [(True, 6 * 2), (False, 6 * 4)])
def test_the_climbs_of_six_fidelities_are_counted(posterior, together, climbs):
    ladder = FidelityLadder(tuple(Fidelity(str(m), 1.0 + m) for m in range(6)))
    history = History(PLANE, ladder, Direction.MAXIMIZE, (), math.inf)
    candidates = PLANE.sample(np.random.default_rng(0), 64)
    centre = jnp.array([0.3, 0.3])
    ranked = search(shifted, [(posterior, centre)], history, range(6), candidates, 4, together=together)
    assert len(ranked) == 2 * climbs  # the end of every climb, and its start
    assert {candidate.fidelity for candidate in ranked} == set(range(6))
