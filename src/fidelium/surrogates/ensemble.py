"""Several posteriors that share the work: what one of them is sure of, the others may doubt.

A few observations leave much of a model open: the lengths it varies over, how its fidelities are related. One choice,
however likely, believes what follows from it. The members of an ensemble made different ones; the ensemble is their
mixture, in equal parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.scaling import Scale
from fidelium.surrogates.base import Paths, Point, Posterior, Scalar


class Ensemble(eqx.Module):
    """The mixture of some posteriors.

    Args:
        members: every array with a leading axis of members.
        shift: what the ensemble's units call a member's 0, by member and fidelity.
        scale: what they call a member's distance of 1.
        units: the fields of each fidelity's `Scale`, that of the ensemble.
    """

    members: Posterior
    shift: Float[Array, "e m"]
    scale: Float[Array, "e m"]
    units: Float[Array, "m 5"]

    @staticmethod
    def of(members: Posterior, scales: Sequence[Sequence[Scale]], units: Sequence[Scale]) -> Ensemble:
        """The ensemble of these members, stacked leaf by leaf.

        Args:
            members: every array with a leading axis of members.
            scales: of each member, the units of its fidelities.
            units: those of the ensemble; all without a warp.
        """
        ratio = np.array([[s.spread * s.scale / (u.spread * u.scale) for s, u in _pairs(row, units)] for row in scales])
        offset = [
            [((s.centre - u.centre + s.spread * s.shift) / u.spread - u.shift) / u.scale for s, u in _pairs(row, units)]
            for row in scales
        ]
        fields = jnp.asarray([astuple(unit) for unit in units])
        return Ensemble(members, jnp.asarray(offset), jnp.asarray(ratio), fields)

    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values."""
        return tuple(Scale(*fields) for fields in np.asarray(self.units).tolist())

    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Mean and variance of f_m(x) for every fidelity: those of the mixture."""
        return _mixture(*self._marginals(x))

    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_M(x) given f_m(x) = value: members count the more, the better they expected it."""
        own = (value - self.shift[:, fidelity]) / self.scale[:, fidelity]
        given = jax.vmap(lambda member, value: member.target_given(x, fidelity, value))
        means, variances = given(self.members, own)
        expected, spread = (part[:, fidelity] for part in self._marginals(x))
        weights = jax.nn.softmax(-0.5 * ((value - expected) ** 2 / spread + jnp.log(spread)))
        target_means = self.shift[:, -1] + self.scale[:, -1] * means
        mean, variance = _mixture(target_means[:, None], (self.scale[:, -1] ** 2 * variances)[:, None], weights)
        return mean[0], variance[0]

    def draw_paths(self, key: jax.Array, count: int) -> EnsemblePaths:
        """`count` draws of f_M as functions, of one member after the other."""
        size = self.shift.shape[0]
        each = -(-count // size)
        paths = jax.vmap(lambda member, key: member.draw_paths(key, each))(self.members, jr.split(key, size))
        return EnsemblePaths(paths, self.shift[:, -1], self.scale[:, -1], count)

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Variance of an observation about f_m where f_m has this value."""

        def one(member: Posterior, shift: Scalar, scale: Scalar) -> Float[Array, "*n"]:
            return scale**2 * member.noise_var(fidelity, (value - shift) / scale)

        return jnp.mean(jax.vmap(one)(self.members, self.shift[:, fidelity], self.scale[:, fidelity]), axis=0)

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> Ensemble:
        """This ensemble once every y_m(x) was observed to be what each member expects."""
        each = [member.given(x, fidelities) for member in self.each()]
        return eqx.tree_at(lambda e: e.members, self, jax.tree.map(lambda *leaves: jnp.stack(leaves), *each))

    def each(self) -> tuple[Posterior, ...]:
        """The members one by one; not to be traced."""
        return tuple(jax.tree.map(lambda leaf, i=i: leaf[i], self.members) for i in range(self.shift.shape[0]))

    def _marginals(self, x: Point) -> tuple[Float[Array, "e m"], Float[Array, "e m"]]:
        """Mean and variance of every member, in the ensemble's units."""
        means, variances = jax.vmap(lambda member: member.marginals(x))(self.members)
        return self.shift + self.scale * means, self.scale**2 * variances


class EnsemblePaths(eqx.Module):
    """Draws of f_M as functions; draw i is one of member i modulo their number.

    Args:
        paths: those of every member, with a leading axis.
        shift: what the ensemble's units call a member's 0.
        scale: what they call a member's distance of 1.
        count: of the draws.
    """

    paths: Paths
    shift: Float[Array, " e"]
    scale: Float[Array, " e"]
    count: int = eqx.field(static=True)

    def __call__(self, x: Point) -> Float[Array, " draws"]:
        """Every draw at x."""
        values = jax.vmap(lambda paths: paths(x))(self.paths)
        return (self.shift[:, None] + self.scale[:, None] * values).T.reshape(-1)[: self.count]

    def at(self, draw: Array, x: Point) -> Scalar:
        """One draw at x."""
        size = self.shift.shape[0]
        member = draw % size
        own = jax.tree.map(lambda leaf: leaf[member], self.paths)
        return self.shift[member] + self.scale[member] * own.at(draw // size, x)


def versions(posterior: Posterior) -> tuple[Posterior, ...]:
    """The members of an ensemble; any other posterior alone."""
    return posterior.each() if isinstance(posterior, Ensemble) else (posterior,)


def _pairs(row: Sequence[Scale], units: Sequence[Scale]) -> zip[tuple[Scale, Scale]]:
    return zip(row, units, strict=True)


def _mixture(
    means: Float[Array, "e m"], variances: Float[Array, "e m"], weights: Float[Array, " e"] | None = None
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Mean and variance of a mixture, in equal parts if no weights are given."""
    share = jnp.full(means.shape[0], 1 / means.shape[0]) if weights is None else weights
    mean = share @ means
    return mean, share @ (variances + (means - mean[None, :]) ** 2)
