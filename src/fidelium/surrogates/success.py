"""Where runs succeed: a probabilistic model over (x, fidelity), learned from the trials that succeeded and failed.

    P(success at (x, m)) = (1 - e) Phi(c + g_m(x)),      g_m(x) = shared(x) + own_m(x)

g is a Gaussian process, most of which is the same at every fidelity: a region where the mesher dies is the same for a
coarse and a fine mesh. Failures that have nothing to do with the design (a licence server) have the rate e. Which share
of the failures is random is not known: the posterior is a mixture of models with different rates, each with the
amplitude, lengths and shared part that are likeliest for it, weighted by the evidence. c is such that P(success) before
any data is the same for every amplitude.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray
from scipy.special import softmax

from fidelium.errors import SettingError
from fidelium.numerics.backend import quick_jit
from fidelium.numerics.kernels import Kernel, check_kernel
from fidelium.numerics.lbfgs import maximise_rows
from fidelium.numerics.normal import bivariate_excess
from fidelium.numerics.padding import bucket, pad_rows
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.gp.covariances import MixedProcesses
from fidelium.surrogates.gp.exact import Covariance, ExactGP, Rows
from fidelium.surrogates.gp.inputs import seen_covariance
from fidelium.surrogates.gp.probit import Labels, labels_log_evidence, match_sites
from fidelium.surrogates.inputs import AllUsed
from fidelium.surrogates.learning import (
    Entries,
    Entry,
    Memory,
    Prior,
    milestone,
    ravel,
    unravel,
    widening,
)

T = TypeVar("T")

AMPLITUDE, AMPLITUDE_LOG_STD = 4.0, 0.7
"""Prior median of the amplitude of g, and the standard deviation of its logarithm. Regions have sharp edges: of 2,
3 and 5, the Brier score on synthetic regions was 0.098, 0.095 and 0.093."""

LENGTH, LENGTH_LOG_STD = 0.5, 1.2
"""Prior median of the lengths of g in two dimensions, as a share of the cube's side, and the standard deviation of
their logarithms: regions are large, and most do not depend on all parameters. The Brier score was 0.095 with an
objective's 0.35 and 0.8, 0.093 with a median of 0.5 and 0.092 with a standard deviation of 1.2."""

SHARED_LOGIT, SHARED_LOGIT_STD = math.log(0.9 / 0.1), 1.0
"""Prior of the shared part of g's variance, as log odds: 0.9. Chosen, not tuned."""

LEVEL = 0.25
"""Variance of g's unknown mean, as a share of the process's: how much a failure anywhere says about everywhere. Brier
scores are the same to 1 % from 0.05 to 0.6."""

Data = Sequence[NDArray[np.float64]]


class SuccessPosterior(eqx.Module):
    """What is known about success, as a mixture with a leading axis of members.

    Args:
        processes: g of each member, given sites in the place of the trials.
        offset: c of each.
        random: e, the rate of random failures of each.
        weight: of each; they add up to 1.
        fidelities: how many there are.
    """

    processes: ExactGP
    offset: Float[Array, " k"]
    random: Float[Array, " k"]
    weight: Float[Array, " k"]
    fidelities: int = eqx.field(static=True)

    @property
    def usual(self) -> Scalar:
        """P(a run does not fail at random): the most that a probability of success can be."""
        return self.weight @ (1 - self.random)

    def probabilities(self, x: Point) -> Float[Array, " m"]:
        """P(a run at (x, m) succeeds) for every fidelity."""

        def of_member(process: ExactGP, offset: Scalar) -> Float[Array, " m"]:
            mean, variance = jax.vmap(lambda m: process.moments((x, m)))(jnp.arange(self.fidelities))
            return norm.cdf((mean + offset) / jnp.sqrt(1 + variance))

        likely = jax.vmap(of_member)(self.processes, self.offset)
        return (self.weight * (1 - self.random)) @ likely

    def pair(self, x: Point, fidelity: int | Int[Array, ""]) -> tuple[Scalar, Scalar, Scalar]:
        """For a run at (x, m): P(it succeeds), and P(a target run at x succeeds) given that it succeeded, or failed.

        For m = M the design is the same, and so is what is not random: Phi_2(a, a; 1) = Phi(a).
        """
        here, target = jnp.asarray(fidelity), jnp.asarray(self.fidelities - 1)

        def of_member(process: ExactGP, offset: Scalar, random: Scalar) -> tuple[Scalar, Scalar, Scalar]:
            mean, cov = process.joint((x, here), (x, target))
            spread = jnp.sqrt(1 + jnp.diag(cov))
            a = (mean + offset) / spread
            r = jnp.where(here == target, 1.0, cov[0, 1] / (spread[0] * spread[1]))
            excess = bivariate_excess(a[0], a[1], r)
            both = norm.cdf(a[0]) * norm.cdf(a[1]) + excess
            only_target = jnp.maximum(norm.cdf(-a[0]) * norm.cdf(a[1]) - excess, 0.0)
            usual = 1 - random
            return usual * norm.cdf(a[0]), usual**2 * both, usual * (only_target + random * both)

        parts = jax.vmap(of_member)(self.processes, self.offset, self.random)
        success, both, only_target = (self.weight @ part for part in parts)
        return success, both / success, only_target / (1 - success)


