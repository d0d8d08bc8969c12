"""Bayesian linear regression with a standard normal prior on the weights: the closed form of q(w_m).

    y_n = w . phi_n + e_n,   e_n ~ N(0, s_n),   w ~ N(0, I)
    precision  P = I + sum_n phi_n phi_n^T / s_n,      mean = P^-1 sum_n phi_n y_n / s_n

A covariance is kept as a square root R with R R^T = P^-1, so that variances |R^T phi|^2 cannot be negative. Rows with
mask 0 are padding and count for nothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

Vector = Float[Array, " n"]


def log_evidence(features: Float[Array, "n f"], y: Vector, noise_var: Vector, mask: Vector) -> Float[Array, ""]:
    """log N(y | 0, Phi Phi^T + diag(s)), by the smaller of the two Cholesky factors, `(n, n)` or `(f, f)`."""
    root_precision = mask / jnp.sqrt(noise_var)  # the mask outside the root: its gradient at 0 is infinite
    rows = features * root_precision[:, None]
    target = y * root_precision
    if features.shape[0] <= features.shape[1]:
        chol = jnp.linalg.cholesky(jnp.eye(rows.shape[0]) + rows @ rows.T)
        misfit = jnp.sum(solve_triangular(chol, target, lower=True) ** 2)
    else:
        chol = jnp.linalg.cholesky(jnp.eye(rows.shape[1]) + rows.T @ rows)
        projected = solve_triangular(chol, rows.T @ target, lower=True)
        misfit = jnp.sum(target**2) - jnp.sum(projected**2)
    log_det = 2 * jnp.sum(jnp.log(jnp.diag(chol))) + jnp.sum(mask * jnp.log(noise_var))
    return -0.5 * (misfit + log_det + jnp.sum(mask) * jnp.log(2 * jnp.pi))


def log_normal(y: Vector, covariance: Float[Array, "n n"], mask: Vector) -> Float[Array, ""]:
    """log N(y | 0, K) of the rows that are not padding; not finite where K has no Cholesky factor."""
    both = mask[:, None] * mask[None, :]
    padding = jnp.sum(1 - mask)
    whole = _log_normal(mask * y, both * covariance + jnp.diag(1 - mask))
    return whole + 0.5 * padding * jnp.log(2 * jnp.pi)


@jax.custom_jvp
def _log_normal(y: Vector, covariance: Float[Array, "n n"]) -> Float[Array, ""]:
    chol = jnp.linalg.cholesky(covariance)
    return _density(chol, solve_triangular(chol, y, lower=True))


@_log_normal.defjvp
def _log_normal_derivative(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """With a = K^-1 y: -a . dy + 1/2 a . dK a - 1/2 tr(K^-1 dK); cheaper than through the factor's own derivative."""
    (y, covariance), (y_dot, covariance_dot) = primals, tangents
    chol = jnp.linalg.cholesky(covariance)
    root = solve_triangular(chol, jnp.eye(len(y)), lower=True)
    misfit = root @ y
    a, precision = root.T @ misfit, root.T @ root
    change = 0.5 * jnp.sum((jnp.outer(a, a) - precision) * covariance_dot) - a @ y_dot
    return _density(chol, misfit), change


def _density(chol: Float[Array, "n n"], misfit: Vector) -> Float[Array, ""]:
    log_det = 2 * jnp.sum(jnp.log(jnp.diag(chol)))
    return -0.5 * (jnp.sum(misfit**2) + log_det + len(misfit) * jnp.log(2 * jnp.pi))


def weight_posterior(
    features: Float[Array, "n f"], y: Vector, noise_var: Vector, mask: Vector
) -> tuple[Float[Array, " f"], Float[Array, "f f"]]:
    """Mean of q(w) and a square root of its covariance."""
    count = features.shape[1]
    precision = jnp.eye(count) + (features * (mask / noise_var)[:, None]).T @ features
    chol = jnp.linalg.cholesky(precision)
    mean = cho_solve((chol, True), features.T @ (mask / noise_var * y))
    return mean, solve_triangular(chol, jnp.eye(count), lower=True).T


def condition_root_rows(
    root: Float[Array, "f f"], features: Float[Array, "n f"], noise_var: Vector, mask: Vector
) -> Float[Array, "f f"]:
    """The covariance's square root after one more observation at every row of `features`, in O(n f^2 + f^3).

    With V = Phi R and C C^T = I + V^T diag(s)^-1 V, the new covariance has the square root R C^-T.
    """
    v = features @ root
    chol = jnp.linalg.cholesky(jnp.eye(root.shape[0]) + (v * (mask / noise_var)[:, None]).T @ v)
    return solve_triangular(chol, root.T, lower=True).T
