"""Learning theta of a Gaussian process: the highest posterior density, by the evidence and the prior."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.lbfgs import maximise_rows
from fidelium.randomness import Key
from fidelium.surrogates.gp.exact import Covariance, Rows, log_evidence
from fidelium.surrogates.learning import Prior


@runtime_checkable
class ProcessModel(Protocol):
    """What theta means. It is hashable: a function compiled for a model is used for all equal ones."""

    @abstractmethod
    def covariance(self, theta: Float[Array, " p"]) -> Covariance:
        """The covariance for a value of theta."""
        ...

    @abstractmethod
    def noisy(self, rows: Rows, theta: Float[Array, " p"]) -> Rows:
        """The rows with the noise for a value of theta."""
        ...


def learn(model: ProcessModel, prior: Prior, rows: Rows, starts: int, steps: int, key: Key) -> NDArray[np.float64]:
    """theta of the highest density log p(y, theta).

    Args:
        model: what theta means.
        prior: beliefs about theta.
        rows: the observations, their noise still open.
        starts: starting points of the search.
        steps: evaluations of the evidence at most.
        key: of the starting points.
    """

    def density(theta: NDArray[np.float64]) -> tuple[Array, Array]:
        return _log_density(model, theta, prior.mean, prior.std, rows)

    found = maximise_rows(density, prior.starts(starts, key), prior.lower, prior.upper, steps=steps, tolerance=1e-3)
    return found.x[found.best]


@partial(jax.jit, static_argnums=0)
def _log_density(
    model: ProcessModel,
    theta: Float[Array, "r p"],
    prior_mean: Float[Array, " p"],
    prior_std: Float[Array, " p"],
    rows: Rows,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(y, theta) of every row of theta, and its gradient."""

    def one(theta: Float[Array, " p"]) -> Float[Array, ""]:
        log_prior = -0.5 * jnp.sum(((theta - prior_mean) / prior_std) ** 2)
        return log_evidence(model.covariance(theta), model.noisy(rows, theta)) + log_prior

    return jax.vmap(jax.value_and_grad(one))(theta)
