"""The networks below the last layer: phi_theta(x, f_{m-1}) of eq. (3) mf-dnn, with a bias feature of 1 at the end.

Features come in two blocks, `of_x(x)` and `of_both(x, below)`: the first is evaluated once per x however many values of
the layer below are tried. The closed-form stack has random-feature networks (`CosineFamily`, here), the paper's stack
has dense ones (`architecture.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.history import Used, as_seen
from fidelium.numerics.kernels import check_kernel, frequencies, normal_frequencies, pairs
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.inputs import seen_by
from fidelium.surrogates.learning import Prior, ProcessParameters
from fidelium.surrogates.stacked_dnn.priors import (
    DetailParameters,
    Kind,
    LayerParameters,
    RelationParameters,
    layer_prior,
    slope_var,
)


@runtime_checkable
class Features(Protocol):
    """A network without its last layer; `below` is None in the lowest fidelity."""

    @abstractmethod
    def of_x(self, x: Point) -> Float[Array, " fx"]:
        """The features that depend on x alone (possibly none)."""
        ...

    @abstractmethod
    def of_both(self, x: Point, below: Scalar | None) -> Float[Array, " fb"]:
        """The features that depend on the layer below."""
        ...


def all_of(features: Features, x: Point, below: Scalar | None) -> Float[Array, " f"]:
    """Both blocks of features."""
    return jnp.concatenate([features.of_x(x), features.of_both(x, below)])


class SeenFeatures(eqx.Module):
    """A network of a fidelity that does not use all columns of x.

    Args:
        features: of all columns.
        used: the columns.
    """

    features: Features
    used: Used = eqx.field(static=True)

    def of_x(self, x: Point) -> Float[Array, " fx"]:
        return self.features.of_x(seen_by(self.used, x))

    def of_both(self, x: Point, below: Scalar | None) -> Float[Array, " fb"]:
        return self.features.of_both(seen_by(self.used, x), below)


class CosineProcess(eqx.Module):
    """A process of x: s / sqrt(K) [cos, sin](O x / l)."""

    directions: Float[Array, "k d"]
    learned: ProcessParameters

    def __call__(self, x: Point) -> Float[Array, " fx"]:
        angles = self.directions @ (x / jnp.exp(self.learned.log_lengths))
        return jnp.exp(self.learned.log_amplitude) * pairs(angles)


class CosineDetail(eqx.Module):
    """What f_m does over short lengths around a centre c: cosines under a bell.

    detail(x) = t exp(-|x - c|^2 / (2 R^2)) / sqrt(I) [cos, sin](P (x - c) / l'')
    """

    directions: Float[Array, "i d"]
    centre: Float[Array, " d"]
    learned: DetailParameters

    def __call__(self, x: Point) -> Float[Array, " fd"]:
        away = x - self.centre
        bell = jnp.exp(self.learned.log_amplitude - 0.5 * (away @ away) * jnp.exp(-2 * self.learned.log_radius))
        return bell * pairs(self.directions @ (away / jnp.exp(self.learned.log_lengths)))


class CosineRelation(eqx.Module):
    """How f_m depends on f = f_{m-1}: b / sqrt(J) [cos, sin](Q [x / l', f / l_f]), then a f, then the bias 1."""

    directions: Float[Array, "j d"]
    below_directions: Float[Array, " j"]
    learned: RelationParameters

    def __call__(self, x: Point, below: Scalar) -> Float[Array, " fb"]:
        angles = self.directions @ (x / jnp.exp(self.learned.log_lengths))
        angles = angles + self.below_directions * (below / jnp.exp(self.learned.log_below_length))
        cosines = jnp.exp(self.learned.log_amplitude) * pairs(angles)
        return jnp.concatenate([cosines, (jnp.exp(self.learned.log_slope) * below)[None], jnp.ones(1)])


class CosineFeatures(eqx.Module):
    """Random-feature network: sines and cosines of random directions, with learned scales.

    Its blocks make f_m a Gaussian process of x (discrepancy), plus one of short lengths near the best design (detail),
    plus one of [x, f_{m-1}] and a linear function of f_{m-1} (relation); the lowest fidelity has the first two only.
    """

    process: CosineProcess
    detail: CosineDetail
    relation: CosineRelation | None

    def of_x(self, x: Point) -> Float[Array, " fx"]:
        return jnp.concatenate([self.process(x), self.detail(x)])

    def of_both(self, x: Point, below: Scalar | None) -> Float[Array, " fb"]:
        if self.relation is None or below is None:
            return jnp.ones(1)
        return self.relation(x, below)


class CosineDraws(eqx.Module):
    """Random directions of the cosine features, of x, of [x, f_{m-1}] and of the detail, and the detail's centre.

    And which columns of x the fidelity uses, None for all.
    """

    of_x: Float[Array, "k d"]
    of_both: Float[Array, "j d1"] | None
    of_detail: Float[Array, "i d"]
    centre: Float[Array, " d"]
    used: Used | None = eqx.field(static=True, default=None)


LayerPrior = Callable[[int, Kind, LayerParameters | None], Prior[LayerParameters]]
"""The prior of a layer, from the dimension of x, its kind, and the parameters learned in the layer below."""


@dataclass(frozen=True)
class CosineFamily:
    """The random-feature networks of the closed-form stack: how they are drawn, and what is believed of them.

    Args:
        pairs: sine-cosine pairs of x.
        relation_pairs: sine-cosine pairs of [x, f_{m-1}].
        detail_pairs: sine-cosine pairs of x for the detail of the lowest layer.
        detail_pairs_above: those of the other layers, to which the relation passes most of the detail.
        kernel: of the process of x, "rbf" or "matern52".
        kinds: how its layers may relate to those below.
        prior: of a layer's parameters.
        slope_var: variance of a layer's slope before the data.

    Raises:
        SettingError: if there are no features or kinds, or the kernel is unknown.
    """

    pairs: int = 100
    relation_pairs: int = 64
    detail_pairs: int = 60
    detail_pairs_above: int = 16
    kernel: str = "rbf"
    kinds: tuple[Kind, ...] = tuple(Kind)
    prior: LayerPrior = layer_prior
    slope_var: Callable[[RelationParameters], Scalar] = slope_var

    def __post_init__(self) -> None:
        if min(self.pairs, self.relation_pairs, self.detail_pairs, self.detail_pairs_above) < 1:
            raise SettingError(f"a cosine network needs at least one pair of features, got {self!r}")
        if not self.kinds:
            raise SettingError(f"the layers of a cosine network need at least one kind, got {self!r}")
        check_kernel(self.kernel)

    def draw(self, centre: NDArray[np.float64], has_below: bool, key: Key, used: Used | None = None) -> CosineDraws:
        """The random parts of one layer, which are not learned.

        Args:
            centre: the best design known, a point of the unit cube, `(d,)`.
            has_below: whether there is a layer below.
            key: of the random directions.
            used: the columns of x that the fidelity uses, None for all.
        """
        x_key, both_key, detail_key = key.split(3)
        d = len(centre)
        of_both = jnp.asarray(normal_frequencies(self.relation_pairs, d + 1, both_key)) if has_below else None
        of_x = jnp.asarray(frequencies(self.kernel, self.pairs, d, x_key))
        count = self.detail_pairs_above if has_below else self.detail_pairs
        of_detail = jnp.asarray(normal_frequencies(count, d, detail_key))
        return CosineDraws(of_x, of_both, of_detail, jnp.asarray(as_seen(used, centre)), used)

    def features(self, drawn: CosineDraws, theta: LayerParameters) -> Features:
        """The network for given parameters."""
        d, relation = drawn.of_x.shape[1], None
        if drawn.of_both is not None and theta.relation is not None:
            relation = CosineRelation(drawn.of_both[:, :d], drawn.of_both[:, d], theta.relation)
        detail = CosineDetail(drawn.of_detail, drawn.centre, theta.detail)
        whole = CosineFeatures(CosineProcess(drawn.of_x, theta.process), detail, relation)
        return whole if drawn.used is None else SeenFeatures(whole, drawn.used)
