"""The gain of Algorithm 2: the information of a query about the target's maximum f*.

    a(x) = I(f; f*) = H(f) - E_f*[ H(f | f*) ]                                       with one fidelity, eq. (1) mi
    a(x, m) = (H(f_m(x)) - E_f*[ H(f_m(x) | f_M(x) <= f*) ]) / cost_m                                  eq. (5) ac

`paper_gain` is about the noise-free f_m(x), with both branches to the letter. `observation_gain` is about the
observation y_m(x): the noise-free gain at a point whose mean equals f* stays large however small the variance, and the
search then asks one point for ever. `gaussian_gain` and `joint_gain` are the same where the fidelities are jointly
Gaussian. All are finite with finite gradients for any data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fidelium.acquisition.base import Candidate, Designs, best_target_value, incumbents, require_protocol
from fidelium.acquisition.constrained import run_gain
from fidelium.acquisition.maxima import SampledMaxima, sample_feasible_maxima, sample_maxima
from fidelium.acquisition.maximise import search
from fidelium.history import History
from fidelium.numerics.normal import log_cdf, truncated_variance, truncation_entropy_loss
from fidelium.numerics.quadrature import gauss_hermite
from fidelium.randomness import Key
from fidelium.surrogates.base import JointlyGaussian, Point, Posterior, Scalar
from fidelium.surrogates.runs import RunMember, RunPosterior
from fidelium.timing import stage

Gain = Callable[[Any, Float[Array, " s"], Point, Any], Scalar]
"""The gain of a query (x, m), from the posterior, samples of f*, x and m."""

_CHAIN_NODES = 5
_FINE_NODES = 33
_FINE_REACH = 4.0
_LEAST_SHARE = 1e-9


def paper_gain(posterior: Posterior, f_star: Float[Array, " s"], x: Point, fidelity: int) -> Scalar:
    """I(f*; f_m(x)), Algorithm 2 to the letter: eq. (5) ac before the division by the cost; eq. (1) mi at the top."""
    means, variances = posterior.marginals(x)
    if fidelity < means.shape[0] - 1:
        return _paper_below(posterior, f_star, x, fidelity, means[fidelity], variances[fidelity])
    # H_0 - H_1 = beta phi(beta) / (2 Phi(beta)) - log Phi(beta), eq. (8) entropy-M
    beta = (f_star - means[-1]) / jnp.sqrt(variances[-1])
    return jnp.mean(jax.vmap(truncation_entropy_loss)(beta))


def _paper_below(
    posterior: Posterior, f_star: Float[Array, " s"], x: Point, m: int, mean: Scalar, variance: Scalar
) -> Scalar:
    z, g = gauss_hermite(_CHAIN_NODES)
    target_mean, target_var = _target_at(posterior, x, m, mean + jnp.sqrt(variance) * z)  # eq. (10) cond-post

    def variance_given(f_star: Scalar) -> Scalar:
        # R(t_k) = Phi((f* - target mean) / target std), eq. (11) f_mM2
        log_r = jax.vmap(log_cdf)((f_star - target_mean) / jnp.sqrt(target_var))
        # variance Z_2/Z - Z_1^2/Z^2 = sum_k nu_k (t_k - mean)^2, eq. (12) mm2, here in units of eta_m
        return _variance(_normalised(np.log(g), log_r), z)

    shares = jnp.maximum(jax.vmap(variance_given)(f_star), _LEAST_SHARE)
    # H_0 - H_1 = log(eta_m) / 2 - mean over f* of log(Z_2/Z - Z_1^2/Z^2) / 2
    return jnp.mean(-0.5 * jnp.log(shares))


def observation_gain(posterior: Posterior, f_star: Float[Array, " s"], x: Point, fidelity: int) -> Scalar:
    """I(f*; y_m(x)), with Gaussian entropies: -log(1 - rho^2 (1 - v)) / 2.

    rho^2 = eta / (eta + sigma^2) is the share of signal in the observation, v the variance of f_m(x) given
    f_M(x) <= f*, as a share of eta: 1 - r (r + beta) at the target, by quadrature below it.
    """
    means, variances = posterior.marginals(x)
    if fidelity < means.shape[0] - 1:
        left = _share_left_below(posterior, f_star, x, fidelity, means[fidelity], variances[fidelity])
    else:
        left = _share_left_at_target(f_star, means[-1], variances[-1])
    return _gain_about_observation(left, variances[fidelity], posterior.noise_var(fidelity, means[fidelity]))


def gaussian_gain(posterior: Posterior, f_star: Float[Array, " s"], x: Point, fidelity: int) -> Scalar:
    """The observation gain where the fidelities are jointly Gaussian: v = 1 - c^2 r (r + beta), c their correlation.

    The same as `observation_gain` without a quadrature (Moss et al. 2021, GIBBON), for posteriors whose `target_given`
    is linear in the value. `joint_gain` is the same from the covariance. The two differ by rounding, which changes the
    queries of mf-mes: both stay so that these stay.
    """
    means, variances = posterior.marginals(x)
    left = _share_left_at_target(f_star, means[-1], variances[-1])
    if fidelity < means.shape[0] - 1:
        std = jnp.sqrt(variances[fidelity])
        ends, _ = _target_at(posterior, x, fidelity, means[fidelity] + jnp.stack([-std, std]))
        correlation = (ends[1] - ends[0]) / (2 * jnp.sqrt(variances[-1]))
        left = 1 - jnp.minimum(correlation**2, 1.0) * (1 - left)
    return _gain_about_observation(left, variances[fidelity], posterior.noise_var(fidelity, means[fidelity]))


def joint_gain(posterior: JointlyGaussian, f_star: Float[Array, " s"], x: Point, fidelity: int | Array) -> Scalar:
    """The same from the covariance of a `JointlyGaussian` posterior, at a fidelity that may be traced."""
    means, covariance = posterior.joint(x)
    variance, target_var = covariance[fidelity, fidelity], covariance[-1, -1]
    squared_correlation = covariance[fidelity, -1] ** 2 / (variance * target_var)
    left = 1 - jnp.minimum(squared_correlation, 1.0) * (1 - _share_left_at_target(f_star, means[-1], target_var))
    return _gain_about_observation(left, variance, posterior.noise_vars(means)[fidelity])


def _share_left_at_target(f_star: Float[Array, " s"], mean: Scalar, variance: Scalar) -> Float[Array, " s"]:
    return jax.vmap(truncated_variance)((f_star - mean) / jnp.sqrt(variance))


def _gain_about_observation(left: Float[Array, " s"], variance: Scalar, noise_var: Scalar) -> Scalar:
    signal = variance / (variance + noise_var)
    share = 1 - signal * (1 - jnp.clip(left, 0.0, 1.0))
    return jnp.mean(-0.5 * jnp.log(jnp.maximum(share, _LEAST_SHARE)))


def _share_left_below(
    posterior: Posterior, f_star: Float[Array, " s"], x: Point, m: int, mean: Scalar, variance: Scalar
) -> Float[Array, " s"]:
    """Var[f_m | f_M <= f*] / Var[f_m] for each f*.

    The chain is evaluated at a few values only; between them the moments of f_M given f_m are interpolated by a spline,
    so that the integral over the nearly discontinuous P(f_M <= f* | f_m) can use many more nodes.
    """
    target_mean, target_var = _target_at(posterior, x, m, mean + jnp.sqrt(variance) * _LINK_Z)
    fine_mean = _INTERPOLATION @ target_mean
    fine_std = jnp.exp(0.5 * (_INTERPOLATION @ jnp.log(target_var)))

    def share(f_star: Scalar) -> Scalar:
        log_r = jax.vmap(log_cdf)((f_star - fine_mean) / fine_std)  # R of eq. (11) f_mM2
        return _variance(_normalised(_FINE_LOG_WEIGHTS, log_r), _FINE_Z) / _FINE_VARIANCE  # eq. (12) mm2

    return jax.vmap(share)(f_star)


def _target_at(
    posterior: Posterior, x: Point, m: int, values: Float[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    return jax.vmap(lambda value: posterior.target_given(x, m, value))(values)


def _normalised(log_weights: Float[np.ndarray, " k"], log_r: Float[Array, " k"]) -> Float[Array, " k"]:
    """nu_k = g_k R_k / Z, Z = sum_j g_j R_j: p(f_m | f_M <= f*) at the nodes, eq. (9) f_mM."""
    return jax.nn.softmax(log_weights + log_r)


def _variance(weights: Float[Array, " k"], nodes: Float[np.ndarray, " k"]) -> Scalar:
    centre = jnp.sum(weights * nodes)
    return jnp.sum(weights * (nodes - centre) ** 2)


def _interpolation_matrix() -> Float[np.ndarray, "fine k"]:
    """The natural cubic spline from the link's nodes to the fine ones, straight beyond the ends."""
    h, count = _LINK_Z[1] - _LINK_Z[0], len(_LINK_Z)
    values = np.eye(count)
    # second derivatives M: M_{k-1} + 4 M_k + M_{k+1} = 6 (y_{k-1} - 2 y_k + y_{k+1}) / h^2, zero at the ends
    inner = 4 * np.eye(count - 2) + np.eye(count - 2, k=1) + np.eye(count - 2, k=-1)
    bends = np.zeros((count, count))
    bends[1:-1] = np.linalg.solve(inner, 6 * (values[:-2] - 2 * values[1:-1] + values[2:]) / h**2)
    left = np.clip(np.searchsorted(_LINK_Z, _FINE_Z) - 1, 0, count - 2)
    b = ((_FINE_Z - _LINK_Z[left]) / h)[:, None]
    a, inside = 1 - b, (b >= 0) & (b <= 1)
    # beyond the ends the cubic is replaced by its tangent there
    cubic_a = np.where(inside, a**3 - a, np.where(b < 0, 2 * a - 2, -a))
    cubic_b = np.where(inside, b**3 - b, np.where(b < 0, -b, 2 * b - 2))
    bend = (cubic_a * bends[left] + cubic_b * bends[left + 1]) * h**2 / 6
    return a * values[left] + b * values[left + 1] + bend


