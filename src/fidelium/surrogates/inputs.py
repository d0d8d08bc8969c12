"""Fidelities that do not use all parameters: a model of fidelity m sees P_m x, the other columns at a fixed value.

    f_m(x) = f_m(P_m x),      P_m x = x where fidelity m uses the column, 1/2 elsewhere

So equal inputs have equal values, and gradients along the others are 0. The target uses all columns, and every fidelity
uses those of the ones below (`FidelityLadder.check_inputs`). Which columns are used is no data, but part of a model's
structure.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from fidelium.history import UNUSED, Used
from fidelium.surrogates.base import Point

AllUsed = tuple[Used | None, ...]
"""Whether each fidelity uses each column; None where it uses all."""


def all_used(each: AllUsed) -> AllUsed | None:
    """What fidelities use, None if all use all."""
    return None if all(used is None for used in each) else each


def seen_by(used: Used | None, x: Point) -> Point:
    """P_m x."""
    return x if used is None else jnp.where(np.array(used), x, UNUSED)
