"""The networks below the last layer: phi_theta(x, f_{m-1}), eq. (mf-dnn), with a bias feature of 1 at the end.

Features come in two blocks, `of_x(x)` and `of_both(x, below)`: the first is evaluated once per x however many values of
the layer below are tried.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fidelium.errors import SettingError

Point = Float[Array, " d"]
Scalar = Float[Array, ""]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
}


@runtime_checkable
class Features(Protocol):
    """A network without its last layer; `below` is None in the lowest fidelity."""

    @abstractmethod
    def of_x(self, x: Point) -> Float[Array, " fx"]:
        """The features that x alone decides (possibly none)."""
        ...

    @abstractmethod
    def of_both(self, x: Point, below: Scalar | None) -> Float[Array, " fb"]:
        """The features that see the layer below."""
        ...


def all_of(features: Features, x: Point, below: Scalar | None) -> Float[Array, " f"]:
    """Both blocks of features."""
    return jnp.concatenate([features.of_x(x), features.of_both(x, below)])


class CosineFeatures(eqx.Module):
    """Random-feature network: sines and cosines of random directions, with learned scales.

    Four blocks make f_m a Gaussian process of x (discrepancy) with a second one near the best design (detail), of
    [x, f_{m-1}] (non-linear relation), and a linear function of f_{m-1}; the lowest fidelity has the first two only.

        of_x    = [s / sqrt(K) [cos(O x / l), sin(O x / l)], detail(x)]
        of_both = [b / sqrt(J) [cos, sin](Q [x / l', f / l_f]), a f, 1]
    """

    directions: Float[Array, "k d"]
    log_length: Float[Array, " d"]
    log_amplitude: Scalar
    detail: Detail
    relation: Relation | None

    def of_x(self, x: Point) -> Float[Array, " fx"]:
        angles = self.directions @ (x / jnp.exp(self.log_length))
        return jnp.concatenate([jnp.exp(self.log_amplitude) * _pairs(angles), self.detail(x)])

    def of_both(self, x: Point, below: Scalar | None) -> Float[Array, " fb"]:
        if self.relation is None or below is None:
            return jnp.ones(1)
        return self.relation(x, below)


class Detail(eqx.Module):
    """What f_m does over short lengths about a centre c: cosines under a bell.

    detail(x) = t exp(-|x - c|^2 / (2 R^2)) / sqrt(I) [cos, sin](P (x - c) / l'')
    """

    directions: Float[Array, "i d"]
    centre: Float[Array, " d"]
    log_amplitude: Scalar
    log_radius: Scalar
    log_length: Float[Array, " d"]

    def __call__(self, x: Point) -> Float[Array, " fd"]:
        away = x - self.centre
        bell = jnp.exp(self.log_amplitude - 0.5 * (away @ away) * jnp.exp(-2 * self.log_radius))
        return bell * _pairs(self.directions @ (away / jnp.exp(self.log_length)))


class Relation(eqx.Module):
    """How f_m depends on f_{m-1}: features of both, f_{m-1} itself, and the bias."""

    directions: Float[Array, "j d"]
    below_directions: Float[Array, " j"]
    log_length: Float[Array, " d"]
    log_below_length: Scalar
    log_amplitude: Scalar
    log_slope: Scalar

    def __call__(self, x: Point, below: Scalar) -> Float[Array, " fb"]:
        angles = self.directions @ (x / jnp.exp(self.log_length))
        angles = angles + self.below_directions * (below / jnp.exp(self.log_below_length))
        cosines = jnp.exp(self.log_amplitude) * _pairs(angles)
        return jnp.concatenate([cosines, (jnp.exp(self.log_slope) * below)[None], jnp.ones(1)])


class DenseFeatures(eqx.Module):
    """A dense network on [x; f_{m-1}], with x centred; its outputs and a bias are the features.

    Args:
        weights: one matrix per layer, inputs first.
        biases: one vector per layer.
        activation: a name of `ACTIVATIONS`, applied after every layer, the last one included.
    """

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]
    activation: str = eqx.field(static=True)

    def of_x(self, x: Point) -> Float[Array, " fx"]:
        return jnp.zeros(0, dtype=x.dtype)

    def of_both(self, x: Point, below: Scalar | None) -> Float[Array, " fb"]:
        centred = (x - 0.5) * jnp.sqrt(12.0)  # uniform on [0, 1] -> mean 0, variance 1
        hidden = centred if below is None else jnp.concatenate([centred, below[None]])
        for weight, bias in zip(self.weights, self.biases, strict=True):
            hidden = ACTIVATIONS[self.activation](hidden @ weight + bias)
        return jnp.concatenate([hidden, jnp.ones(1, dtype=hidden.dtype)])


@dataclass(frozen=True)
class Architecture:
    """Shape of a dense network: its hidden layers, then the feature layer.

    Args:
        widths: width of every layer, 1 to 12 hidden ones and the features last.
        activation: "relu", "tanh", "silu", "gelu" or "softplus".

    Raises:
        SettingError: if the depth, a width or the activation is out of range.
    """

    widths: tuple[int, ...] = (128, 128, 32)
    activation: str = "relu"

    def __post_init__(self) -> None:
        if not 2 <= len(self.widths) <= 12:
            raise SettingError(f"a network has 2 to 12 layers, got widths={self.widths!r}")
        if any(not isinstance(width, int) or not 1 <= width <= 512 for width in self.widths):
            raise SettingError(f"the widths of a network are whole numbers from 1 to 512, got {self.widths!r}")
        if self.activation not in ACTIVATIONS:
            raise SettingError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")

    def draw(self, inputs: int, key: jax.Array) -> DenseFeatures:
        """A network with Glorot-normal weights (truncated at two standard deviations) and zero biases."""
        sizes = (inputs, *self.widths)
        keys = jax.random.split(key, len(self.widths))
        glorot = jax.nn.initializers.glorot_normal()
        weights = tuple(glorot(k, (n, p)) for k, n, p in zip(keys, sizes, sizes[1:], strict=False))
        return DenseFeatures(weights, tuple(jnp.zeros(width) for width in self.widths), self.activation)


def _pairs(angles: Float[Array, " k"]) -> Float[Array, " two_k"]:
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)]) / jnp.sqrt(angles.shape[0])
