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
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.features import Architecture, CosineFeatures, DenseFeatures, Features, Relation

Theta = Float[Array, " p"]

NOISE_STD = 5e-4
"""What simulators' noise is believed to be, as a share of the values' spread; the data may say otherwise."""

NOISE_LOG_STD = 2.0
"""How little that belief weighs, in powers of e: ripples that nothing explains must be allowed to count as noise."""


@dataclass(frozen=True)
class Prior:
    """Independent normal beliefs about theta: log p = -1/2 sum ((theta - mean) / std)^2, and where to look for it."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@runtime_checkable
class Family(Protocol):
    """A kind of network that the closed form can learn."""

    @abstractmethod
    def draw(self, dimension: int, has_below: bool, key: Key) -> eqx.Module:
        """The random parts of one layer that are not learned (a pytree of arrays)."""
        ...

    @abstractmethod
    def prior(self, dimension: int, has_below: bool, slope: float, drawn: eqx.Module) -> Prior:
        """What is believed of theta in a layer whose prior slope is `slope` (1 residual, 0 independent)."""
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
    """Random-feature networks: a Matern-5/2 process of x, and a smooth process of [x, f_{m-1}] above the lowest layer.

    theta = [log noise std, log amplitude, log lengths of x (d)], then for layers with one below
    [log slope, log amplitude, log length of f_{m-1}, log lengths of x (d)] of the relation.

    Args:
        pairs: sine-cosine pairs of x.
        relation_pairs: sine-cosine pairs of [x, f_{m-1}].
    """

    pairs: int = 100
    relation_pairs: int = 64

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.relation_pairs < 1:
            raise SettingError(f"a cosine network needs at least one pair of features, got {self!r}")

    def draw(self, dimension: int, has_below: bool, key: Key) -> CosineDraws:
        x_key, both_key = key.split(2)
        of_both = _normals(self.relation_pairs, dimension + 1, both_key) if has_below else None
        return CosineDraws(
            jnp.asarray(_student(self.pairs, dimension, 5, x_key)), None if of_both is None else jnp.asarray(of_both)
        )

    def prior(self, dimension: int, has_below: bool, slope: float, drawn: eqx.Module) -> Prior:
        # means are those of an independent layer, moved towards a residual one (a small discrepancy) with the slope
        def between(independent: float, residual: float) -> float:
            return (1 - slope) * independent + slope * residual

        wider = 0.5 * math.log(max(dimension, 2) / 2)  # lengths grow as the diagonal of the cube does
        length = math.log(0.35) + wider
        mean, std = [math.log(NOISE_STD)], [NOISE_LOG_STD]
        mean += [between(-1.0, -2.5) if has_below else 0.0]
        std += [1.0]
        mean += [between(length, math.log(0.5) + wider) if has_below else length] * dimension
        std += [0.8] * dimension
        if has_below:
            mean += [between(0.0, -1.5), between(-1.0, -2.0), 0.7, *[wider] * dimension]
            std += [1.0, 1.0, 0.7, *[1.0] * dimension]
        count = len(mean)
        return Prior(np.array(mean), np.array(std), np.full(count, -9.0), np.full(count, 5.0))

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

    def prior(self, dimension: int, has_below: bool, slope: float, drawn: eqx.Module) -> Prior:
        assert isinstance(drawn, DenseDraws)
        flat = np.asarray(ravel_pytree(drawn.network)[0])
        mean = np.concatenate([[math.log(NOISE_STD)], flat])
        std = np.concatenate([[NOISE_LOG_STD], np.full(len(flat), self.spread)])
        lower = np.concatenate([[-9.0], np.full(len(flat), -20.0)])
        return Prior(mean, std, lower, np.concatenate([[5.0], -lower[1:]]))

    def features(self, drawn: eqx.Module, theta: Theta) -> DenseFeatures:
        assert isinstance(drawn, DenseDraws)
        return ravel_pytree(drawn.network)[1](theta[1:])


def _normals(count: int, dimension: int, key: Key) -> NDArray[np.float64]:
    """Standard normal vectors that cover their space evenly: a scrambled Sobol sequence through the normal quantile."""
    from scipy.special import ndtri

    return ndtri(_sobol(count, dimension, key))


def _student(count: int, dimension: int, degrees: int, key: Key) -> NDArray[np.float64]:
    """Student-t vectors, the spectrum of a Matern process of smoothness degrees / 2, evenly covering their space."""
    from scipy.special import ndtri
    from scipy.stats import chi2

    uniform = _sobol(count, dimension + 1, key)
    return ndtri(uniform[:, 1:]) / np.sqrt(chi2.ppf(uniform[:, :1], degrees) / degrees)


def _sobol(count: int, dimension: int, key: Key) -> NDArray[np.float64]:
    from scipy.stats import qmc

    power = math.ceil(math.log2(max(count, 2)))
    points = qmc.Sobol(dimension, scramble=True, rng=key.generator()).random_base2(power)[:count]
    return np.clip(points, 1e-9, 1 - 1e-9)
