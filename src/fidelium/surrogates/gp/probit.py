"""A Gaussian process seen through successes and failures, by expectation propagation (Minka 2001).

    P(success | g) = (1 - e) Phi(c + g),      g ~ GP(0, k)

Phi is the standard normal's distribution function, c an offset, and e the rate of failures that have nothing to do with
g. Every label is replaced by a Gaussian observation of g (a site: value y_i, variance 1 / t_i) whose product with the
rest, the cavity N(m_i, v_i), has the mean and variance of the exact product. What remains is an exact Gaussian process.

Laplace's approximation is cheaper, but too cautious where the process is large (Kuss and Rasmussen 2005), which is
where failing regions have sharp edges.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int

from fidelium.numerics.linalg import log_normal
from fidelium.numerics.normal import log_cdf
from fidelium.surrogates.base import Scalar

Vector = Float[Array, " n"]
Matrix = Float[Array, "n n"]

LEAST_PRECISION = 1e-3
"""Of a site. A failure among successes is taken for random and tells nothing; its exact precision is even negative."""

_MOST_SWEEPS = 40
_TOLERANCE = 1e-3
_DAMPING = 0.8  # share of a step that is taken: all sites move at once, and would overshoot together


class Labels(eqx.Module):
    """Which rows succeeded.

    Args:
        succeeded: 1 for a success, 0 for a failure.
        mask: 1 for a row, 0 for padding.
    """

    succeeded: Vector
    mask: Vector


class Sites(eqx.Module):
    """Gaussian observations in the place of labels.

    Args:
        precision: t_i.
        shift: t_i y_i.
        cavity_mean: m_i, of g given the other rows.
        cavity_var: v_i.
    """

    precision: Vector
    shift: Vector
    cavity_mean: Vector
    cavity_var: Vector


def match_sites(gram: Matrix, labels: Labels, offset: Scalar, random: Scalar) -> Sites:
    """The sites whose moments match.

    Args:
        gram: covariances of g between the rows.
        labels: of the rows.
        offset: c.
        random: e.
    """
    both = labels.mask[:, None] * labels.mask[None, :]
    k = both * gram + jnp.diag(1 - labels.mask)

    def cavities(precision: Vector, shift: Vector) -> tuple[Vector, Vector]:
        chol = jnp.linalg.cholesky(k + jnp.diag(1 / precision))
        solved = solve_triangular(chol, jnp.concatenate([k, (shift / precision)[:, None]], axis=1), lower=True)
        explained, misfit = solved[:, :-1], solved[:, -1]
        variance = jnp.maximum(jnp.diag(k) - jnp.sum(explained**2, axis=0), 1e-10)
        mean = misfit @ explained
        rest = jnp.maximum(1 / variance - precision, 1e-10)
        return (mean / variance - shift) / rest, 1 / rest

    def sweep(state: tuple[Vector, Vector, Scalar, Int[Array, ""]]) -> tuple[Vector, Vector, Scalar, Int[Array, ""]]:
        precision, shift, _, count = state
        m, v = cavities(precision, shift)
        _, slope, curvature = _tilted(labels, m + offset, v, random)
        shrunk = jnp.maximum(1 + v * curvature, 1e-10)
        new_precision = jnp.maximum(-curvature / shrunk, LEAST_PRECISION)
        new_shift = slope + (m + v * slope) * new_precision
        steps = [_DAMPING * labels.mask * (new_precision - precision), _DAMPING * labels.mask * (new_shift - shift)]
        moved = jnp.max(jnp.abs(jnp.stack(steps)))
        return precision + steps[0], shift + steps[1], moved, count + 1

    def unfinished(state: tuple[Vector, Vector, Scalar, Int[Array, ""]]) -> Bool[Array, ""]:
        return (state[2] > _TOLERANCE) & (state[3] < _MOST_SWEEPS)

    start = (jnp.full(len(k), 0.1), jnp.zeros(len(k)), jnp.asarray(jnp.inf), jnp.zeros((), int))
    precision, shift, _, _ = jax.lax.while_loop(unfinished, sweep, start)
    return Sites(precision, shift, *cavities(precision, shift))


def labels_log_evidence(gram: Matrix, labels: Labels, offset: Scalar, random: Scalar) -> Scalar:
    """log P(labels), as expectation propagation has it.

    Its gradient is that with the sites and cavities held, as they are where it does not change with them.
    """
    held = jax.lax.stop_gradient(match_sites(jax.lax.stop_gradient(gram), labels, *_held(offset, random)))
    y, noise_var = held.shift / held.precision, 1 / held.precision
    whole = log_normal(y, gram + jnp.diag(noise_var), labels.mask)
    each, _, _ = _tilted(labels, held.cavity_mean + offset, held.cavity_var, random)
    alone = norm.logpdf(y, held.cavity_mean, jnp.sqrt(held.cavity_var + noise_var))
    return whole + jnp.sum(labels.mask * (each - alone))


def _held(*values: Scalar) -> tuple[Scalar, ...]:
    return tuple(jax.lax.stop_gradient(value) for value in values)


def _tilted(labels: Labels, means: Vector, variances: Vector, random: Scalar) -> tuple[Vector, Vector, Vector]:
    """log E[P(label | h)] over h ~ N(mean, variance) for every row, and its first two derivatives by the mean."""

    def one(succeeded: Scalar, mean: Scalar, variance: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        std = jnp.sqrt(1 + variance)
        z = mean / std
        log_usual = jnp.log1p(-random)
        log_failure = jnp.logaddexp(jnp.log(random), log_usual + log_cdf(-z))
        value = jnp.where(succeeded > 0, log_usual + log_cdf(z), log_failure)
        slope = jnp.where(succeeded > 0, 1.0, -1.0) * jnp.exp(log_usual + norm.logpdf(z) - value) / std
        return value, slope, -slope * (z / std + slope)

    return jax.vmap(one)(labels.succeeded, means, variances)
