"""Texts of constraints and arithmetic to their steps: parsed, never run as Python.

constraint = sum (("<=" | ">=" | "<" | ">" | "==" | "!=") sum)+
sum = product (("+" | "-") product)*        product = unary (("*" | "/") unary)*
unary = ("-" | "+") unary | power           power = atom ["**" unary]
atom = number | name | name.descriptor | `name` | "text" | function "(" sum ("," sum)* ")" | "(" sum ")"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NoReturn

import numpy as np

from fidelium.errors import SpaceError
from fidelium.parameter_constraints.arithmetic import FUNCTIONS
from fidelium.parameter_constraints.expressions import Arithmetic, Comparison, Constraint, Step, Variable, number_of

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
