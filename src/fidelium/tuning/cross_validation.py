"""How good an architecture is for given data: repeated random halves, the paper's training on one, a test on the other.

The score is the mean log density of the other half,

    score = mean over splits and fidelities of mean_n log N(y_n | alpha_m(x_n), eta_m(x_n) + sigma_m^2),

in units in which all observations of a fidelity have spread 1. A density and not an error: acquisitions use variances
as much as means, and an error does not penalise overconfidence. Fidelities have equal weight, except those with fewer
than `FEWEST` observations: they are learned from and not tested on.

Networks of different shapes are trained side by side, padded to one shape, so that one compiled program trains them
all. Padding changes nothing that is learned. A hidden unit whose weights are all zero gives zero and gets no gradient:
it stays as it is. A layer that is missing is an identity, which leaves what comes out of a ReLU as it is, and is held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Float32
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.numerics.backend import jax_key, jax_session, quick_jit
from fidelium.numerics.padding import PaddedData, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import FEATURES, DenseFeatures, StackArchitecture
from fidelium.surrogates.stacked_dnn.variational import Carry, StackPosterior, VariationalLayer, climb, standard_units

Layers = tuple[VariationalLayer, ...]
Weights = list[NDArray[np.float32]]

_WITHIN_TWO_STD = 0.87962566103423978
"""Standard deviation of a standard normal variable that is drawn again if beyond two."""

FEWEST = 4
"""Observations of a fidelity that make two in each half. Of two in all, the one learned from would have no spread, and
so no units to predict the other in: networks that learn nothing would score best."""


def common_shape(architectures: Sequence[StackArchitecture]) -> StackArchitecture:
    """The smallest architecture that every one of these can be padded to."""
    depths, widths = (
        tuple(max(sizes) for sizes in zip(*(getattr(each, part) for each in architectures), strict=True))
        for part in ("depths", "widths")
    )
    return StackArchitecture(depths, widths)


def draw_layers(architecture: StackArchitecture, shape: StackArchitecture, dimension: int, key: Key) -> Layers:
    """The layers before learning, with random weights that depend on the architecture and not on the shape."""
    sizes = zip(architecture.depths, architecture.widths, shape.depths, shape.widths, strict=True)
    layers: list[VariationalLayer] = []
    for m, (depth, width, deepest, widest) in enumerate(sizes):
        weights = draw_weights(dimension + (m > 0), depth, width, key.fold(m))
        weights = pad_weights(weights, deepest, widest)
        biases = tuple(jnp.zeros(each.shape[1], jnp.float32) for each in weights)
        network = DenseFeatures(tuple(map(jnp.asarray, weights)), biases, "relu")
        layers.append(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), VariationalLayer.at_prior(network)))
    return tuple(layers)


def draw_weights(inputs: int, depth: int, width: int, key: Key) -> Weights:
    """Glorot-normal weights as those of `Architecture.draw`; in NumPy, for JAX would compile every new shape anew."""
    generator = key.generator()
    sizes = (inputs, *[width] * (depth - 1), FEATURES)
    drawn: Weights = []
    for n, p in pairwise(sizes):
        normal = ndtri(generator.uniform(ndtr(-2.0), ndtr(2.0), (n, p)))
        drawn.append((normal * np.sqrt(2 / (n + p)) / _WITHIN_TWO_STD).astype(np.float32))
    return drawn


def pad_weights(weights: Weights, depth: int, width: int) -> Weights:
    """The weights of the same function in a larger network: zeros around them, identities after the first."""

    def padded(each: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
        return np.pad(each, ((0, rows - each.shape[0]), (0, columns - each.shape[1])))

    first, *hidden, last = weights
    identities = [np.eye(width, dtype=np.float32)] * (depth - len(weights))
    return [
        padded(first, first.shape[0], width),
        *identities,
        *(padded(each, width, width) for each in hidden),
        padded(last, width, FEATURES),
    ]


def learned_parts(layers: Layers, architecture: StackArchitecture) -> Layers:
    """1 in the place of every array of the layers that is learned, 0 for the identities."""
    return tuple(_learned_parts(layer, depth) for layer, depth in zip(layers, architecture.depths, strict=True))


def _learned_parts(layer: VariationalLayer, depth: int) -> VariationalLayer:
    held = slice(1, 1 + len(layer.network.weights) - depth)
    ones = jax.tree.map(lambda _: jnp.ones((), jnp.float32), layer)
    return eqx.tree_at(
        lambda each: [*each.network.weights[held], *each.network.biases[held]], ones, replace_fn=jnp.zeros_like
    )


def held_adam(rate: Float32[Array, ""], learned: Layers) -> optax.GradientTransformation:
    """Adam that leaves alone what is not learned."""
    hold = optax.stateless(lambda gradient, _: jax.tree.map(jnp.multiply, gradient, learned))
    return optax.chain(hold, optax.adam(rate))


LEAST_LOG_DENSITY = -20.0
"""Lower bound of a test point's log density, also where the training diverged, so that one point cannot decide."""

