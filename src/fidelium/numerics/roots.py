"""Square roots R of the covariance of weights, R R^T = (I + Phi^T diag(s)^-1 Phi)^-1, dense or of low rank.

With fewer observations n than weights f, R differs from the identity in n directions only: with V = diag(s)^-1/2 Phi
and V V^T = U diag(l) U^T,

    R = I - V^T U diag(1 / (r (r + 1))) U^T V,     r = sqrt(1 + l)

and a product with it takes 2 n f steps instead of f^2. The root is formed, not the covariance: what is known to 1e-8 of
its prior standard deviation keeps half of its digits, instead of none.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.numerics import linalg
from fidelium.numerics.padding import bucket, pad_rows


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
        """The root once w . r = 0 was observed with noise of variance 1 for every row r, in coordinates in which w was
        N(0, I) before: R (I + rows^T rows)^-1/2.
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
        return DenseRoot(low_rank_root(rows)[0].after(self.matrix))

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
        new = low_rank_root(rows)[0]
        right = self.right - (self.right @ new.left.T) @ new.right
        return LowRankRoot(jnp.concatenate([self.left, new.left]), jnp.concatenate([right, new.right]))

    def compact(self) -> LowRankRoot:
        left, right = np.asarray(self.left), np.asarray(self.right)
        used = np.any(left != 0, axis=1)
        size = bucket(int(np.count_nonzero(used)))
        return LowRankRoot(jnp.asarray(pad_rows(left[used], size)), jnp.asarray(pad_rows(right[used], size)))


def low_rank_root(rows: Float[Array, "n f"]) -> tuple[LowRankRoot, Float[Array, "n n"]]:
    """(I + V^T V)^-1/2 for the rows V, and (I + V V^T)^-1."""
    squares, directions = jnp.linalg.eigh(rows @ rows.T)
    grown = 1 + jnp.maximum(squares, 0.0)
    r = jnp.sqrt(grown)
    right = (directions / (r * (r + 1))) @ (directions.T @ rows)
    return LowRankRoot(rows, right), (directions / grown) @ directions.T


def weight_posterior(
    features: Float[Array, "n f"], y: Float[Array, " n"], noise_var: Float[Array, " n"], mask: Float[Array, " n"]
) -> tuple[Float[Array, " f"], Root]:
    """Mean of q(w) and a root of its covariance, of the kind that is cheaper for this many observations."""
    count, weights = features.shape
    if 2 * count > weights:
        mean, matrix = linalg.weight_posterior(features, y, noise_var, mask)
        return mean, DenseRoot(matrix)
    root_precision = mask / jnp.sqrt(noise_var)
    root, inverse = low_rank_root(features * root_precision[:, None])
    return root.left.T @ (inverse @ (root_precision * y)), root
