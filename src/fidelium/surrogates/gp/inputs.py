"""Covariances of fidelities that do not use all parameters: those of P_m x (`surrogates/inputs.py`)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.history import UNUSED, Used
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.gp.covariances import Correlation, MixedProcesses, Roles
from fidelium.surrogates.gp.exact import Covariance
from fidelium.surrogates.inputs import AllUsed, seen_by


class SeenKernel(eqx.Module):
    """A covariance of P x.

    Args:
        kernel: of x.
        used: the columns.
    """

    kernel: Correlation
    used: Used = eqx.field(static=True)

    def __call__(self, x: Point, other: Point) -> Scalar:
        return self.kernel(seen_by(self.used, x), seen_by(self.used, other))

    def features(self, frequencies: Float[Array, "k d"], x: Point) -> Float[Array, " f"]:
        """Those of the kernel at P x."""
        return self.kernel.features(frequencies, seen_by(self.used, x))


class SeenCovariance(eqx.Module):
    """A covariance of points (P_m x, m).

    Args:
        covariance: of (x, m).
        used: the columns that each fidelity uses.
    """

    covariance: Covariance
    used: AllUsed = eqx.field(static=True)

    def __call__(self, p: Any, other: Any) -> Scalar:
        return self.covariance(self._seen(p), self._seen(other))

    def features(self, frequencies: Any, p: Any) -> Float[Array, " f"]:
        """Those of the covariance at (P_m x, m)."""
        return self.covariance.features(frequencies, self._seen(p))

    def _seen(self, p: Any) -> Any:
        x, fidelity = p
        table = np.array([(True,) * x.shape[0] if used is None else used for used in self.used])
        return jnp.where(jnp.asarray(table)[fidelity], x, UNUSED), fidelity


def seen_covariance(covariance: Covariance, used: AllUsed | None, roles: Roles = Roles.FREE) -> Covariance:
    """The covariance of fidelities that use these columns.

    A process that fidelity c adds sees what that one uses, f_m(x) = ... + g_c(P_c x) + ... One that all fidelities have
    in common cannot depend on what the lowest ignores, and so relates that to the target at any value of it, not only
    near the middle.

    Args:
        covariance: of (x, m).
        used: the columns, None if all fidelities use all.
        roles: what the processes are to the fidelities.
    """
    if used is None:
        return covariance
    chained = roles is Roles.CHAINED
    if isinstance(covariance, MixedProcesses) and roles is not Roles.FREE:
        columns = used if chained else (used[0], *(None,) * (len(covariance.kernels) - 1))
        kernels = tuple(
            kernel if each is None else SeenKernel(kernel, each)
            for kernel, each in zip(covariance.kernels, columns, strict=True)
        )
        covariance = MixedProcesses(covariance.roots, kernels, covariance.bias)
    return covariance if chained else SeenCovariance(covariance, used)
