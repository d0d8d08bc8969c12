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

from fidelium.history import History, Observations
from fidelium.numerics.backend import jax_session
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation
from fidelium.strategies.recommendation import Expected, observed_designs, recommended
from fidelium.surrogates.base import Point, Posterior, Scalar

REPEATS = 0.05
"""Noise up to this share of the values' spread counts as ripples of a deterministic simulator, which repeat."""

_POOL = 512
_STARTS = 8
_NEAR = 12
_TOPS = 12  # the best designs of all fidelities, four of each on ladders of up to three

Criterion = Callable[[Posterior, Point], Scalar]
"""The value of a design at the target that is maximised."""


@dataclass(frozen=True)
class PosteriorModel:
    """Predictions of a posterior.

    The recommended design is the best one observed at the target, unless another one is expected to be better by more
    than its uncertainty (`recommendation.py`). The maximum of the plain mean is often in an unexplored region.

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
        """Posterior mean and standard deviation of the objective at points `(n, d)`, in the objective's units.

        Where the values were warped: the median, and half of the width of the interval of 68 %, through the map.
        """
        padded = pad_rows(np.asarray(unit_x, dtype=float), bucket(len(unit_x)))
        mean, variance = (np.asarray(part)[: len(unit_x), fidelity] for part in _moments(self.posterior, padded))
        return self.scales[fidelity].outward_moments(mean, variance)

    @jax_session()
    def recommend(self) -> Recommendation:
        """The best design observed at the target, or one that is better with good probability.

        A design that was observed is reported with its value, if the model finds that runs repeat, else with the
        posterior's mean and standard deviation.
        """
        target, scale, seen = len(self.history.ladder) - 1, self.scales[-1], self.history.inside[-1]
        designs, _ = self._maximise(_sure_value)
        taken = {x.tobytes() for x in seen.unit_x}
        designs = np.array([x for x in designs if x.tobytes() not in taken]).reshape(-1, designs.shape[1])
        repeats = REPEATS / scale.scale
        # what a run of a new design would give: its ripples are not known
        expected, noise_std = self._expected(designs)
        ripples = np.minimum(noise_std, repeats)
        new = Expected(designs, expected.mean, np.sqrt(expected.std**2 + ripples**2))
        here = Observations(seen.unit_x, scale.inward(seen.y))
        posterior, _ = self._expected(seen.unit_x)
        observed = observed_designs(here, posterior, self._noise_std(here.y), repeats)
        choice, was_run = recommended(new, observed)
        unit_x = choice.unit_x[0]
        if was_run and choice.std[0] == 0.0:
            value = seen.y[np.flatnonzero(np.all(seen.unit_x == unit_x, axis=1))[0]]
            return Recommendation(unit_x, float(value), 0.0)
        mean, std = self.predict(choice.unit_x, target)
        return Recommendation(unit_x, float(mean[0]), float(std[0]))

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
        count = max(1, _TOPS // max(3, len(self.history.ladder)))
        tops = np.concatenate([seen.unit_x[np.argsort(-seen.y)[:count]] for seen in self.history.inside])
        near = np.repeat(tops, _NEAR, axis=0)
        near = space.snap(near + 10 ** generator.uniform(-3, -1, (len(near), 1)) * generator.normal(size=near.shape))
        pool = np.concatenate([space.sample(generator, _POOL), tops, near])
        start = pool[np.argsort(-self._values(criterion, pool))[:_STARTS]]
        climb = partial(_values_and_gradients, criterion, self.posterior)
        designs = np.concatenate([space.snap(maximise_rows(climb, start, 0.0, 1.0).x), start])
        return designs, self._values(criterion, designs)

    def _expected(self, unit_x: NDArray[np.float64]) -> tuple[Expected, NDArray[np.float64]]:
        """Mean and standard deviation of the target at designs, and of the noise there, in the model's units."""
        padded = pad_rows(unit_x, bucket(len(unit_x)))
        mean, variance = (np.asarray(part)[: len(unit_x), -1] for part in _moments(self.posterior, padded))
        return Expected(unit_x, mean, np.sqrt(variance)), self._noise_std(mean)

    def _noise_std(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation of the noise where the target has these values."""
        padded = pad_rows(values, bucket(len(values)))
        return np.sqrt(np.asarray(_noise_var(self.posterior, len(self.history.ladder) - 1, padded))[: len(values)])

    def _values(self, criterion: Criterion, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        padded = pad_rows(unit_x, bucket(len(unit_x)))
        return np.asarray(_values(criterion, self.posterior, padded))[: len(unit_x)]


@jax.jit
def _moments(posterior: Posterior, x: Float[Array, "n d"]) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    return jax.vmap(posterior.marginals)(x)


@partial(jax.jit, static_argnums=1)
def _noise_var(posterior: Posterior, fidelity: int, values: Float[Array, " n"]) -> Float[Array, " n"]:
    return posterior.noise_var(fidelity, values)


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
