"""What an acquisition may ask of a surrogate, and nothing else.

A posterior is a pytree of arrays: it goes through `jax.jit` and `jax.vmap` as an argument. Its functions take one point
of the unit cube and are vmapped by the caller. All values are in the model's units of each fidelity, to be maximised.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

import jax
from jaxtyping import Array, Float

from fidelium.history import Observations
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key

Point = Float[Array, " d"]
Scalar = Float[Array, ""]


@runtime_checkable
class Paths(Protocol):
    """Draws of the target as whole functions."""

    @abstractmethod
    def __call__(self, x: Point) -> Float[Array, " draws"]:
        """The value of every draw at x."""
        ...

    @abstractmethod
    def at(self, draw: Array, x: Point) -> Scalar:
        """The value of one draw at x."""
        ...


@runtime_checkable
class Posterior(Protocol):
    """The four capabilities: marginals, the target given a lower fidelity, paths, noise."""

    @abstractmethod
    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values; not part of the traced arrays."""
        ...

    @abstractmethod
    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Mean and variance of f_m(x) for every fidelity."""
        ...

    @abstractmethod
    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of the target f_M(x) given that f_m(x) = value, for a fidelity below it."""
        ...

    @abstractmethod
    def draw_paths(self, key: jax.Array, count: int) -> Paths:
        """`count` independent draws of the target as functions."""
        ...

    @abstractmethod
    def noise_var(self, fidelity: int) -> Scalar:
        """Variance of an observation about f_m."""
        ...


P_co = TypeVar("P_co", bound=Posterior, covariant=True)


@runtime_checkable
class Surrogate(Protocol[P_co]):
    """Learns a posterior from observations at every fidelity."""

    @abstractmethod
    def fit(self, observations: Sequence[Observations], key: Key) -> P_co:
        """The posterior given the observations of each fidelity, low to high; any of them may be empty, not all."""
        ...
