"""The exact posterior of a Gaussian process, by one Cholesky factor, shared by all variants.

    y_n = f(p_n) + e_n,   e_n ~ N(0, s_n),    f ~ GP(0, k)
    mean(p) = k(p)^T K^-1 y,    cov(p, p') = k(p, p') - k(p)^T K^-1 k(p'),    K = k(p_i, p_j) + diag(s)

A point p is whatever the covariance understands: (x, fidelity) for joint models, (x, value below) for a layer of a
chain. Rows with mask 0 are padding: they stand alone with unit variance and count for nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.linalg import log_normal
from fidelium.numerics.padding import bucket
from fidelium.randomness import Key
from fidelium.surrogates.base import VARIANCE_FLOOR, Scalar
from fidelium.surrogates.learning import Prior, ravel, unravel

T = TypeVar("T")

At = Any
"""One point of the process, or many along leading axes: a pytree of arrays."""

JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Added to the diagonal, as a share of its mean, one after the other until there is a Cholesky factor."""


@runtime_checkable
class Covariance(Protocol):
    """A covariance between two points, and features that stand for it."""

    @abstractmethod
    def __call__(self, p: At, other: At) -> Scalar:
        """k(p, p')."""
        ...

    @abstractmethod
    def features(self, frequencies: At, p: At) -> Float[Array, " f"]:
        """phi with E[phi(p) . phi(p')] = k(p, p') over the draw of the frequencies."""
        ...


class Rows(eqx.Module):
    """Observations of a process.

    Args:
        at: their points.
        y: their values.
        noise_var: the variance of each value about the process; before learning, `NOT_KNOWN` where it is to be learned.
        mask: 1 for an observation, 0 for padding.
    """

    at: At
    y: Float[Array, " n"]
    noise_var: Float[Array, " n"]
    mask: Float[Array, " n"]


class PathDraws(eqx.Module):
    """Draws of the process as functions (Matheron's rule): weights of features and of kernels."""

    prior: Float[Array, "draws f"]
    update: Float[Array, "draws n"]


class Values(eqx.Module):
    """Values of a process, ready to be compared with others.

    Args:
        at: their points.
        mean: their means.
        spread: L^-1 k(p) of each.
    """

    at: At
    mean: Float[Array, " k"]
    spread: Float[Array, "k n"]


class ExactGP(eqx.Module):
    """A Gaussian process given observations.

    Args:
        covariance: k.
        frequencies: of the features that draws are made of.
        rows: the observations.
        root: L^-1 with L L^T = K.
        weights: K^-1 y.
        jitter: added to the diagonal of K, usually 0.
    """

    covariance: Covariance
    frequencies: At
    rows: Rows
    root: Float[Array, "n n"]
    weights: Float[Array, " n"]
    jitter: Scalar

    @staticmethod
    def of(covariance: Covariance, frequencies: At, rows: Rows) -> ExactGP:
        """The process given the rows."""
        return _conditioned(covariance, frequencies, rows)

    def moments(self, p: At) -> tuple[Scalar, Scalar]:
        """Mean and variance at a point."""
        mean, spread = self._explained(p)
        return mean, self._at_least(self.covariance(p, p) - spread @ spread)

    def joint(self, p: At, other: At) -> tuple[Float[Array, " 2"], Float[Array, "2 2"]]:
        """Mean and covariance matrix at two points."""
        (mean, spread), (other_mean, other_spread) = self._explained(p), self._explained(other)
        cross = self.covariance(p, other) - spread @ other_spread
        variance = self._at_least(self.covariance(p, p) - spread @ spread)
        other_variance = self._at_least(self.covariance(other, other) - other_spread @ other_spread)
        cov = jnp.stack([jnp.stack([variance, cross]), jnp.stack([cross, other_variance])])
        return jnp.stack([mean, other_mean]), cov

    def values(self, at: At) -> Values:
        """The values at many points."""
        mean, spread = jax.vmap(self._explained)(at)
        return Values(at, mean, spread)

    def covariances(self, values: Values, others: Values) -> Float[Array, "k l"]:
        """Covariances between values."""
        prior = jax.vmap(lambda p: jax.vmap(lambda other: self.covariance(p, other))(others.at))(values.at)
        return prior - values.spread @ others.spread.T

    def draw(self, key: jax.Array, count: int) -> PathDraws:
        """Draws of the process as functions: draws of the prior, corrected by the data."""
        weight_key, noise_key = jr.split(key)
        phi = jax.vmap(lambda p: self.covariance.features(self.frequencies, p))(self.rows.at)
        prior = jr.normal(weight_key, (count, phi.shape[1]))
        noise = jr.normal(noise_key, (count, phi.shape[0])) * jnp.sqrt(self.rows.noise_var + self.jitter)[None, :]
        misfit = self.rows.mask[None, :] * (self.rows.y[None, :] - prior @ phi.T - noise)
        return PathDraws(prior, misfit @ self.root.T @ self.root)

    def value(self, draw: PathDraws, p: At) -> Scalar:
        """One draw at a point."""
        return draw.prior @ self.covariance.features(self.frequencies, p) + draw.update @ self._towards(p)

    def given(self, at: At, noise_var: Float[Array, " p"], weight: Float[Array, " p"]) -> ExactGP:
        """Condition on fantasy observations at more points, equal to the predictive mean; not to be traced."""
        mean = _means(self, at)
        more = Rows(at, mean, noise_var, weight)
        kept = np.concatenate([np.flatnonzero(np.asarray(self.rows.mask)), len(self.weights) + np.flatnonzero(weight)])
        size = bucket(len(kept))
        order = np.concatenate([kept, np.zeros(size - len(kept), dtype=kept.dtype)])
        rows: Rows = jax.tree.map(lambda a, b: jnp.concatenate([a, b])[order], self.rows, more)
        mask = jnp.asarray(np.arange(size) < len(kept), dtype=float)
        return ExactGP.of(self.covariance, self.frequencies, eqx.tree_at(lambda r: r.mask, rows, mask))

    def _explained(self, p: At) -> tuple[Scalar, Float[Array, " n"]]:
        """The mean at a point, and s(p) = L^-1 k(p): cov(p, p') = k(p, p') - s(p) . s(p')."""
        k = self._towards(p)
        return k @ self.weights, self.root @ k

    def _towards(self, p: At) -> Float[Array, " n"]:
        """k(p): the covariances between a point and the observations."""
        return self.rows.mask * jax.vmap(lambda row: self.covariance(p, row))(self.rows.at)

    def _at_least(self, variance: Scalar) -> Scalar:
        return jnp.maximum(variance, VARIANCE_FLOOR)


