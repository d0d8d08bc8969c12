"""Gauss-Hermite quadrature for expectations under a normal distribution, and moment matching (Sec. 4.1)."""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray


@cache
def gauss_hermite(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes z_k and weights g_k with E[h(z)] ~ sum_k g_k h(z_k) for z ~ N(0, 1): exact to degree 2 count - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def match_moments(
    weights: Float[np.ndarray, " k"], means: Float[Array, " k"], variances: Float[Array, " k"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean and variance of the mixture sum_k g_k N(u_k, gamma_k), eq. (7) quad.

    The variance is summed as in the proof of Lemma 4.1, sum_k g_k (gamma_k + (u_k - mean)^2), so that it is never
    negative, whatever the rounding.
    """
    mean = jnp.sum(weights * means)
    return mean, jnp.sum(weights * (variances + (means - mean) ** 2))
