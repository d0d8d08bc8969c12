"""A search with parameters held stays in the slice and finds its best; f* is the maximum there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.acquisition.base import Designs
from fidelium.acquisition.feasible import climb_feasible
from fidelium.acquisition.maxima import draw_paths, sample_maxima
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.numerics.backend import jax_key
from fidelium.randomness import Key
from fidelium.space import Categorical, Real, SearchSpace
from fidelium.strategies.recipes import sf_mes

WHOLE = SearchSpace({"x": Real(0, 1), "y": Real(0, 2), "kind": Categorical(["a", "b"])}, ["x + y <= 1.8"])


def history_in(space: SearchSpace) -> History:
    ladder, generator = FidelityLadder((Fidelity("only", 1),)), np.random.default_rng(2)
    trials = []
    for number, point in enumerate(WHOLE.sample(generator, 14)):
        params = WHOLE.decode(point)
        value = -((params["x"] - 0.7) ** 2) - (params["y"] - 0.9) ** 2 + (params["kind"] == "b")
        trials.append(Trial(number, params, ladder[0], TrialState.DONE, value))
    return History(space, ladder, Direction.MAXIMIZE, tuple(trials))


@pytest.mark.parametrize("fixed", [{"kind": "a"}, {"y": 1.5, "kind": "b"}])
def test_samples_of_the_maximum_are_those_of_the_slice(fixed):
    part = WHOLE.holding(fixed)
    history = history_in(part)
    assert [len(seen) for seen in history.observations] == [14]  # the model uses all data
    posterior = sf_mes().surrogate.fit(history.observations, Key((0, 0)))
    key = Key((7,))
    stars = sample_maxima(posterior, history, 4, 5, Designs(), key)
    assert np.array_equal(part.snap(stars.unit_x)[:, part.held_columns], stars.unit_x[:, part.held_columns])
    assert all(part.contains(part.decode(x)) for x in part.snap(stars.unit_x))
    paths = draw_paths(posterior, jax_key(key.split(2)[0]), 4)
    everywhere = part.sample(np.random.default_rng(0), 4000)
    brute = np.asarray(jax.vmap(paths)(jnp.asarray(everywhere))).max(axis=0)
    assert np.all(stars.value >= brute - 1e-6)
    there = np.asarray(jax.vmap(paths)(jnp.asarray(stars.unit_x)))[np.arange(4), np.arange(4)]
    np.testing.assert_allclose(stars.value, there, rtol=1e-9)


def test_a_climb_leaves_what_is_held():
    part = WHOLE.holding({"y": 0.5})

    def value_and_gradient(x):
        centre = np.array([0.4, 0.9, 0.5, 0.5])
        return -np.sum((x - centre) ** 2, axis=1), -2 * (x - centre)

    start = part.sample(np.random.default_rng(1), 6)
    found = climb_feasible(part, value_and_gradient, start).x
    assert np.all(found[:, 1] == 0.25)
    np.testing.assert_allclose(found[:, 0], 0.4, atol=1e-5)


def test_a_slice_samples_snaps_and_decodes_the_values_held():
    part = WHOLE.holding({"y": 1.2345678901234567})
    points = part.sample(np.random.default_rng(0), 500)
    assert {part.decode(x)["y"] for x in points} == {1.2345678901234567}
    assert max(part.decode(x)["x"] for x in points) <= 1.8 - 1.2345678901234567
    assert np.array_equal(part.snap(np.random.default_rng(1).random((5, 4)))[:, 1], points[:5, 1])
    assert np.array_equal(part.encode(part.decode(points[0])), points[0])
    assert (WHOLE.size, WHOLE.holding({"x": 0.5, "y": 1}).size) == (np.inf, 2)
    assert WHOLE.holding({"x": 0.5}) != WHOLE
    assert WHOLE.holding({}) is WHOLE
    assert not part.contains({"x": 0.1, "y": 1.0, "kind": "a"})
    assert part.holding({}).whole is WHOLE


def test_a_constraint_that_is_settled_by_what_is_held_is_dropped():
    space = SearchSpace({"a": Real(0, 1), "b": Real(0, 1), "c": Categorical(["x", "y"])}, ["a <= b", 'c != "y"'])
    assert space.holding({"a": 0.0, "b": 0.5}).constraints == ('c != "y"',)
    assert space.holding({"c": "x"}).constraints == ("a <= b",)
    assert space.holding({"a": 0.5}).feasible_share == pytest.approx(0.25, abs=0.05)
