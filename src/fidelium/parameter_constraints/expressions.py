"""Constraint texts such as "2*width + height <= 0.3": parsed, never run as Python, and evaluated for many designs.

    constraint = sum (("<=" | ">=" | "<" | ">" | "==" | "!=") sum)+
    sum = product (("+" | "-") product)*        product = unary (("*" | "/") unary)*
    unary = ("-" | "+") unary | power           power = atom ["**" unary]
    atom = number | name | name.descriptor | `name` | "text" | function "(" sum ("," sum)* ")" | "(" sum ")"

A parsed sum is a list of steps for a stack machine: no depth of nesting can exhaust Python's stack. Where a step cannot
be computed (a division by zero, the logarithm of a negative number, an overflow) the constraint is not met, whatever
the other steps give.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import SpaceError
from fidelium.parameter_constraints.arithmetic import FUNCTIONS, apply, derivatives

Values = NDArray[np.float64]

LONGEST = 1000
"""Characters of a constraint at most."""

DEEPEST = 50
"""Levels of parentheses, signs and powers at most."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)?)|`(?P<quoted>[^`]*)`"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<symbol><=|>=|==|!=|\*\*|[-+*/<>(),]))"
)
_COMPARISONS = ("<=", ">=", "<", ">", "==", "!=")
_ADVICE = {
    "^": "write ** for a power",
    "=": "write <=, >= or, for whole numbers and choices, ==",
    "and": "write two constraints",
    "or": "alternatives are not supported",
    "not": "turn the comparison round",
    "if": "conditions are not supported",
}


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


def parse(text: object, variables: Mapping[str, Variable]) -> Constraint:
    """The constraint that a text says.

    Args:
        text: such as "inner < outer".
        variables: the parameters by name.

    Raises:
        SpaceError: if the text is not a constraint; the message quotes it.
    """
    if not isinstance(text, str):
        raise SpaceError(f"a constraint must be a text such as 'inner < outer', got {text!r}")
    if len(text) > LONGEST:
        raise SpaceError(f"a constraint has at most {LONGEST} characters, got {len(text)}: {text[:40]!r}...")
    return _Parser(text, list(_tokens(text)), variables).constraint()


def parse_arithmetic(text: str, variables: Mapping[str, Variable]) -> Arithmetic:
    """The arithmetic that a text says.

    Args:
        text: such as "1 + 0.01 * cells".
        variables: the parameters by name.

    Raises:
        SpaceError: if the text is not arithmetic of parameters that are numbers; the message quotes it.
    """
    if len(text) > LONGEST:
        raise SpaceError(f"an expression has at most {LONGEST} characters, got {len(text)}: {text[:40]!r}...")
    return _Parser(text, list(_tokens(text, _EXPRESSION)), variables, what=_EXPRESSION).arithmetic()


_CONSTRAINT, _EXPRESSION = "constraint", "expression"


def _tokens(text: str, what: str = _CONSTRAINT) -> Iterator[tuple[str, str]]:
    """Kind and text of each token; the last is ("end", "")."""
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            rest = text[position:].lstrip()
            advice = f"; {_ADVICE[rest[0]]}" if rest[0] in _ADVICE else ""
            raise SpaceError(f"{what} {text!r}: unexpected {rest[:1]!r}{advice}")
        assert found.lastgroup is not None
        yield found.lastgroup, found[found.lastgroup]
        position = found.end()
    yield "end", ""


