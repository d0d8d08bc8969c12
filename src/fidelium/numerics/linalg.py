"""Bayesian linear regression with a standard normal prior on the weights: the closed form of q(w_m).

    y_n = w . phi_n + e_n,   e_n ~ N(0, s_n),   w ~ N(0, I)
    precision  P = I + sum_n phi_n phi_n^T / s_n,      mean = P^-1 sum_n phi_n y_n / s_n

A covariance is kept as a square root R with R R^T = P^-1, so that variances |R^T phi|^2 cannot be negative. Rows with
mask 0 are padding and count for nothing.

With fewer observations n than weights f, R differs from the identity in n directions only: with diag(s)^-1/2 Phi =
U diag(l) W, its singular values,

    R = I - W^T diag(1 - 1 / sqrt(1 + l^2)) W

and a product with it takes 2 n f steps instead of f^2. The root is formed, not the covariance: what is known to 1e-8 of
its prior standard deviation keeps half of its digits, instead of none.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from fidelium.numerics.padding import bucket, pad_rows

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


def dense_weight_posterior(
    features: Float[Array, "n f"], y: Vector, noise_var: Vector, mask: Vector
) -> tuple[Float[Array, " f"], Float[Array, "f f"]]:
    """Mean of q(w) and a square root of its covariance.

    With V = diag(s)^-1/2 Phi, the factors Q R of the rows of I and V have P = R^T R: the precision itself, whose
    entries are squares, is not formed, and has no Cholesky factor in floating point where the noise is little.
    """
    count = features.shape[1]
    root_precision = mask / jnp.sqrt(noise_var)
    rows = jnp.concatenate([jnp.eye(count), features * root_precision[:, None]])
    q, r = jnp.linalg.qr(rows)
    root = solve_triangular(r, jnp.eye(count), lower=False)
    return root @ (q[count:].T @ (root_precision * y)), root


def condition_root_rows(
    root: Float[Array, "f f"], features: Float[Array, "n f"], noise_var: Vector, mask: Vector
) -> Float[Array, "f f"]:
    """The covariance's square root after one more observation at every row of `features`, in O(n f^2 + f^3).

    With V = Phi R and C C^T = I + V^T diag(s)^-1 V, the new covariance has the square root R C^-T.
    """
    v = features @ root
    chol = jnp.linalg.cholesky(jnp.eye(root.shape[0]) + (v * (mask / noise_var)[:, None]).T @ v)
    return solve_triangular(chol, root.T, lower=True).T


@runtime_checkable
class Root(Protocol):
    """A square matrix R that vectors are multiplied by."""

    @abstractmethod
    def after(self, rows: Float[Array, "n f"]) -> Float[Array, "n f"]:
        """r R for every row r; rows shorter than R count as padded by zeros."""
        ...

    @abstractmethod
    def times(self, vector: Float[Array, " f"]) -> Float[Array, " f"]:
        """R v."""
        ...

    @abstractmethod
    def conditioned(self, rows: Float[Array, "n f"]) -> Root:
        """Condition on w . r = 0 with noise of variance 1 for every row r: R (I + rows^T rows)^-1/2.

        The rows are in coordinates in which w was N(0, I) before.
        """
        ...

    @abstractmethod
    def compact(self) -> Root:
        """The same without needless rows, in its bucket; not to be traced."""
        ...


class DenseRoot(eqx.Module):
    """Any matrix."""

    matrix: Float[Array, "f f"]

    def after(self, rows: Float[Array, "n g"]) -> Float[Array, "n f"]:
        return rows @ self.matrix[: rows.shape[1]]

    def times(self, vector: Float[Array, " f"]) -> Float[Array, " f"]:
        return self.matrix @ vector

    def conditioned(self, rows: Float[Array, "n f"]) -> DenseRoot:
        return DenseRoot(_Singular.of(rows).root.after(self.matrix))

    def compact(self) -> DenseRoot:
        return self


class LowRankRoot(eqx.Module):
    """R = I - left^T right."""

    left: Float[Array, "n f"]
    right: Float[Array, "n f"]

    def after(self, rows: Float[Array, "m g"]) -> Float[Array, "m f"]:
        short = rows.shape[1]
        missing = self.left.shape[1] - short
        return jnp.pad(rows, ((0, 0), (0, missing))) - (rows @ self.left[:, :short].T) @ self.right

    def times(self, vector: Float[Array, " f"]) -> Float[Array, " f"]:
        return vector - (self.right @ vector) @ self.left

    def conditioned(self, rows: Float[Array, "m f"]) -> LowRankRoot:
        # (I - A^T B) (I - C^T D) = I - A^T (B - B C^T D) - C^T D
        new = _Singular.of(rows).root
        right = self.right - (self.right @ new.left.T) @ new.right
        return LowRankRoot(jnp.concatenate([self.left, new.left]), jnp.concatenate([right, new.right]))

    def compact(self) -> LowRankRoot:
        left, right = np.asarray(self.left), np.asarray(self.right)
        used = np.any(right != 0, axis=1)
        size = bucket(int(np.count_nonzero(used)))
        return LowRankRoot(jnp.asarray(pad_rows(left[used], size)), jnp.asarray(pad_rows(right[used], size)))


class _Singular(eqx.Module):
    """The singular values of the rows V of observations, U diag(s) W, and what follows from them.

    Not the eigenvalues of V V^T: these are squares, which keep half of the digits. With a noise of 1e-6 of the spread,
    predictions between observations that are close to each other were 2e-4 off by them, and are 1e-8 off by these.
    """

    u: Float[Array, "n k"]
    s: Float[Array, " k"]
    w: Float[Array, "k f"]

    @staticmethod
    def of(rows: Float[Array, "n f"]) -> _Singular:
        return _Singular(*jnp.linalg.svd(rows, full_matrices=False))

    @property
    def root(self) -> LowRankRoot:
        """(I + V^T V)^-1/2."""
        return LowRankRoot(self.w, (1 - 1 / jnp.sqrt(1 + self.s**2))[:, None] * self.w)

    def mean(self, y: Float[Array, " n"]) -> Float[Array, " f"]:
        """(I + V^T V)^-1 V^T y."""
        return ((self.u.T @ y) * self.s / (1 + self.s**2)) @ self.w


def weight_posterior(
    features: Float[Array, "n f"], y: Float[Array, " n"], noise_var: Float[Array, " n"], mask: Float[Array, " n"]
) -> tuple[Float[Array, " f"], Root]:
    """Mean of q(w) and a root of its covariance, low-rank or dense, whichever is cheaper for this many observations."""
    count, weights = features.shape
    if 2 * count > weights:
        mean, matrix = dense_weight_posterior(features, y, noise_var, mask)
        return mean, DenseRoot(matrix)
    root_precision = mask / jnp.sqrt(noise_var)
    singular = _Singular.of(features * root_precision[:, None])
    return singular.mean(root_precision * y), singular.root
