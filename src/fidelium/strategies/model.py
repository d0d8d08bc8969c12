"""A posterior as the study sees it: predictions and the recommended design, in the objective's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.history import History
from fidelium.numerics.backend import jax_session
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation
from fidelium.surrogates.base import Point, Posterior, Scalar

REPEATS = 0.05
"""Noise up to this share of the values' spread counts as ripples of a deterministic simulator, which repeat."""

_POOL = 512
_STARTS = 8
_NEAR = 12

Criterion = Callable[[Posterior, Point], Scalar]
"""The value of a design at the target that is maximised."""


@dataclass(frozen=True)
class PosteriorModel:
    """Predictions of a posterior.

    The recommended design maximises the posterior mean minus one standard deviation, over all designs, those observed
    at the target included. The maximum of the plain mean is often in an unexplored region.

    Args:
        posterior: of the surrogate fitted to the history.
        history: the observations.
        key: of the search for the recommended design.
    """

    posterior: Posterior
    history: History
    key: Key

    @cached_property
    def scales(self) -> tuple[Scale, ...]:
        """The units of the posterior's values."""
        return self.posterior.scales()

    @jax_session()
    def predict(self, unit_x: NDArray[np.float64], fidelity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and standard deviation of the objective at points `(n, d)`, in the objective's units."""
        padded = pad_rows(np.asarray(unit_x, dtype=float), bucket(len(unit_x)))
        mean, variance = (np.asarray(part)[: len(unit_x), fidelity] for part in _moments(self.posterior, padded))
        return self.scales[fidelity].outward_moments(mean, variance)

    @jax_session()
    def recommend(self) -> Recommendation:
        """The design this model would choose at the target."""
        designs, sure = self._maximise(_sure_value)
        seen = self.history.inside[-1]
        if len(seen):
            designs = np.concatenate([designs, seen.unit_x])
            # an observed value, less twice its noise, counts as a lower bound too; small noise is taken for ripples of
            # a deterministic simulator
            values = self.scales[-1].inward(seen.y)
            noise_var = np.asarray(self.posterior.noise_var(len(self.history.ladder) - 1, jnp.asarray(values)))
            doubt = np.sqrt(np.maximum(noise_var - (REPEATS / self.scales[-1].scale) ** 2, 0.0))
            observed = values - 2 * doubt
            sure = np.concatenate([sure, np.maximum(self._values(_sure_value, seen.unit_x), observed)])
        best = designs[int(np.argmax(sure))]
        mean, std = self.predict(best[None], len(self.history.ladder) - 1)
        return Recommendation(best, float(mean[0]), float(std[0]))

    @jax_session()
    def promising(self) -> NDArray[np.float64]:
        """Designs by their posterior mean at the target, the highest first.

        The right order for a last query: its information cannot be used later. Expected improvement would prefer
        unexplored designs (docs/experiments-log.md, second round).
        """
        designs, mean = self._maximise(_mean_value)
        return designs[np.argsort(-mean)]

    def _maximise(self, criterion: Criterion) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Designs where a criterion is high, and its values: ends and starts of a few L-BFGS climbs."""
        space, generator = self.history.space, self.key.generator()
        tops = np.concatenate([seen.unit_x[np.argsort(-seen.y)[:4]] for seen in self.history.inside])
        near = np.repeat(tops, _NEAR, axis=0)
        near = space.snap(near + 10 ** generator.uniform(-3, -1, (len(near), 1)) * generator.normal(size=near.shape))
        pool = np.concatenate([space.sample(generator, _POOL), tops, near])
        start = pool[np.argsort(-self._values(criterion, pool))[:_STARTS]]
        climb = partial(_values_and_gradients, criterion, self.posterior)
        designs = np.concatenate([space.snap(maximise_rows(climb, start, 0.0, 1.0).x), start])
        return designs, self._values(criterion, designs)

    def _values(self, criterion: Criterion, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        padded = pad_rows(unit_x, bucket(len(unit_x)))
        return np.asarray(_values(criterion, self.posterior, padded))[: len(unit_x)]


@jax.jit
def _moments(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    return jax.vmap(posterior.marginals)(x)


def _sure_value(posterior: Posterior, x: Point) -> Scalar:
    """Mean minus one standard deviation at the target, in the model's units."""
    means, variances = posterior.marginals(x)
    return means[-1] - jnp.sqrt(variances[-1])


def _mean_value(posterior: Posterior, x: Point) -> Scalar:
    """Mean at the target, in the model's units."""
    return posterior.marginals(x)[0][-1]


@partial(jax.jit, static_argnums=0)
def _values(criterion: Criterion, posterior: Posterior, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jax.vmap(lambda x: criterion(posterior, x))(x)


@partial(jax.jit, static_argnums=0)
def _values_and_gradients(
    criterion: Criterion, posterior: Posterior, x: Float[Array, "n d"]
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    return jax.vmap(jax.value_and_grad(lambda x: criterion(posterior, x)))(x)