@dataclass
class _Parser:
    """Recursive descent; every method appends the steps of what it has read."""

    text: str
    tokens: list[tuple[str, str]]
    variables: Mapping[str, Variable]
    at: int = 0
    depth: int = 0
    names: dict[str, None] = field(default_factory=dict)  # in the order of their appearance
    what: str = _CONSTRAINT

    def constraint(self) -> Constraint:
        sides, symbols = [self._side()], list[str]()
        while self._next[1] in _COMPARISONS and self._next[0] == "symbol":
            symbols.append(self._take()[1])
            sides.append(self._side())
        if self._next[0] != "end":
            self._fail(f"unexpected {self._next[1]!r}{self._advice(self._next[1])}")
        if not symbols:
            self._fail("expected a comparison with <=, >=, < or >")
        if not self.names:
            self._fail("it has no parameter in it")
        pairs = zip(sides, symbols, sides[1:], strict=False)
        return Constraint(self.text, tuple(self._comparison(*pair) for pair in pairs), tuple(self.names))

    def arithmetic(self) -> Arithmetic:
        steps = self._side()
        if self._next[0] != "end":
            self._fail(f"unexpected {self._next[1]!r}{self._advice(self._next[1])}")
        for step in steps:
            if isinstance(step, str):
                self._fail(f"the text {step!r} is not a number")
            elif step.name and not step.count and not self.variables[step.name].is_number:
                self._fail(
                    f"{step.name!r} is categorical and its choices are not numbers, so it cannot be computed with"
                )
        if not self.names:
            self._fail("it has no parameter in it; write the number without quotes")
        return Arithmetic(self.text, tuple(step for step in steps if isinstance(step, Step)), tuple(self.names))

    @property
    def _next(self) -> tuple[str, str]:
        return self.tokens[self.at]

    def _take(self) -> tuple[str, str]:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _accept(self, *symbols: str) -> str | None:
        kind, token = self._next
        return self._take()[1] if kind == "symbol" and token in symbols else None

    def _fail(self, problem: str) -> NoReturn:
        raise SpaceError(f"{self.what} {self.text!r}: {problem}")

    @staticmethod
    def _advice(token: str) -> str:
        return f"; {_ADVICE[token]}" if token in _ADVICE else ""

    def _comparison(self, left: list[Step | str], symbol: str, right: list[Step | str]) -> Comparison:
        """The comparison; texts stand where a choice is compared with one, and nowhere else."""
        if symbol in ("==", "!="):
            for one, other in ((left, right), (right, left)):
                name = one[0].name if len(one) == 1 and isinstance(one[0], Step) and not one[0].count else ""
                if name and self.variables[name].kind == "choice" and len(other) == 1:
                    position = self._position(name, other[0])
                    if position is not None:
                        return Comparison((), symbol, (), (name, position))
        steps = [step for step in (*left, *right) if isinstance(step, Step)]
        if texts := [step for step in (*left, *right) if isinstance(step, str)]:
            self._fail(f"the text {texts[0]!r} can only be compared with a categorical parameter, by == or !=")
        for name in (step.name for step in steps if step.name and not step.count):
            if not self.variables[name].is_number:
                self._fail(f"the choices of {name!r} are not numbers; compare it by == or != with one of them")
            if symbol in ("==", "!=") and self.variables[name].kind == "real":
                self._fail(
                    f"{symbol} is for whole numbers and choices, and {name!r} is real; write a band such as "
                    "abs(a - b) <= 1e-3, or leave out a parameter that others determine"
                )
        return Comparison(
            tuple(s for s in left if isinstance(s, Step)), symbol, tuple(s for s in right if isinstance(s, Step))
        )

    def _position(self, name: str, other: Step | str) -> int | None:
        """Where among the choices the other side is, None if it is a parameter."""
        choices = self.variables[name].choices
        if isinstance(other, Step) and other.name:
            return None
        wanted = other if isinstance(other, str) else other.number
        for position, choice in enumerate(choices):
            same_kind = isinstance(choice, str) if isinstance(wanted, str) else number_of(choice) is not None
            if same_kind and choice == wanted:
                return position
        near = get_close_matches(str(wanted), [c for c in choices if isinstance(c, str)], 1)
        known = f"did you mean {near[0]!r}?" if near else f"its choices are {', '.join(map(repr, choices))}"
        return self._fail(f"{name!r} has no choice {wanted!r}; {known}")

    def _side(self) -> list[Step | str]:
        steps: list[Step | str] = []
        self._sum(steps)
        return steps

    def _sum(self, steps: list[Step | str]) -> None:
        self._product(steps)
        while symbol := self._accept("+", "-"):
            self._product(steps)
            steps.append(Step(symbol, count=2))

    def _product(self, steps: list[Step | str]) -> None:
        self._unary(steps)
        while symbol := self._accept("*", "/"):
            self._unary(steps)
            steps.append(Step(symbol, count=2))

    def _unary(self, steps: list[Step | str]) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail(f"it has more than {DEEPEST} levels of parentheses, signs and powers")
        if symbol := self._accept("-", "+"):
            self._unary(steps)
            if symbol == "-":
                steps.append(Step("negative", count=1))
        else:
            self._atom(steps)
            if self._accept("**"):
                self._unary(steps)
                steps.append(Step("**", count=2))
        self.depth -= 1

    def _atom(self, steps: list[Step | str]) -> None:
        kind, token = self._take()
        if kind == "number":
            number = float(token)
            if not np.isfinite(number):
                self._fail(f"the number {token[:20]} is too large")
            steps.append(Step("", number))
        elif kind == "text":
            steps.append(token[1:-1])
        elif kind == "name" and self._next == ("symbol", "("):
            self._function(token, steps)
        elif kind in ("name", "quoted"):
            self._name(kind, token, steps)
        elif (kind, token) == ("symbol", "("):
            self._sum(steps)
            self._close()
        elif kind == "end":
            self._fail("it ends where a number, a parameter or a parenthesis was expected")
        else:
            self.at -= 1
            self._fail(f"expected a number, a parameter or a parenthesis, got {token!r}{self._advice(token)}")

    def _name(self, kind: str, token: str, steps: list[Step | str]) -> None:
        if token not in self.variables:
            if kind == "name" and token in _ADVICE:
                self._fail(f"unexpected {token!r}{self._advice(token)}")
            near = get_close_matches(token, list(self.variables), 1)
            known = [name if name.isidentifier() else f"`{name}`" for name in self.variables]
            listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
            self._fail(
                f"unknown parameter {token!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {listed}")
            )
        self.names[token] = None
        steps.append(Step(token))

    def _function(self, token: str, steps: list[Step | str]) -> None:
        if token not in FUNCTIONS:
            near = get_close_matches(token, FUNCTIONS, 1)
            self._fail(
                f"unknown function {token!r}; "
                + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(FUNCTIONS)}")
            )
        self._take()
        count = 1
        self._sum(steps)
        while self._accept(","):
            self._sum(steps)
            count += 1
        self._close()
        several = token in ("min", "max")
        if (count > 1) != several:
            self._fail(f"{token} takes {'at least two values' if several else 'one value'}, got {count}")
        steps.append(Step(token, count=count))

    def _close(self) -> None:
        if not self._accept(")"):
            kind, token = self._next
            self._fail(f"expected ')', got {token!r}" if kind != "end" else "a parenthesis is not closed")


def number_of(choice: object) -> float | None:
    """A choice as a number; None if it is not one, or too large for a float."""
    if isinstance(choice, bool) or not isinstance(choice, (int, float)):
        return None
    try:
        return float(choice)
    except OverflowError:
        return None
