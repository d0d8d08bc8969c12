"""Spaces whose designs are all listed: searches compare every design, and maxima are exact."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from fidelium.acquisition.base import BLOCK, MOST_WHOLE, Designs, in_blocks
from fidelium.acquisition.feasible import climb_feasible
from fidelium.acquisition.improvement import AugmentedImprovementSearch
from fidelium.acquisition.maxima import maximise_paths
from fidelium.acquisition.maximise import search
from fidelium.catalogue import Catalogue
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.randomness import Key
from fidelium.space import Real, SearchSpace

LADDER = FidelityLadder((Fidelity("low", 1.0), Fidelity("high", 8.0)))
CENTRE = jnp.array([0.3, 0.6])


def catalogue(count: int) -> Catalogue:
    values = np.random.default_rng(1).uniform(size=(count, 2)).tolist()
    return Catalogue({f"i{k}": {"a": a, "b": b} for k, (a, b) in enumerate(values)})


def history(space: SearchSpace, *trials: Trial) -> History:
    return History(space, LADDER, Direction.MAXIMIZE, trials)


def bump(posterior, context: Array, x: Array, fidelity: int) -> Array:
    return (1.0 + 2.0 * fidelity) * jnp.exp(-jnp.sum((x[:2] - CENTRE) ** 2))


@pytest.fixture
def posterior(linked):
    return linked([0.0, 0.0], [1.0, 1.0], [0.1, 0.1], lambda f: (0.8 * f, jnp.full_like(f, 0.4)), tilt=1.0)


@pytest.mark.parametrize("count", [5, BLOCK, BLOCK + 1, MOST_WHOLE + 100])
def test_the_best_of_all_designs_is_found_and_what_was_asked_is_left_out(posterior, count: int) -> None:
    space = SearchSpace({"item": catalogue(count)})
    assert space.table is not None
    worths = np.exp(-np.sum((space.table[:, :2] - np.asarray(CENTRE)) ** 2, axis=1))
    order = np.argsort(-worths)
    asked = Trial(0, space.decode(space.table[order[0]]), LADDER[0], TrialState.DONE, value=1.0)
    known = [(posterior, jnp.zeros(1))]
    ranked = search(bump, known, history(space, asked), (0, 1), space.table[:4], 2)
    best = {m: next(each for each in ranked if each.fidelity == m) for m in (0, 1)}
    assert np.array_equal(best[0].unit_x, space.table[order[1]])
    assert np.array_equal(best[1].unit_x, space.table[order[0]])
    assert best[0].worth == pytest.approx(worths[order[1]], rel=1e-12)
    assert best[1].worth == pytest.approx(3 * worths[order[0]] / 8, rel=1e-12)
    assert ranked == sorted(ranked, key=lambda each: -each.worth)


def test_maxima_of_draws_are_exact(posterior) -> None:
    space = SearchSpace({"item": catalogue(700)})
    assert space.table is not None
    paths = posterior.draw_paths(jax.random.key(0), 6)
    values = np.stack([np.asarray(paths(x)) for x in space.table])
    found = maximise_paths(paths, space.table[:3], 2, space=space)
    assert np.allclose(found.value, values.max(axis=0), rtol=0, atol=1e-12)
    assert np.array_equal(found.unit_x, space.table[values.argmax(axis=0)])


def test_blocks_give_what_all_rows_together_give() -> None:
    rows = np.random.default_rng(0).normal(size=(BLOCK + 7, 3))
    assert np.array_equal(in_blocks(lambda x: x * 2, rows), rows * 2)
    assert in_blocks(lambda x: x * 2, rows[:0]).shape == (0, 3)


def test_beside_a_real_parameter_items_and_reals_are_climbed_in_turns() -> None:
    items = catalogue(400)
    space = SearchSpace({"item": items, "x": Real(0, 1)})

    def value_and_gradient(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        away = x - np.array([0.3, 0.6, 0.25])
        return -np.sum(away**2, axis=1), -2 * away

    start = space.sample(np.random.default_rng(0), 6)
    found = climb_feasible(space, value_and_gradient, start)
    best = items.rows[np.argmin(np.sum((items.rows - np.array([0.3, 0.6])) ** 2, axis=1))]
    assert np.array_equal(found.x[:, :2], np.tile(best, (6, 1)))
    assert np.allclose(found.x[:, 2], 0.25, atol=1e-3)


def test_a_share_of_followed_runs_adds_to_the_cost_of_cheap_ones(posterior) -> None:
    space = SearchSpace({"item": catalogue(20)})
    done = Trial(0, {"item": "i0"}, LADDER[1], TrialState.DONE, value=0.3)
    plain, followed = (
        AugmentedImprovementSearch(Designs(8, 0, 2), followed=share).rank(
            posterior, history(space, done), (0, 1), Key((0,))
        )
        for share in (0.0, 0.25)
    )
    worths = [{(each.unit_x.tobytes(), each.fidelity): each.worth for each in ranked} for ranked in (plain, followed)]
    assert worths[0].keys() == worths[1].keys()
    for (design, m), worth in worths[0].items():
        less = math.log((1 + 0.25 * 8) / 1) if m == 0 else 0.0
        assert worths[1][design, m] == pytest.approx(worth - less, abs=1e-12)
