"""Covariances between fidelities: each is a model of how the fidelities are related.

`MixedProcesses` covers all linear ones. With independent processes g_cr ~ GP(0, kappa_c),

    f_m(x) = sum_c sum_r R_c[m, r] g_cr(x),     k((x, m), (x', m')) = sum_c (R_c R_c^T)[m, m'] kappa_c(x, x')

and the families below differ in R_c: `Independent`, `Additive`, `Coregionalised`. `Convolved` smooths one latent
process differently for every fidelity.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fidelium.errors import SettingError
from fidelium.numerics.kernels import FEW_DIMENSIONS, Kernel, check_kernel, frequencies, pairs, total
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.gp.exact import Covariance
from fidelium.surrogates.learning import LENGTH, LENGTH_LOG_STD, Entries, Entry, Prior, ProcessParameters, widening

At = tuple[Point, Int[Array, ""]]
"""A point of a multi-fidelity process: x and the position of the fidelity."""

BIAS = 0.25
"""Variance of each process's unknown mean, as a share of its variance. Chosen, not tuned."""

AMPLITUDE, AMPLITUDE_LOG_STD = 0.0, 0.7
"""Prior of the log amplitude of a fidelity: its values are scaled to spread 1, give or take a factor 2."""

DELTA_AMPLITUDE, DELTA_AMPLITUDE_LOG_STD = -1.5, 1.0
"""Prior of the log amplitude of what a fidelity adds to what it shares with others: a fifth of the spread, give or take
a factor e. Chosen, not tuned."""

SHARED_LOADING, SHARED_LOADING_STD = 0.9, 0.4
"""Prior of omega of the first latent process: most of what the fidelities do is believed to be common to all, with the
same sign. Chosen, not tuned."""

OTHER_LOADING, OTHER_LOADING_STD = 0.2, 0.3
"""Prior of omega of the other latent processes: small, of either sign. Chosen, not tuned."""

OWN_VAR, OWN_LOG_STD = 0.05, 1.5
"""Prior of tau, the variance that a fidelity does not share: a twentieth of the spread, little known. Chosen, not
tuned."""

SMOOTHED_AMPLITUDE, SMOOTHED_AMPLITUDE_LOG_STD = -0.1, 0.5
"""Prior of the log amplitude of the smoothed latent process: nearly all of the spread. Chosen, not tuned."""

SQUARED_LENGTH_LOG_STD = 2 * LENGTH_LOG_STD
"""Prior standard deviation of log squared lengths: that of lengths, squared."""

WIDTH, WIDTH_LOG_STD = -2.0, 1.0
"""Prior of the log variance of a smoother, relative to the latent process's squared length: smoothing changes little.
Chosen, not tuned."""


_FEW_KERNELS = 3
"""Up to this many kernels are stacked, as in older versions, whose results so stay the same to the bit."""


class Roles(StrEnum):
    """What the processes of a covariance are to the fidelities: it says which parameters each may depend on."""

    FREE = "free"
    CHAINED = "process c is what fidelity c adds to those below"
    FIRST_COMMON = "the first process is what all fidelities have in common"


@runtime_checkable
class CovarianceFamily(Protocol):
    """Covariances with parameters to learn; data of all fidelities may share one scale, or have one each."""

    roles: ClassVar[Roles]
    """What its processes are to the fidelities."""

    @property
    def shares_units(self) -> bool:
        """Whether the fidelities are compared in the same units."""
        ...

    @abstractmethod
    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior[Any]:
        """The prior of the parameters, a pytree of named parts; the key is for families with a random start."""
        ...

    @abstractmethod
    def covariance(self, theta: Any, fidelities: int) -> Covariance:
        """The covariance for given parameters."""
        ...

    @abstractmethod
    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Any:
        """Frequencies of the features that draws are made of."""
        ...


@runtime_checkable
class Correlation(Protocol):
    """A covariance of x alone with its random features, such as a `Kernel`."""

    @abstractmethod
    def __call__(self, x: Point, other: Point) -> Scalar:
        """kappa(x, x')."""
        ...

    @abstractmethod
    def features(self, frequencies: Float[Array, "k d"], x: Point) -> Float[Array, " f"]:
        """phi with E[phi(x) . phi(x')] = kappa(x, x') over the draw of the frequencies."""
        ...


