"""Expected improvement in the objective's own units: what another run of the target may be worth. No JAX here.

    EI(x; b) = E[max(f(x) - b, 0)] = s h((m - b) / s),     h(z) = phi(z) + z Phi(z),

for f(x) normal with mean m and standard deviation s. Where the model has bent the values by an increasing map g, f(x) =
g(z) with z normal, and the expectation is an integral over the share v of the values above b,

    EI = integral_0^V (g(m - s Phi^-1(v)) - b) dv,     V = Phi((m - g^-1(b)) / s).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fidelium.numerics.scaling import Scale

Values = NDArray[np.float64]

_NODES = 64
"""Nodes of the integral. With the logarithmic tails that values are bent by, it is right to 0.1 %."""

_LEAST_STD = 1e-300


def expected_improvement(mean: Values, std: Values, best: float, scale: Scale) -> Values:
    """What the target is expected to gain over the best value, in the objective's units.

    Args:
        mean: of the target at designs, in the model's units.
        std: of the target there.
        best: the best value, in the model's units.
        scale: of the target.
    """
    std = np.maximum(std, _LEAST_STD)
    z = (mean - best) / std
    if scale.warp.is_identity:
        density = np.exp(-(np.minimum(z**2, 1500.0)) / 2) / np.sqrt(2 * np.pi)
        unit: Values = np.maximum(density + z * ndtr(z), 0.0)
        return unit * std * scale.spread * scale.scale
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    share = ndtr(z)[:, None] * (nodes + 1) / 2
    values = scale.outward(mean[:, None] - std[:, None] * ndtri(np.maximum(share, _LEAST_STD)))
    rise = np.maximum(values - scale.outward(np.array([best]))[0], 0.0)
    return ndtr(z) * np.sum(rise * weights, axis=1) / 2
