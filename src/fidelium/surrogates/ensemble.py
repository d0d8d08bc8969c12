"""Several posteriors that were learned under different priors: their mixture, in equal parts.

A few observations leave much of a model open: its lengths, how its fidelities are related. A single choice, however
likely, is overconfident. The members of an ensemble made different choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.numerics.scaling import Scale, scale_rows, scales_of
from fidelium.surrogates.base import Paths, Point, Posterior, Scalar

P = TypeVar("P", bound=Posterior)


class Ensemble(eqx.Module, Generic[P]):
    """The mixture of some posteriors.

    Args:
        posteriors: the members, all of the same structure.
        shift: of each member and fidelity, its 0 in the ensemble's units.
        scale: of each member and fidelity, its distance of 1 in the ensemble's units.
        units: each fidelity's `Scale` as a row of numbers, that of the ensemble.
    """

    posteriors: tuple[P, ...]
    shift: Float[Array, "e m"]
    scale: Float[Array, "e m"]
    units: Float[Array, "m fields"]

    @staticmethod
    def of(posteriors: Sequence[P], units: Sequence[Scale]) -> Ensemble[P]:
        """The ensemble of these members, in these units of each fidelity."""
        scales = [posterior.scales() for posterior in posteriors]
        ratios = np.array([[own.ratio_to(unit) for own, unit in zip(row, units, strict=True)] for row in scales])
        fields = jnp.asarray(scale_rows(units))
        return Ensemble(tuple(posteriors), jnp.asarray(ratios[..., 0]), jnp.asarray(ratios[..., 1]), fields)

    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values."""
        return scales_of(self.units)

    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Mean and variance of f_m(x) for every fidelity: those of the mixture."""
        return _mixture(*self._marginals(x))

    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_M(x) given f_m(x) = value: members are weighted by the density they give the value."""
        own = (value - self.shift[:, fidelity]) / self.scale[:, fidelity]
        given = jax.vmap(lambda member, value: member.target_given(x, fidelity, value))
        means, variances = given(self._stacked(), own)
        expected, spread = (part[:, fidelity] for part in self._marginals(x))
        weights = jax.nn.softmax(-0.5 * ((value - expected) ** 2 / spread + jnp.log(spread)))
        target_means = self.shift[:, -1] + self.scale[:, -1] * means
        mean, variance = _mixture(target_means[:, None], (self.scale[:, -1] ** 2 * variances)[:, None], weights)
        return mean[0], variance[0]

    def draw_paths(self, key: jax.Array, count: int) -> EnsemblePaths:
        """`count` draws of f_M as functions, of one member after the other."""
        size = len(self.posteriors)
        each = -(-count // size)
        paths = jax.vmap(lambda member, key: member.draw_paths(key, each))(self._stacked(), jr.split(key, size))
        return EnsemblePaths(paths, self.shift[:, -1], self.scale[:, -1], count)

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Variance of an observation about f_m where f_m has this value."""

        def one(member: Posterior, shift: Scalar, scale: Scalar) -> Float[Array, "*n"]:
            return scale**2 * member.noise_var(fidelity, (value - shift) / scale)

        return jnp.mean(jax.vmap(one)(self._stacked(), self.shift[:, fidelity], self.scale[:, fidelity]), axis=0)

    def first(self) -> Ensemble[P]:
        """The first member alone, in the units of all: a rough idea in a fraction of the time."""
        return Ensemble(self.posteriors[:1], self.shift[:1], self.scale[:1], self.units)

    def members(self) -> tuple[P, ...]:
        """The posteriors of the mixture."""
        return self.posteriors

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> Ensemble[P]:
        """Condition every member on fantasy observations equal to its own predictive mean."""
        conditioned = tuple(member.given(x, fidelities) for member in self.posteriors)
        return Ensemble(conditioned, self.shift, self.scale, self.units)

    def _stacked(self) -> P:
        """All members as one, every array with a leading axis: one function to compile instead of one per member."""
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *self.posteriors)

    def _marginals(self, x: Point) -> tuple[Float[Array, "e m"], Float[Array, "e m"]]:
        """Mean and variance of every member, in the ensemble's units."""
        means, variances = jax.vmap(lambda member: member.marginals(x))(self._stacked())
        return self.shift + self.scale * means, self.scale**2 * variances


class EnsemblePaths(eqx.Module):
    """Draws of f_M as functions; draw i is one of member i modulo their number.

    Args:
        paths: those of every member, with a leading axis.
        shift: each member's 0 in the ensemble's units.
        scale: each member's distance of 1 in the ensemble's units.
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


def _mixture(
    means: Float[Array, "e m"], variances: Float[Array, "e m"], weights: Float[Array, " e"] | None = None
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Mean and variance of a mixture, in equal parts if no weights are given."""
    share = jnp.full(means.shape[0], 1 / means.shape[0]) if weights is None else weights
    mean = share @ means
    return mean, share @ (variances + (means - mean[None, :]) ** 2)
