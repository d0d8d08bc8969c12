"""Stationary kernels of two points of the unit cube, with a length per coordinate, and random features for them.

squared exponential   kappa(r) = exp(-r^2 / 2)
Matern 5/2            kappa(r) = (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r),      r^2 = sum_i ((x_i - x'_i) / l_i)^2

Random Fourier features: with w ~ p(w), E[cos(w . (x - x'))] is a stationary kernel. A Gaussian spectrum gives the
squared exponential, a Student-t one with 2 nu degrees of freedom a Matern kernel of smoothness nu, both of unit length.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from fidelium.errors import SettingError
from fidelium.randomness import Key

KERNELS = ("rbf", "matern52")
"""Names of the kernels: squared exponential, and Matern of smoothness 5/2."""

FEW_DIMENSIONS = 8
"""Up to this many coordinates distances are sums that are written out: faster for few, and older results to the bit."""

_LEAST_SQUARE = 1e-20  # under the root of the Matern kernel: its gradient at equal points is 0, not 0 / 0


class Kernel(eqx.Module):
    """A correlation that decays with the distance.

    Args:
        log_length: logarithms of the lengths.
        name: "rbf" or "matern52".
        few: up to this many coordinates distances are sums that are written out.
    """

    log_length: Float[Array, " d"]
    name: str = eqx.field(static=True, default="rbf")
    few: int = eqx.field(static=True, default=FEW_DIMENSIONS)

    def __call__(self, x: Float[Array, " d"], other: Float[Array, " d"]) -> Float[Array, ""]:
        square = squared_distance(x, other, self.log_length, self.few)
        if self.name == "rbf":
            return jnp.exp(-0.5 * square)
        r = math.sqrt(5) * jnp.sqrt(square + _LEAST_SQUARE)
        return (1 + r + r**2 / 3) * jnp.exp(-r)

    def features(self, frequencies: Float[Array, "k d"], x: Float[Array, " d"]) -> Float[Array, " two_k"]:
        """phi with E[phi(x) . phi(x')] = kappa(x, x'), for frequencies of unit length."""
        return pairs(frequencies @ (x / jnp.exp(self.log_length)))


def total(terms: Float[Array, " d"]) -> Float[Array, ""]:
    """The sum of a few terms, one by one: for a matrix of pairs of points much faster than `jnp.sum` along an axis."""
    return sum((terms[i] for i in range(len(terms))), start=jnp.zeros(()))


def squared_distance(
    x: Float[Array, " d"], other: Float[Array, " d"], log_length: Float[Array, " d"], few: int = FEW_DIMENSIONS
) -> Float[Array, ""]:
    """r^2 = sum_i ((x_i - x'_i) / l_i)^2, in many dimensions as |a|^2 + |a'|^2 - 2 a . a', a = x / l.

    For all pairs of points the latter is one product of matrices; the derivative of the written-out sum takes d^2 steps
    for every pair. It is right to 1e-16 |a|^2, far below the noise.
    """
    if len(x) <= few:
        return total((x - other) ** 2 * jnp.exp(-2 * log_length))
    a, b = (x - 0.5) * jnp.exp(-log_length), (other - 0.5) * jnp.exp(-log_length)
    return jnp.maximum(a @ a + b @ b - 2 * (a @ b), 0.0)


def pairs(angles: Float[Array, " k"]) -> Float[Array, " two_k"]:
    """[cos, sin] of the angles, of unit norm."""
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)]) / jnp.sqrt(angles.shape[0])


def check_kernel(name: str) -> None:
    """Check the name of a kernel.

    Raises:
        SettingError: if it is not one of `KERNELS`.
    """
    if name not in KERNELS:
        raise SettingError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")


def frequencies(name: str, count: int, dimension: int, key: Key) -> NDArray[np.float64]:
    """Frequencies of the features of a kernel of unit length, `(count, dimension)`."""
    if name == "rbf":
        return normal_frequencies(count, dimension, key)
    return student_frequencies(count, dimension, 5, key)


def normal_frequencies(count: int, dimension: int, key: Key) -> NDArray[np.float64]:
    """Standard normal vectors, `(count, dimension)`."""
    return ndtri(_even(count, dimension, key))


def student_frequencies(count: int, dimension: int, degrees: int, key: Key) -> NDArray[np.float64]:
    """Student-t vectors, `(count, dimension)`."""
    uniform = _even(count, dimension + 1, key)
    chi2 = 2 * gammaincinv(degrees / 2, uniform[:, :1])
    return ndtri(uniform[:, 1:]) / np.sqrt(chi2 / degrees)


def _even(count: int, dimension: int, key: Key) -> NDArray[np.float64]:
    """Points that cover the unit cube evenly: a Kronecker sequence with a random shift and shuffled coordinates.

    Its steps are the powers of 1 / g, g^(d + 1) = g + 1 (the golden ratio for d = 1). SciPy's Sobol sequence is as
    good, but its import alone takes most of a second.
    """
    generator = key.generator()
    golden = 2.0
    for _ in range(50):
        golden = (1 + golden) ** (1 / (dimension + 1))
    steps = generator.permutation(golden ** -np.arange(1.0, dimension + 1))
    points = (generator.random(dimension) + np.arange(1, count + 1)[:, None] * steps) % 1.0
    return np.clip(points, 1e-9, 1 - 1e-9)
