"""Covariances between fidelities: each is a belief about how the fidelities belong together.

`MixedProcesses` is all linear ones at once. With independent processes g_cr ~ GP(0, kappa_c),

    f_m(x) = sum_c sum_r R_c[m, r] g_cr(x),     k((x, m), (x', m')) = sum_c (R_c R_c^T)[m, m'] kappa_c(x, x')

and the families below differ in R_c: `Independent`, `Additive`, `Coregionalised`. `Convolved` smooths one latent
process differently for every fidelity.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fidelium.errors import SettingError
from fidelium.numerics.spectral import check_kernel, frequencies
from fidelium.randomness import Key
from fidelium.surrogates.base import Point, Scalar
from fidelium.surrogates.gp.exact import Covariance
from fidelium.surrogates.gp.kernels import Kernel, pairs, total
from fidelium.surrogates.learning import HIGHEST, LENGTH, LOWEST, Prior

At = tuple[Point, Int[Array, ""]]
"""A point of a multi-fidelity process: x and the position of the fidelity."""

BIAS = 0.25
"""Variance of each process's unknown mean, as a share of its variance."""


@runtime_checkable
class CovarianceFamily(Protocol):
    """Covariances with a vector theta to learn; data of all fidelities may share one scale, or have one each."""

    @property
    def shares_units(self) -> bool:
        """Whether the fidelities are compared in the same units."""
        ...

    @abstractmethod
    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior:
        """What is believed of theta; the key is for those who start from a random network."""
        ...

    @abstractmethod
    def covariance(self, theta: Float[Array, " p"], dimension: int, fidelities: int) -> Covariance:
        """The covariance for a value of theta."""
        ...

    @abstractmethod
    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Any:
        """Frequencies of the features that draws are made of."""
        ...


@runtime_checkable
class Correlation(Protocol):
    """A covariance of x alone, and features that stand for it: a `Kernel` for instance."""

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
        shares = jnp.einsum("cr,cr->c", self._loadings(p[1]), self._loadings(other[1]))
        return total(shares * jnp.stack([kernel(p[0], other[0]) + self.bias for kernel in self.kernels]))

    def features(self, frequencies: Float[Array, "c k d"], p: At) -> Float[Array, " f"]:
        blocks: list[Array] = []
        for root, kernel, directions in zip(self.roots, self.kernels, frequencies, strict=True):
            phi = jnp.concatenate([kernel.features(directions, p[0]), jnp.full(1, math.sqrt(self.bias))])
            blocks.append(jnp.outer(root[p[1]], phi).ravel())
        return jnp.concatenate(blocks)

    def _loadings(self, fidelity: Int[Array, ""]) -> Float[Array, "c r"]:
        return jnp.einsum("m,cmr->cr", _indicator(fidelity, self.roots.shape[1]), self.roots)


@dataclass(frozen=True)
class Independent:
    """Every fidelity is a process of its own: R_m = a_m e_m. theta = for every m [log a_m, log lengths]."""

    kernel: str = "rbf"
    shares_units: bool = False

    def __post_init__(self) -> None:
        check_kernel(self.kernel)

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior:
        return _believed([(0.0, 0.7), *_lengths(dimension)] * fidelities)

    def covariance(self, theta: Float[Array, " p"], dimension: int, fidelities: int) -> MixedProcesses:
        each = theta.reshape(fidelities, 1 + dimension)
        roots = jnp.eye(fidelities)[:, :, None] * jnp.exp(each[:, :1, None])
        return MixedProcesses(roots, _kernels(each[:, 1:], self.kernel))

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return _frequencies(self.kernel, count, dimension, fidelities, key)


@dataclass(frozen=True)
class Additive:
    """Autoregression (Kennedy and O'Hagan 2000): f_m = rho_m f_{m-1} + delta_m, all in the same units.

    theta = for every m [log amplitude, log lengths] of delta_m (f_1 for the lowest), then rho_2 .. rho_M if learned.

    Args:
        kernel: of every delta_m.
        rho: the slope between neighbours; None: one is learned for each pair. 1 is the model of Huang et al. (2006).
    """

    kernel: str = "rbf"
    rho: float | None = None
    shares_units: bool = True

    def __post_init__(self) -> None:
        check_kernel(self.kernel)

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior:
        deltas = [(-1.5, 1.0), *_lengths(dimension)] * (fidelities - 1)
        slopes = [(1.0, 0.5)] * (fidelities - 1) if self.rho is None else []
        return _believed([(0.0, 0.7), *_lengths(dimension), *deltas, *slopes])

    def covariance(self, theta: Float[Array, " p"], dimension: int, fidelities: int) -> MixedProcesses:
        count = fidelities * (1 + dimension)
        each = theta[:count].reshape(fidelities, 1 + dimension)
        rho = theta[count:] if self.rho is None else jnp.full(fidelities - 1, self.rho)
        # delta_l reaches f_m through every slope between them: R_l[m] = a_l rho_{l+1} .. rho_m for m >= l
        columns: list[Array] = []
        for l in range(fidelities):
            reach = [jnp.zeros(())] * l + [jnp.prod(rho[l:m]) for m in range(l, fidelities)]
            columns.append(jnp.exp(each[l, 0]) * jnp.stack(reach))
        return MixedProcesses(jnp.stack(columns)[:, :, None], _kernels(each[:, 1:], self.kernel))

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Float[np.ndarray, "c k d"]:
        return _frequencies(self.kernel, count, dimension, fidelities, key)


