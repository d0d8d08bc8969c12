"""The default with one part removed, part by part: what is each of them good for? For `fidelium bench ablation`.

Everything else is as in `dnn_mfbo`, the random features included, so that what differs is the part (and, from the first
different query on, luck). What the parts are is told in docs/deviations.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fidelium.acquisition.entropy import EntropySearch, paper_gain
from fidelium.randomness import Key
from fidelium.strategies.dnn_mfbo import dnn_mfbo
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.learning import LOWEST, Prior
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.families import CosineDraws, CosineFamily, Family, Kind, Theta, Vector
from fidelium.surrogates.stacked_dnn.features import CosineFeatures
from fidelium.surrogates.stacked_dnn.noise import PARTS


def without_cheap_queries() -> SurrogateStrategy:
    """The target alone is ever asked."""
    return replace(dnn_mfbo(), target_only=True)


def without_versions() -> SurrogateStrategy:
    """One version of the stack, its forms drawn by their evidence, its theta the likeliest."""
    return _with_stack(ClosedFormStack(_Amended(_certain), members=1), draws=20)


def without_doubt() -> SurrogateStrategy:
    """All versions have the likeliest theta of their forms: beliefs are not moved."""
    return _with_family(_Amended(_certain))


def without_alone() -> SurrogateStrategy:
    """No layer may stand alone."""
    return _with_family(CosineFamily(kinds=(Kind.FREE, Kind.RESIDUAL)))


def without_residual() -> SurrogateStrategy:
    """No layer is taken for nearly equal to the one below."""
    return _with_family(CosineFamily(kinds=(Kind.ALONE, Kind.FREE)))


def without_slope_variance() -> SurrogateStrategy:
    """While theta is learned, every slope may be 0.5 off, whatever theta says, also in layers that stand alone."""
    return _with_family(_Amended(slope_guess=0.25))


def without_detail() -> SurrogateStrategy:
    """No finer process near the best design."""
    return _with_family(_Amended(_no_detail))


def without_ripples() -> SurrogateStrategy:
    """The noise is the same for all designs."""
    return _with_family(_Amended(_no_ripples))


def without_smooth_features() -> SurrogateStrategy:
    """The process of x is that of a Matern 5/2 kernel, not the smooth one of a squared-exponential kernel."""
    return _with_family(CosineFamily(kernel="matern52"))


def without_steady_features() -> SurrogateStrategy:
    """New random features in every step."""
    return replace(dnn_mfbo(), steady=None)


def without_milestones() -> SurrogateStrategy:
    """Theta is learned again after every observation."""
    return _with_stack(ClosedFormStack(learned_at=_always))


def without_last_query() -> SurrogateStrategy:
    """The last query at the target is asked for its gain as all others are."""
    return replace(dnn_mfbo(), reserve_last=False)


def without_least_rise() -> SurrogateStrategy:
    """Draws of f* are left as they are, also below the best value observed."""
    return _with_search(raise_to_incumbent=False)


def without_noise_in_gain() -> SurrogateStrategy:
    """The gain is that of the paper, about f_m(x) instead of the observation."""
    return _with_search(gain=paper_gain, together=False)


def _with_stack(stack: ClosedFormStack, draws: int = 5) -> SurrogateStrategy:
    return replace(_with_search(draws=draws), surrogate=stack)


def _with_family(family: Family) -> SurrogateStrategy:
    return _with_stack(ClosedFormStack(family))


def _with_search(**changes: Any) -> SurrogateStrategy:
    strategy = dnn_mfbo()
    assert isinstance(strategy.acquisition, EntropySearch)
    return replace(strategy, acquisition=replace(strategy.acquisition, **changes))


def _always(count: int) -> int:
    return count


def _as_believed(prior: Prior, dimension: int) -> Prior:
    return prior


def _certain(prior: Prior, dimension: int) -> Prior:
    return replace(prior, doubt=None)


def _no_detail(prior: Prior, dimension: int) -> Prior:
    return _nothing(prior, 1 + PARTS + dimension)


def _no_ripples(prior: Prior, dimension: int) -> Prior:
    return _nothing(prior, 1)


def _nothing(prior: Prior, entry: int) -> Prior:
    """The belief that the logarithm in this entry of theta is as low as it may be."""
    mean, std = prior.mean.copy(), prior.std.copy()
    mean[entry], std[entry] = LOWEST, 0.1
    return replace(prior, mean=mean, std=std)


@dataclass(frozen=True)
class _Amended:
    """The default's networks with other beliefs.

    Args:
        believe: what is believed of theta, from what the default believes and the dimension of x.
        slope_guess: the variance of a slope before the data; None: as theta says.
        family: the default's.
    """

    believe: Callable[[Prior, int], Prior] = _as_believed
    slope_guess: float | None = None
    family: CosineFamily = CosineFamily()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return self.family.kinds

    def draw(self, centre: Vector, has_below: bool, key: Key) -> CosineDraws:
        return self.family.draw(centre, has_below, key)

    def prior(self, dimension: int, kind: Kind, drawn: eqx.Module, below: Vector | None) -> Prior:
        return self.believe(self.family.prior(dimension, kind, drawn, below), dimension)

    def features(self, drawn: eqx.Module, theta: Theta) -> CosineFeatures:
        return self.family.features(drawn, theta)

    def slope_var(self, theta: Theta) -> Float[Array, ""]:
        return self.family.slope_var(theta) if self.slope_guess is None else jnp.asarray(self.slope_guess)