_PIECE = 250
"""Epochs in one call of the compiled training, which cannot be interrupted."""

_NODES = 5


@dataclass(frozen=True)
class CrossValidation:
    """The score of architectures on given data: a pure function of observations, architecture and key.

    Args:
        splits: random splits into halves, the same for all architectures.
        epochs: steps of Adam.

    Raises:
        SettingError: if one of them is not at least 1.
    """

    splits: int = 3
    epochs: int = 5000

    def __post_init__(self) -> None:
        if self.splits < 1 or self.epochs < 1:
            raise SettingError(f"splits and epochs must be at least 1, got {self.splits!r} and {self.epochs!r}")

    @jax_session()
    def scores(
        self,
        observations: Sequence[Observations],
        architectures: Sequence[StackArchitecture],
        key: Key,
        tick: Callable[[float], None] = lambda share: None,
    ) -> NDArray[np.float64]:
        """The score of each architecture, higher is better; all are trained together, padded to one shape.

        Args:
            observations: of each fidelity, low to high.
            architectures: what to score.
            key: of the splits, the initial weights and the sampling in the training.
            tick: progress callback, with the fraction done; an exception from it ends the training.

        Raises:
            NoDataError: if no fidelity has `FEWEST` observations.
            SettingError: if an architecture is for another number of fidelities.
        """
        if any(len(each.depths) != len(observations) for each in architectures):
            raise SettingError(f"expected architectures of {len(observations)} fidelities, got {architectures!r}")
        split_key, start_key, train_key = key.split(3)
        splits = half_splits(observations, self.splits, split_key)
        rows = [(architecture, s) for architecture in architectures for s in range(self.splits)]
        starts = self._starts(rows, observations[0].unit_x.shape[1], start_key)
        data = _stacked([_as_data(splits[s].train) for _, s in rows])
        keys = jnp.stack([jr.split(jax_key(train_key.fold(s)), self.epochs) for _, s in rows])
        learned = self._train(*starts, data, keys, tick)
        x = np.stack([np.concatenate([half.unit_x for half in splits[s].test]) for _, s in rows])
        predicted = (np.asarray(part) for part in _predict_rows(learned, x))
        units = standard_units(observations)
        each = [_log_density(splits[s], units, *parts) for (_, s), *parts in zip(rows, *predicted, strict=True)]
        return np.mean(np.reshape(each, (len(architectures), self.splits)), axis=1)

    def _starts(
        self, rows: Sequence[tuple[StackArchitecture, int]], dimension: int, key: Key
    ) -> tuple[Layers, Layers, Float[Array, " r"]]:
        """The layers of every row before learning, what of them is learned, and how fast."""
        shape = common_shape([architecture for architecture, _ in rows])
        layers = [draw_layers(architecture, shape, dimension, key.fold(s)) for architecture, s in rows]
        learned = [learned_parts(each, architecture) for each, (architecture, _) in zip(layers, rows, strict=True)]
        rates = jnp.asarray([architecture.learning_rate for architecture, _ in rows], jnp.float32)
        return _stacked(layers), _stacked(learned), rates

    def _train(
        self, layers: Layers, learned: Layers, rates: Array, data: Any, keys: Array, tick: Callable[[float], None]
    ) -> Layers:
        carry = _begin(layers, learned)
        for first in range(0, self.epochs, _PIECE):
            carry = jax.block_until_ready(_climb_rows(carry, data, keys[:, first : first + _PIECE], rates, learned))
            tick(min(first + _PIECE, self.epochs) / self.epochs)
        return carry[0]


@dataclass(frozen=True)
class Split:
    """The observations of each fidelity in two halves; of an odd number, the larger part is learned from."""

    train: tuple[Observations, ...]
    test: tuple[Observations, ...]


