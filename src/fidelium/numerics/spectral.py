"""Frequencies of random Fourier features, spread evenly: with w ~ p(w), E[cos(w . (x - x'))] is a stationary kernel.

A Gaussian spectrum gives the squared-exponential kernel, a Student-t one with 2 nu degrees of freedom a Matern kernel
of smoothness nu, both of unit length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from fidelium.errors import SettingError
from fidelium.randomness import Key

KERNELS = ("rbf", "matern52")
"""Names of the stationary kernels: squared exponential, and Matern of smoothness 5/2."""


def check_kernel(name: str) -> None:
    """Refuse a kernel that is not there.

    Raises:
        SettingError: if it is none of `KERNELS`.
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
    """Points that cover the unit cube evenly: a Kronecker sequence with a random shift, its coordinates shuffled.

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
