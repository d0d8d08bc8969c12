"""Number-like objects and texts as floats, exact sums of costs, and when to learn again."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import SupportsFloat

import numpy as np

_DECIMAL = re.compile(
    r"""[-+]?  (?: \d+ (?:\.\d*)? | \.\d+ )  (?: [eEdD] [-+]?\d+ )?  # 1, -1.5, .5e3, and 1.5D+03 of Fortran
    |   [-+]?  (?: \d+ \.\d* | \.\d+ )  [-+]\d{3}                   # 0.15-102: Fortran with three digits
    """,
    re.ASCII | re.VERBOSE,
)


def parse_decimal(text: str) -> float | None:
    """A number in ASCII digits with an exponent of C or Fortran, blanks around it; None for any other text.

    Unlike `float`, it refuses `1_000`, `nan`, `infinity` and the digits of other scripts. A number too large for a
    float is infinite.
    """
    found = _DECIMAL.fullmatch(text.strip(" \t\r\n"))
    if found is None:
        return None
    return float(re.sub(r"(?<=[\d.])(?:[dD]|(?=[-+]\d{3}$))", "e", found[0]))


def as_number(value: object) -> float | None:
    """`value` as a float if it is a real number or an array of size 1, else None (also for booleans and strings)."""
    if isinstance(value, (bool, np.bool_, str, complex, np.complexfloating)) or not isinstance(value, SupportsFloat):
        return None
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return float(array.item()) if array.size == 1 else None


def exact_sum(costs: Iterable[float] | Mapping[float, int]) -> Fraction:
    """The exact sum of costs as decimal numbers: ten times 0.1 is 1. A mapping gives the count of each cost."""
    return sum((_decimal(cost) * count for cost, count in Counter(costs).items()), Fraction())


def remainder(budget: float, spent: Fraction) -> float:
    """The rest of a budget, rounded down, so that a cost within it never exceeds the budget."""
    if math.isinf(budget):
        return budget
    left = _decimal(budget) - spent
    nearest = float(left)
    return nearest if _decimal(nearest) <= left else math.nextafter(nearest, -math.inf)


def milestone(count: int) -> int:
    """The last number of observations, up to `count`, at which the parameters of a model are learned again.

    Every number up to 16, then every other, from 32 on every fourth and so on, which is 6 to 12 % more each time.
    """
    step = 1 << max(0, count.bit_length() - 4)
    return count // step * step


def _decimal(number: float) -> Fraction:
    return Fraction(repr(float(number)))
