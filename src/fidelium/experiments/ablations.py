"""The default with one part removed, part by part, for `fidelium bench ablation`.

Everything else is as in `dnn_mfbo`, the random features included, so that only the part differs (and, from the first
different query on, luck). docs/deviations.md describes the parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.acquisition.entropy import paper_gain
from fidelium.strategies.dnn_mfbo import DnnMfbo, dnn_mfbo
from fidelium.surrogates.base import Posterior
from fidelium.surrogates.learning import LOWEST, Prior
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.stacked_dnn.priors import Kind, LayerParameters, RelationParameters, layer_prior
from fidelium.surrogates.warped import Warped


def without_warp() -> DnnMfbo:
    """Values with long tails are not bent."""
    return replace(dnn_mfbo(), surrogate=ClosedFormStack())


def without_cheap_queries() -> DnnMfbo:
    """The target alone is ever asked."""
    return replace(dnn_mfbo(), target_only=True)


def without_versions() -> DnnMfbo:
    """One member, its forms drawn by their evidence, its parameters the likeliest."""
    return _with_stack(ClosedFormStack(CosineFamily(prior=_without_doubt), members=1), draws=20)


def without_doubt() -> DnnMfbo:
    """All members have the same prior, and so the likeliest parameters of their forms."""
    return _with_family(CosineFamily(prior=_without_doubt))


def without_alone() -> DnnMfbo:
    """No layer may stand alone."""
    return _with_family(CosineFamily(kinds=(Kind.FREE, Kind.RESIDUAL)))


def without_residual() -> DnnMfbo:
    """No layer is residual."""
    return _with_family(CosineFamily(kinds=(Kind.ALONE, Kind.FREE)))


def without_slope_variance() -> DnnMfbo:
    """The evidence has a fixed slope variance of 0.25 instead of the prior's, also in layers that stand alone."""
    return _with_family(CosineFamily(slope_var=_fixed_slope_var))


def without_detail() -> DnnMfbo:
    """No finer process near the best design."""
    return _with_family(CosineFamily(prior=_without_detail))


def without_ripples() -> DnnMfbo:
    """The noise is the same for all designs."""
    return _with_family(CosineFamily(prior=_without_ripples))


def without_smooth_features() -> DnnMfbo:
    """The process of x is that of a Matern 5/2 kernel, not the smooth one of a squared-exponential kernel."""
    return _with_family(CosineFamily(kernel="matern52"))


def without_steady_features() -> DnnMfbo:
    """New random features in every step."""
    return replace(dnn_mfbo(), steady=None)


def without_milestones() -> DnnMfbo:
    """Parameters are learned again after every observation."""
    return _with_stack(ClosedFormStack(learned_at=_always))


def without_last_query() -> DnnMfbo:
    """The last query at the target is asked for its gain as all others are."""
    return replace(dnn_mfbo(), reserve_last=False)


def without_least_rise() -> DnnMfbo:
    """Samples of f* may be below the best value observed."""
    return _with_search(raise_to_incumbent=False)


def without_noise_in_gain() -> DnnMfbo:
    """The gain is that of the paper, about f_m(x) instead of the observation."""
    return _with_search(gain=paper_gain, together=False, requires=Posterior)


def _with_stack(stack: ClosedFormStack, draws: int = 5) -> DnnMfbo:
    return replace(_with_search(draws=draws), surrogate=Warped(stack))


def _with_family(family: CosineFamily) -> DnnMfbo:
    return _with_stack(ClosedFormStack(family))


def _with_search(**changes: Any) -> DnnMfbo:
    strategy = dnn_mfbo()
    return replace(strategy, acquisition=replace(strategy.acquisition, **changes))


def _always(count: int) -> int:
    return count


def _without_doubt(dimension: int, kind: Kind, below: LayerParameters | None) -> Prior[LayerParameters]:
    prior = layer_prior(dimension, kind, below)
    return Prior(prior.mean, prior.std, prior.lower, prior.upper)


def _without_detail(dimension: int, kind: Kind, below: LayerParameters | None) -> Prior[LayerParameters]:
    prior = layer_prior(dimension, kind, below)
    return eqx.tree_at(lambda p: (p.mean.detail.log_amplitude, p.std.detail.log_amplitude), prior, _NOTHING)


def _without_ripples(dimension: int, kind: Kind, below: LayerParameters | None) -> Prior[LayerParameters]:
    prior = layer_prior(dimension, kind, below)
    return eqx.tree_at(lambda p: (p.mean.noise.log_ripple, p.std.noise.log_ripple), prior, _NOTHING)


_NOTHING = (np.asarray(LOWEST), np.asarray(0.1))
"""Prior mean and standard deviation of a logarithm that is as low as it may be."""


def _fixed_slope_var(relation: RelationParameters) -> Float[Array, ""]:
    return jnp.asarray(0.25)
