"""Predictive entropy search: how much a query would tell about x*, the target's maximiser.

    a(x, m) = I(x*; y_m(x)) = H[y_m(x)] - E_x*[ H[y_m(x) | x*] ]

(Hernandez-Lobato et al. 2014; Zhang et al. 2017 for many fidelities.) To know x* is taken to mean

    (C1) f_M(x*) >= f_M(x_i) for the designs observed at the target: expectation propagation, once per draw of x*
    (C2) f_M(x*) >= f_M(x): one more moment-matching step, for every x

under which y_m(x) is taken to be Gaussian, and a(x, m) half the mean of log((var_m + s_m) / (var_m given + s_m)). The
conditions on the derivatives at x* of the 2014 paper are left out. Finite with finite gradients for any data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from fidelium.acquisition.base import Candidate, Designs, incumbents, require_protocol
from fidelium.acquisition.maxima import sample_maxima
from fidelium.acquisition.maximise import search
from fidelium.history import History, Observations
from fidelium.numerics.backend import quick_jit
from fidelium.numerics.normal import truncated_variance
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.randomness import Key
from fidelium.surrogates.base import VARIANCE_FLOOR, Point, Posterior, Scalar
from fidelium.surrogates.gp.exact import ExactGP, Values
from fidelium.surrogates.runs import RunPosterior, value_and_success
from fidelium.timing import stage

SLACK_VAR = 1e-6
"""A constraint u >= 0 is u + e >= 0 with e ~ N(0, SLACK_VAR), in units of the target's spread: a lead of less than a
thousandth counts as a tie, and no pseudo-observation is more precise than this."""

_SAME = 0.9
"""Constraints on leads that correlate more than this are one constraint."""

_SWEEPS = 8
_DAMPING = 0.8
_LEAST_SHARE = 1e-9


@runtime_checkable
class ProcessPosterior(Posterior, Protocol):
    """A posterior with the covariance of any two values, at different points too.

    Max-value entropy needs the target at x alone; here it is compared with the target at x*.
    """

    @property
    def process(self) -> ExactGP:
        """The Gaussian process of all values; its points are (x, fidelity)."""
        ...


class Sites(eqx.Module):
    """Gaussian factors exp(shift_i u_i - precision_i u_i^2 / 2), each in the place of a constraint u_i >= 0."""

    precision: Float[Array, " n"]
    shift: Float[Array, " n"]


class Maximiser(eqx.Module):
    """One x*, with u_i = f_M(x*) - f_M(x_i) and what their being positive (C1) says about any other value z.

        c = cov(z, u),     mean of z rises by c . weights,     its variance falls by |root c|^2

    Args:
        mean: of f_M(x*), before C1.
        variance: of f_M(x*), before C1.
        towards: cov(f_M(x*), u).
        root: R with R^T R = (cov(u) + diag(1 / precision))^-1.
        weights: R^T R (what the sites observe, less the mean of u).
    """

    mean: Scalar
    variance: Scalar
    towards: Float[Array, " n"]
    root: Float[Array, "n n"]
    weights: Float[Array, " n"]


class Maximisers(eqx.Module):
    """Draws of x*, and the process they belong to.

    Args:
        process: of (x, fidelity).
        values: f_M(x_i) at the designs observed at the target, and padding, then f_M(x*) of every draw.
        draws: what else is known of each, a leading axis of draws on every array.
    """

    process: ExactGP
    values: Values
    draws: Maximiser


def half_space_site(mean: Scalar, variance: Scalar) -> tuple[Scalar, Scalar]:
    """Precision and shift of the factor that gives N(mean, variance) the moments of u given u + e >= 0.

    With beta = mean / sqrt(v + slack) and r = phi(beta) / Phi(beta) (Rasmussen and Williams 2006, eq. 3.58):

        mean of u:   mean + v r / sqrt(v + slack),       variance of u:   v - v^2 r (r + beta) / (v + slack)
    """
    spread = variance + SLACK_VAR
    beta = mean / jnp.sqrt(spread)
    lost = 1 - truncated_variance(beta)  # r (r + beta), and r is this equation's positive root
    r = 0.5 * (jnp.sqrt(beta**2 + 4 * lost) - beta)
    share_left = 1 - variance * lost / spread
    return lost / spread / share_left, (mean * lost / spread + r / jnp.sqrt(spread)) / share_left


def propagate(mean: Float[Array, " n"], cov: Float[Array, "n n"], mask: Float[Array, " n"]) -> Sites:
    """Sites for u ~ N(mean, cov) given that all u_i >= 0 with mask 1, by expectation propagation.

    The constraints are visited in turn, a fixed number of times. Each takes its site out of the Gaussian, and puts in
    the one that has the right moments together with all others, most of the way (damping).
    """
    count = mean.shape[0]

    def visit(step: Array, state: tuple[Sites, Array, Array]) -> tuple[Sites, Array, Array]:
        sites, mean, cov = state
        i = step % count
        column, variance = cov[i], jnp.maximum(cov[i, i], 0.0)
        precision, shift = sites.precision[i], sites.shift[i]
        share = jnp.maximum(1 - precision * variance, _LEAST_SHARE)  # of the precision, without the site
        target = half_space_site((mean[i] - shift * variance) / share, variance / share)
        more_precision = _DAMPING * mask[i] * (target[0] - precision)
        more_shift = _DAMPING * mask[i] * (target[1] - shift)
        # one factor more or less: P' = P + dp e_i e_i^T, h' = h + ds e_i
        gain = column / (1 + more_precision * variance)
        sites = Sites(sites.precision.at[i].add(more_precision), sites.shift.at[i].add(more_shift))
        mean = mean + gain * (more_shift - more_precision * mean[i])
        return sites, mean, cov - more_precision * jnp.outer(gain, column)

    nothing = Sites(jnp.zeros(count), jnp.zeros(count))
    return jax.lax.fori_loop(0, _SWEEPS * count, visit, (nothing, mean, cov))[0]


def telling(mean: Float[Array, " n"], cov: Float[Array, "n n"], mask: Float[Array, " n"]) -> Float[Array, " n"]:
    """The mask without the constraints that nearly repeat a tighter one.

    Expectation propagation counts a constraint anew whenever it is repeated (Cunningham et al. 2011), and the designs
    observed last are often close together. Where the target is known for sure, only the best of them is left.
    """
    std, order = jnp.sqrt(jnp.maximum(jnp.diag(cov), 0.0) + SLACK_VAR), jnp.arange(mean.shape[0])
    beta = jnp.where(mask > 0, mean / std, jnp.inf)
    first = (beta[:, None] == beta[None, :]) & (order[:, None] < order[None, :])
    tighter = (beta[:, None] < beta[None, :]) | first
    same = cov > _SAME * std[:, None] * std[None, :]
    return jnp.where(jnp.any(tighter & same, axis=0), 0.0, mask)


def maximisers(process: ExactGP, target: int, rivals: NDArray[np.float64], stars: NDArray[np.float64]) -> Maximisers:
    """What it says to know x*, for every row of `stars`, each of them above all rows of `rivals`."""
    size = bucket(len(rivals))
    mask = jnp.asarray(pad_rows(np.ones(len(rivals)), size))
    return _maximisers(process, jnp.asarray(target), jnp.asarray(pad_rows(rivals, size)), mask, jnp.asarray(stars))


@quick_jit
def _maximisers(
    process: ExactGP,
    target: Int[Array, ""],
    rivals: Float[Array, "n d"],
    mask: Float[Array, " n"],
    stars: Float[Array, "s d"],
) -> Maximisers:
    count = len(rivals)
    x = jnp.concatenate([rivals, stars])
    values = process.values((x, jnp.full(len(x), target)))
    cov = process.covariances(values, values)

    def maximiser(star: Array) -> Maximiser:
        mean, towards = values.mean[star] - values.mean[:count], cov[star, star] - cov[star, :count]
        leads_cov = towards[:, None] - cov[star, :count][None, :] + cov[:count, :count]
        sites = propagate(mean, leads_cov, telling(mean, leads_cov, mask))
        root, weights = _conditioning(mean, leads_cov, sites)
        return Maximiser(values.mean[star], cov[star, star], towards, root, weights)

    return Maximisers(process, values, jax.vmap(maximiser)(jnp.arange(count, len(x))))


def _conditioning(
    mean: Float[Array, " n"], cov: Float[Array, "n n"], sites: Sites
) -> tuple[Float[Array, "n n"], Float[Array, " n"]]:
    """`root` and `weights` of a `Maximiser`; both 0 where rounding leaves no Cholesky factor."""
    # I + p^1/2 cov p^1/2 = L L^T,   R = L^-1 p^1/2,   weights = shift - R^T R (cov shift + mean)     (ibid., eq. 3.60)
    root_precision = jnp.sqrt(sites.precision)
    chol = jnp.linalg.cholesky(jnp.eye(mean.shape[0]) + root_precision[:, None] * cov * root_precision[None, :])
    root = solve_triangular(chol, jnp.diag(root_precision), lower=True)
    weights = sites.shift - root.T @ (root @ (cov @ sites.shift + mean))
    return jnp.nan_to_num(root), jnp.nan_to_num(weights)


def predictive_gain(posterior: Posterior, context: Maximisers, x: Point, fidelity: int) -> Scalar:
    """I(x*; y_m(x)), averaged over the draws of x*."""
    process, target, count = context.process, context.values.at[1][0], context.draws.towards.shape[1]
    here = process.values((jnp.stack([x, x]), jnp.stack([jnp.asarray(fidelity), target])))  # f_m(x) and f_M(x)
    (var, cov), (_, target_var) = process.covariances(here, here)
    to_rivals, to_stars = jnp.split(process.covariances(here, context.values), [count], axis=1)
    var = jnp.maximum(var, VARIANCE_FLOOR)

    def variance_given(star: Maximiser, to_star: Float[Array, " 2"]) -> Scalar:
        # C1: f_m(x), and the lead f_M(x*) - f_M(x), given the sites
        towards, target_towards = to_star[:, None] - to_rivals
        value_loss = star.root @ towards
        lead_towards = star.towards - target_towards
        lead_loss = star.root @ lead_towards
        lead_mean = star.mean - here.mean[1] + lead_towards @ star.weights
        lead_var = star.variance + target_var - 2 * to_star[1] - lead_loss @ lead_loss
        value_lead_cov = to_star[0] - cov - value_loss @ lead_loss
        # C2: var - cov^2 r (r + beta) / (v + slack), beta = mean / sqrt(v + slack) of the lead
        spread = jnp.maximum(lead_var, 0.0) + SLACK_VAR
        lost = 1 - truncated_variance(lead_mean / jnp.sqrt(spread))
        return var - value_loss @ value_loss - value_lead_cov**2 * lost / spread

    left = jax.vmap(variance_given)(context.draws, to_stars.T)
    noise = posterior.noise_var(fidelity, here.mean[0])
    return 0.5 * jnp.mean(jnp.log((var + noise) / (jnp.maximum(left, VARIANCE_FLOOR) + noise)))


@dataclass(frozen=True)
class PredictiveEntropySearch:
    """The gain about x*, the target's maximiser, per cost; for a posterior that is a `ProcessPosterior`.

    Args:
        draws: samples of x*.
        draw_starts: L-BFGS starts per sample of x*.
        designs: where the searches start.
        rivals: how many of the designs observed at the target x* is compared with at most: the best ones.
    """

    draws: int = 8
    draw_starts: int = 3
    designs: Designs = Designs()
    rivals: int = 64

    def rank(
        self, posterior: Posterior | RunPosterior, history: History, fidelities: Sequence[int], key: Key
    ) -> list[Candidate]:
        """Queries by gain per cost.

        Raises:
            SettingError: if the posterior is not a Gaussian process, or outcomes are constrained.
        """
        posterior, success = value_and_success(posterior)
        needed = "predictive entropy search needs a surrogate with jointly Gaussian values (such as GaussianProcess)"
        process = require_protocol(posterior, ProcessPosterior, needed).process
        star_key, search_key = key.split(2)
        with stage("fstar"):
            stars = sample_maxima(posterior, history, self.draws, self.draw_starts, self.designs, star_key)
            unit_x = history.space.repair(stars.unit_x)
            rivals = _best(history.inside[-1], self.rivals)
            context = maximisers(process, len(history.ladder) - 1, rivals, unit_x)
        with stage("search"):
            centres = np.concatenate([incumbents(history), unit_x])
            candidates = self.designs.around(history, centres, search_key)
            known, starts = [(posterior, context)], self.designs.starts
            return search(predictive_gain, known, history, fidelities, candidates, starts, success=success)


def _best(seen: Observations, most: int) -> NDArray[np.float64]:
    return seen.unit_x[np.argsort(-seen.y)[:most]]
