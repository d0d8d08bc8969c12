"""What a posterior says of many designs at once."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.padding import bucket, pad_rows
from fidelium.surrogates.base import Posterior


def marginals_at(
    posterior: Posterior, unit_x: NDArray[np.float64]
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Mean and variance of f_m at every design, a row of `unit_x`; padded, so that more designs do not recompile."""
    means, variances = _marginals(posterior, pad_rows(unit_x, bucket(len(unit_x))))
    return np.asarray(means)[: len(unit_x)], np.asarray(variances)[: len(unit_x)]


@jax.jit
def _marginals(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    return jax.vmap(posterior.marginals)(x)
