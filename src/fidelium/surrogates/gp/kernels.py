"""Stationary kernels of two points of the unit cube, with a length per coordinate, and features that stand for them.

squared exponential   kappa(r) = exp(-r^2 / 2)
Matern 5/2            kappa(r) = (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r),      r^2 = sum_i ((x_i - x'_i) / l_i)^2
"""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fidelium.surrogates.base import Point, Scalar

_LEAST_SQUARE = 1e-20  # under the root of the Matern kernel: its gradient at equal points is 0, not 0 / 0


class Kernel(eqx.Module):
    """A correlation that decays with the distance.

    Args:
        log_length: logarithms of the lengths.
        name: "rbf" or "matern52".
    """

    log_length: Float[Array, " d"]
    name: str = eqx.field(static=True, default="rbf")

    def __call__(self, x: Point, other: Point) -> Scalar:
        square = total((x - other) ** 2 * jnp.exp(-2 * self.log_length))
        if self.name == "rbf":
            return jnp.exp(-0.5 * square)
        r = math.sqrt(5) * jnp.sqrt(square + _LEAST_SQUARE)
        return (1 + r + r**2 / 3) * jnp.exp(-r)

    def features(self, frequencies: Float[Array, "k d"], x: Point) -> Float[Array, " two_k"]:
        """phi with E[phi(x) . phi(x')] = kappa(x, x'), for frequencies of unit length."""
        return pairs(frequencies @ (x / jnp.exp(self.log_length)))


def total(terms: Float[Array, " d"]) -> Scalar:
    """The sum of a few terms, one by one: for a matrix of pairs of points much faster than `jnp.sum` along an axis."""
    return sum((terms[i] for i in range(len(terms))), start=jnp.zeros(()))


def pairs(angles: Float[Array, " k"]) -> Float[Array, " two_k"]:
    """[cos, sin] of the angles, of unit norm."""
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)]) / jnp.sqrt(angles.shape[0])