def half_splits(observations: Sequence[Observations], count: int, key: Key) -> tuple[Split, ...]:
    """`count` random splits of the observations into halves.

    Raises:
        NoDataError: if no fidelity has `FEWEST` observations.
    """
    tested = require_comparable(observations)
    splits: list[Split] = []
    for split_key in key.split(count):
        halves = [_halves(seen, m in tested, split_key.fold(m)) for m, seen in enumerate(observations)]
        splits.append(Split(*zip(*halves, strict=True)))
    return tuple(splits)


def _halves(seen: Observations, is_tested: bool, key: Key) -> tuple[Observations, Observations]:
    order = key.generator().permutation(len(seen))
    train, test = np.split(order, [(len(seen) + 1) // 2 if is_tested else len(seen)])
    return seen.rows(train), seen.rows(test)


def _as_data(observations: Sequence[Observations]) -> tuple[PaddedData, ...]:
    """In their own units, and as many rows as there are (one of padding for none): all splits have the same numbers."""
    data: list[PaddedData] = []
    for seen, unit in zip(observations, standard_units(observations), strict=True):
        rows = (seen.unit_x, unit.inward(seen.y), np.ones(len(seen)))
        data.append(PaddedData(*(jnp.asarray(pad_rows(each, max(len(seen), 1)), jnp.float32) for each in rows)))
    return tuple(data)


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


def _log_density(
    split: Split, units: Sequence[Scale], means: NDArray[np.float64], variances: NDArray[np.float64]
) -> float:
    """The mean log density of the test points of each fidelity in its units, averaged over the fidelities."""
    ends = np.cumsum([len(half) for half in split.test])
    averages: list[float] = []
    for m, (half, end, learned_in) in enumerate(zip(split.test, ends, standard_units(split.train), strict=True)):
        own = slice(end - len(half), end)
        mean, std = learned_in.outward_moments(means[own, m], variances[own, m])
        with np.errstate(all="ignore"):  # of a training that diverged
            density = norm.logpdf(half.y, mean, std) + np.log(units[m].spread)
        if len(half):
            averages.append(float(np.mean(np.fmax(density, LEAST_LOG_DENSITY))))  # fmax: NaN counts as the floor
    return float(np.mean(averages))


@jax.jit
def _begin(layers: Layers, learned: Layers) -> Carry:
    return layers, jax.vmap(lambda layers, learned: held_adam(jnp.float32(0), learned).init(layers))(layers, learned)


@jax.jit
def _climb_rows(
    carry: Carry, data: tuple[PaddedData, ...], keys: Array, rates: Float[Array, " r"], learned: Layers
) -> Carry:
    def climb_row(carry: Any, data: Any, keys: Array, rate: Array, learned: Layers) -> Any:
        return climb(held_adam(rate, learned), carry, data, keys)

    return jax.vmap(climb_row)(carry, data, keys, rates, learned)


@quick_jit
def _predict_rows(layers: Layers, x: Float[Array, "r n d"]) -> tuple[Float[Array, "r n m"], Float[Array, "r n m"]]:
    """Mean and variance of an observation at every fidelity, for each row of layers and its points."""

    def predict(layers: Layers, x: Float[Array, "n d"]) -> tuple[Array, Array]:
        posterior = StackPosterior.of([layer.posterior() for layer in layers], [Scale()] * len(layers), _NODES)
        means, variances = jax.vmap(posterior.marginals)(x)
        noise_vars = [posterior.noise_var(m, means[:, m]) for m in range(len(layers))]
        return means, variances + jnp.stack(noise_vars, axis=1)

    return jax.vmap(predict)(layers, x)


def comparable_fidelities(observations: Sequence[Observations]) -> tuple[int, ...]:
    """The fidelities with observations enough to be tested on half of them."""
    return tuple(m for m, seen in enumerate(observations) if len(seen) >= FEWEST)


def require_comparable(observations: Sequence[Observations]) -> tuple[int, ...]:
    """The fidelities with observations enough, at least one.

    Raises:
        NoDataError: if no fidelity has `FEWEST` observations.
    """
    tested = comparable_fidelities(observations)
    if not tested:
        counts = "/".join(str(len(seen)) for seen in observations)
        raise NoDataError(f"architectures are compared on at least {FEWEST} observations of a fidelity, got {counts}")
    return tested