_LINK_Z = np.linspace(-2.5, 2.5, 5)
_FINE_Z = np.linspace(-_FINE_REACH, _FINE_REACH, _FINE_NODES)
_FINE_LOG_WEIGHTS = -0.5 * _FINE_Z**2 - np.log(np.sum(np.exp(-0.5 * _FINE_Z**2)))
_FINE_VARIANCE = float(np.sum(np.exp(_FINE_LOG_WEIGHTS) * _FINE_Z**2))
_INTERPOLATION = _interpolation_matrix()


LEAST_RISE = 1e-3
"""How far above the incumbent every sample of f* is at least, as a share of the target's spread: a smaller rise is not
worth another query beside the incumbent."""


LEAST_FEASIBLE_RISE = 1e-8
"""The same where runs have limits: at a corner of active limits a value falls off in proportion to the distance, and
the next query may gain several digits."""


@dataclass(frozen=True)
class EntropySearch:
    """The gain about f*, the target's maximum, per cost.

    Args:
        gain: the information of a query about f*.
        draws: samples of f*, of every member of an ensemble.
        draw_starts: L-BFGS starts per sample of f*.
        designs: where the searches start.
        raise_to_incumbent: whether samples of f* below the best observed value are raised to a little above it.
        together: whether the gain takes a traced fidelity, so that all of them are climbed by one compiled function.
        requires: the protocol that the gain needs of the posterior's members.
    """

    gain: Gain = observation_gain
    draws: int = 16
    draw_starts: int = 3
    designs: Designs = Designs()
    raise_to_incumbent: bool = True
    together: bool = False
    requires: Any = Posterior

    def rank(
        self, posterior: Posterior | RunPosterior, history: History, fidelities: Sequence[int], key: Key
    ) -> list[Candidate]:
        """Queries by gain per cost."""
        star_key, search_key = key.split(2)
        f_star = self.sample_f_star(posterior, history, star_key)
        return self.maximise(posterior, f_star, history, fidelities, search_key)

    def sample_f_star(self, posterior: Posterior | RunPosterior, history: History, key: Key) -> list[SampledMaxima]:
        """Samples of f*, the best feasible value, of every member, and where each is attained (Algorithm 1, line 3)."""
        members = posterior.members()
        keys = key.split(len(members)) if len(members) > 1 else (key,)
        with stage("fstar"):
            return [self._sample_f_star(*each, history) for each in zip(members, keys, strict=True)]

    def is_settled(self, posterior: RunPosterior, f_star: Sequence[SampledMaxima], history: History) -> bool:
        """Whether outcomes have limits, and no sample of f* is more than digits above the best value."""
        best = [best_target_value(member, history) for member in posterior.members()]
        both = zip(f_star, best, strict=True)
        return bool(posterior.outcomes) and all(b is not None and np.max(f.value) <= b + LEAST_RISE for f, b in both)

    def elsewhere(
        self, posterior: RunPosterior, f_star: Sequence[SampledMaxima], history: History
    ) -> list[SampledMaxima]:
        """The samples of f* raised so far above the best value that only what is not known well can reach them."""
        best = [best_target_value(member, history) for member in posterior.members()]
        both = zip(f_star, best, strict=True)
        return [f if b is None else SampledMaxima(np.maximum(f.value, b + LEAST_RISE), f.unit_x) for f, b in both]

    def maximise(
        self,
        posterior: Posterior | RunPosterior,
        f_star: Sequence[SampledMaxima],
        history: History,
        fidelities: Sequence[int],
        key: Key,
    ) -> list[Candidate]:
        """Queries by gain per cost, eq. (5) ac, the best first (Algorithm 1, line 4).

        Raises:
            SettingError: if the gain does not work with this posterior.
        """
        with stage("search"):
            if isinstance(posterior, RunPosterior):
                gain, members = run_gain, posterior.members()
            else:
                gain, need = self.gain, _needs(self.gain)
                members = [require_protocol(member, self.requires, need) for member in posterior.members()]
            tops = history.space.repair(np.concatenate([each.unit_x for each in f_star]))
            candidates = self.designs.around(history, np.concatenate([incumbents(history), tops]), key)
            known = [(member, jnp.asarray(each.value)) for member, each in zip(members, f_star, strict=True)]
            starts, together = self.designs.starts, self.together
            # the maxima of draws have the integers of a design: what lies between them would only look better
            limited = gain is run_gain
            return search(
                gain, known, history, fidelities, candidates, starts, together=together, tiny=limited, hold=limited
            )

    def _sample_f_star(self, posterior: Posterior | RunMember, key: Key, history: History) -> SampledMaxima:
        sample = sample_feasible_maxima if isinstance(posterior, RunMember) else sample_maxima
        maxima = sample(posterior, history, self.draws, self.draw_starts, self.designs, key)  # type: ignore[arg-type]
        best = best_target_value(posterior, history)
        if not self.raise_to_incumbent or best is None:
            return maxima
        limited = isinstance(posterior, RunMember) and len(posterior.limits)
        rise = LEAST_FEASIBLE_RISE if limited else LEAST_RISE
        return SampledMaxima(np.maximum(maxima.value, best + rise), maxima.unit_x)


def _needs(gain: Gain) -> str:
    return f"{getattr(gain, '__name__', gain)} needs a surrogate whose fidelities are jointly Gaussian at every point"
