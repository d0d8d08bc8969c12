"""What runs cost, learned from those that were measured: a Gaussian process of log(measured / declared).

    log(cost_m(x) / declared_m(x)) = shift + level_m + g(x) + e
    shift ~ N(0, SHIFT^2),    level_m ~ N(0, LEVEL^2),    e ~ N(0, noise^2)
    g ~ GP(0, amplitude^2 exp(-|(x - x') / length|^2 / 2))

The shift is what the declared unit is wrong by, the levels what each fidelity is besides: so a few cheap runs say what
dear ones will take, and declared costs count while there are few data. g, which all fidelities share, is used only
where its evidence is so much higher than without it that the data support it: equal costs stay equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fidelium.numbers import milestone

Values = NDArray[np.float64]

SHIFT = 3.0
"""Prior standard deviation of the shift: declared costs may be in another unit, a factor of 20 either way."""

LEVEL = 0.5
"""Prior standard deviation of a level: ratios of declared costs are about right, a factor of 1.6 either way."""

NOISE, NOISE_LOG_STD, LEAST_NOISE = 0.05, 2.0, 5e-3
"""Prior median of the noise of a log cost, the standard deviation of its logarithm, and the least noise: wall times
vary by some percent."""

AMPLITUDE, AMPLITUDE_LOG_STD = 0.7, 0.7
"""Prior median of the amplitude of g, and the standard deviation of its logarithm: where costs vary, by a factor of a
few."""

LENGTH, LENGTH_LOG_STD = 0.7, 0.8
"""Prior median of the lengths of g in two dimensions, as a share of the cube's side, and the standard deviation of
their logarithms: costs follow sizes and mesh densities, which are smooth, and not all parameters."""

SUPPORT = 4.0
"""By how much the log density with g must be above that without it: where costs are equal but for a noise of 1 to 60 %,
one set of 6 to 30 runs in a hundred shows a dependence (tests/costs/test_learned.py)."""

MOST_RUNS = 160
"""Runs that are used at most."""

_MOST_LENGTHS = 24
_STEPS = 40
_BOUND = 3.5  # of the search, in prior standard deviations


@dataclass(frozen=True)
class MeasuredRuns:
    """Runs whose cost was measured.

    Args:
        unit_x: their designs, rows of the unit cube `(n, d)`.
        fidelity: their positions in the ladder `(n,)`.
        log_ratio: log(measured / declared) of each `(n,)`.
    """

    unit_x: Values
    fidelity: NDArray[np.int64]
    log_ratio: Values

    def __len__(self) -> int:
        return len(self.log_ratio)

    def chosen(self, most: int) -> MeasuredRuns:
        """At most `most` of them: the newest half, and others evenly among the rest."""
        if len(self) <= most:
            return self
        newest = np.arange(len(self) - most // 2, len(self))
        older = np.linspace(0, len(self) - most // 2 - 1, most - most // 2).astype(int)
        return self._rows(np.concatenate([older, newest]))

    def first(self, count: int) -> MeasuredRuns:
        """The first `count` of them."""
        return self._rows(np.arange(min(count, len(self))))

    def _rows(self, rows: NDArray[np.int64]) -> MeasuredRuns:
        return MeasuredRuns(self.unit_x[rows], self.fidelity[rows], self.log_ratio[rows])


@dataclass(frozen=True)
class CostModel:
    """log(cost / declared) = level_m + sum_j weight_j exp(-|(x - centre_j) / length|^2 / 2); no centres: no g.

    Args:
        level: of each fidelity `(m,)`.
        centres: designs `(n, d)`.
        lengths: `(d,)`.
        weights: `(n,)`.
    """

    level: Values
    centres: Values
    lengths: Values
    weights: Values

    @property
    def depends_on_design(self) -> bool:
        """Whether the data support that costs depend on the design, beyond what is declared."""
        return len(self.weights) > 0

    def log_ratio(self, unit_x: Values, fidelity: int) -> Values:
        """The expected log(cost / declared) of designs `(n, d)`."""
        level = np.full(len(unit_x), self.level[fidelity])
        return level + _kernel(unit_x, self.centres, self.lengths) @ self.weights if len(self.weights) else level


def learn_costs(runs: MeasuredRuns, fidelities: int) -> CostModel:
    """What is expected of runs, after some were measured; at least one.

    The parameters are learned from the first runs, up to the last milestone, so that they change seldom.
    """
    early = runs.first(milestone(len(runs))).chosen(MOST_RUNS)
    runs = runs.chosen(MOST_RUNS)
    shape = early.unit_x.shape
    log_noise, rest = _learned(shape, early.unit_x.tobytes(), early.fidelity.tobytes(), early.log_ratio.tobytes())
    gram = _levels(runs.fidelity, runs.fidelity) + math.exp(2 * log_noise) * np.eye(len(runs))
    none = np.empty((0, shape[1]))
    centres, lengths, variance = none, np.ones(shape[1]), 0.0
    if rest is not None:
        variance, lengths, centres = math.exp(2 * rest[0]), np.exp(rest[1:]), runs.unit_x
        gram += variance * _kernel(centres, centres, lengths)
    alpha: Values = np.asarray(np.linalg.solve(gram, runs.log_ratio), dtype=np.float64)
    level = _levels(np.arange(fidelities), runs.fidelity) @ alpha + 0.5 * math.exp(2 * log_noise)
    return CostModel(level, centres, lengths, variance * alpha if rest is not None else np.empty(0))


def _levels(fidelity: NDArray[np.int64], other: NDArray[np.int64]) -> Values:
    """The covariance of shift and levels."""
    return SHIFT**2 + LEVEL**2 * (fidelity[:, None] == other[None, :])


def _kernel(x: Values, other: Values, lengths: Values) -> Values:
    a, b = x / lengths, other / lengths
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None, :] - 2 * a @ b.T
    return np.exp(-0.5 * np.maximum(squares, 0.0))


@lru_cache(maxsize=16)
def _learned(
    shape: tuple[int, int], unit_x: bytes, fidelity: bytes, log_ratio: bytes
) -> tuple[float, tuple[float, ...] | None]:
    """The logarithms of the noise and, if the data support g, of its amplitude and lengths; pure, so it may be kept."""
    x = np.frombuffer(unit_x).reshape(shape)
    y, levels = np.frombuffer(log_ratio), np.frombuffer(fidelity, dtype=np.int64)
    base = _levels(levels, levels)
    wide = shape[1] > _MOST_LENGTHS
    squares = (x.T[:, :, None] - x.T[:, None, :]) ** 2 if not wide else _all_squares(x)[None]
    plain = _maximise(_Density(y, base, squares[:0]))
    varying = _maximise(_Density(y, base, squares))
    if varying[0] <= plain[0] + SUPPORT:
        return float(plain[1][0]), None
    log_noise, log_amplitude, *log_lengths = varying[1].tolist()
    return log_noise, (log_amplitude, *(log_lengths * shape[1] if wide else log_lengths))


def _all_squares(x: Values) -> Values:
    norms = np.sum(x**2, axis=1)
    return np.maximum(norms[:, None] + norms[None, :] - 2 * x @ x.T, 0.0)


@dataclass(frozen=True)
class _Density:
    """log p(y, theta), theta the logarithms of noise, amplitude and lengths; of the noise alone without squares.

    Args:
        y: log ratios.
        base: covariance of shift and levels.
        squares: squared distances along every column, `(k, n, n)`.
    """

    y: Values
    base: Values
    squares: Values

    @property
    def prior(self) -> tuple[Values, Values]:
        """Means and standard deviations."""
        count = len(self.squares)
        if not count:
            return np.array([math.log(NOISE)]), np.array([NOISE_LOG_STD])
        length = math.log(LENGTH) + 0.5 * math.log(max(count, 2) / 2)
        mean = [math.log(NOISE), math.log(AMPLITUDE), *[length] * count]
        return np.array(mean), np.array([NOISE_LOG_STD, AMPLITUDE_LOG_STD, *[LENGTH_LOG_STD] * count])

    def __call__(self, theta: Values) -> tuple[float, Values]:
        """-log p(y, theta) up to a constant, and its gradient."""
        mean, std = self.prior
        noise_var, count = math.exp(2 * theta[0]), len(self.y)
        gram = self.base + noise_var * np.eye(count)
        smooth = np.zeros((count, count))
        if len(self.squares):
            precision = np.exp(-2 * theta[2:])
            smooth = math.exp(2 * theta[1]) * np.exp(-0.5 * np.tensordot(precision, self.squares, 1))
            gram = gram + smooth
        chol = np.linalg.cholesky(gram)
        root = np.linalg.solve(chol, np.eye(count))
        inverse = root.T @ root
        alpha = inverse @ self.y
        # d log p / d theta = tr((alpha alpha^T - K^-1) dK/dtheta) / 2
        outer = np.outer(alpha, alpha) - inverse
        slopes = [noise_var * np.trace(outer)]
        if len(self.squares):
            both = outer * smooth
            slopes.append(np.sum(both))
            slopes += (0.5 * np.exp(-2 * theta[2:]) * np.tensordot(self.squares, both, 2)).tolist()
        away = (theta - mean) / std
        value = 0.5 * self.y @ alpha + np.sum(np.log(np.diag(chol))) + 0.5 * np.sum(away**2)
        return float(value), away / std - np.array(slopes)


def _maximise(density: _Density) -> tuple[float, Values]:
    """The highest log density, and where it is."""
    from scipy.optimize import minimize  # slow to import, and only needed with measured costs

    mean, std = density.prior
    bounds: list[tuple[float, float]] = list(zip(mean - _BOUND * std, mean + _BOUND * std, strict=True))
    bounds[0] = (max(bounds[0][0], math.log(LEAST_NOISE)), math.log(2.0))
    best: tuple[float, Values] | None = None
    for start in _starts(mean, density):
        found = minimize(density, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS})
        if best is None or -found.fun > best[0]:
            best = -float(found.fun), np.asarray(found.x)
    assert best is not None
    return best


def _starts(mean: Values, density: _Density) -> Sequence[Values]:
    """The prior's mean, and one with the noise of the data."""
    spread = math.log(min(max(float(np.std(density.y)), 2 * LEAST_NOISE), 1.0))
    noisy = mean.copy()
    noisy[0] = spread
    return (mean, noisy)
