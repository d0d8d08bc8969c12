"""Families of networks whose q(w) is found in closed form: what is drawn, what is learned, and what is believed before.

Everything that is learned in a layer is one vector theta, with the logarithm of the noise's standard deviation first,
so that one L-BFGS serves all families. Lengths are in units of the unit cube, amplitudes in those of the scaled values.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.numerics.backend import jax_key
from fidelium.numerics.spectral import check_kernel, frequencies, normal_frequencies
from fidelium.randomness import Key
from fidelium.surrogates.learning import HIGHEST, LENGTH, LOWEST, NOISE_LOG_STD, NOISE_STD, Prior
from fidelium.surrogates.stacked_dnn.features import Architecture, CosineFeatures, DenseFeatures, Features, Relation

Theta = Float[Array, " p"]
Learned = NDArray[np.float64]

ALIKE = 0.3
"""How far the lengths of neighbouring fidelities are believed to differ, in powers of e."""


@runtime_checkable
class Family(Protocol):
    """A kind of network that the closed form can learn."""

    @abstractmethod
    def draw(self, dimension: int, has_below: bool, key: Key) -> eqx.Module:
        """The random parts of one layer that are not learned (a pytree of arrays)."""
        ...

    @abstractmethod
    def prior(self, dimension: int, slope: float, drawn: eqx.Module, below: Learned | None) -> Prior:
        """What is believed of theta in a layer.

        Args:
            dimension: of x.
            slope: prior slope of the layer: 1 residual, 0 independent.
            drawn: its random parts.
            below: theta as it was learned in the layer below; None in the lowest.
        """
        ...

    @abstractmethod
    def features(self, drawn: eqx.Module, theta: Theta) -> Features:
        """The network for a value of theta."""
        ...


class CosineDraws(eqx.Module):
    """Random directions of the cosine features, of x and of [x, f_{m-1}]."""

    of_x: Float[Array, "k d"]
    of_both: Float[Array, "j d1"] | None


@dataclass(frozen=True)
class CosineFamily:
    """Random-feature networks: a process of x, and a smooth process of [x, f_{m-1}] above the lowest layer.

    theta = [log noise std, log amplitude, log lengths of x (d)], then for layers with one below
    [log slope, log amplitude, log length of f_{m-1}, log lengths of x (d)] of the relation.

    Args:
        pairs: sine-cosine pairs of x.
        relation_pairs: sine-cosine pairs of [x, f_{m-1}].
        kernel: of the process of x, "rbf" or "matern52".

    Raises:
        SettingError: if there are no features or the kernel is unknown.
    """

    pairs: int = 100
    relation_pairs: int = 64
    kernel: str = "rbf"

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.relation_pairs < 1:
            raise SettingError(f"a cosine network needs at least one pair of features, got {self!r}")
        check_kernel(self.kernel)

    def draw(self, dimension: int, has_below: bool, key: Key) -> CosineDraws:
        x_key, both_key = key.split(2)
        of_both = normal_frequencies(self.relation_pairs, dimension + 1, both_key) if has_below else None
        of_x = frequencies(self.kernel, self.pairs, dimension, x_key)
        return CosineDraws(jnp.asarray(of_x), None if of_both is None else jnp.asarray(of_both))

    def prior(self, dimension: int, slope: float, drawn: eqx.Module, below: Learned | None) -> Prior:
        # means are those of an independent layer, moved towards a residual one (a small discrepancy) with the slope
        def between(independent: float, residual: float) -> float:
            return (1 - slope) * independent + slope * residual

        wider = 0.5 * math.log(max(dimension, 2) / 2)  # lengths grow as the diagonal of the cube does
        mean, std = [math.log(NOISE_STD)], [NOISE_LOG_STD]
        if below is None:
            mean += [0.0, *[math.log(LENGTH) + wider] * dimension]
            std += [1.0, *[0.8] * dimension]
        else:
            # the fidelities vary over similar lengths, and the ones below have more observations to show them
            mean += [between(-0.3, -1.5), *below[2 : 2 + dimension]]
            std += [1.0, *[ALIKE] * dimension]
            mean += [between(0.0, -1.5), between(-1.0, -2.0), 0.7, *[wider] * dimension]
            std += [1.0, 1.0, 0.7, *[1.0] * dimension]
        count = len(mean)
        return Prior(np.array(mean), np.array(std), np.full(count, LOWEST), np.full(count, HIGHEST))

    def features(self, drawn: eqx.Module, theta: Theta) -> CosineFeatures:
        assert isinstance(drawn, CosineDraws)
        d = drawn.of_x.shape[1]
        own, rest = theta[1 : 2 + d], theta[2 + d :]
        relation = None
        if drawn.of_both is not None:
            relation = Relation(drawn.of_both[:, :d], drawn.of_both[:, d], rest[3:], rest[2], rest[1], rest[0])
        return CosineFeatures(drawn.of_x, own[1:], own[0], relation)


class DenseDraws(eqx.Module):
    """The initial weights of a dense network: theta's start, and the mean of its prior."""

    network: DenseFeatures


@dataclass(frozen=True)
class DenseFamily:
    """Dense networks, all weights learned; theta = [log noise std, weights and biases].

    Args:
        architecture: the network's shape.
        spread: how far a weight may move from its random start, as the standard deviation of its prior.
    """

    architecture: Architecture = Architecture((64, 64, 32), "tanh")
    spread: float = 0.3

    def draw(self, dimension: int, has_below: bool, key: Key) -> DenseDraws:
        return DenseDraws(self.architecture.draw(dimension + has_below, jax_key(key)))

    def prior(self, dimension: int, slope: float, drawn: eqx.Module, below: Learned | None) -> Prior:
        assert isinstance(drawn, DenseDraws)
        flat = np.asarray(ravel_pytree(drawn.network)[0])
        mean = np.concatenate([[math.log(NOISE_STD)], flat])
        std = np.concatenate([[NOISE_LOG_STD], np.full(len(flat), self.spread)])
        lower = np.concatenate([[LOWEST], np.full(len(flat), -20.0)])
        return Prior(mean, std, lower, np.concatenate([[HIGHEST], -lower[1:]]))

    def features(self, drawn: eqx.Module, theta: Theta) -> DenseFeatures:
        assert isinstance(drawn, DenseDraws)
        return ravel_pytree(drawn.network)[1](theta[1:])
