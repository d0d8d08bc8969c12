"""Gaussian processes of (x, fidelity): parameters by the evidence, everything else in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import Observations
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale, scale_rows, scales_of
from fidelium.randomness import Key
from fidelium.surrogates.base import VARIANCE_FLOOR, Point, Scalar
from fidelium.surrogates.gp.covariances import Coregionalised, CovarianceFamily
from fidelium.surrogates.gp.exact import Covariance, ExactGP, PathDraws, Rows, learn
from fidelium.surrogates.gp.inputs import seen_covariance
from fidelium.surrogates.inputs import AllUsed, all_used
from fidelium.surrogates.known_noise import NOT_KNOWN, known_vars, or_learned, typical_vars, unit_of
from fidelium.surrogates.learning import (
    HIGHEST,
    LOWEST,
    NOISE_LOG_STD,
    NOISE_STD,
    Entries,
    Prior,
    require_data,
    subset,
)


class JointPosterior(eqx.Module):
    """A Gaussian process of x and the fidelity, given observations of all fidelities.

    Args:
        process: the process; its points are (x, fidelity).
        noise: sigma_m^2 of every fidelity.
        units: each fidelity's `Scale` as a row of numbers.
    """

    process: ExactGP
    noise: Float[Array, " m"]
    units: Float[Array, "m fields"]

    def scales(self) -> tuple[Scale, ...]:
        """The units of each fidelity's values."""
        return scales_of(self.units)

    def marginals(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Mean and variance of f_m(x) for every fidelity."""
        return jax.vmap(lambda m: self.process.moments((x, m)))(jnp.arange(len(self.noise)))

    def target_given(self, x: Point, fidelity: int, value: Scalar) -> tuple[Scalar, Scalar]:
        """Mean and variance of f_M(x) given f_m(x) = value, by conditioning the Gaussian of the two."""
        mean, cov = self.process.joint((x, jnp.asarray(fidelity)), (x, jnp.asarray(len(self.noise) - 1)))
        slope = cov[0, 1] / cov[0, 0]
        return mean[1] + slope * (value - mean[0]), jnp.maximum(cov[1, 1] - slope * cov[0, 1], VARIANCE_FLOOR)

    def draw_paths(self, key: jax.Array, count: int) -> JointPaths:
        """`count` draws of the target as functions."""
        return JointPaths(self.process, self.process.draw(key, count), len(self.noise) - 1)

    def noise_var(self, fidelity: int, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """sigma_m^2, whatever the value."""
        return jnp.broadcast_to(self.noise[fidelity], jnp.shape(value))

    def members(self) -> tuple[JointPosterior]:
        """This posterior alone."""
        return (self,)

    def given(self, x: NDArray[np.float64], fidelities: Sequence[int]) -> JointPosterior:
        """Condition on fantasy observations equal to the predictive mean."""
        size, which = bucket(len(x)), np.asarray(fidelities, dtype=int)
        at = (jnp.asarray(pad_rows(x, size)), jnp.asarray(np.pad(which, (0, size - len(which)))))
        weight = jnp.asarray(pad_rows(np.ones(len(x)), size))
        process = self.process.given(at, self.noise[at[1]], weight)
        return JointPosterior(process, self.noise, self.units)


class JointPaths(eqx.Module):
    """Draws of the target as functions."""

    process: ExactGP
    draws: PathDraws
    target: int = eqx.field(static=True)

    def __call__(self, x: Point) -> Float[Array, " draws"]:
        """Every draw at x."""
        return jax.vmap(lambda draw: self._value(draw, x))(self.draws)

    def at(self, draw: Array, x: Point) -> Scalar:
        """One draw at x."""
        return self._value(jax.tree.map(lambda leaf: leaf[draw], self.draws), x)

    def _value(self, draw: PathDraws, x: Point) -> Scalar:
        return self.process.value(draw, (x, jnp.asarray(self.target)))


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process whose covariance is learned by the evidence.

    Args:
        family: how the fidelities are related.
        starts: starting points of the search for the parameters.
        steps: evaluations of the evidence at most.
        most_points: parameters are learned from this many observations per fidelity at most, the posterior uses all.
        most_rows: on ladders of more than three fidelities, from this many observations in all at most.
        frequencies: sine-cosine pairs that draws are made of.
        noise_std: prior median of the noise's standard deviation, as a share of the values' spread.
    """

    family: CovarianceFamily = field(default_factory=Coregionalised)
    starts: int = 3
    steps: int = 60
    most_points: int = 128
    most_rows: int = 256
    frequencies: int = 256
    noise_std: float = NOISE_STD

    def fit(self, observations: Sequence[Observations], key: Key) -> JointPosterior:
        """The posterior given the observations of each fidelity.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        require_data(observations)
        frequency_key, start_key, subset_key, prior_key = key.split(4)
        dimension, fidelities = observations[0].unit_x.shape[1], len(observations)
        units = _units(observations, self.family.shares_units)
        prior = _with_noise(self.family.prior(dimension, fidelities, prior_key), fidelities, self.noise_std)
        fewer = [
            seen.rows(chosen)
            for seen, part in zip(observations, subset_key.split(fidelities), strict=True)
            for chosen in [subset(len(seen), self._most_points(fidelities), part)]
        ]
        model = _JointModel(self.family, fidelities, all_used(tuple(seen.used for seen in observations)))
        theta = learn(model, prior, _rows(fewer, units), self.starts, self.steps, start_key)
        frequencies = self.family.frequencies(self.frequencies, dimension, fidelities, frequency_key)
        rows = model.noisy(_rows(observations, units), theta)
        process = ExactGP.of(model.covariance(theta), jax.tree.map(jnp.asarray, frequencies), rows)
        noise = or_learned(jnp.asarray(typical_vars(observations, units)), model.noise(theta))
        return JointPosterior(process, noise, jnp.asarray(scale_rows(units)))

    def _most_points(self, fidelities: int) -> int:
        """From how many observations of each fidelity the parameters are learned at most."""
        return self.most_points if fidelities <= 3 else max(1, min(self.most_points, self.most_rows // fidelities))


class JointParameters(eqx.Module):
    """theta of a joint process: the noise of every fidelity, and the parameters of the covariance family."""

    log_noise_std: Entries
    covariance: Any


@dataclass(frozen=True)
class _JointModel:
    family: CovarianceFamily
    fidelities: int
    used: AllUsed | None = None

    def covariance(self, theta: JointParameters) -> Covariance:
        whole = self.family.covariance(theta.covariance, self.fidelities)
        return seen_covariance(whole, self.used, self.family.roles)

    def noise(self, theta: JointParameters) -> Float[Array, " m"]:
        return jnp.exp(2 * theta.log_noise_std)

    def noisy(self, rows: Rows, theta: JointParameters) -> Rows:
        return eqx.tree_at(lambda r: r.noise_var, rows, or_learned(rows.noise_var, self.noise(theta)[rows.at[1]]))


def _units(observations: Sequence[Observations], shared: bool) -> list[Scale]:
    """The scale of each fidelity; those without a value take that of all values together."""
    everything = unit_of(*observations)
    return [unit_of(seen) if len(seen) and not shared else everything for seen in observations]


def _with_noise(prior: Prior[Any], fidelities: int, noise_std: float) -> Prior[JointParameters]:
    """The prior of the noise and of the covariance family's parameters."""

    def all_of(value: float, covariance: Any) -> JointParameters:
        return JointParameters(np.full(fidelities, value), covariance)

    mean, std = all_of(math.log(noise_std), prior.mean), all_of(NOISE_LOG_STD, prior.std)
    return Prior(mean, std, all_of(LOWEST, prior.lower), all_of(HIGHEST, prior.upper))


def _rows(observations: Sequence[Observations], units: Sequence[Scale]) -> Rows:
    """The observations of all fidelities as rows of one process, without the noise that is to be learned."""
    x = np.concatenate([seen.unit_x for seen in observations])
    y = np.concatenate([unit.inward(seen.y) for seen, unit in zip(observations, units, strict=True)])
    which = np.repeat(np.arange(len(observations)), [len(seen) for seen in observations])
    size = bucket(len(y))
    at = (jnp.asarray(pad_rows(x, size)), jnp.asarray(np.pad(which, (0, size - len(which)))))
    known = np.concatenate([known_vars(seen, unit) for seen, unit in zip(observations, units, strict=True)])
    noise_var = np.pad(known, (0, size - len(y)), constant_values=NOT_KNOWN)
    mask = jnp.asarray(pad_rows(np.ones(len(y)), size))
    return Rows(at, jnp.asarray(pad_rows(y, size)), jnp.asarray(noise_var), mask)
