"""What an observation of the stack differs from the model by: a floor, and ripples the larger, the worse the design.

    sigma^2(f) = floor^2 + ripple^2 (best - f)^2,     best the largest value observed at this fidelity, f below it

Simulators repeat, but they ripple, and a model of few observations cannot follow: to it, that is noise. Far below the
best value the ripples are often large, as everything is there. Were the noise the same everywhere, either good designs
could not be told apart, or bad ones would make the model follow every ripple (docs/experiments-log.md).
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fidelium.surrogates.base import Scalar

FLOOR = 2e-3
"""What the floor is believed to be, as a share of the values' spread."""

RIPPLE = 2e-2
"""What the ripples are believed to be, as a share of the distance to the best value."""

LARGEST_RIPPLE = 0.3
"""What the ripples are at most: more, and the model could call everything below the best value noise."""

LOG_STD = 2.0
"""How little both beliefs weigh, in powers of e: a few values of a smooth function bring them down."""

PARTS = 2
"""How many entries theta begins with that are about the noise: the logarithms of floor and ripple."""


class Noise(eqx.Module):
    """The noise of one fidelity, in the model's units.

    Args:
        floor: standard deviation at the best value.
        ripple: what it grows by with the distance below the best value.
        best: the largest value observed, 0 if there is none.
    """

    floor: Scalar
    ripple: Scalar
    best: Scalar

    @staticmethod
    def of(theta: Float[Array, " p"], y: Float[Array, " n"], mask: Float[Array, " n"]) -> Noise:
        """The noise that theta says, about observations of which those with mask 0 are padding."""
        best = jnp.max(jnp.where(mask > 0, y, -jnp.inf))
        return Noise(jnp.exp(theta[0]), jnp.exp(theta[1]), jnp.where(jnp.any(mask > 0), best, 0.0))

    def var(self, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The variance of observations where f_m has these values."""
        return self.floor**2 + (self.ripple * jnp.maximum(self.best - value, 0.0)) ** 2
