"""A posterior whose every number is given: normal marginals, and a link from each fidelity to the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.scaling import Scale

Link = Callable[[Array], tuple[Array, Array]]


class ParallelPaths(eqx.Module):
    """Draws that differ by a constant."""

    heights: Float[Array, " draws"]
    tilt: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " draws"]:
        return self.heights + self.tilt * jnp.sum(x)

    def at(self, draw: Array, x: Float[Array, " d"]) -> Float[Array, ""]:
        return self(x)[draw]


class LinkedPosterior(eqx.Module):
    """f_m(x) ~ N(mean_m + tilt (x_1 + ... + x_d), var_m), and f_M given f_m from a link that does not see x.

    Args:
        mean: at x = 0, per fidelity.
        var: per fidelity.
        noise: variance of an observation, per fidelity.
        link: mean and variance of f_M given f_m.
        tilt: how fast the means rise with x.
    """

    mean: Float[Array, " m"]
    var: Float[Array, " m"]
    noise: Float[Array, " m"]
    link: Link = eqx.field(static=True)
    tilt: float = eqx.field(static=True, default=0.0)

    def scales(self) -> tuple[Scale, ...]:
        return (Scale(),) * len(self.mean)

    def marginals(self, x: Float[Array, " d"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        return self.mean + self.tilt * jnp.sum(x), self.var

    def target_given(
        self, x: Float[Array, " d"], fidelity: int, value: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return self.link(value)

    def draw_paths(self, key: jax.Array, count: int) -> ParallelPaths:
        heights = self.mean[-1] + jnp.sqrt(self.var[-1]) * jax.random.normal(key, (count,))
        return ParallelPaths(heights, self.tilt)

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.broadcast_to(self.noise[fidelity], jnp.shape(value))

    def members(self) -> tuple[LinkedPosterior]:
        return (self,)

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> LinkedPosterior:
        # the same error everywhere: one observation of a fidelity leaves var s / (var + s) of it, wherever it was made
        seen = jnp.asarray([fidelities.count(m) for m in range(len(self.mean))], float)
        var = self.var * self.noise / (self.noise + seen * self.var)
        return LinkedPosterior(self.mean, var, self.noise, self.link, self.tilt)


@pytest.fixture(scope="session")
def linked() -> Callable[..., LinkedPosterior]:
    """Makes a `LinkedPosterior` from lists of numbers."""

    def make(mean: list[float], var: list[float], noise: list[float], link: Link, tilt: float = 0.0) -> LinkedPosterior:
        return LinkedPosterior(jnp.array(mean), jnp.array(var), jnp.array(noise), link, tilt)

    return make
