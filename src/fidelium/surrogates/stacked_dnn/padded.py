"""Networks of different shapes side by side: padded to one shape, so that one compiled program trains them all.

Padding changes nothing that is learned. A hidden unit whose weights are all zero gives zero and gets no gradient: it
stays as it is. A layer that is missing is an identity, which leaves what comes out of a ReLU as it is, and is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import FEATURES, StackArchitecture
from fidelium.surrogates.stacked_dnn.features import DenseFeatures
from fidelium.surrogates.stacked_dnn.variational import VariationalLayer

Layers = tuple[VariationalLayer, ...]
Weights = list[NDArray[np.float32]]

_WITHIN_TWO_STD = 0.87962566103423978
"""Standard deviation of a standard normal variable that is drawn again if beyond two."""


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
