"""A chain of layers, one per fidelity, each fed with x and the value of the one below (Sec. 4.1).

Going up, the distribution of f_{m-1} is represented by Gauss-Hermite nodes, each is passed through layer m, and the
mixture is replaced by the Gaussian with its mean and variance, eq. (7) quad. The paper's stack of networks and the
non-linear autoregressive Gaussian process differ in their layers alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.quadrature import gauss_hermite, match_moments
from fidelium.numerics.scaling import Scale, scale_rows, scales_of
from fidelium.surrogates.base import Point, Scalar

Draws = Any
"""A pytree with a leading axis of draws, each of which determines one layer as a function."""

L = TypeVar("L", bound="ChainLayer")
C = TypeVar("C", bound="ChainPosterior[Any]")
"""The class of a chain, as `typing.Self`, which beartype does not take on single methods."""


@runtime_checkable
class ChainLayer(Protocol):
    """What the chain needs of the model of one fidelity; `below` is None in the lowest one."""

    @property
    def noise_var(self) -> Scalar:
        """sigma_m^2."""
        ...

    @abstractmethod
    def conditional(self, x: Point, below: Scalar | None) -> tuple[Scalar, Scalar]:
        """u(f_{m-1}, x) and gamma(f_{m-1}, x): mean and variance of f_m given the layer below, eq. (6) cond-m."""
        ...

    @abstractmethod
    def draw(self, key: jax.Array, count: int) -> Draws:
        """`count` draws of this layer as a function."""
        ...

    @abstractmethod
    def value(self, draw: Any, x: Point, below: Scalar | None) -> Scalar:
        """f_m according to one draw."""
        ...

    @abstractmethod
    def given(self: L, x: Float[Array, "n d"], below: Float[Array, " n"] | None, weight: Float[Array, " n"]) -> L:
        """Condition on fantasy observations y_m at the rows of x, equal to the predictive mean; weight 0 is padding."""
        ...


class ChainPosterior(eqx.Module, Generic[L]):
    """The posterior of the whole chain.

    Args:
        layers: one per fidelity, low to high.
        units: each fidelity's `Scale` as a row of numbers.
        nodes: Gauss-Hermite nodes per layer.
    """

    layers: tuple[L, ...]
    units: Float[Array, "m fields"]
    nodes: int = eqx.field(static=True)

    @classmethod
    def of(cls: type[C], layers: Sequence[L], scales: Sequence[Scale], nodes: int) -> C:
        """The posterior of these layers, whose values are in these units."""
        return cls(tuple(layers), jnp.asarray(scale_rows(scales)), nodes)

    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values."""
        return scales_of(self.units)

    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """alpha_m(x) and eta_m(x) for every m, eq. (7) quad."""
        moments = [self.layers[0].conditional(x, None)]
        for layer in self.layers[1:]:
            moments.append(self._step(layer, x, *moments[-1]))
        means, variances = zip(*moments, strict=True)
        return jnp.stack(means), jnp.stack(variances)

    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_M(x) given f_m(x), eq. (10) cond-post: the same steps, from a known value."""
        mean, variance = self.layers[fidelity + 1].conditional(x, value)
        for layer in self.layers[fidelity + 2 :]:
            mean, variance = self._step(layer, x, mean, variance)
        return mean, variance

    def draw_paths(self, key: jax.Array, count: int) -> ChainPaths:
        """`count` draws of f_M as functions: one draw of every layer each."""
        keys = jr.split(key, len(self.layers))
        return ChainPaths(self.layers, tuple(layer.draw(k, count) for layer, k in zip(self.layers, keys, strict=True)))

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """sigma_m^2, whatever the value."""
        return jnp.broadcast_to(self.layers[fidelity].noise_var, jnp.shape(value))

    def members(self: C) -> tuple[C]:
        """This posterior alone."""
        return (self,)

    def given(self: C, x: NDArray[np.float64], fidelities: Sequence[int]) -> C:
        """Condition on fantasy observations equal to the predictive mean."""
        posterior = self
        for m in sorted(set(fidelities)):
            rows = x[np.equal(fidelities, m)]
            size = bucket(len(rows))
            posterior = posterior.given_at(
                m, jnp.asarray(pad_rows(rows, size)), jnp.asarray(pad_rows(np.ones(len(rows)), size))
            )
        return posterior

    def given_at(self: C, fidelity: int, x: Float[Array, "n d"], weight: Float[Array, " n"]) -> C:
        """Condition on fantasy observations y_m at the rows of x, equal to the predictive mean."""
        below = _means(self, x)[:, fidelity - 1] if fidelity else None
        return self.with_layer(fidelity, self.layers[fidelity].given(x, below, weight))

    def with_layer(self: C, fidelity: int, layer: L) -> C:
        """The posterior with another layer."""
        layers = (*self.layers[:fidelity], layer, *self.layers[fidelity + 1 :])
        return type(self)(layers, self.units, self.nodes)

    def _step(self, layer: L, x: Point, mean: Scalar, variance: Scalar) -> tuple[Scalar, Scalar]:
        """From the Gaussian of f_{m-1} to that of f_m, eq. (7) quad."""
        z, g = gauss_hermite(self.nodes)
        t = mean + jnp.sqrt(variance) * z
        return match_moments(g, *jax.vmap(layer.conditional, (None, 0))(x, t))


class ChainPaths(eqx.Module):
    """Draws of f_M as functions: for each draw, one of every layer."""

    layers: tuple[ChainLayer, ...]
    draws: tuple[Draws, ...]

    def __call__(self, x: Point) -> Float[Array, " draws"]:
        """Every draw at x."""
        return jax.vmap(lambda draw: self._path(draw, x))(self.draws)

    def at(self, draw: Array, x: Point) -> Scalar:
        """One draw at x."""
        return self._path(jax.tree.map(lambda leaf: leaf[draw], self.draws), x)

    def _path(self, draws: tuple[Any, ...], x: Point) -> Scalar:
        value = self.layers[0].value(draws[0], x, None)
        for layer, draw in zip(self.layers[1:], draws[1:], strict=True):
            value = layer.value(draw, x, value)
        return value


@jax.jit
def _means(posterior: ChainPosterior[Any], x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    return jax.vmap(lambda x: posterior.marginals(x)[0])(x)
