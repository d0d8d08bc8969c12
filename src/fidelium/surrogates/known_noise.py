"""Standard errors that simulators report, as the noise of single observations.

Where a run says its standard error s, the variance of its observation is s^2 in place of the learned one, in the
model's units:

    s_z = s dz/dy,      dz/dy the slope of the scale at the observed value, after a warp its local slope

A future run at a fidelity whose runs report errors is expected to have their median. Models cannot tell errors below
`LEAST_STD` of the values' spread from none; one of more than `MOST_STD` spreads is ignored in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import Observations
from fidelium.numerics.scaling import Scale, precision_shares, standardising

NOT_KNOWN = -1.0
"""In the place of a variance that is to be learned."""

LEAST_STD = 1e-5
"""Least standard error, in the model's units: a covariance matrix with less has no Cholesky factor where observations
are close to each other."""

MOST_STD = 1e3
"""Largest standard error, in the model's units: an observation with it counts as a millionth of one without."""


def known_vars(seen: Observations, unit: Scale, least: float = LEAST_STD) -> NDArray[np.float64]:
    """Variance of each observation in these units, `NOT_KNOWN` where no standard error was reported."""
    if seen.std is None:
        return np.full(len(seen), NOT_KNOWN)
    return _vars(unit.inward_std(seen.y, seen.std), least)


def typical_var(seen: Observations, unit: Scale, least: float = LEAST_STD) -> float:
    """Variance of a future observation in these units, from the median error; `NOT_KNOWN` if none was reported."""
    if seen.std is None or np.isnan(seen.std).all():
        return NOT_KNOWN
    return float(_vars(np.array([np.nanmedian(unit.inward_std(seen.y, seen.std))]), least)[0])


def typical_vars(observations: Sequence[Observations], units: Sequence[Scale]) -> NDArray[np.float64]:
    """`typical_var` of every fidelity."""
    return np.array([typical_var(seen, unit) for seen, unit in zip(observations, units, strict=True)])


def or_learned(known: Float[Array, "*n"], learned: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Variances that are known, and learned ones in the place of others."""
    return jnp.where(known >= 0, known, learned)


def unit_of(*observations: Observations) -> Scale:
    """The scale that gives the values of these observations mean 0 and standard deviation 1."""
    y = np.concatenate([seen.y for seen in observations])
    if all(seen.std is None for seen in observations):
        return standardising(y)
    return standardising(y, np.concatenate([_errors(seen) for seen in observations]))


def moments_of(seen: Observations, values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and variance of some values at these observations; noisy ones count less."""
    if seen.std is None:
        return float(np.mean(values)), float(np.var(values))
    share = precision_shares(seen.y, _errors(seen))
    mean = float(share @ values)
    return mean, float(share @ (values - mean) ** 2)


def _errors(seen: Observations) -> NDArray[np.float64]:
    """Standard errors, 0 where none is known."""
    return np.zeros(len(seen)) if seen.std is None else np.where(np.isnan(seen.std), 0.0, seen.std)


def _vars(std: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.where(np.isnan(std), NOT_KNOWN, np.clip(std, least, MOST_STD) ** 2)
