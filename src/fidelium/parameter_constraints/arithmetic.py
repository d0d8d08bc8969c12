"""The functions of constraint texts and their derivatives, elementwise on columns.

Values are those of Python's own functions, and the same however many designs are computed at once: NumPy's
exponential, logarithm, sine, cosine and power of one number and of many may differ in the last bit, and a design must
not be valid in one place and invalid in another. What is not a finite number is NaN, and so is what follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

FUNCTIONS = ("abs", "min", "max", "sqrt", "exp", "log", "sin", "cos")
"""Functions by the names that constraints use."""


def apply(name: str, arguments: Sequence[Values]) -> Values:
    """A function or operator of one or more columns."""
    first = arguments[0]
    with np.errstate(all="ignore"):
        match name:
            case "+":
                result = first + arguments[1]
            case "-":
                result = first - arguments[1]
            case "*":
                result = first * arguments[1]
            case "/":
                result = first / arguments[1]
            case "negative":
                result = -first
            case "abs":
                result = np.abs(first)
            case "min":
                result = np.minimum.reduce(list(arguments))
            case "max":
                result = np.maximum.reduce(list(arguments))
            case "sqrt":
                result = np.sqrt(first)
            case "**":
                result = _power(first, arguments[1])
            case _:
                result = _each(_ONE_BY_ONE[name], first)
        return np.where(np.isfinite(result), result, np.nan)


def derivatives(name: str, arguments: Sequence[Values], result: Values) -> list[Values]:
    """The derivatives of `apply` with respect to each of its arguments."""
    first = arguments[0]
    second = arguments[-1]
    one = np.ones_like(first)
    match name:
        case "+":
            return [one, one]
        case "-":
            return [one, -one]
        case "*":
            return [second, first]
        case "/":
            return [1 / second, -result / second]
        case "negative":
            return [-one]
        case "abs":
            return [np.where(first < 0, -1.0, 1.0)]
        case "min" | "max":
            stacked = np.stack(list(arguments))
            chosen = np.argmin(stacked, axis=0) if name == "min" else np.argmax(stacked, axis=0)
            return [np.where(chosen == position, 1.0, 0.0) for position in range(len(arguments))]
        case "sqrt":
            return [0.5 / result]
        case "exp":
            return [result]
        case "log":
            return [1 / first]
        case "sin":
            return [np.cos(first)]
        case "cos":
            return [-np.sin(first)]
        case _:  # a power: b a^(b-1) and a^b log a
            by_base = np.where(second == 0, 0.0, second * np.power(first, second - 1))
            return [by_base, np.where(first > 0, result * np.log(np.abs(first)), 0.0)]


def _power(base: Values, exponent: Values) -> Values:
    """Powers; squares, which are frequent, as products."""
    result = base * base
    others = np.flatnonzero(exponent != 2.0)
    if len(others):
        result[others] = _each(math.pow, base[others], exponent[others])
    return np.where(np.isnan(base) | np.isnan(exponent), np.nan, result)  # pow(nan, 0) is 1


def _each(function: Callable[..., float], *columns: Values) -> Values:
    """Python's function of every element, NaN where it raises."""
    rows = [column.tolist() for column in columns]
    try:
        return np.array([function(*row) for row in zip(*rows, strict=True)], dtype=float)
    except (ValueError, OverflowError):
        return np.array([_number(function, row) for row in zip(*rows, strict=True)], dtype=float)


def _number(function: Callable[..., float], row: Sequence[float]) -> float:
    try:
        return function(*row)
    except (ValueError, OverflowError):
        return math.nan


_ONE_BY_ONE: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
}