class SuccessParameters(eqx.Module):
    """theta: the amplitude and lengths of g, and the log odds of its shared part."""

    log_amplitude: Entry
    shared_logit: Entry
    log_lengths: Entries


@dataclass(frozen=True)
class SuccessModel:
    """Learns where runs succeed.

    Args:
        rate: P(success) before any data, but for random failures.
        random: the rates of random failures that are considered.
        random_prior: the probability of each before any data.
        kernel: of g.
        steps: evaluations of the evidence at most.
        most_points: trials used at most: all failures up to half of them, and successes, half of these the nearest to
            failures.
        most_learned: parameters are learned from this many of them at most.
        used: the columns that each fidelity uses: a run does not fail because of others. None: all use all.
    """

    rate: float = 0.85
    random: tuple[float, ...] = (0.01, 0.1)
    random_prior: tuple[float, ...] = (0.5, 0.5)
    kernel: str = "rbf"
    steps: int = 30
    most_points: int = 192
    most_learned: int = 128
    used: AllUsed | None = None

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        if not all(0 < each < 1 for each in (self.rate, *self.random, *self.random_prior)):
            raise SettingError(f"rates and probabilities must be between 0 and 1, got {self!r}")
        if len(self.random) != len(self.random_prior):
            raise SettingError(f"every rate of random failures needs a prior probability, got {self!r}")

    def fit(self, succeeded: Data, failed: Data, key: Key) -> SuccessPosterior:
        """The posterior given the trials of each fidelity, low to high; any may be empty.

        The parameters are learned from the first trials, up to the last milestone, so that they change seldom.

        Args:
            succeeded: designs of the trials that succeeded, a row each.
            failed: designs of those that failed.
            key: of the choice among more than `most_points` trials.
        """
        first = ([each[: milestone(len(each))] for each in data] for data in (succeeded, failed))
        early = _Trials.of(*first).chosen(min(self.most_learned, self.most_points), key)
        question = hashlib.sha256(repr((self, len(succeeded), early.x.shape)).encode())
        question.update(early.x.tobytes() + early.fidelity.tobytes() + early.succeeded.tobytes())
        learned = _memory.get(question.hexdigest(), partial(self._learn, early, len(succeeded)))
        trials = _Trials.of(succeeded, failed).chosen(self.most_points, key)
        return _posterior(self, len(succeeded), *learned, *trials.padded())

    def prior(self, dimension: int) -> Prior[SuccessParameters]:
        """The prior of the parameters."""
        length = math.log(LENGTH) + widening(dimension)
        mean = SuccessParameters(np.asarray(math.log(AMPLITUDE)), np.asarray(SHARED_LOGIT), np.full(dimension, length))
        std = SuccessParameters(
            np.asarray(AMPLITUDE_LOG_STD), np.asarray(SHARED_LOGIT_STD), np.full(dimension, LENGTH_LOG_STD)
        )
        return Prior.of(mean, std)

    def _learn(self, trials: _Trials, fidelities: int) -> tuple[SuccessParameters, NDArray[np.float64]]:
        """The likeliest parameters of every member, and the members' weights."""
        prior = self.prior(trials.x.shape[1])
        padded = trials.padded()

        def density(vectors: NDArray[np.float64]) -> tuple[Array, Array]:
            return _log_density_rows(self, fidelities, vectors, prior, *padded)

        start = np.tile(ravel(prior.mean), (len(self.random), 1))
        lower, upper = ravel(prior.lower), ravel(prior.upper)
        found = maximise_rows(density, start, lower, upper, steps=self.steps, tolerance=1e-2)
        weight = softmax(found.value + np.log(self.random_prior))
        return jax.vmap(partial(unravel, prior.mean))(jnp.asarray(found.x)), weight

    def process(self, theta: SuccessParameters, fidelities: int) -> tuple[Covariance, Scalar]:
        """The covariance of g, and c."""
        shared = jax.nn.sigmoid(theta.shared_logit)
        mixing = jnp.concatenate(
            [jnp.full((fidelities, 1), jnp.sqrt(shared)), jnp.sqrt(1 - shared) * jnp.eye(fidelities)], axis=1
        )
        # the level is part of the variance
        root = jnp.exp(theta.log_amplitude) / math.sqrt(1 + LEVEL) * mixing
        # distances by products: the gradient of `pair` takes a tenth of the time in six dimensions with 192 trials
        kernel = Kernel(jnp.asarray(theta.log_lengths), self.kernel, few=0)
        covariance = seen_covariance(MixedProcesses(root[None], (kernel,), LEVEL), self.used)
        return covariance, ndtri(self.rate) * jnp.sqrt(1 + jnp.exp(2 * theta.log_amplitude))


