"""Parsed constraints such as "2*width + height <= 0.3", evaluated for many designs.

A parsed sum is a list of steps for a stack machine: no depth of nesting can exhaust Python's stack. Where a step cannot
be computed (a division by zero, the logarithm of a negative number, an overflow) the constraint is not met, whatever
the other steps give.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fidelium.parameter_constraints.arithmetic import apply, derivatives

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Variable:
    """What a constraint may know of a parameter.

    Args:
        kind: "real", "integer" or "choice".
        choices: of a categorical parameter.
    """

    kind: Literal["real", "integer", "choice"]
    choices: Sequence[Any] = ()

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers, so that it may be used in arithmetic."""
        return self.kind != "choice" or all(number_of(choice) is not None for choice in self.choices)


@dataclass(frozen=True)
class Columns:
    """Designs as columns, by parameter.

    Args:
        numbers: values of the parameters that are numbers, each `(n,)`.
        positions: positions of the values of categorical parameters among their choices, each `(n,)`.
    """

    numbers: Mapping[str, Values]
    positions: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Step:
    """One step of the stack machine: push a number or a parameter, or replace the last values by a function of them."""

    name: str
    number: float = 0.0
    count: int = 0


@dataclass(frozen=True)
class Comparison:
    """`left symbol right`.

    Args:
        left: steps that compute the left side.
        symbol: `<=`, `>=`, `<`, `>`, `==` or `!=`.
        right: steps that compute the right side.
        choice: a categorical parameter and a position among its choices, where the two are compared instead.
    """

    left: tuple[Step, ...]
    symbol: str
    right: tuple[Step, ...]
    choice: tuple[str, int] | None = None

    @property
    def is_strict(self) -> bool:
        """Whether the margin must be above 0, not just 0."""
        return self.symbol in ("<", ">", "!=")

    def contains(self, names: Collection[str]) -> bool:
        """Whether one of these parameters is in it."""
        return any(step.name in names for step in (*self.left, *self.right) if not step.count)

    def given(self, columns: Columns) -> Comparison | bool:
        """The comparison with some parameters at the values of one design; whether it holds if no other is in it.

        Args:
            columns: the values of these parameters, each `(1,)`.
        """
        names = (
            {self.choice[0]} if self.choice else {s.name for s in (*self.left, *self.right) if s.name and not s.count}
        )
        known = {*columns.numbers, *columns.positions}
        if names <= known:
            return bool(self.holds(columns)[0])
        return replace(self, left=_given(self.left, columns), right=_given(self.right, columns))

    def is_linear(self, names: Collection[str]) -> bool:
        """Whether both sides are linear in these parameters, whatever the others are."""
        return self.choice is None and self.symbol not in ("==", "!=") and _degree(self, names) <= 1

    def margin(self, columns: Columns) -> Values:
        """How far the comparison is from failing: >= 0 (> 0 if strict) where it holds, -inf where it has no value."""
        if self.choice is not None:
            name, position = self.choice
            return np.where((columns.positions[name] == position) == (self.symbol == "=="), 1.0, -1.0)
        left, right = (evaluate(steps, columns) for steps in (self.left, self.right))
        with np.errstate(all="ignore"):
            margin = _SIGNS[self.symbol] * (right - left)
        margin = -np.abs(margin) if self.symbol == "==" else np.abs(margin) if self.symbol == "!=" else margin
        return np.where(np.isnan(margin), -np.inf, margin)

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        """Where the comparison holds."""
        margin = self.margin(columns)
        return margin > 0 if self.is_strict else margin >= 0

    def margin_and_gradient(self, columns: Columns, names: Sequence[str]) -> tuple[Values, Values]:
        """The margin `(n,)` and its derivatives with respect to these parameters `(n, names)`, 0 where it has none."""
        margin = self.margin(columns)
        if self.choice is not None:
            return margin, np.zeros((len(margin), len(names)))
        (left, left_slope), (right, right_slope) = (
            differentiate(steps, columns, names) for steps in (self.left, self.right)
        )
        with np.errstate(all="ignore"):
            slope = _SIGNS[self.symbol] * (right_slope - left_slope)
            if self.symbol in ("==", "!="):
                slope = slope * np.sign(right - left)[:, None] * (-1.0 if self.symbol == "==" else 1.0)
        usable = np.isfinite(margin)[:, None] & np.isfinite(slope)
        return margin, np.where(usable, np.clip(slope, -1e100, 1e100), 0.0)


_SIGNS = {"<=": 1.0, "<": 1.0, ">=": -1.0, ">": -1.0, "==": 1.0, "!=": 1.0}


