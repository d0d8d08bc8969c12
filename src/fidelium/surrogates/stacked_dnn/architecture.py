"""The dense networks of the paper's stack: depth and width of every fidelity, and the learning rate (Sec. 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fidelium.errors import SettingError
from fidelium.surrogates.base import Point, Scalar

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": jax.nn.relu, "tanh": jnp.tanh}

FEATURES = 32
"""Width of the feature layer, the last below the Bayesian one, in every network: that of the authors' program."""


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
        activation: "relu" or "tanh".

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


@dataclass(frozen=True)
class StackArchitecture:
    """The dense ReLU networks of all fidelities, and how fast they learn.

    A network of depth D and width W has D layers below the Bayesian one: D - 1 hidden layers of W units, and the
    `FEATURES` features.

    Args:
        depths: of each fidelity's network, low to high, 2 to 12.
        widths: of each fidelity's hidden layers, 1 to 512.
        learning_rate: Adam's, the same for all networks, for they are learned together.

    Raises:
        SettingError: if there is not one depth and one width per fidelity, or a number is out of its range.
    """

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if len(self.depths) != len(self.widths) or not self.depths:
            raise SettingError(
                f"an architecture has a depth and a width for each fidelity, got {self.depths!r} and {self.widths!r}"
            )
        if any(not isinstance(depth, int) for depth in self.depths):
            raise SettingError(f"the depths of an architecture are whole numbers, got {self.depths!r}")
        if not 0 < self.learning_rate < math.inf:
            raise SettingError(f"learning_rate must be a finite number above 0, got {self.learning_rate!r}")
        _ = self.networks  # which checks every depth and width

    @staticmethod
    def default(fidelities: int) -> StackArchitecture:
        """That of the authors' program: 128-128-32 at every fidelity, learning rate 1e-3."""
        return StackArchitecture((3,) * fidelities, (128,) * fidelities)

    @staticmethod
    def from_mapping(fields: Mapping[str, Any]) -> StackArchitecture:
        """The architecture of a mapping such as a study file holds: depths, widths, and perhaps learning_rate.

        Raises:
            SettingError: if it has other keys, or a value is not valid.
        """
        try:
            shapes = {name: tuple(value) for name, value in fields.items() if name != "learning_rate"}
            rate = {name: value for name, value in fields.items() if name == "learning_rate"}
            return StackArchitecture(**shapes, **rate)
        except TypeError:
            raise SettingError(
                f"an architecture has depths, widths and perhaps learning_rate, got {fields!r}"
            ) from None

    @cached_property
    def networks(self) -> tuple[Architecture, ...]:
        """The network of each fidelity, low to high."""
        return tuple(
            Architecture((width,) * (depth - 1) + (FEATURES,))
            for depth, width in zip(self.depths, self.widths, strict=True)
        )
