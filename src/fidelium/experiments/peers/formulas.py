"""The arithmetic that BoTorch's peers share. It needs no PyTorch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Units = tuple[float, float]
"""Shift and scale of a model's values: y = shift + scale * z."""


def units_of(y: NDArray[np.float64]) -> Units:
    """Mean and standard deviation of the values; 1 where there is no spread."""
    spread = float(np.std(y, ddof=1)) if len(y) > 1 else 0.0
    return float(np.mean(y)), spread or 1.0


def standardised(y: NDArray[np.float64], units: Units) -> NDArray[np.float64]:
    """z = (y - shift) / scale."""
    shift, scale = units
    return (y - shift) / scale


def with_column(unit_x: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """The designs `(n, d)` with one more column, the fidelity as BoTorch's models see it: `(n, d + 1)`."""
    return np.column_stack([unit_x, np.full(len(unit_x), value)])


def numbered(height: int) -> tuple[float, ...]:
    """The fidelities of a ladder as the numbers of tasks: 0, 1, ..., M - 1."""
    return tuple(float(m) for m in range(height))


def spaced(height: int) -> tuple[float, ...]:
    """The fidelities of a ladder as points of [0, 1] at equal distances, the target at 1: m / (M - 1)."""
    return tuple(m / (height - 1) for m in range(height)) if height > 1 else (1.0,)


def per_cost(gain: float, cost: float) -> float:
    """The gain per cost, and, as BoTorch has it, the loss times the cost: estimated gains may be below zero."""
    return gain / cost if gain > 0 else gain * cost