class MixedProcesses(eqx.Module):
    """Sums of independent processes of x, mixed differently for every fidelity.

    Args:
        roots: R_c, one matrix per kernel.
        kernels: kappa_c.
        bias: variance of each process's mean.
    """

    roots: Float[Array, "c m r"]
    kernels: tuple[Correlation, ...]
    bias: float = eqx.field(static=True, default=BIAS)

    def __call__(self, p: At, other: At) -> Scalar:
        if len(self.kernels) > _FEW_KERNELS:
            return sum((self._part(c, p, other) for c in range(len(self.kernels))), start=jnp.zeros(()))
        shares = jnp.einsum("cr,cr->c", self._loadings(p[1]), self._loadings(other[1]))
        return total(shares * jnp.stack([kernel(p[0], other[0]) + self.bias for kernel in self.kernels]))

    def features(self, frequencies: Float[Array, "c k d"], p: At) -> Float[Array, " f"]:
        blocks: list[Array] = []
        for root, kernel, directions in zip(self.roots, self.kernels, frequencies, strict=True):
            phi = jnp.concatenate([kernel.features(directions, p[0]), jnp.full(1, math.sqrt(self.bias))])
            blocks.append(jnp.outer(root[p[1]], phi).ravel())
        return jnp.concatenate(blocks)

    def _part(self, c: int, p: At, other: At) -> Scalar:
        """(R_c R_c^T)[m, m'] kappa_c(x, x'): by itself, as the derivative of a stack of C of them takes C^2 steps."""
        here, there = (_indicator(m, self.roots.shape[1]) @ self.roots[c] for m in (p[1], other[1]))
        return (here @ there) * (self.kernels[c](p[0], other[0]) + self.bias)

    def _loadings(self, fidelity: Int[Array, ""]) -> Float[Array, "c r"]:
        return jnp.einsum("m,cmr->cr", _indicator(fidelity, self.roots.shape[1]), self.roots)


@dataclass(frozen=True)
class Independent:
    """Every fidelity is a process of its own: R_m = a_m e_m. The parameters are a `ProcessParameters` per fidelity."""

    roles: ClassVar[Roles] = Roles.FREE
    kernel: str = "rbf"
    shares_units: bool = False

    def __post_init__(self) -> None:
        check_kernel(self.kernel)

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior[tuple[ProcessParameters, ...]]:
        mean, std = _process(dimension, AMPLITUDE, AMPLITUDE_LOG_STD)
        return Prior.of((mean,) * fidelities, (std,) * fidelities)

    def covariance(self, theta: tuple[ProcessParameters, ...], fidelities: int) -> MixedProcesses:
        log_amplitudes = jnp.stack([each.log_amplitude for each in theta])
        roots = jnp.eye(fidelities)[:, :, None] * jnp.exp(log_amplitudes[:, None, None])
        return MixedProcesses(roots, _kernels([each.log_lengths for each in theta], self.kernel))

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return _frequencies(self.kernel, count, dimension, fidelities, key)


@dataclass(frozen=True)
class Additive:
    """Autoregression (Kennedy and O'Hagan 2000) with a fixed slope: f_m = rho f_{m-1} + delta_m, in the same units.

    The parameters are one `ProcessParameters` per fidelity, of delta_m (of f_1 for the lowest).

    Args:
        kernel: of every delta_m.
        rho: the slope between neighbours; 1 is the model of Huang et al. (2006).
    """

    roles: ClassVar[Roles] = Roles.CHAINED
    kernel: str = "rbf"
    rho: float = 1.0
    shares_units: bool = True

    def __post_init__(self) -> None:
        check_kernel(self.kernel)

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior[tuple[ProcessParameters, ...]]:
        lowest, delta = (
            _process(dimension, AMPLITUDE, AMPLITUDE_LOG_STD),
            _process(dimension, DELTA_AMPLITUDE, DELTA_AMPLITUDE_LOG_STD),
        )
        mean, std = ((first, *[other] * (fidelities - 1)) for first, other in zip(lowest, delta, strict=True))
        return Prior.of(mean, std)

    def covariance(self, theta: tuple[ProcessParameters, ...], fidelities: int) -> MixedProcesses:
        rho = jnp.full(fidelities - 1, self.rho)
        # delta_l reaches f_m through every slope between them: R_l[m] = a_l rho^(m - l) for m >= l
        columns: list[Array] = []
        for l, delta in enumerate(theta):
            reach = [jnp.zeros(())] * l + [jnp.prod(rho[l:m]) for m in range(l, fidelities)]
            columns.append(jnp.exp(delta.log_amplitude) * jnp.stack(reach))
        return MixedProcesses(
            jnp.stack(columns)[:, :, None], _kernels([each.log_lengths for each in theta], self.kernel)
        )

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return _frequencies(self.kernel, count, dimension, fidelities, key)


class LatentParameters(eqx.Module):
    """One latent process of a coregionalisation: its loadings omega_cm, log tau_cm, and its lengths."""

    loadings: Entries
    log_own_var: Entries
    log_lengths: Entries