@dataclass(frozen=True)
class Constraint:
    """A parsed constraint: a chain of comparisons, all of which must hold.

    Args:
        text: as the user wrote it.
        comparisons: `a < b <= c` has two.
        names: the parameters in it.
    """

    text: str
    comparisons: tuple[Comparison, ...]
    names: tuple[str, ...]

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        """Where all comparisons hold."""
        return np.logical_and.reduce([comparison.holds(columns) for comparison in self.comparisons])

    def given(self, columns: Columns) -> Constraint | None:
        """The constraint with some parameters at the values of one design, without what holds then; None if it cannot.

        Args:
            columns: the values of these parameters, each `(1,)`.
        """
        parts = [comparison.given(columns) for comparison in self.comparisons]
        known = {*columns.numbers, *columns.positions}
        left = tuple(part for part in parts if isinstance(part, Comparison))
        names = tuple(name for name in self.names if name not in known)
        return None if any(part is False for part in parts) else Constraint(self.text, left, names)

    def sides(self, columns: Columns) -> str:
        """The constraint with the numbers of the first design: "3 < 2"."""
        first, values = self.comparisons[0], []
        if first.choice is not None:
            return ""
        for steps in (first.left, *(comparison.right for comparison in self.comparisons)):
            values.append(float(evaluate(steps, columns)[0]))
        if not np.all(np.isfinite(values)):
            return "it cannot be computed there (division by zero, a function outside of its domain, or an overflow)"
        shortest = [f"{value:.6g}" for value in values]
        texts = shortest if len(set(shortest)) == len(set(values)) else [repr(value) for value in values]
        return (
            "".join(
                f"{text} {symbol} " for text, symbol in zip(texts, (c.symbol for c in self.comparisons), strict=False)
            )
            + (texts[-1])
        )


def _given(steps: tuple[Step, ...], columns: Columns) -> tuple[Step, ...]:
    """The steps with numbers in place of some parameters."""
    return tuple(
        Step("", float(columns.numbers[step.name][0])) if not step.count and step.name in columns.numbers else step
        for step in steps
    )


@dataclass(frozen=True)
class Arithmetic:
    """Parsed arithmetic of parameters, such as "1 + 0.01 * cells".

    Args:
        text: as the user wrote it.
        steps: that compute it.
        names: the parameters in it.
    """

    text: str
    steps: tuple[Step, ...]
    names: tuple[str, ...]

    def values(self, columns: Columns) -> Values:
        """The value for every design, NaN where it cannot be computed."""
        return evaluate(self.steps, columns)


def evaluate(steps: Sequence[Step], columns: Columns) -> Values:
    """The value for every design, NaN where a step cannot be computed."""
    count = len(next(iter({**columns.numbers, **columns.positions}.values())))
    stack: list[Values] = []
    for step in steps:
        if step.count:
            arguments = stack[-step.count :]
            del stack[-step.count :]
            stack.append(apply(step.name, arguments))
        else:
            stack.append(columns.numbers[step.name] if step.name else np.full(count, step.number))
    return stack[0]


def differentiate(steps: Sequence[Step], columns: Columns, names: Sequence[str]) -> tuple[Values, Values]:
    """The value for every design, and its derivatives with respect to the named parameters `(n, names)`."""
    count = len(next(iter({**columns.numbers, **columns.positions}.values())))
    stack: list[tuple[Values, Values | None]] = []  # a slope that is None is zero
    for step in steps:
        if not step.count:
            value = columns.numbers[step.name] if step.name else np.full(count, step.number)
            slope = None
            if step.name in names:
                slope = np.zeros((count, len(names)))
                slope[:, names.index(step.name)] = 1.0
            stack.append((value, slope))
            continue
        arguments = stack[-step.count :]
        del stack[-step.count :]
        inputs = [value for value, _ in arguments]
        result = apply(step.name, inputs)
        total: Values | None = None
        if any(slope is not None for _, slope in arguments):
            with np.errstate(all="ignore"):
                for (_, slope), factor in zip(arguments, derivatives(step.name, inputs, result), strict=True):
                    if slope is not None:
                        part = np.where(slope == 0.0, 0.0, factor[:, None] * slope)
                        total = part if total is None else total + part
        stack.append((result, total))
    value, slope = stack[0]
    return value, np.zeros((count, len(names))) if slope is None else slope


def _degree(comparison: Comparison, names: Collection[str]) -> int:
    """0 if the parameters are not in it, 1 if it is linear in them, else 2."""
    highest = 0
    for steps in (comparison.left, comparison.right):
        stack: list[int] = []
        for step in steps:
            if not step.count:
                stack.append(int(step.name in names))
                continue
            degrees = stack[-step.count :]
            del stack[-step.count :]
            if step.name in ("+", "-", "negative"):
                stack.append(max(degrees))
            elif step.name == "*" or (step.name == "/" and degrees[1] == 0):
                stack.append(min(2, sum(degrees)))
            else:
                stack.append(2 if any(degrees) else 0)
        highest = max(highest, stack[0])
    return highest


def number_of(choice: object) -> float | None:
    """A choice as a number; None if it is not one, or too large for a float."""
    if isinstance(choice, bool) or not isinstance(choice, (int, float)):
        return None
    try:
        return float(choice)
    except OverflowError:
        return None
