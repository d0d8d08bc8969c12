"""Posteriors as the study sees them: predictions and the recommended design, in the objective's units.

One posterior believes in its one draw of random features and its one set of hyper-parameters. A few of them, fitted
with different keys, disagree where the data leave room: the model is their mixture, and its spread shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import History
from fidelium.numerics.backend import one_blas_thread
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation
from fidelium.surrogates.base import Point, Posterior, Scalar

REPEATS = 0.05
"""Noise up to this share of the values' spread is taken for something that a repetition would show again."""

_POOL = 512
_STARTS = 8
_NEAR = 12

Criterion = Callable[["Members", Point], Scalar]
"""What a design is worth at the target, given the members of the mixture."""


class Members(eqx.Module):
    """Posteriors stacked leaf by leaf, with what turns their values into the warped units that all of them share.

    Args:
        posterior: every array with a leading axis of members.
        shift: of each member and fidelity.
        scale: of each member and fidelity.
    """

    posterior: Posterior
    shift: Float[Array, "e m"]
    scale: Float[Array, "e m"]

    def moments(self, x: Float[Array, " d"]) -> tuple[Float[Array, "e m"], Float[Array, "e m"]]:
        """Mean and variance of every member at every fidelity, in warped units."""
        means, variances = jax.vmap(lambda posterior: posterior.marginals(x))(self.posterior)
        return self.shift + self.scale * means, self.scale**2 * variances


@dataclass(frozen=True)
class PosteriorModel:
    """Predictions of a mixture of posteriors.

    The recommended design is the one whose value is high for sure: it maximises mean minus one standard deviation,
    among all designs, those observed at the target included. The plain maximum of the mean is often an unexplored hope.

    Args:
        members: the posteriors, fitted to the same history.
        warps: the units of each fidelity that the members share: their scales without shift and scale.
        noise_std: standard deviation of each observation of the target, in warped units.
        history: what they were fitted to.
        key: of the search for the recommended design.
    """

    members: Members
    warps: tuple[Scale, ...]
    noise_std: NDArray[np.float64]
    history: History
    key: Key

    @staticmethod
    def of(posteriors: Sequence[Posterior], history: History, key: Key) -> PosteriorModel:
        """The mixture of these posteriors."""
        scales = [posterior.scales() for posterior in posteriors]
        shift, scale = (jnp.asarray([[getattr(s, part) for s in row] for row in scales]) for part in ("shift", "scale"))
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *posteriors)
        noise = [_noise_std(p, s[-1], history) for p, s in zip(posteriors, scales, strict=True)]
        warps = tuple(s.aligned(0.0, 1.0) for s in scales[0])
        return PosteriorModel(Members(stacked, shift, scale), warps, np.mean(noise, axis=0), history, key)

    @one_blas_thread()
    def predict(self, unit_x: NDArray[np.float64], fidelity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and standard deviation of the objective at points `(n, d)`, in the objective's units."""
        padded = pad_rows(np.asarray(unit_x, dtype=float), bucket(len(unit_x)))
        means, variances = (np.asarray(part)[: len(unit_x), :, fidelity] for part in _moments(self.members, padded))
        means, stds = self.warps[fidelity].outward_moments(means, variances)
        mean = means.mean(axis=1)
        return mean, np.sqrt(np.mean(stds**2 + (means - mean[:, None]) ** 2, axis=1))

    @one_blas_thread()
    def recommend(self) -> Recommendation:
        """The design this model would choose at the target."""
        designs, sure = self._maximise(_sure_value)
        seen = self.history.observations[-1]
        if len(seen):
            designs = np.concatenate([designs, seen.unit_x])
            # what was seen, less the noise, counts as well as what the model says of it; little noise is ripples of a
            # simulator that repeats what it said
            doubt = np.sqrt(np.maximum(self.noise_std**2 - REPEATS**2, 0.0))
            observed = self.warps[-1].warp(seen.y) - 2 * doubt
            sure = np.concatenate([sure, np.maximum(self._values(_sure_value, seen.unit_x), observed)])
        best = designs[int(np.argmax(sure))]
        mean, std = self.predict(best[None], len(self.history.ladder) - 1)
        return Recommendation(best, float(mean[0]), float(std[0]))

    @one_blas_thread()
    def promising(self) -> NDArray[np.float64]:
        """Designs by their posterior mean at the target, the highest first.

        The right order for a last query: what it might tell is of no use any more. Expected improvement would bet on
        places that are merely unknown (docs/experiments.md).
        """
        designs, mean = self._maximise(_mean_value)
        return designs[np.argsort(-mean)]

    def _maximise(self, criterion: Criterion) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Designs where a criterion is high, and its values: the ends of a few climbs, and where these began."""
        space, generator = self.history.space, self.key.generator()
        tops = np.concatenate([seen.unit_x[np.argsort(-seen.y)[:4]] for seen in self.history.observations])
        near = np.repeat(tops, _NEAR, axis=0)
        near = space.snap(near + 10 ** generator.uniform(-3, -1, (len(near), 1)) * generator.normal(size=near.shape))
        pool = np.concatenate([space.sample(generator, _POOL), tops, near])
        start = pool[np.argsort(-self._values(criterion, pool))[:_STARTS]]
        climb = partial(_values_and_gradients, criterion, self.members)
        designs = np.concatenate([space.snap(maximise_rows(climb, start, 0.0, 1.0).x), start])
        return designs, self._values(criterion, designs)

    def _values(self, criterion: Criterion, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        padded = pad_rows(unit_x, bucket(len(unit_x)))
        return np.asarray(_values(criterion, self.members, padded))[: len(unit_x)]


def _noise_std(posterior: Posterior, unit: Scale, history: History) -> NDArray[np.float64]:
    """The standard deviation of each observation of the target, in warped units."""
    values = jnp.asarray(unit.inward(history.observations[-1].y))
    return np.sqrt(np.asarray(posterior.noise_var(len(history.ladder) - 1, values))) * unit.scale


@jax.jit
def _moments(members: Members, x: Float[Array, "n d"]) -> tuple[Float[Array, "n e m"], Float[Array, "n e m"]]:
    return jax.vmap(members.moments)(x)


def _sure_value(members: Members, x: Point) -> Scalar:
    """Mean minus one standard deviation of the mixture at the target, in warped units."""
    means, variances = members.moments(x)
    mean = jnp.mean(means[:, -1])
    return mean - jnp.sqrt(jnp.mean(variances[:, -1] + (means[:, -1] - mean) ** 2))


def _mean_value(members: Members, x: Point) -> Scalar:
    """Mean of the mixture at the target, in warped units."""
    return jnp.mean(members.moments(x)[0][:, -1])


@partial(jax.jit, static_argnums=0)
def _values(criterion: Criterion, members: Members, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(lambda x: criterion(members, x))(x)


@partial(jax.jit, static_argnums=0)
def _values_and_gradients(
    criterion: Criterion, members: Members, x: Float[Array, "n d"]
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    return jax.vmap(jax.value_and_grad(lambda x: criterion(members, x)))(x)
