"""How much an observation is informative about an event that must not happen.

An event has probability Z, and Z(y) once y was observed, with E[Z(y)] = Z. What is learned about y by knowing that the
event does not happen is

    I = E_y[ r log r ],    r = (1 - Z(y)) / (1 - Z)

which needs the distribution of Z(y) on [0, 1]. Here it is the beta distribution with the mean and the variance of Z(y):
exact where y says nothing, and where it decides the event, I = -log(1 - Z); within some per cent of the truth between.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = Float[Array, ""]

_SHIFT = 7
"""Terms of the digamma function that are summed before its series for large arguments is used."""

_LEAST_SHARE = 1e-7
"""Share of the largest variance below which the limit of small variances is used, I = Var / (2 (1 - Z)^2)."""

_MOST = 1 - 1e-6
"""Largest probability of the event: the information is then 14 nats, more than any other query gives."""


def event_information(log_z: Scalar, log_square: Scalar) -> Scalar:
    """I from log Z and log E[Z(y)^2]; at least 0, finite with finite gradients for any numbers.

    With W = 1 - Z(y) beta-distributed, E[W log W] = E[W] (psi(b + 1) - psi(n + 1)), n = 1/k - 1, b = (1 - Z) n, where
    k = Var / (Z (1 - Z)) is the variance as a share of the largest one possible. So I = -log(1 - Z) - D with
    D = psi(n + 1) - psi(n + 1 - n Z).
    """
    z = jnp.minimum(jnp.exp(log_z), _MOST)
    share = (jnp.exp(log_square - log_z) - z) / (1 - z)
    small = share < _LEAST_SHARE
    n = 1 / jnp.clip(share, _LEAST_SHARE, 1.0) - 1
    information = -jnp.log1p(-z) - _digamma_drop(n + 1, n * z)
    return jnp.where(small, 0.5 * jnp.maximum(share, 0.0) * z / (1 - z), jnp.maximum(information, 0.0))


def _digamma_drop(x: Scalar, drop: Scalar) -> Scalar:
    """psi(x) - psi(x - drop) for x >= 1 and 0 <= drop < x - 1 or so, without cancellation."""
    total = jnp.zeros(())
    for _ in range(_SHIFT):  # psi(x) = psi(x + 1) - 1/x
        total = total + drop / (x * (x - drop))
        x = x + 1
    low = x - drop
    # psi(x) ~ log x - 1/(2x) - 1/(12 x^2) + 1/(120 x^4) - 1/(252 x^6)
    square, low_square = x**-2, low**-2
    difference = drop * (x + low) * square * low_square  # 1/low^2 - 1/x^2
    fourth = difference * (square + low_square)
    sixth = difference * (square**2 + square * low_square + low_square**2)
    return total - jnp.log1p(-drop / x) + drop / (2 * x * low) + difference / 12 - fourth / 120 + sixth / 252
