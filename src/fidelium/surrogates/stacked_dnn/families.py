"""Families of networks whose q(w) is found in closed form: what is drawn, what is learned, and what is believed before.

Everything that is learned in a layer is one vector theta, with the logarithms of the noise's parts first, so that one
L-BFGS serves all families. Lengths are in units of the unit cube, amplitudes in those of the scaled values.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from enum import StrEnum
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
from fidelium.surrogates.learning import HIGHEST, LENGTH, LOWEST, Prior
from fidelium.surrogates.stacked_dnn.features import (
    Architecture,
    CosineFeatures,
    DenseFeatures,
    Detail,
    Features,
    Relation,
)
from fidelium.surrogates.stacked_dnn.noise import FLOOR, LARGEST_RIPPLE, LOG_STD, PARTS, RIPPLE

Theta = Float[Array, " p"]
Vector = NDArray[np.float64]

ALIKE = 0.3
"""How far the lengths of neighbouring fidelities are believed to differ, in powers of e."""

DETAIL_AMPLITUDE, DETAIL_RADIUS, DETAIL_LENGTH = 5e-3, 0.08, 0.01
"""What is believed of the detail near the best design: its size as a share of the values' spread, how far it reaches
and over what lengths it varies, in units of the cube's side, in two dimensions."""

UNRELATED = -6.0
"""Logarithm of what is left of the relation to the layer below in a layer that stands alone."""


class Kind(StrEnum):
    """How a layer may relate to the one below; the lowest stands alone."""

    ALONE = "alone"  # not at all: what is below may be useless
    FREE = "free"  # somehow: any slope, any bend
    RESIDUAL = "residual"  # nearly equal, in units aligned with those below

    @property
    def slope(self) -> float:
        """Prior mean of df_m / df_{m-1}."""
        return 1.0 if self is Kind.RESIDUAL else 0.0

    @property
    def first_slope(self) -> float:
        """What stands for rho while the features are learned."""
        return {Kind.ALONE: 0.0, Kind.FREE: 0.5, Kind.RESIDUAL: 1.0}[self]


