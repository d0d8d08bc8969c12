"""What acquisitions and strategies need of a surrogate, and nothing else.

A posterior is a pytree of arrays: it goes through `jax.jit` and `jax.vmap` as an argument. Its functions take one point
of the unit cube and are vmapped by the caller. All values are in the model's units of each fidelity, to be maximised.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import Observations
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key

Point = Float[Array, " d"]
Scalar = Float[Array, ""]

VARIANCE_FLOOR = 1e-12
"""Added to, or a lower bound of, variances in units of order one, so that no standard deviation is zero."""

P = TypeVar("P", bound="Posterior")
"""The class of a posterior, as `typing.Self`, which beartype does not take on single methods."""


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
    """What is known after a fit.

    Acquisitions use `marginals`, `target_given`, `draw_paths`, `noise_var` and `members`; strategies use `scales` and
    `given`.
    """

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
    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Variance of an observation about f_m where f_m has this value."""
        ...

    @abstractmethod
    def members(self) -> tuple[Posterior, ...]:
        """The posteriors whose gains are averaged: the members of an ensemble, or this posterior alone."""
        ...

    @abstractmethod
    def given(self: P, x: NDArray[np.float64], fidelities: Sequence[int]) -> P:
        """Condition on fantasy observations equal to the predictive mean, for queries that are still running.

        The means stay. Not to be traced.

        Args:
            x: a row for each query.
            fidelities: one for each query.
        """
        ...


@runtime_checkable
class JointlyGaussian(Posterior, Protocol):
    """A posterior whose fidelities are jointly Gaussian at every point, with their covariance."""

    @abstractmethod
    def joint(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
        """Mean and covariance of all f_m(x)."""
        ...

    @abstractmethod
    def noise_vars(self, values: Float[Array, " m"]) -> Float[Array, " m"]:
        """Variance of an observation of every fidelity where f_m has its value."""
        ...


@runtime_checkable
class Success(Protocol):
    """Beliefs about whether runs succeed."""

    @abstractmethod
    def probabilities(self, x: Point) -> Float[Array, " m"]:
        """P(a run at (x, m) succeeds) for every fidelity."""
        ...

    @abstractmethod
    def pair(self, x: Point, fidelity: Any) -> tuple[Scalar, Scalar, Scalar]:
        """P(a run at (x, m) succeeds), and P(one of the target at x succeeds) given that it did, and that it did not.

        The fidelity may be traced.
        """
        ...


P_co = TypeVar("P_co", bound=Posterior, covariant=True)


@dataclass(frozen=True)
class Focus:
    """Where a model must be precise, if that is not at the best design and value that it was given.

    Args:
        unit_x: the design around which to look closely.
        precise: of every fidelity, the range of values where precision matters, in the user's units: the limits of an
            outcome, or its one limit twice; of an objective, from the best feasible value up to infinity.
    """

    unit_x: tuple[float, ...]
    precise: tuple[tuple[float, float], ...]

    @property
    def limits(self) -> tuple[float, float] | None:
        """The limits of an outcome, the same at every fidelity; None: it is an objective."""
        low, high = self.precise[-1]
        return None if math.isinf(high) else (low, high)


@runtime_checkable
class Focusable(Protocol):
    """A surrogate that can be focused."""

    @abstractmethod
    def focused(self, focus: Focus) -> Surrogate[Posterior]:
        """The same surrogate, precise there."""
        ...


@runtime_checkable
class Surrogate(Protocol[P_co]):
    """Learns a posterior from observations at every fidelity."""

    @abstractmethod
    def fit(self, observations: Sequence[Observations], key: Key) -> P_co:
        """The posterior given the observations of each fidelity, low to high; some may be empty, but not all.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        ...
