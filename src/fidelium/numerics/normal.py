"""The standard normal truncated from above at beta, finite with finite gradients for any beta.

With phi and Phi its density and distribution function, and r = phi(beta) / Phi(beta):

    variance of z given z <= beta:              1 - r (r + beta)
    entropy lost by learning z <= beta:         beta r / 2 - log Phi(beta)                     eq. (8) entropy-M

Both cancel badly for beta << 0, where their asymptotic series take over. So does the improvement expected of a normal
variable, which is here for the same reason, as is the distribution function of two correlated normal variables.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
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


def bivariate_excess(a: Scalar, b: Scalar, r: Scalar) -> Scalar:
    """Phi_2(a, b; r) - Phi(a) Phi(b): how much likelier z <= a and z' <= b are together than if independent.

    For z, z' standard normal with correlation r in [-1, 1]. It has the sign of r. Plackett's identity

        d Phi_2 / dt = exp(-(a^2 + b^2 - 2 a b sin t) / (2 cos^2 t)) / (2 pi),    sin t = r

    has a peak that gets narrow for large |a|, |b| and an edge for a ~ b, r ~ 1. In h = (b - a sin t) / cos t and
    q = (a - b sin t) / cos t it has neither: h^2 + a^2 = q^2 + b^2 is the numerator over cos^2 t, and

        dt = -a dh / (a^2 + h^2) - b dq / (b^2 + q^2)

    Of the two integrals at most the smaller one is negative, so that nothing cancels. Measured against 40 digits, for
    |r| from 1e-5 to 0.99999: right to 1e-8 of the result itself for |a|, |b| up to 7, to 1e-6 up to 30.
    """
    a, b = (jnp.clip(bound, -_FARTHEST, _FARTHEST) for bound in (a, b))
    return _bivariate_excess(a, b, jnp.clip(r, -1.0, 1.0))


_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
_WINDOW = 44.0  # a Gaussian factor is neglected where it is below exp(-22) of its peak
_SMALL = 1e-6  # correlations that a series is for
_LEAST_COSINE = 1e-16  # cos^2 t where |r| = 1 to the last digit
_NEAR_ZERO = 1e-30  # in the place of a or b = 0, which divide


@jax.custom_jvp
def _bivariate_excess(a: Scalar, b: Scalar, r: Scalar) -> Scalar:
    series = norm.pdf(a) * norm.pdf(b) * r * (1 + 0.5 * a * b * r)
    a, b = (jnp.where(jnp.abs(each) < _NEAR_ZERO, _NEAR_ZERO, each) for each in (a, b))
    first = _plackett_part(a, b, _conditional(a, b, r))
    second = _plackett_part(b, a, _conditional(b, a, r))
    whole = -(first + second) / (2 * jnp.pi)
    return jnp.where(jnp.abs(r) < _SMALL, series, jnp.where(r * whole > 0, whole, 0.0))


@_bivariate_excess.defjvp
def _bivariate_excess_derivative(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """d/da = phi(a) (Phi(h) - Phi(b)) with h = (b - r a) / cos t, the same for b, and d/dr = phi(a) phi(h) / cos t."""
    (a, b, r), (a_dot, b_dot, r_dot) = primals, tangents
    h, q = _conditional(a, b, r), _conditional(b, a, r)
    by_a, by_b = norm.pdf(a) * _rise(b, h), norm.pdf(b) * _rise(a, q)
    # phi(a) phi(h) = phi(b) phi(q): the smaller of a and b would give the larger h
    by_r = jnp.where(jnp.abs(a) > jnp.abs(b), norm.pdf(a) * norm.pdf(h), norm.pdf(b) * norm.pdf(q)) / _cosine(r)
    return _bivariate_excess(a, b, r), by_a * a_dot + by_b * b_dot + by_r * r_dot


def _cosine(r: Scalar) -> Scalar:
    return jnp.sqrt(jnp.maximum((1 - r) * (1 + r), _LEAST_COSINE))


def _conditional(a: Scalar, b: Scalar, r: Scalar) -> Scalar:
    """(b - r a) / cos t: the bound b in standard deviations of z' given z = a."""
    return (b - r * a) / _cosine(r)


def _rise(start: Scalar, end: Scalar) -> Scalar:
    """Phi(end) - Phi(start), from the tail that is smaller."""
    return jnp.where(start + end > 0, norm.cdf(-start) - norm.cdf(-end), norm.cdf(end) - norm.cdf(start))


def _plackett_part(a: Scalar, start: Scalar, end: Scalar) -> Scalar:
    """The integral of a exp(-(a^2 + h^2) / 2) / (a^2 + h^2) over h from start to end, by h = |a| sinh v."""
    size = jnp.abs(a)
    peak = jnp.clip(0.0, jnp.minimum(start, end), jnp.maximum(start, end))
    farthest = jnp.sqrt(peak**2 + _WINDOW)
    v0, v1 = (jnp.arcsinh(jnp.clip(h, -farthest, farthest) / size) for h in (start, end))
    cosh = jnp.cosh(0.5 * (v0 + v1) + 0.5 * (v1 - v0) * jnp.asarray(_NODES))
    values = jnp.exp(-0.5 * (size * cosh) ** 2) / cosh
    return jnp.sign(a) * 0.5 * (v1 - v0) * jnp.sum(jnp.asarray(_NODE_WEIGHTS) * values)