_memory = Memory[tuple[SuccessParameters, NDArray[np.float64]]](16)

At = tuple[Float[Array, "n d"], Int[Array, " n"]]


@dataclass(frozen=True)
class _Trials:
    """Trials of all fidelities as rows, failures first."""

    x: NDArray[np.float64]
    fidelity: NDArray[np.int64]
    succeeded: NDArray[np.float64]

    @staticmethod
    def of(succeeded: Data, failed: Data) -> _Trials:
        parts = [(x, m, label) for label, data in ((0.0, failed), (1.0, succeeded)) for m, x in enumerate(data)]
        return _Trials(
            np.concatenate([np.asarray(x, dtype=float) for x, _, _ in parts]),
            np.concatenate([np.full(len(x), m) for x, m, _ in parts]),
            np.concatenate([np.full(len(x), label) for x, _, label in parts]),
        )

    def chosen(self, most: int, key: Key) -> _Trials:
        """At most `most` of them. The choice changes little when more come."""
        if len(self.x) <= most:
            return self
        bad, good = np.flatnonzero(self.succeeded == 0), np.flatnonzero(self.succeeded == 1)
        bad_key, good_key = key.split(2)
        bad = _some(bad, max(most // 2, most - len(good)), bad_key)
        room = most - len(bad)
        if len(good) > room:
            distance = np.min(np.sum((self.x[good][:, None] - self.x[bad][None]) ** 2, axis=2), axis=1, initial=np.inf)
            order = good[np.argsort(distance, kind="stable")]
            near = order[: room // 2]
            good = np.concatenate([near, _some(np.setdiff1d(good, near), room - len(near), good_key)])
        rows = np.sort(np.concatenate([bad, good]))
        return _Trials(self.x[rows], self.fidelity[rows], self.succeeded[rows])

    def padded(self) -> tuple[At, Labels]:
        """Points and labels in their bucket."""
        size = bucket(len(self.x))
        at = (jnp.asarray(pad_rows(self.x, size)), jnp.asarray(np.pad(self.fidelity, (0, size - len(self.x)))))
        return at, Labels(*(jnp.asarray(pad_rows(each, size)) for each in (self.succeeded, np.ones(len(self.x)))))


def _some(rows: NDArray[np.int64], most: int, key: Key) -> NDArray[np.int64]:
    """At most `most` of the rows, by random priorities that stay when more rows come."""
    return rows[np.argsort(key.generator().random(len(rows)), kind="stable")[:most]]


def _log_density(
    model: SuccessModel,
    fidelities: int,
    vectors: Float[Array, "k p"],
    prior: Prior[SuccessParameters],
    at: At,
    labels: Labels,
) -> tuple[Float[Array, " k"], Float[Array, "k p"]]:
    """log p(labels, theta) of every member, and its gradient."""
    mean, std = ravel_pytree(prior.mean)[0], ravel_pytree(prior.std)[0]

    def one(vector: Float[Array, " p"], random: Scalar) -> Scalar:
        covariance, offset = model.process(unravel(prior.mean, vector), fidelities)
        log_prior = -0.5 * jnp.sum(((vector - mean) / std) ** 2)
        return labels_log_evidence(_gram(covariance, at), labels, offset, random) + log_prior

    return _one_by_one(jax.value_and_grad(one), vectors, jnp.asarray(model.random))


_log_density_rows = quick_jit(_log_density, static_argnums=(0, 1))


def _given(
    model: SuccessModel, fidelities: int, thetas: SuccessParameters, weight: Float[Array, " k"], at: At, labels: Labels
) -> SuccessPosterior:
    """The posterior of every member."""

    def one(theta: SuccessParameters, random: Scalar) -> tuple[ExactGP, Scalar]:
        covariance, offset = model.process(theta, fidelities)
        sites = match_sites(_gram(covariance, at), labels, offset, random)
        rows = Rows(at, sites.shift / sites.precision, 1 / sites.precision, labels.mask)
        return ExactGP.of(covariance, jnp.zeros((1, 0, at[0].shape[1])), rows), offset

    random = jnp.asarray(model.random)
    processes, offset = _one_by_one(one, thetas, random)
    return SuccessPosterior(processes, offset, random, weight, fidelities)


_posterior = quick_jit(_given, static_argnums=(0, 1))


def _one_by_one(function: Callable[..., T], *rows: Any) -> T:
    """As `jax.vmap`, but the members do not wait for the slowest, and their matrices are not factored side by side.

    Side by side, two batches of LAPACK calls once waited for each other for ever (jaxlib 0.10, two cores); it could not
    be repeated.
    """
    return jax.lax.map(lambda row: function(*row), rows)


def _gram(covariance: Covariance, at: At) -> Float[Array, "n n"]:
    return jax.vmap(lambda p: jax.vmap(lambda q: covariance(p, q))(at))(at)