def process_log_evidence(covariance: Covariance, rows: Rows) -> Scalar:
    """log N(y | 0, K); -inf or not a number where K has no Cholesky factor."""
    return log_normal(rows.y, _gram(covariance, rows), rows.mask)


def _gram(covariance: Covariance, rows: Rows) -> Float[Array, "n n"]:
    k = jax.vmap(lambda p: jax.vmap(lambda q: covariance(p, q))(rows.at))(rows.at)
    both = rows.mask[:, None] * rows.mask[None, :]
    return both * k + jnp.diag(jnp.where(rows.mask > 0, rows.noise_var, 1.0))


@jax.jit
def _conditioned(covariance: Covariance, frequencies: At, rows: Rows) -> ExactGP:
    gram = _gram(covariance, rows)
    jitters = jnp.asarray(JITTERS) * jnp.mean(jnp.diag(gram))

    def factor(step: Array) -> Float[Array, "n n"]:
        return jnp.linalg.cholesky(gram + jitters[step] * jnp.eye(gram.shape[0]))

    def failed(state: tuple[Array, Array]) -> Array:
        return ~jnp.all(jnp.isfinite(state[1])) & (state[0] < len(JITTERS) - 1)

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return state[0] + 1, factor(state[0] + 1)

    step, chol = jax.lax.while_loop(failed, again, (jnp.zeros((), int), factor(jnp.zeros((), int))))
    root = solve_triangular(chol, jnp.eye(gram.shape[0]), lower=True)
    weights = root.T @ (root @ (rows.mask * rows.y))
    return ExactGP(covariance, frequencies, rows, root, weights, jitters[step])


@jax.jit
def _means(process: ExactGP, at: At) -> Float[Array, " n"]:
    return jax.vmap(lambda p: process.moments(p)[0])(at)


@runtime_checkable
class ProcessModel(Protocol):
    """What the parameters mean. It is hashable: a function compiled for a model is used for all equal ones."""

    @abstractmethod
    def covariance(self, theta: Any) -> Covariance:
        """The covariance for given parameters."""
        ...

    @abstractmethod
    def noisy(self, rows: Rows, theta: Any) -> Rows:
        """The rows with the noise for given parameters."""
        ...


def learn(model: ProcessModel, prior: Prior[T], rows: Rows, starts: int, steps: int, key: Key) -> T:
    """The parameters of the highest density log p(y, theta).

    Args:
        model: what the parameters mean.
        prior: of the parameters.
        rows: the observations, without their noise.
        starts: starting points of the search.
        steps: evaluations of the evidence at most.
        key: of the starting points.
    """

    def density(vectors: NDArray[np.float64]) -> tuple[Array, Array]:
        return _log_density(model, vectors, prior.mean, prior.std, rows)

    start = np.stack([ravel(each) for each in prior.starts(starts, key)])
    found = maximise_rows(density, start, ravel(prior.lower), ravel(prior.upper), steps=steps, tolerance=1e-3)
    return jax.tree.map(jnp.asarray, unravel(prior.mean, found.x[found.best]))


@partial(jax.jit, static_argnums=0)
def _log_density(
    model: ProcessModel,
    vectors: Float[Array | np.ndarray, "r p"],
    prior_mean: Any,
    prior_std: Any,
    rows: Rows,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(y, theta) of every row, and its gradient. L-BFGS has vectors; the parameters get their names here."""

    def one(vector: Float[Array, " p"]) -> Float[Array, ""]:
        log_prior = -0.5 * jnp.sum(((vector - ravel_pytree(prior_mean)[0]) / ravel_pytree(prior_std)[0]) ** 2)
        covariance = model.covariance(unravel(prior_mean, vector))
        return process_log_evidence(covariance, model.noisy(rows, unravel(prior_mean, vector))) + log_prior

    return jax.vmap(jax.value_and_grad(one))(vectors)
