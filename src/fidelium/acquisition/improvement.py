"""Expected improvement, and the augmented one of Huang et al. (2006), both as logarithms.

    EI(x) = E[max(f_M(x) - best, 0)] = std h(z),     z = (mean - best) / std,     h(z) = phi(z) + z Phi(z)
    AEI(x, m) = EI(x) corr(f_m(x), f_M(x)) (1 - sigma_m / sqrt(eta_m(x) + sigma_m^2)) C_M / C_m

Both span hundreds of orders of magnitude: far from the incumbent they and their gradients are zero in double precision,
their logarithms are not (Ament et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.acquisition.base import Candidate, Designs, best_target_value, incumbents, marginals_at
from fidelium.acquisition.maximise import search
from fidelium.history import History
from fidelium.numerics.normal import log_improvement
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Posterior, Scalar
from fidelium.surrogates.runs import RunMember, RunPosterior, value_and_success
from fidelium.timing import stage

_LEAST_CORRELATION = 1e-12


def log_expected_improvement(mean: Scalar, std: Scalar, best: Scalar) -> Scalar:
    """log E[max(f - best, 0)] = log std + log h((mean - best) / std) for f ~ N(mean, std^2)."""
    return jnp.log(std) + log_improvement((mean - best) / std)


def target_improvement(posterior: Posterior, best: Scalar, x: Point, fidelity: int) -> Scalar:
    """log EI(x): the improvement is always one of the target, whichever fidelity is asked."""
    means, variances = posterior.marginals(x)
    return log_expected_improvement(means[-1], jnp.sqrt(variances[-1]), best)


def target_optimism(posterior: Posterior, level: Scalar, x: Point, fidelity: int) -> Scalar:
    """mean + std of the target above a level: for when there is no observation to improve on."""
    means, variances = posterior.marginals(x)
    return means[-1] + jnp.sqrt(variances[-1]) - level


def run_improvement(member: RunMember, best: Scalar, x: Point, fidelity: Any) -> Scalar:
    """log(EI(x) P(x is feasible)), the expected improvement over the best feasible value (Gardner et al. 2014)."""
    mean, std = member.at_target(x)
    worth = log_expected_improvement(mean[0], std[0], best) + member.log_feasible(x)
    return worth if member.success is None else worth + member.success.log_caution(x, fidelity)


def run_feasibility(member: RunMember, best: Scalar, x: Point, fidelity: Any) -> Scalar:
    """log P(x is feasible): for when no feasible design is known that could be improved on."""
    return member.log_feasible(x)


def augmented_improvement(posterior: Posterior, best: Scalar, x: Point, fidelity: int) -> Scalar:
    """log AEI(x, m) before the cost is counted."""
    log_informative = jnp.log(_correlation(posterior, x, fidelity)) + _log_noise_factor(posterior, x, fidelity)
    return target_improvement(posterior, best, x, fidelity) + log_informative


def _correlation(posterior: Posterior, x: Point, fidelity: int) -> Scalar:
    """corr(f_m(x), f_M(x)), at least 1e-12: a fidelity with a negative correlation is not used here.

    For two normal variables corr = slope std_m / std_M, with E[f_M | f_m] a line of that slope; where it is not a line,
    the slope is that between one standard deviation below the mean and one above.
    """
    means, variances = posterior.marginals(x)
    if fidelity == means.shape[0] - 1:
        return jnp.ones(())
    values = means[fidelity] + jnp.sqrt(variances[fidelity]) * jnp.array([-1.0, 1.0])
    below, above = jax.vmap(lambda value: posterior.target_given(x, fidelity, value)[0])(values)
    return jnp.clip((above - below) / (2 * jnp.sqrt(variances[-1])), _LEAST_CORRELATION, 1.0)


def _log_noise_factor(posterior: Posterior, x: Point, fidelity: int) -> Scalar:
    """log(1 - sigma / r), r = sqrt(eta + sigma^2), as log(eta / (r (r + sigma))), which does not cancel."""
    mean, eta = (part[fidelity] for part in posterior.marginals(x))
    noise_var = posterior.noise_var(fidelity, mean)
    r = jnp.sqrt(eta + noise_var)
    return jnp.log(eta) - jnp.log(r) - jnp.log(r + jnp.sqrt(noise_var))


def effective_best(posterior: Posterior, history: History) -> float:
    """The posterior mean of the target at x**, the design observed at any fidelity with the highest mean - std.

    The effective best solution of Huang et al. (2006), u(x) = mean - c std with their c = 1; in the model's units.
    """
    designs = np.concatenate([seen.unit_x for seen in history.inside])
    if not len(designs):  # all are outside of the present bounds
        designs = np.concatenate([seen.unit_x for seen in history.observations])
    means, variances = marginals_at(posterior, designs)
    return float(means[np.argmax(means[:, -1] - np.sqrt(variances[:, -1])), -1])


def followed_improvement(posterior: Posterior, known: Float[Array, " n"], x: Point, fidelity: int) -> Scalar:
    """log AEI(x, m) before the cost is counted, less what runs that follow cost; `known` has the best value first."""
    return augmented_improvement(posterior, known[0], x, fidelity) - known[1 + fidelity]


@dataclass(frozen=True)
class ImprovementSearch:
    """log EI over the best value observed at the target; mean + std of the target while there is none.

    For one fidelity: only the highest allowed one is asked.

    Args:
        designs: where the search starts.
    """

    designs: Designs = Designs()

    def rank(
        self, posterior: Posterior | RunPosterior, history: History, fidelities: Sequence[int], key: Key
    ) -> list[Candidate]:
        """Designs by log EI, or, where outcomes have limits, by the constrained one."""
        with stage("search"):
            best = best_target_value(posterior, history)
            known: Sequence[Posterior | RunMember]
            if isinstance(posterior, RunPosterior):
                known = posterior.members()
                worth = run_feasibility if best is None and history.constraints else run_improvement
                level = 0.0 if best is None else best
            else:
                known = (posterior,)
                worth, level = (target_optimism, 0.0) if best is None else (target_improvement, best)
            candidates = self.designs.around(history, incumbents(history), key)
            starts, highest = self.designs.starts, (max(fidelities),)
            members = [(each, jnp.asarray(level)) for each in known]
            signed = 0.0 if worth is target_optimism else None
            return search(worth, members, history, highest, candidates, starts, log_worth=True, level=signed)


@dataclass(frozen=True)
class AugmentedImprovementSearch:
    """log AEI per cost over the effective best.

    Args:
        designs: where the search starts.
        followed: the share of runs below the target that are followed by one at the target: C_m counts as
            C_m + followed C_M, since a run below the target improves nothing by itself. 0 in the paper.
    """

    designs: Designs = Designs()
    followed: float = 0.0

    def rank(
        self, posterior: Posterior | RunPosterior, history: History, fidelities: Sequence[int], key: Key
    ) -> list[Candidate]:
        """Queries by log AEI; the constant C_M is left out.

        Raises:
            SettingError: if outcomes are constrained.
        """
        posterior, success = value_and_success(posterior)
        with stage("search"):
            best = effective_best(posterior, history)
            worth, known = augmented_improvement, [(posterior, jnp.asarray(best))]
            if self.followed:
                worth, known = followed_improvement, [(posterior, jnp.asarray([best, *self._later_costs(history)]))]
            candidates, starts = self.designs.around(history, incumbents(history), key), self.designs.starts
            return search(worth, known, history, fidelities, candidates, starts, log_worth=True, success=success)

    def _later_costs(self, history: History) -> list[float]:
        """log((C_m + followed C_M) / C_m) of every fidelity below the target, 0 at the target."""
        *below, target = history.ladder.costs
        return [*(math.log1p(self.followed * target / cost) for cost in below), 0.0]
