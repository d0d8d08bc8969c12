"""The standard normal truncated from above at beta, finite with finite gradients for any beta.

With phi and Phi its density and distribution function, and r = phi(beta) / Phi(beta):

    variance of z given z <= beta:              1 - r (r + beta)
    entropy lost by learning z <= beta:         beta r / 2 - log Phi(beta)                     eq. (8) entropy-M

Both cancel badly for beta << 0, where their asymptotic series take over. So does the improvement expected of a normal
variable, which is here for the same reason.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float

_TAIL = -20.0  # where JAX's log Phi changes to a series of too few terms
_FARTHEST = 1e8

Scalar = Float[Array, ""]


def log_cdf(z: Scalar) -> Scalar:
    """log Phi(z), with z limited to what its gradient survives."""
    return norm.logcdf(jnp.clip(z, -_FARTHEST, _FARTHEST))


def truncated_variance(beta: Scalar) -> Scalar:
    """Variance of a standard normal given that it is at most beta: 1 - r (r + beta), in (0, 1)."""
    body = jnp.maximum(beta, _TAIL)
    r = _hazard(body)
    tail = jnp.clip(beta, -_FARTHEST, _TAIL / 2) ** -2  # not _TAIL: a tie would halve the gradient there
    # Var[z | z <= beta] ~ b^-2 - 6 b^-4 + 50 b^-6 - 518 b^-8 + 6354 b^-10 - 89782 b^-12 for beta -> -inf
    series = tail * (1 - tail * (6 - tail * (50 - tail * (518 - tail * (6354 - tail * 89782)))))
    return jnp.where(beta > _TAIL, jnp.maximum(1 - r * (r + body), 0.0), series)


def truncation_entropy_loss(beta: Scalar) -> Scalar:
    """Entropy of a standard normal minus its entropy given that it is at most beta: beta r / 2 - log Phi(beta) >= 0."""
    body = jnp.clip(beta, _TAIL, _FARTHEST)
    exact = body * _hazard(body) / 2 - norm.logcdf(body)
    far = jnp.clip(beta, -_FARTHEST, _TAIL / 2)
    # beta r / 2 - log Phi ~ log|b| + log(2 pi)/2 - 1/2 + 2 b^-2 - 15/2 b^-4 + 148/3 b^-6 - 1765/4 b^-8 for beta -> -inf
    tail = far**-2
    rest = tail * (2 - tail * (15 / 2 - tail * (148 / 3 - tail * 1765 / 4)))
    series = jnp.log(-far) + 0.5 * jnp.log(2 * jnp.pi) - 0.5 + rest
    return jnp.where(beta > _TAIL, jnp.maximum(exact, 0.0), series)


def _hazard(beta: Scalar) -> Scalar:
    """r = phi(beta) / Phi(beta), for beta >= -20."""
    return jnp.exp(norm.logpdf(beta) - norm.logcdf(beta))


def log_improvement(z: Scalar) -> Scalar:
    """log h(z) with h(z) = E[max(z + e, 0)] = phi(z) + z Phi(z), e standard normal; its slope is Phi(z) / h(z).

    Measured against 60 digits: right to 1e-11, or to the last digit of a double.
    """
    body = jnp.clip(z, _TAIL, _FARTHEST)
    exact = jnp.log(norm.pdf(body) + body * norm.cdf(body))
    far = jnp.clip(z, -_FARTHEST, _TAIL / 2)
    # h(z) ~ phi(z) z^-2 (1 - 3 z^-2 + 15 z^-4 - 105 z^-6 + 945 z^-8 - 10395 z^-10 + 135135 z^-12) for z -> -inf
    tail = far**-2
    rest = 1 - tail * (3 - tail * (15 - tail * (105 - tail * (945 - tail * (10395 - tail * 135135)))))
    series = norm.logpdf(far) - 2 * jnp.log(-far) + jnp.log(rest)
    return jnp.where(z > _TAIL, exact, series)
