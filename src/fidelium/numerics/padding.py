"""Data padded to a few sizes, so that compiled functions are reused while the data grow."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

SMALLEST_BUCKET = 32


class PaddedData(eqx.Module):
    """Observations of one fidelity; rows whose `mask` is 0 are padding.

    Args:
        x: points of the unit cube.
        y: values.
        mask: 1 for an observation, 0 for padding.
        noise_var: variance of each value, negative where it is to be learned; None: of all.
    """

    x: Float[Array, "n d"]
    y: Float[Array, " n"]
    mask: Float[Array, " n"]
    noise_var: Float[Array, " n"] | None = None


def bucket(count: int) -> int:
    """The size that `count` rows are padded to: a power of two, at least `SMALLEST_BUCKET`, or three quarters of one.

    The latter from 192 on only: below, compiling for one more size costs more than it saves.
    """
    whole = max(SMALLEST_BUCKET, 1 << (max(count, 1) - 1).bit_length())
    return whole * 3 // 4 if whole >= 256 and count <= whole * 3 // 4 else whole


def pad_rows(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """`values` with rows of zeros appended up to `size`."""
    return np.concatenate([values, np.zeros((size - len(values), *values.shape[1:]))])


def pad(x: NDArray[np.float64], y: NDArray[np.float64]) -> PaddedData:
    """Observations as `PaddedData` in their bucket."""
    size = bucket(len(y))
    return PaddedData(*jax.device_put([pad_rows(rows, size) for rows in (x, y, np.ones(len(y)))]))
