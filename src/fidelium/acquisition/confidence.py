"""MF-GP-UCB (Kandasamy et al. 2016): every fidelity bounds the target from above, and the tightest bound counts.

    phi(x) = min_m phi_m(x),     phi_m(x) = mean_m(x) + sqrt(beta) std_m(x) + zeta_m,     |f_M - f_m| <= zeta_m
    x_t maximises phi; m_t is the lowest m with sqrt(beta) std_m(x_t) >= gamma_m, the target if there is none

All values are in the units that the fidelities share. beta, zeta and gamma follow that paper's experiments, computed
from the history every time: `propose` is pure. beta = 0.2 d log(2 t). zeta and gamma start at 1 % of the range of the
values; zeta is doubled whenever the data contradict it, gamma whenever the search was stuck below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.acquisition.base import Candidate, Designs, best_target_value, incumbents, marginals_at
from fidelium.acquisition.entropy import LEAST_RISE
from fidelium.acquisition.maximise import SOFT, search
from fidelium.errors import SettingError
from fidelium.history import History
from fidelium.numerics.normal import log_improvement
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Posterior, Scalar
from fidelium.surrogates.runs import Cautious, RunPosterior, value_and_success
from fidelium.timing import stage

START_SHARE = 0.01
"""Where zeta and gamma start, as a share of the range of the values."""

_MOST_DOUBLED = 6
_LEAST_RANGE = 1e-6  # values that differ by less, in units of order one, are constant: their range says nothing


class Bound(eqx.Module):
    """The parameters of phi besides the posterior.

    Args:
        root_beta: sqrt(beta).
        zeta: how far each fidelity may be from the target; 0 at the target.
    """

    root_beta: Scalar
    zeta: Float[Array, " m"]


def upper_bound(posterior: Posterior, bound: Bound, x: Point, fidelity: int) -> Scalar:
    """phi(x) = min_m mean_m + sqrt(beta) std_m + zeta_m, the same whichever fidelity is asked."""
    means, variances = posterior.marginals(x)
    return jnp.min(means + bound.root_beta * jnp.sqrt(variances) + bound.zeta)


@dataclass(frozen=True)
class ConfidenceSearch:
    """Designs by phi, each at the fidelity whose band there is still wide. The fidelities must share their units.

    Args:
        designs: where the search starts.
    """

    designs: Designs = Designs()

    def rank(
        self, posterior: Posterior | RunPosterior, history: History, fidelities: Sequence[int], key: Key
    ) -> list[Candidate]:
        """Designs by phi, with their fidelity.

        Raises:
            SettingError: if the posterior's fidelities have different units, or outcomes are constrained.
        """
        posterior, success = value_and_success(posterior)
        if len(set(posterior.scales())) > 1:
            raise SettingError("confidence bounds need fidelities in the same units; use a surrogate that shares them")
        with stage("search"):
            found, root_beta = self._promising(posterior, success, history, key)
            _, variances = marginals_at(posterior, np.stack([candidate.unit_x for candidate in found]))
            wide = root_beta * np.sqrt(variances) >= thresholds(posterior, history)
            # the first that is wide; gamma_M = 0, so there always is one
            return [
                replace(candidate, fidelity=_allowed(int(m), fidelities))
                for candidate, m in zip(found, np.argmax(wide, axis=1), strict=True)
            ]

    def _promising(
        self, posterior: Posterior, success: Cautious | None, history: History, key: Key
    ) -> tuple[list[Candidate], float]:
        """Designs by phi, and sqrt(beta): doubled, not as in the paper, while phi nowhere rises above the incumbent.

        That paper's beta is small: an overconfident model would ask the incumbent's neighbourhood for ever.
        """
        target, best = len(history.ladder) - 1, best_target_value(posterior, history)
        candidates = self.designs.around(history, incumbents(history), key)
        root_beta = exploration(history)
        zeta = jnp.asarray(distances(posterior, history, root_beta))
        level = 0.0 if best is None else best  # costs of designs divide the rise above it

        def by_phi(root_beta: float) -> list[Candidate]:
            bound, starts = Bound(jnp.asarray(root_beta), zeta), self.designs.starts
            known = [(posterior, bound)]
            return search(
                upper_bound, known, history, (target,), candidates, starts, log_worth=True, success=success, level=level
            )

        found, largest = by_phi(root_beta), 2**_MOST_DOUBLED * root_beta
        if history.costs.depend_on_design:
            rise = float(log_improvement(jnp.asarray(LEAST_RISE / SOFT)))  # at the dearest of what was found
            dearest = float(np.max(history.costs.at(np.stack([each.unit_x for each in found]), target)))
            enough = -math.inf if best is None else rise - math.log(dearest)
        else:  # a candidate's worth is phi - log(cost)
            enough = -math.inf if best is None else best + LEAST_RISE - math.log(history.costs.typical[target])
        while found[0].worth <= enough and root_beta < largest:
            root_beta *= 2
            found = by_phi(root_beta)
        return found, root_beta


def exploration(history: History) -> float:
    """sqrt(beta) with beta = 0.2 d log(2 t): t counts the queries of this study, and d the columns of the cube."""
    t = max(1, len(_asked(history)))
    return math.sqrt(0.2 * history.space.dimension * math.log(2 * t))


def distances(posterior: Posterior, history: History, root_beta: float) -> Float[np.ndarray, " m"]:
    """zeta_m = (M - m) zeta, as in the paper, with the first of 1 %, 2 %, 4 % ... that no observation contradicts.

    An observation y_k contradicts zeta where it is farther from f_m, m < k, than (k - m) zeta and the uncertainty of
    both explain: |y_k - mean_m| - sqrt(beta (var_m + sigma_k^2)) > (k - m) zeta. That paper asks (x, k - 1) to confirm,
    and then takes twice the distance; the uncertainty makes that query unnecessary.
    """
    zeta = START_SHARE * _range(posterior, history)
    scales, count = posterior.scales(), len(history.ladder)
    for k in range(1, count):
        seen = history.observations[k]
        means, variances = (part[:, :k] for part in marginals_at(posterior, seen.unit_x))
        y = scales[k].inward(seen.y)[:, None]
        band = root_beta * np.sqrt(variances + np.asarray(posterior.noise_var(k, jnp.asarray(y))))
        apart = np.abs(y - means) - band
        worst = float(np.max(apart / (k - np.arange(k)), initial=0.0))
        if worst > zeta:
            zeta *= 2 ** math.ceil(math.log2(worst / zeta))
    return zeta * np.arange(count - 1, -1, -1.0)


def thresholds(posterior: Posterior, history: History) -> Float[np.ndarray, " m"]:
    """gamma_m: 1 % of the range of the values, doubled whenever the search was stuck at m; 0 at the target."""
    start = START_SHARE * _range(posterior, history)
    return start * np.array([*(2.0**times for times in doublings(_asked(history), history.costs.typical)), 0.0])


def doublings(asked: Sequence[int], costs: Sequence[float]) -> list[int]:
    """How often the search was stuck at each fidelity below the target.

    The search is stuck at m when more than C_{m+1} / C_m queries in a row are at m or below; then the count begins
    again. An initial design climbs from the lowest fidelity to the target: if the first queries do, they do not count.

    Args:
        asked: the fidelities asked, in their order.
        costs: of every fidelity.
    """
    target = len(costs) - 1
    climb = list(asked[: asked.index(target)]) if target in asked else []
    searched = asked[len(climb) :] if climb == sorted(climb) else asked
    times: list[int] = []
    for m in range(target):
        stuck, run = 0, 0
        for fidelity in searched:
            run = run + 1 if fidelity <= m else 0
            if run > costs[m + 1] / costs[m]:
                stuck, run = stuck + 1, 0
        times.append(stuck)
    return times


def _asked(history: History) -> list[int]:
    """The fidelities this study asked, in their order; observations the user brought are not among them."""
    return [history.ladder.index(trial.fidelity.name) for trial in history.trials if not trial.given]


def _range(posterior: Posterior, history: History) -> float:
    """The range of all values, in the model's units; 1 if they are constant."""
    values = [scale.inward(seen.y) for scale, seen in zip(posterior.scales(), history.observations, strict=True)]
    width = float(np.ptp(np.concatenate(values)))
    return width if width > _LEAST_RANGE else 1.0


def _allowed(fidelity: int, fidelities: Sequence[int]) -> int:
    """The fidelity, or if it is not allowed the highest one below it that is, or else the lowest allowed."""
    return max((m for m in fidelities if m <= fidelity), default=min(fidelities))
