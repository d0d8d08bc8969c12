"""Draws of f*: each is the maximum of its path, at a point of the cube where the path has that value."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Float

from fidelium.acquisition.maxima import maximise_paths

GRID = np.stack(np.meshgrid(np.linspace(0, 1, 61), np.linspace(0, 1, 61)), axis=-1).reshape(-1, 2)
CANDIDATES = np.random.default_rng(0).random((128, 2))


@pytest.fixture(scope="module")
def paths(random_stack):
    return random_stack(2).draw_paths(jr.key(0), 8)


def test_no_path_is_higher_anywhere_than_its_sampled_maximum(paths):
    found = maximise_paths(paths, CANDIDATES, starts=4)
    highest = np.asarray(jax.jit(jax.vmap(paths.__call__))(GRID)).max(axis=0)
    assert np.all(found.value >= highest - 1e-6 * np.abs(highest))
    assert np.all(found.value < highest + 0.05)  # the grid is fine: the maximum is not far above it


def test_the_maximum_is_the_value_of_its_own_path_where_it_was_found(paths):
    found = maximise_paths(paths, CANDIDATES, starts=3)
    assert np.all((found.unit_x >= 0) & (found.unit_x <= 1))
    for draw, (value, x) in enumerate(zip(found.value, found.unit_x, strict=True)):
        assert float(paths(jnp.asarray(x))[draw]) == pytest.approx(value, rel=1e-10)


def test_it_is_at_least_the_best_candidate_and_more_starts_never_hurt(paths):
    screened = np.asarray(jax.vmap(paths.__call__)(jnp.asarray(CANDIDATES))).max(axis=0)
    few, many = maximise_paths(paths, CANDIDATES, starts=1), maximise_paths(paths, CANDIDATES, starts=6)
    assert np.all(few.value >= screened)
    assert np.all(many.value >= few.value - 1e-9)


class Bowls:
    """Paths with known maxima: minus squared distances from the corners and from inside."""

    centres = np.array([[0.3, 0.8], [1.4, -0.2], [0.0, 0.5]])

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " draws"]:
        return -jnp.sum((x[None, :] - self.centres) ** 2, axis=1)

    def at(self, draw: Array, x: Float[Array, " d"]) -> Float[Array, ""]:
        return -jnp.sum((x - jnp.asarray(self.centres)[draw]) ** 2)


jax.tree_util.register_static(Bowls)


def test_known_maxima_are_found_inside_and_at_the_walls():
    found = maximise_paths(Bowls(), CANDIDATES, starts=2)
    np.testing.assert_allclose(found.unit_x, np.clip(Bowls.centres, 0, 1), atol=1e-5)
    np.testing.assert_allclose(found.value, [0.0, -0.2, 0.0], atol=1e-8)