@dataclass(frozen=True)
class Coregionalised:
    """Linear coregionalisation, eq. (2) of the paper: sum_c (omega_cm omega_cm' + tau_cm delta_mm') kappa_c(x, x').

    theta = for every c [omega_c (M), log tau_c (M), log lengths]. The first kernel is believed to carry what all
    fidelities have in common, the others, with shorter lengths, what comes on top.

    Args:
        kernel: of every latent process.
        latent: C, how many of them there are.
    """

    kernel: str = "rbf"
    latent: int = 2
    shares_units: bool = False

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        if self.latent < 1:
            raise SettingError(f"a coregionalised process needs at least one latent process, got {self.latent!r}")

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior:
        beliefs: list[tuple[float, float]] = []
        for c in range(self.latent):
            beliefs += [(0.9, 0.4) if c == 0 else (0.2, 0.3)] * fidelities
            beliefs += [(math.log(0.05), 1.5)] * fidelities
            beliefs += _lengths(dimension, shorter=2.0**c)
        return _believed(beliefs)

    def covariance(self, theta: Float[Array, " p"], dimension: int, fidelities: int) -> MixedProcesses:
        each = theta.reshape(self.latent, 2 * fidelities + dimension)
        omega, log_tau = each[:, :fidelities], each[:, fidelities : 2 * fidelities]
        own = jnp.eye(fidelities)[None] * jnp.exp(0.5 * log_tau)[:, :, None]
        roots = jnp.concatenate([omega[:, :, None], own], axis=2)
        return MixedProcesses(roots, _kernels(each[:, 2 * fidelities :], self.kernel))

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
        own: what each fidelity has for itself.
    """

    log_amplitude: Float[Array, " m"]
    log_width: Float[Array, "m d"]
    log_length: Float[Array, " d"]
    own: MixedProcesses

    def __call__(self, p: At, other: At) -> Scalar:
        here, there = (_indicator(point[1], len(self.log_amplitude)) for point in (p, other))
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


@dataclass(frozen=True)
class Convolved:
    """The convolved multi-output process (Alvarez and Lawrence 2011), the model of Zhang et al. (2017).

    theta = [log l (d)], for every m [log a_m, log s_m (d)], then for every m [log amplitude, log lengths] of its own.
    """

    shares_units: bool = False

    def prior(self, dimension: int, fidelities: int, key: Key) -> Prior:
        length = 2 * _log_length(dimension)
        smoothers = [(-0.1, 0.5), *[(length - 2.0, 1.0)] * dimension] * fidelities
        own = [(-1.5, 1.0), *_lengths(dimension)] * fidelities
        return _believed([(length, 1.6)] * dimension + smoothers + own)

    def covariance(self, theta: Float[Array, " p"], dimension: int, fidelities: int) -> ConvolvedProcesses:
        length, rest = theta[:dimension], theta[dimension:]
        count = fidelities * (1 + dimension)
        each = rest[:count].reshape(fidelities, 1 + dimension)
        own = Independent().covariance(rest[count:], dimension, fidelities)
        return ConvolvedProcesses(each[:, 0], each[:, 1:], length, own)

    def frequencies(self, count: int, dimension: int, fidelities: int, key: Key) -> Any:
        shared_key, own_key = key.split(2)
        shared = frequencies("rbf", count, dimension, shared_key)
        return shared, Independent().frequencies(count, dimension, fidelities, own_key)


def _indicator(fidelity: Int[Array, ""], fidelities: int) -> Float[Array, " m"]:
    """1 at the fidelity, 0 elsewhere: products with it are much faster to differentiate than a lookup."""
    return (jnp.arange(fidelities) == fidelity).astype(float)


def _believed(beliefs: list[tuple[float, float]]) -> Prior:
    """The prior with these means and standard deviations."""
    mean, std = (np.array(part) for part in zip(*beliefs, strict=True))
    return Prior(mean, std, np.full(len(mean), LOWEST), np.full(len(mean), HIGHEST))


def _log_length(dimension: int) -> float:
    # lengths grow as the diagonal of the cube does
    return math.log(LENGTH) + 0.5 * math.log(max(dimension, 2) / 2)


def _lengths(dimension: int, shorter: float = 1.0) -> list[tuple[float, float]]:
    return [(_log_length(dimension) - math.log(shorter), 0.8)] * dimension


def _kernels(log_lengths: Float[Array, "c d"], name: str) -> tuple[Kernel, ...]:
    return tuple(Kernel(row, name) for row in log_lengths)


def _frequencies(name: str, count: int, dimension: int, kernels: int, key: Key) -> Float[np.ndarray, "c k d"]:
    return np.stack([frequencies(name, count, dimension, each) for each in key.split(kernels)])
