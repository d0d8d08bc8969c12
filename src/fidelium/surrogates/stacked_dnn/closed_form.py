"""Our way to learn the stack: layer by layer, all last-layer weights in closed form, the rest by the evidence.

Layer m is trained at the posterior mean of the layer below. The uncertainty about f_{m-1} enters as a function with its
own covariance (`linearised.py`). The paper's bound treats the spread of f_{m-1} as noise of the objective, and then
prefers a layer that ignores f_{m-1}. Each layer may take three forms:

    alone      own scale, no relation to the layer below
    free       own scale, any relation
    residual   f_m = f_{m-1} + a little, in units aligned with those of the layer below

A few observations often leave open which form is right, and over what lengths f_m varies. With the likeliest one alone,
a strategy would follow it until it is disproved, at the price of a target query each time. So the posterior is an
ensemble: the forms of its members are drawn with the probabilities that the evidence gives them, in the user's units,
and their parameters are the likeliest under priors whose means are moved at random.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.special import softmax

from fidelium.history import Observations
from fidelium.numerics import linalg
from fidelium.numerics.backend import quick_jit
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.linalg import Root, weight_posterior
from fidelium.numerics.padding import PaddedData, bucket, pad, pad_rows
from fidelium.numerics.scaling import Scale
from fidelium.randomness import Key
from fidelium.surrogates.base import Focus
from fidelium.surrogates.ensemble import Ensemble
from fidelium.surrogates.known_noise import NOT_KNOWN, known_vars, moments_of, typical_var, unit_of
from fidelium.surrogates.learning import (
    Memory,
    Prior,
    milestone,
    normal_like,
    ravel,
    require_data,
    subset,
    unravel,
)
from fidelium.surrogates.stacked_dnn.features import CosineDraws, CosineFamily, all_of
from fidelium.surrogates.stacked_dnn.linearised import LinearisedLayer, LinearisedPosterior, Noise, linear_at, slope_of
from fidelium.surrogates.stacked_dnn.priors import (
    FOCUSED_FLOOR,
    Kind,
    LayerParameters,
    with_least_floor,
    with_new_inputs,
    without_noise,
)

_REFINEMENTS = 2
"""How often rho is computed again from the weights that it gave."""

T = TypeVar("T")

_NO_END = 1e100
"""Above all values: in the place of infinity, so that every array of a posterior is finite."""

_LEAST_SCORE = -1e300
"""Score of a form whose density is 0, so that shares of scores are finite."""


@dataclass(frozen=True)
class ClosedFormStack:
    """The stack of networks with one closed-form posterior over all last layers, as an ensemble.

    Args:
        family: the networks, and the prior of their parameters.
        members: of the ensemble, each with its own random features, forms and parameters.
        steps: evaluations of the evidence at most, per layer.
        most_points: parameters are learned from this many observations per fidelity at most, weights from all.
        learned_at: from how many of the observations, the first ones, parameters are learned.
        focus: where to be precise; None: at the best design and value, as for an objective.
    """

    family: CosineFamily = CosineFamily()
    members: int = 4
    steps: int = 60
    most_points: int = 256
    learned_at: Callable[[int], int] = milestone
    focus: Focus | None = None

    def focused(self, focus: Focus) -> ClosedFormStack:
        """The same stack, precise at a design and near limits."""
        return replace(self, focus=focus)

    def fit(self, observations: Sequence[Observations], key: Key) -> Ensemble[LinearisedPosterior]:
        """The posterior given the observations of each fidelity.

        Parameters and forms of every layer are learned from the first observations, up to the last milestone, so that
        they change seldom; the weights are those given all observations.

        Raises:
            NoDataError: if there is no observation at any fidelity.
        """
        require_data(observations)
        centre = _best_design(observations) if self.focus is None else np.asarray(self.focus.unit_x)
        early = [seen.first(self.learned_at(len(seen))) for seen in observations]
        everything = unit_of(*early)  # the units of an empty lowest fidelity
        question = hashlib.sha256(repr((replace(self, focus=None), self.focus is None, key, centre.tolist())).encode())
        learned: list[Learned] = []
        chain = Chain((), ((everything,) * self.members,))
        for m, (seen, first) in enumerate(zip(observations, early, strict=True)):
            precise = None if self.focus is None else self.focus.precise[m]
            question.update(repr((len(first), precise)).encode() + first.digest)
            below = learned[-1] if learned else None
            learn = partial(self._learn_layer, m, below, everything, first, centre, key.fold(m))
            learned.append(_memory.get(question.hexdigest(), learn))
            now = learned[-1]
            chain = self._extended(m, chain, now.drawn, now.kinds, now.thetas, seen, len(first))
        common = [unit_of(seen) if len(seen) else chain.units[m + 1][0] for m, seen in enumerate(early)]
        scales = zip(*chain.units[1:], strict=True)
        posteriors = [LinearisedPosterior.of(_row(chain.layers, i), own) for i, own in enumerate(scales)]
        return Ensemble.of(posteriors, common)

    def _learn_layer(
        self,
        m: int,
        below: Learned | None,
        everything: Scale,
        seen: Observations,
        centre: NDArray[np.float64],
        key: Key,
    ) -> Learned:
        """Parameters and form of layer m, for every member."""
        draw_key, start_key, subset_key, form_key, doubt_key = key.split(5)
        drawn = [self.family.draw(centre, below is not None, each, seen.used) for each in draw_key.split(self.members)]
        chain = below.likeliest if below is not None else Chain((), ((everything,) * self.members,))
        inputs = _inputs_at(chain.layers, seen)
        first = None if inputs is None else _row(inputs, 0)  # parameters are learned on one member
        learned = below.theta if below else None
        new = None if below is None else below.drawn.used  # what the layer below has not learned lengths of
        forms = _forms(
            self.family.kinds,
            seen,
            first,
            chain.units[-1][0],
            lambda kind: with_new_inputs(self._prior(len(centre), kind, learned), kind, new),
        )
        search = partial(self._search_theta, m, drawn[0], seen, first, subset(len(seen), self.most_points, subset_key))
        likeliest = self._likeliest(search, forms, start_key)
        # each member gets a form with the probability that the evidence gives it (drawn anew at every milestone), and
        # the parameters that are likeliest under a prior whose mean is moved as far as it is doubted
        share = softmax([each.score for each in likeliest])
        picked = [likeliest[i] for i in _spread_over(share, self.members, form_key.fold(len(seen)))]
        generator = doubt_key.generator()
        doubts = [normal_like(each.theta, generator) for each in picked]
        moved = [replace(each.form, prior=each.form.prior.moved(by)) for each, by in zip(picked, doubts, strict=True)]
        thetas, _ = search(moved, [each.theta for each in picked])
        best = likeliest[int(np.argmax(share))]
        parts, kinds = _stacked(drawn), [each.form.kind for each in picked]
        same = _stacked([best.theta] * self.members)
        extended = self._extended(m, chain, parts, [best.form.kind] * self.members, same, seen, len(seen))
        return Learned(parts, tuple(kinds), _stacked(thetas), best.theta, extended)

    def _prior(self, dimension: int, kind: Kind, below: LayerParameters | None) -> Prior[LayerParameters]:
        """The prior of a layer's parameters; with a focus, the noise may be very little there."""
        prior = self.family.prior(dimension, kind, below)
        return prior if self.focus is None else with_least_floor(prior, FOCUSED_FLOOR)

    def _likeliest(self, search: ThetaSearch, forms: Sequence[Form], key: Key) -> list[Likeliest]:
        """The likeliest parameters of every form, from its prior's mean and, if rows are left, from random starts."""
        count = -(-self.members // len(forms))
        rows = max(self.members, len(forms))
        starts = [form.prior.starts(count, key) for form in forms]
        each = [(i % len(forms), i // len(forms)) for i in range(rows)]  # the forms in turn
        thetas, scores = search([forms[form] for form, _ in each], [starts[form][k] for form, k in each])
        best = [max(range(i, rows, len(forms)), key=lambda row: scores[row]) for i in range(len(forms))]
        return [Likeliest(form, thetas[row], float(scores[row])) for form, row in zip(forms, best, strict=True)]

    def _extended(
        self,
        m: int,
        chain: Chain,
        drawn: CosineDraws,
        kinds: Sequence[Kind],
        thetas: LayerParameters,
        seen: Observations,
        early: int,
    ) -> Chain:
        """The chain with one more layer, m, of these kinds, its weights given the observations.

        Its units are those of the first `early` observations.
        """
        inputs = _inputs_at(chain.layers, seen)
        below = [None if inputs is None else np.asarray(inputs.mean)[i, :early] for i in range(self.members)]
        parts = zip(kinds, below, chain.units[-1], strict=True)
        units = tuple(_unit(kind, seen.first(early), means, unit) for kind, means, unit in parts)
        slopes = jnp.asarray([[kind.slope, kind.first_slope] for kind in kinds])
        data = [pad(seen.unit_x, unit.inward(seen.y)) for unit in units]
        y = jnp.stack([each.y for each in data])
        ranges = jnp.asarray([self._precise_range(m, unit, seen) for unit in units])
        known = Known.of(seen, units, len(data[0].y))
        layer = _weighted(self.family, drawn, thetas, slopes, data[0], y, inputs, ranges, known)
        return Chain((*chain.layers, layer), (*chain.units, units))

    def _search_theta(
        self,
        m: int,
        drawn: CosineDraws,
        seen: Observations,
        inputs: Inputs | None,
        chosen: NDArray[np.int64],
        forms: Sequence[Form],
        starts: Sequence[LayerParameters],
    ) -> tuple[list[LayerParameters], NDArray[np.float64]]:
        """Parameters of highest posterior density for every form, from its start, and the logarithm of p(y, theta).

        The density of y is in the user's units, and so comparable between forms.
        """
        size = bucket(len(chosen))
        few, units = seen.rows(chosen), [form.unit for form in forms]
        data = [pad(few.unit_x, unit.inward(few.y)) for unit in units]
        y = jnp.stack([each.y for each in data])
        slopes = jnp.asarray([form.kind.slope for form in forms])
        ranges = jnp.asarray([self._precise_range(m, unit, few) for unit in units])
        known = Known.of(few, units, size)
        mean, std = _stacked([form.prior.mean for form in forms]), _stacked([form.prior.std for form in forms])
        picked = None if inputs is None else jax.tree.map(lambda part: pad_rows(np.asarray(part)[chosen], size), inputs)
        spread = None if picked is None else jnp.asarray(picked.rows @ picked.rows.T)
        alpha = None if picked is None else picked.mean

        def objective(theta: NDArray[np.float64]) -> tuple[Array, Array]:
            shared = (data[0].x, y, data[0].mask, alpha, spread, ranges, known)
            return _log_density_rows(self.family, drawn, theta, slopes, mean, std, *shared)

        lower, upper = ravel(forms[0].prior.lower), ravel(forms[0].prior.upper)
        start = np.stack([ravel(each) for each in starts])
        found = maximise_rows(objective, start, lower, upper, steps=self.steps, tolerance=1e-3)
        # the density of y is that of z over the scale, for every observation
        scales = np.array([form.unit.scale for form in forms])
        scores = np.maximum(found.value - len(chosen) * np.log(scales), _LEAST_SCORE)
        return [unravel(starts[0], row) for row in found.x], scores

    def _precise_range(self, m: int, unit: Scale, seen: Observations) -> tuple[float, float]:
        """The values of fidelity m, in these units, at which the noise is least: from the best one up, or the focus."""
        if self.focus is not None:
            low, high = self.focus.precise[m]
            if math.isinf(high):
                return float(unit.inward(np.array([low]))[0]), _NO_END
            first, last = unit.inward(np.array([low, high])).tolist()
            return first, last
        return float(np.max(unit.inward(seen.sure_y))) if len(seen) else 0.0, _NO_END


@dataclass(frozen=True)
class Form:
    """How a layer may relate to the one below, the units of its values, and the prior of its parameters."""

    kind: Kind
    unit: Scale
    prior: Prior[LayerParameters]


ThetaSearch = Callable[[Sequence[Form], Sequence[LayerParameters]], tuple[list[LayerParameters], NDArray[np.float64]]]
"""Parameters of highest density for every form, from a start each, and the logarithm of their density."""


@dataclass(frozen=True)
class Likeliest:
    """A form with its parameters of highest density, and the logarithm of that density."""

    form: Form
    theta: LayerParameters
    score: float


@dataclass(frozen=True)
class Chain:
    """Layers from the lowest up, of all members side by side.

    Args:
        layers: every array with a leading axis of members.
        units: the units of every member's values, below the lowest layer first, then layer by layer.
    """

    layers: tuple[LinearisedLayer, ...]
    units: tuple[tuple[Scale, ...], ...]


@dataclass(frozen=True)
class Learned:
    """What is learned of a layer at a milestone.

    Args:
        drawn: its random parts, with a leading axis of members.
        kinds: of each member.
        thetas: the parameters, with a leading axis of members.
        theta: the likeliest parameters.
        likeliest: the chain up to this layer in its likeliest form, for the layer above to be learned on.
    """

    drawn: CosineDraws
    kinds: tuple[Kind, ...]
    thetas: LayerParameters
    theta: LayerParameters
    likeliest: Chain


_memory = Memory[Learned](64)


class Known(eqx.Module):
    """The noise of a layer's observations that is known, in the units of every row (a member, or a form).

    Args:
        noise_var: of each observation, negative where it is to be learned.
        typical_var: of a future one.
    """

    noise_var: Float[Array, "*e n"]
    typical_var: Float[Array, "*e"]

    @staticmethod
    def of(seen: Observations, units: Sequence[Scale], size: int) -> Known | None:
        """What is known; None if nothing is."""
        if seen.std is None:
            return None
        rows = [np.pad(known_vars(seen, unit), (0, size - len(seen)), constant_values=NOT_KNOWN) for unit in units]
        return Known(jnp.asarray(np.array(rows)), jnp.asarray([typical_var(seen, unit) for unit in units]))


class Inputs(eqx.Module):
    """The layer below at the training inputs: its mean, and how it depends on the weights."""

    mean: Float[Array, "*e n"]
    rows: Float[Array, "*e n f"]


def _stacked(trees: Sequence[T]) -> T:
    """The same pytree with a leading axis, a row for each of the trees."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _row(tree: T, row: int) -> T:
    return jax.tree.map(lambda leaf: leaf[row], tree)


def _best_design(observations: Sequence[Observations]) -> NDArray[np.float64]:
    """The best design observed at the highest fidelity that was observed at all, `(d,)`."""
    highest = [seen for seen in observations if len(seen)][-1]
    return highest.unit_x[np.argmax(highest.sure_y)]


def _forms(
    kinds: Sequence[Kind],
    seen: Observations,
    inputs: Inputs | None,
    below_unit: Scale,
    prior_of: Callable[[Kind], Prior[LayerParameters]],
) -> list[Form]:
    """The forms that a layer may take: the lowest stands alone, one without observations equals the layer below."""
    possible = (Kind.ALONE,) if inputs is None else kinds if len(seen) else (Kind.RESIDUAL,)
    below = None if inputs is None else np.asarray(inputs.mean)[: len(seen)]
    return [Form(kind, _unit(kind, seen, below, below_unit), prior_of(kind)) for kind in possible]


def _spread_over(share: NDArray[np.float64], count: int, key: Key) -> list[int]:
    """`count` positions, each with its probability, drawn as evenly as possible (systematic resampling), shuffled."""
    generator = key.generator()
    quantiles = (generator.permutation(count) + generator.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(share), quantiles), len(share) - 1).tolist()


def _unit(kind: Kind, seen: Observations, below: NDArray[np.float64] | None, below_unit: Scale) -> Scale:
    """The units of a layer's values: its own, or, if it is residual, those in which it is most like the layer below."""
    if not len(seen):
        return below_unit
    own, y = unit_of(seen), seen.y
    if below is None or kind is not Kind.RESIDUAL:
        return own
    # units in which y has the mean and spread of the layer below at the same inputs, held to the layer's own spread (1)
    # by one pseudo-observation
    z = own.inward(y)
    (mean, var), (below_mean, below_var) = moments_of(seen, z), moments_of(seen, below)
    ratio = math.sqrt((len(y) + 1) * max(var, 1e-4) / (len(y) * below_var + 1.0))
    shift = own.shift + own.scale * float(mean - ratio * below_mean)
    return replace(own, shift=shift, scale=own.scale * ratio)


def _inputs_at(below: tuple[LinearisedLayer, ...], seen: Observations) -> Inputs | None:
    """The layer below at the observations' designs, padded; None below the lowest."""
    return _inputs(below, pad_rows(seen.unit_x, bucket(len(seen)))) if below else None


@quick_jit
def _inputs(layers: tuple[LinearisedLayer, ...], x: Float[Array, "n d"]) -> Inputs:
    def one(layers: tuple[LinearisedLayer, ...]) -> Inputs:
        linear = jax.vmap(lambda x: linear_at(layers, x))(x)
        return Inputs(linear.means[:, -1], linear.rows[:, -1])

    return jax.vmap(one)(layers)


@partial(quick_jit, static_argnums=0)
def _weighted(
    family: CosineFamily,
    drawn: CosineDraws,
    theta: LayerParameters,
    slopes: Float[Array, "e 2"],
    data: PaddedData,
    y: Float[Array, "e n"],
    inputs: Inputs | None,
    ranges: Float[Array, "e 2"],
    known: Known | None = None,
) -> LinearisedLayer:
    """The layer of every member: the posterior of its weights and of those below, in closed form."""

    def one(
        drawn: CosineDraws,
        theta: LayerParameters,
        slopes: Array,
        y: Array,
        inputs: Inputs | None,
        precise: Array,
        known: Known | None,
    ) -> LinearisedLayer:
        features, (slope, first_slope) = family.features(drawn, theta), slopes
        noise = Noise.of(without_noise(theta.noise), precise)
        noise_var = noise.var(y) if known is None else noise.var_given(y, known.noise_var)
        noise = noise if known is None else noise.with_floor(known.typical_var)
        if inputs is None:
            phi = jax.vmap(lambda x: all_of(features, x, None))(data.x)
            mean, root = weight_posterior(phi, y, noise_var, data.mask)
            return LinearisedLayer(features, slope, jnp.zeros_like(mean), mean, root, noise)
        phi = jax.vmap(partial(all_of, features))(data.x, inputs.mean)

        def weights(rho: Float[Array, " n"]) -> tuple[Array, Root]:
            full = jnp.concatenate([rho[:, None] * inputs.rows, phi], axis=1)
            return weight_posterior(full, y - slope * inputs.mean, noise_var, data.mask)

        # rho and the weights depend on each other: iterate, from a first guess of rho
        rho = jnp.full(len(y), first_slope)
        link = jnp.zeros(phi.shape[1])
        for _ in range(_REFINEMENTS):
            link = weights(rho)[0][inputs.rows.shape[1] :]
            rho = jax.vmap(partial(slope_of, features, slope, link))(data.x, inputs.mean)
        mean, root = weights(rho)
        return LinearisedLayer(features, slope, link, mean, root, noise)

    return jax.vmap(one)(drawn, theta, slopes, y, inputs, ranges, known)


@partial(jax.jit, static_argnums=0)
def _log_density_rows(
    family: CosineFamily,
    drawn: CosineDraws,
    vectors: Float[Array | np.ndarray, "r p"],
    slopes: Float[Array, " r"],
    prior_mean: LayerParameters,
    prior_std: LayerParameters,
    x: Float[Array, "n d"],
    y: Float[Array, "r n"],
    mask: Float[Array, " n"],
    alpha: Float[Array, " n"] | None,
    spread: Float[Array, "n n"] | None,
    ranges: Float[Array, "r 2"],
    known: Known | None = None,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    """log p(y, theta) of every row, and its gradient: eq. (4) joint-prob with the weights integrated out, and p(theta).

    L-BFGS has the parameters as vectors; they get their names here.
    """

    def one(
        vector: Array,
        slope: Array,
        mean: LayerParameters,
        std: LayerParameters,
        y: Array,
        precise: Array,
        known: Known | None,
    ) -> Array:
        def theta() -> LayerParameters:  # anew for each use: the order in which gradients are added is part of a result
            return unravel(mean, vector)

        features = family.features(drawn, theta())
        log_prior = -0.5 * jnp.sum(((vector - ravel_pytree(mean)[0]) / ravel_pytree(std)[0]) ** 2)
        noise = Noise.of(theta().noise, precise)
        noise_var = noise.var(y) if known is None else noise.var_given(y, known.noise_var)
        relation = theta().relation
        if alpha is None or spread is None or relation is None:
            phi = jax.vmap(lambda x: all_of(features, x, None))(x)
            return linalg.log_evidence(phi, y, noise_var, mask) + log_prior
        phi = jax.vmap(partial(all_of, features))(x, alpha)
        covariance = phi @ phi.T + (slope**2 + family.slope_var(relation)) * spread + jnp.diag(noise_var)
        return linalg.log_normal(y - slope * alpha, covariance, mask) + log_prior

    return jax.vmap(jax.value_and_grad(one))(vectors, slopes, prior_mean, prior_std, y, ranges, known)