@runtime_checkable
class Family(Protocol):
    """A kind of network that the closed form can learn."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """How its layers may relate to those below."""
        ...

    @abstractmethod
    def draw(self, centre: Vector, has_below: bool, key: Key) -> eqx.Module:
        """The parts of one layer that are not learned, most of them random (a pytree of arrays).

        Args:
            centre: the best design known, a point of the unit cube, `(d,)`.
            has_below: whether there is a layer below.
            key: of the random parts.
        """
        ...

    @abstractmethod
    def prior(self, dimension: int, kind: Kind, drawn: eqx.Module, below: Vector | None) -> Prior:
        """What is believed of theta in a layer.

        Args:
            dimension: of x.
            kind: how it relates to the layer below.
            drawn: its random parts.
            below: theta as it was learned in the layer below; None in the lowest.
        """
        ...

    @abstractmethod
    def features(self, drawn: eqx.Module, theta: Theta) -> Features:
        """The network for a value of theta."""
        ...

    @abstractmethod
    def slope_var(self, theta: Theta) -> Float[Array, ""]:
        """The variance of d(w . phi) / df_{m-1} before the data, w ~ N(0, I), in a layer with one below."""
        ...


class CosineDraws(eqx.Module):
    """Random directions of the cosine features, of x, of [x, f_{m-1}] and of the detail, and where the detail is."""

    of_x: Float[Array, "k d"]
    of_both: Float[Array, "j d1"] | None
    of_detail: Float[Array, "i d"]
    centre: Float[Array, " d"]


@dataclass(frozen=True)
class CosineFamily:
    """Random-feature networks: a process of x, a finer one near the best design, a smooth one of [x, f_{m-1}].

    theta = [log floor, log ripple, log amplitude, log lengths of x (d)], then [log amplitude, log radius, log lengths
    of x (d)] of the detail, then for layers with one below [log slope, log amplitude, log length of f_{m-1},
    log lengths of x (d)] of the relation.

    Args:
        pairs: sine-cosine pairs of x.
        relation_pairs: sine-cosine pairs of [x, f_{m-1}].
        detail_pairs: sine-cosine pairs of x for the detail of the lowest layer.
        detail_pairs_above: those of the other layers, which are passed most of it.
        kernel: of the process of x, "rbf" or "matern52".
        kinds: how its layers may relate to those below.

    Raises:
        SettingError: if there are no features or kinds, or the kernel is unknown.
    """

    pairs: int = 100
    relation_pairs: int = 64
    detail_pairs: int = 60
    detail_pairs_above: int = 16
    kernel: str = "rbf"
    kinds: tuple[Kind, ...] = tuple(Kind)

    def __post_init__(self) -> None:
        if min(self.pairs, self.relation_pairs, self.detail_pairs, self.detail_pairs_above) < 1:
            raise SettingError(f"a cosine network needs at least one pair of features, got {self!r}")
        if not self.kinds:
            raise SettingError(f"the layers of a cosine network need at least one kind, got {self!r}")
        check_kernel(self.kernel)

    def draw(self, centre: Vector, has_below: bool, key: Key) -> CosineDraws:
        x_key, both_key, detail_key = key.split(3)
        d = len(centre)
        of_both = jnp.asarray(normal_frequencies(self.relation_pairs, d + 1, both_key)) if has_below else None
        of_x = jnp.asarray(frequencies(self.kernel, self.pairs, d, x_key))
        count = self.detail_pairs_above if has_below else self.detail_pairs
        of_detail = jnp.asarray(normal_frequencies(count, d, detail_key))
        return CosineDraws(of_x, of_both, of_detail, jnp.asarray(centre))

    def prior(self, dimension: int, kind: Kind, drawn: eqx.Module, below: Vector | None) -> Prior:
        wider = 0.5 * math.log(max(dimension, 2) / 2)  # lengths grow as the diagonal of the cube does
        mean, std = [math.log(FLOOR), math.log(RIPPLE)], [LOG_STD] * PARTS
        if below is None or kind is Kind.ALONE:
            mean += [0.0, *[math.log(LENGTH) + wider] * dimension]
            std += [1.0, *[0.8] * dimension]
        else:
            # the fidelities vary over similar lengths, and the ones below have more observations to show them
            mean += [-1.5 if kind is Kind.RESIDUAL else -0.3, *below[1 + PARTS : 1 + PARTS + dimension]]
            std += [1.0, *[ALIKE] * dimension]
        if below is None:
            lengths = [math.log(DETAIL_LENGTH) + wider] * dimension
            mean += [math.log(DETAIL_AMPLITUDE), math.log(DETAIL_RADIUS) + wider, *lengths]
            std += [1.0, 0.5, *[0.8] * dimension]
        else:
            # the same ripples, seen below with more observations; the relation passes most of them up
            amplitude, *rest = below[1 + PARTS + dimension : 3 + PARTS + 2 * dimension]
            less = {Kind.ALONE: 0.0, Kind.FREE: -0.5, Kind.RESIDUAL: -1.0}[kind]
            mean += [amplitude + less, *rest]
            std += [1.0, *[ALIKE] * (1 + dimension)]
            relation = {Kind.ALONE: [UNRELATED] * 2, Kind.FREE: [0.0, -1.0], Kind.RESIDUAL: [-1.5, -2.0]}[kind]
            mean += [*relation, 0.7, *[wider] * dimension]
            std += [0.1] * (3 + dimension) if kind is Kind.ALONE else [1.0, 1.0, 0.7, *[1.0] * dimension]
        upper = np.full(len(mean), HIGHEST)
        upper[1] = math.log(LARGEST_RIPPLE)
        fine = slice(1 + PARTS + dimension, 3 + PARTS + 2 * dimension)
        doubt = np.array(std)
        doubt[:PARTS] = doubt[fine] = 0.0  # noise and detail are the same for all
        return Prior(np.array(mean), np.array(std), np.full(len(mean), LOWEST), upper, doubt)

    def features(self, drawn: eqx.Module, theta: Theta) -> CosineFeatures:
        assert isinstance(drawn, CosineDraws)
        d = drawn.of_x.shape[1]
        _, own, fine, rest = jnp.split(theta, (PARTS, 1 + PARTS + d, 3 + PARTS + 2 * d))
        detail = Detail(drawn.of_detail, drawn.centre, fine[0], fine[1], fine[2:])
        relation = None
        if drawn.of_both is not None:
            relation = Relation(drawn.of_both[:, :d], drawn.of_both[:, d], rest[3:], rest[2], rest[1], rest[0])
        return CosineFeatures(drawn.of_x, own[1:], own[0], detail, relation)

    def slope_var(self, theta: Theta) -> Float[Array, ""]:
        log_slope, log_amplitude, log_below_length = self._relation(theta)[:3]
        return jnp.exp(2 * log_slope) + jnp.exp(2 * (log_amplitude - log_below_length))

    def _relation(self, theta: Theta) -> Float[Array, " r"]:
        """The last part of theta, about the relation to the layer below: three numbers and d lengths."""
        d = (theta.shape[0] - PARTS - 6) // 3  # lengths come three times
        return theta[-3 - d :]


class DenseDraws(eqx.Module):
    """The initial weights of a dense network: theta's start, and the mean of its prior."""

    network: DenseFeatures


@dataclass(frozen=True)
class DenseFamily:
    """Dense networks, all weights learned; theta = [log floor, log ripple, weights and biases].

    Args:
        architecture: the network's shape.
        spread: how far a weight may move from its random start, as the standard deviation of its prior.
    """

    architecture: Architecture = Architecture((64, 64, 32), "tanh")
    spread: float = 0.3

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return Kind.FREE, Kind.RESIDUAL

    def draw(self, centre: Vector, has_below: bool, key: Key) -> DenseDraws:
        return DenseDraws(self.architecture.draw(len(centre) + has_below, jax_key(key)))

    def prior(self, dimension: int, kind: Kind, drawn: eqx.Module, below: Vector | None) -> Prior:
        assert isinstance(drawn, DenseDraws)
        flat = np.asarray(ravel_pytree(drawn.network)[0])
        mean = np.concatenate([[math.log(FLOOR), math.log(RIPPLE)], flat])
        std = np.concatenate([[LOG_STD] * PARTS, np.full(len(flat), self.spread)])
        lower = np.concatenate([[LOWEST] * PARTS, np.full(len(flat), -20.0)])
        return Prior(mean, std, lower, np.concatenate([[HIGHEST] * PARTS, -lower[PARTS:]]))

    def features(self, drawn: eqx.Module, theta: Theta) -> DenseFeatures:
        assert isinstance(drawn, DenseDraws)
        return ravel_pytree(drawn.network)[1](theta[PARTS:])

    def slope_var(self, theta: Theta) -> Float[Array, ""]:
        return jnp.asarray(0.25)  # a guess: it depends on all weights and on x
