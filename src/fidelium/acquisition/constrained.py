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
from jaxtyping import Array, Float

from fidelium.numerics.event import event_information
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.runs import RunMember, clipped, log_square_ratio, log_within, margins

_NO_LIMIT = 38.0


def run_gain(member: RunMember, f_star: Float[Array, " s"], x: Point, fidelity: Any) -> Scalar:
    """I(f*; what a run at (x, m) shows), averaged over the samples of f*; less where it will probably fail."""
    links = member.links(x, fidelity)
    near, far = margins(member.limits, links.mean[1:], links.std[1:])
    log_p = jnp.sum(jax.vmap(log_within)(near, far))
    log_ratio = jnp.sum(jax.vmap(log_square_ratio)(near, far, links.shared[1:]))

    def information(f_star: Scalar) -> Scalar:
        above, nowhere = clipped((links.mean[0] - f_star) / links.std[0]), jnp.asarray(_NO_LIMIT)
        log_z = log_p + log_within(above, nowhere)
        ratio = log_ratio + log_square_ratio(above, nowhere, links.shared[0])
        if member.success is not None:
            log_z, ratio = _with_success(member.success.pair(x, fidelity), log_z, ratio)
        return event_information(log_z, 2 * log_z + ratio)

    gain = jnp.mean(jax.vmap(information)(f_star))
    return gain if member.success is None else gain * jnp.exp(member.success.log_caution(x, fidelity))


def _with_success(pair: tuple[Scalar, Scalar, Scalar], log_z: Scalar, ratio: Scalar) -> tuple[Scalar, Scalar]:
    """log Z and log(E[Z(y)^2] / Z^2) with success as a part of the event.

    A run succeeds with probability s, and shows the results; then the target succeeds with probability u1. Otherwise it
    shows its failure alone, and the target succeeds with probability u0.
    """
    s, u1, u0 = pair
    target = s * u1 + (1 - s) * u0
    square = jnp.logaddexp(jnp.log(s) + 2 * jnp.log(u1) + ratio, jnp.log1p(-s) + 2 * jnp.log(u0))
    return log_z + jnp.log(target), square - 2 * jnp.log(target)