@dataclass(frozen=True)
class Coregionalised:
    """Linear coregionalisation, eq. (2) mf-mes: sum_c (omega_cm omega_cm' + tau_cm delta_mm') kappa_c(x, x').

    The parameters are one `LatentParameters` per latent process. The first one is believed to carry what all fidelities
    have in common, the others, with shorter lengths, what comes on top.

    Args:
        kernel: of every latent process.
        latent: C, how many of them there are.
    """

    roles: ClassVar[Roles] = Roles.FIRST_COMMON
    kernel: str = "rbf"
    latent: int = 2
    shares_units: bool = False

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        if self.latent < 1:
            raise SettingError(f"a coregionalised process needs at least one latent process, got {self.latent!r}")

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior[tuple[LatentParameters, ...]]:
        means: list[LatentParameters] = []
        stds: list[LatentParameters] = []
        for c in range(self.latent):
            loading, spread = (SHARED_LOADING, SHARED_LOADING_STD) if c == 0 else (OTHER_LOADING, OTHER_LOADING_STD)
            parts = (np.full(fidelities, loading), np.full(fidelities, math.log(OWN_VAR)))
            means.append(LatentParameters(*parts, np.full(dimension, _log_length(dimension) - math.log(2.0**c))))
            parts = (np.full(fidelities, spread), np.full(fidelities, OWN_LOG_STD))
            stds.append(LatentParameters(*parts, np.full(dimension, LENGTH_LOG_STD)))
        return Prior.of(tuple(means), tuple(stds))

    def covariance(self, theta: tuple[LatentParameters, ...], fidelities: int) -> MixedProcesses:
        omega, log_tau = (jnp.stack([getattr(each, part) for each in theta]) for part in ("loadings", "log_own_var"))
        own = jnp.eye(fidelities)[None] * jnp.exp(0.5 * log_tau)[:, :, None]
        roots = jnp.concatenate([omega[:, :, None], own], axis=2)
        return MixedProcesses(roots, _kernels([each.log_lengths for each in theta], self.kernel))

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return _frequencies(self.kernel, count, dimension, self.latent, key)


class ConvolvedProcesses(eqx.Module):
    """One latent process seen through a Gaussian smoother per fidelity, plus a process of each fidelity's own.

        f_m(x) = int G_m(x - z) u(z) dz + own_m(x),     G_m Gaussian with covariance diag(s_m), u squared exponential
        cov(f_m(x), f_m'(x')) = a_m a_m' c_mm' exp(-1/2 sum_i (x_i - x'_i)^2 / (l_i + s_mi + s_m'i)) + own
        c_mm' = prod_i ((l_i + 2 s_mi) (l_i + 2 s_m'i))^(1/4) / (l_i + s_mi + s_m'i)^(1/2)

    Amplitudes are those of f_m: c_mm = 1.

    Args:
        log_amplitude: log a_m.
        log_width: log of the smoothers' variances s_m.
        log_length: log of the latent process's squared lengths l.
        own: the process of each fidelity's own.
    """

    log_amplitude: Float[Array, " m"]
    log_width: Float[Array, "m d"]
    log_length: Float[Array, " d"]
    own: MixedProcesses

    def __call__(self, p: At, other: At) -> Scalar:
        here, there = (_indicator(point[1], len(self.log_amplitude)) for point in (p, other))
        if len(p[0]) > FEW_DIMENSIONS or len(here) > _FEW_KERNELS:
            log_share, square = self._by_fidelities(p[0], here, other[0], there)
        else:
            l, s, t = jnp.exp(self.log_length), jnp.exp(here @ self.log_width), jnp.exp(there @ self.log_width)
            log_share = total(0.25 * jnp.log((l + 2 * s) * (l + 2 * t)) - 0.5 * jnp.log(l + s + t))
            square = total((p[0] - other[0]) ** 2 / (l + s + t))
        amplitude = here @ self.log_amplitude + there @ self.log_amplitude
        return jnp.exp(amplitude) * (jnp.exp(log_share - 0.5 * square) + BIAS) + self.own(p, other)

    def features(self, frequencies: Any, p: At) -> Float[Array, " f"]:
        shared, own = frequencies
        l, s = jnp.exp(self.log_length), jnp.exp(self.log_width[p[1]])
        waves = shared / jnp.sqrt(l)[None, :]
        # the spectrum of the latent process, times that of the smoother
        damping = jnp.exp(-0.5 * (waves**2) @ s + 0.25 * jnp.sum(jnp.log((l + 2 * s) / l)))
        amplitude = jnp.exp(self.log_amplitude[p[1]])
        smoothed = pairs(waves @ p[0]) * jnp.tile(damping, 2)
        return jnp.concatenate(
            [amplitude * smoothed, amplitude * jnp.full(1, math.sqrt(BIAS)), self.own.features(own, p)]
        )

    def _by_fidelities(
        self, x: Point, here: Float[Array, " m"], other: Point, there: Float[Array, " m"]
    ) -> tuple[Scalar, Scalar]:
        """log c_mm' and the squared distance, from what is the same for all points of two fidelities.

        The sums over coordinates are scalar products, which become products of matrices for all pairs of points.
        """
        l, s = jnp.exp(self.log_length), jnp.exp(self.log_width)
        widths = l[None, None, :] + s[:, None, :] + s[None, :, :]
        own = 0.25 * jnp.sum(jnp.log(l[None, :] + 2 * s), axis=1)
        log_share = own[:, None] + own[None, :] - 0.5 * jnp.sum(jnp.log(widths), axis=2)
        a, b = x - 0.5, other - 0.5
        towards = jnp.einsum("m,mnd->nd", here, 1 / widths)  # from this fidelity to each other one
        back = jnp.einsum("n,mnd->md", there, 1 / widths)
        product = jnp.ravel(a[None, :] * towards) @ jnp.ravel(there[:, None] * b[None, :])
        square = (towards @ a**2) @ there + here @ (back @ b**2) - 2 * product
        return here @ log_share @ there, jnp.maximum(square, 0.0)


