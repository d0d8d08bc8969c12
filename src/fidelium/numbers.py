"""Two small conversions: whatever is one number to a float, and exact sums of costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import SupportsFloat

import numpy as np


def as_number(value: object) -> float | None:
    """`value` as a float if it is one real number (an array of size 1 is), None otherwise (a bool, a string is not)."""
    if isinstance(value, (bool, np.bool_, str, complex, np.complexfloating)) or not isinstance(value, SupportsFloat):
        return None
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return float(array.item()) if array.size == 1 else None


def exact_sum(costs: Iterable[float] | Mapping[float, int]) -> Fraction:
    """The sum of costs as the user reads them, in decimals: ten times 0.1 is 1. A mapping counts each cost."""
    return sum((_decimal(cost) * count for cost, count in Counter(costs).items()), Fraction())


def remainder(budget: float, spent: Fraction) -> float:
    """What is left of a budget, rounded down, so that whatever fits into it keeps the sum within the budget."""
    if math.isinf(budget):
        return budget
    left = _decimal(budget) - spent
    nearest = float(left)
    return nearest if _decimal(nearest) <= left else math.nextafter(nearest, -math.inf)


def _decimal(number: float) -> Fraction:
    return Fraction(repr(float(number)))
