"""The best designs by a margin, on posteriors whose means and deviations are given."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from fidelium.acquisition.safe_optima import safe_optima
from fidelium.numerics.scaling import Scale
from fidelium.space import Integer, Real, SearchSpace
from fidelium.surrogates.runs import Cautious, RunMember

SPACE = SearchSpace({"x": Real(0, 1), "y": Real(0, 1)})
START = np.array([[0.3, 0.4], [0.5, 0.1]])


class Known(eqx.Module):
    """A value of x + 2 y + shift, or an outcome of the squared distance from the centre; 0.01 is its deviation."""

    disk: Float[Array, ""]
    shift: Float[Array, ""]

    def marginals(self, x: Float[Array, " d"]) -> tuple[Float[Array, " 1"], Float[Array, " 1"]]:
        mean = jnp.where(self.disk == 1, jnp.sum((x - 0.5) ** 2), x[0] + 2 * x[1]) + self.shift
        return mean[None], jnp.array([1e-4])

    def scales(self) -> tuple[Scale, ...]:
        return (Scale(),)

    def members(self) -> tuple[Known, ...]:
        return (self,)

    def target_given(self, x: Array, fidelity: int, value: Array) -> tuple[Array, Array]:
        return value, jnp.asarray(1e-16)  # the one fidelity is the target

    def draw_paths(self, key: jax.Array, count: int) -> Draws:
        return Draws(self, 0.01 * jax.random.normal(key, (count,)))

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.zeros_like(value)

    def given(self, x: np.ndarray, fidelities: Sequence[int]) -> Known:
        return self  # the deviation is given, whatever is observed


class Draws(eqx.Module):
    """Draws of a `Known` that differ by a constant."""

    known: Known
    heights: Float[Array, " draws"]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " draws"]:
        return self.known.marginals(x)[0][0] + self.heights

    def at(self, draw: Array, x: Float[Array, " d"]) -> Float[Array, ""]:
        return self(x)[draw]


class Slope(eqx.Module):
    """Success with probability 1 - y."""

    steep: Float[Array, ""]

    def probabilities(self, x: Float[Array, " d"]) -> Array:
        return jnp.clip(1 - self.steep * x[1], 1e-3, 1 - 1e-3)[None]

    def pair(self, x: Array, fidelity: int) -> tuple[Array, Array, Array]:
        return self.probabilities(x)[0], jnp.ones(()), jnp.zeros(())


def member(shift: float = 0.0, limit: tuple[float, float] = (-1e9, 0.09), least: float | None = None) -> RunMember:
    parts = Known(jnp.asarray(0.0), jnp.asarray(shift)), Known(jnp.asarray(1.0), jnp.asarray(shift))
    success = None if least is None else Cautious(Slope(jnp.asarray(1.0)), jnp.asarray(least))
    results = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return RunMember(results, jnp.array([limit]), success)


def farthest(radius: float) -> list[float]:
    """The point of a disk about the centre where x + 2 y is largest."""
    return [0.5 + radius / 5**0.5, 0.5 + 2 * radius / 5**0.5]


def test_a_margin_is_kept_in_standard_deviations():
    found = safe_optima([member()], SPACE, START, (0.0, 2.0))
    expected = [farthest(0.3)] * 2 + [farthest((0.09 - 0.02) ** 0.5)] * 2
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_all_members_have_it():
    # the second member sees the outcome 0.01 higher
    found = safe_optima([member(), member(0.01)], SPACE, START[:1], (1.0,))
    np.testing.assert_allclose(found, [farthest((0.09 - 0.02) ** 0.5)], atol=1e-5)


def test_it_holds_for_both_limits():
    # within 0.05 of the circle of radius 0.3, but at least one deviation: the outer edge is the better one
    found = safe_optima([member(limit=(0.04, 0.09))], SPACE, START, (1.0,))
    np.testing.assert_allclose(found, [farthest(0.08**0.5)] * 2, atol=1e-5)


def test_success_is_as_likely_as_the_margin_and_the_caution_ask():
    wide = (-1e9, 1e9)
    found = safe_optima([member(limit=wide, least=0.6)], SPACE, START[:1], (0.0, 1.0))
    # P(success) = 1 - y is at least 0.6, and at least Phi(1) = 0.841
    np.testing.assert_allclose(found, [[1.0, 0.4], [1.0, 0.158655]], atol=1e-5)


def test_integers_and_known_constraints_are_those_of_a_design():
    mixed = SearchSpace({"x": Real(0, 1), "y": Integer(1, 4)})
    found = safe_optima([member()], mixed, mixed.snap(np.array([[0.3, 0.4], [0.5, 0.6]])), (0.0,))
    np.testing.assert_allclose(found, [[0.5 + (0.09 - 0.125**2) ** 0.5, 0.625]] * 2, atol=1e-5)
    bounded = SearchSpace({"x": Real(0, 1), "y": Real(0, 1)}, constraints=["y <= 0.6"])
    (x,) = safe_optima([member()], bounded, START[:1], (0.0,))
    assert x == pytest.approx([0.5 + (0.09 - 0.01) ** 0.5, 0.6], abs=1e-5)
    assert bounded.contains(bounded.decode(x))
