"""What a query is worth where runs have limits, or fail: the information about the best *feasible* value.

With f* a sample of the constrained maximum, what a run must not show is the event

    A = { f_M(x) > f*, a run of the target at x succeeds, all outcomes are within their limits there }

With Z = P(A), and Z(y) = P(A | what a run at (x, m) would show), the gain is what knowing that A does not happen tells
about the run, I = E_y[ (1 - Z(y))/(1 - Z) log((1 - Z(y))/(1 - Z)) ]. At the target without noise it is -log(1 - Z), the
lower bound of Takeno et al. (2022). Value, outcomes and success are independent, so that Z and E[Z(y)^2] are products
in closed form, and `event_information` has I from these two. A run that fails shows nothing but that it fails.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.numerics.event import event_information
from fidelium.numerics.normal import bivariate_excess
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.runs import Links, RunMember, clipped, log_within, margins

_NO_LIMIT = 38.0


def run_gain(member: RunMember, f_star: Float[Array, " s"], x: Point, fidelity: Any) -> Scalar:
    """I(f*; what a run at (x, m) shows), averaged over the samples of f*; less where it will probably fail."""
    log_z, ratio = _event(member.links(x, fidelity), member.limits, f_star)
    if member.success is None:
        return jnp.mean(jax.vmap(event_information)(log_z, 2 * log_z + ratio))
    log_z, ratio = _with_success(member.success.pair(x, fidelity), log_z, ratio)
    gain = jnp.mean(jax.vmap(event_information)(log_z, 2 * log_z + ratio))
    return gain * jnp.exp(member.success.log_caution(x, fidelity))


def _event(
    links: Links, limits: Float[Array, "k 2"], f_star: Float[Array, " s"]
) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    """log Z and log(E[Z(y)^2] / Z^2) of a run that succeeds, for every sample of f*.

    With U the probability of a part of the event once the run is known, E[U^2] - E[U]^2 is the covariance of that part
    in two variables that have `links.shared` as their correlation. All covariances come from one call: what is compiled
    is a single copy of the quadrature. A value has no second limit, and two of its three terms are 0.
    """
    near, far = margins(limits, links.mean[1:], links.std[1:])
    above = clipped((links.mean[0] - f_star) / links.std[0])
    shared = jnp.concatenate([jnp.full(len(f_star), links.shared[0]), jnp.tile(links.shared[1:], 3)])
    excess = jax.vmap(bivariate_excess)(
        jnp.concatenate([above, near, far, near]), jnp.concatenate([above, near, far, -far]), shared
    )
    of_value, of_near, of_far, of_both = jnp.split(excess, len(above) + len(near) * np.arange(3))
    log_p = jax.vmap(log_within)(
        jnp.concatenate([above, near]), jnp.concatenate([jnp.full(len(above), _NO_LIMIT), far])
    )
    covariance = jnp.concatenate([of_value, of_near + of_far - 2 * of_both])
    ratio = jnp.log1p(jnp.maximum(covariance, 0.0) * jnp.exp(-2 * log_p))
    (log_above, log_inside), (value_ratio, outcome_ratio) = (jnp.split(part, [len(above)]) for part in (log_p, ratio))
    return log_above + jnp.sum(log_inside), value_ratio + jnp.sum(outcome_ratio)


def _with_success(
    pair: tuple[Scalar, Scalar, Scalar], log_z: Float[Array, " s"], ratio: Float[Array, " s"]
) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    """log Z and log(E[Z(y)^2] / Z^2) with success as a part of the event.

    A run succeeds with probability s, and shows the results; then the target succeeds with probability u1. Otherwise it
    shows its failure alone, and the target succeeds with probability u0.
    """
    s, u1, u0 = pair
    target = s * u1 + (1 - s) * u0
    square = jnp.logaddexp(jnp.log(s) + 2 * jnp.log(u1) + ratio, jnp.log1p(-s) + 2 * jnp.log(u0))
    return log_z + jnp.log(target), square - 2 * jnp.log(target)