class SmootherParameters(eqx.Module):
    """How one fidelity sees the latent process: amplitude, and the smoother's variances s_m."""

    log_amplitude: Entry
    log_widths: Entries


class ConvolvedParameters(eqx.Module):
    """The latent process's squared lengths l, the smoother of each fidelity, and each fidelity's own process."""

    log_squared_lengths: Entries
    smoothers: tuple[SmootherParameters, ...]
    own: tuple[ProcessParameters, ...]


@dataclass(frozen=True)
class Convolved:
    """The convolved multi-output process (Alvarez and Lawrence 2011), the model of Zhang et al. (2017)."""

    roles: ClassVar[Roles] = Roles.FREE
    shares_units: bool = False

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior[ConvolvedParameters]:
        length = 2 * _log_length(dimension)
        smoother = SmootherParameters(np.asarray(SMOOTHED_AMPLITUDE), np.full(dimension, length + WIDTH))
        smoother_std = SmootherParameters(np.asarray(SMOOTHED_AMPLITUDE_LOG_STD), np.full(dimension, WIDTH_LOG_STD))
        own, own_std = _process(dimension, DELTA_AMPLITUDE, DELTA_AMPLITUDE_LOG_STD)

        def alike(length: float, smoother: SmootherParameters, own: ProcessParameters) -> ConvolvedParameters:
            return ConvolvedParameters(np.full(dimension, length), (smoother,) * fidelities, (own,) * fidelities)

        return Prior.of(alike(length, smoother, own), alike(SQUARED_LENGTH_LOG_STD, smoother_std, own_std))

    def covariance(self, theta: ConvolvedParameters, fidelities: int) -> ConvolvedProcesses:
        amplitudes = jnp.stack([each.log_amplitude for each in theta.smoothers])
        widths = jnp.stack([each.log_widths for each in theta.smoothers])
        own = Independent().covariance(theta.own, fidelities)
        return ConvolvedProcesses(amplitudes, widths, jnp.asarray(theta.log_squared_lengths), own)

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Any:
        shared_key, own_key = key.split(2)
        shared = frequencies("rbf", count, dimension, shared_key)
        return shared, Independent().frequencies(count, dimension, fidelities, own_key)


def _indicator(fidelity: Int[Array, ""], fidelities: int) -> Float[Array, " m"]:
    """1 at the fidelity, 0 elsewhere: products with it are much faster to differentiate than a lookup."""
    return (jnp.arange(fidelities) == fidelity).astype(float)


def _log_length(dimension: int) -> float:
    return math.log(LENGTH) + widening(dimension)


def _process(dimension: int, log_amplitude: float, log_std: float) -> tuple[ProcessParameters, ProcessParameters]:
    """Prior mean and standard deviation of a process with this log amplitude."""
    mean = ProcessParameters(np.asarray(log_amplitude), np.full(dimension, _log_length(dimension)))
    return mean, ProcessParameters(np.asarray(log_std), np.full(dimension, LENGTH_LOG_STD))


def _kernels(log_lengths: Sequence[Entries], name: str) -> tuple[Kernel, ...]:
    return tuple(Kernel(jnp.asarray(each), name) for each in log_lengths)


def _frequencies(name: str, count: int, dimension: int, kernels: int, key: Key) -> Float[np.ndarray, "c k d"]:
    return np.stack([frequencies(name, count, dimension, each) for each in key.split(kernels)])
