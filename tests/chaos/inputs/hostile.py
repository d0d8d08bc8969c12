"""Hostile values and mutations: what users, programs and files have in common when they are wrong."""

from __future__ import annotations

import random
import re
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, -0.0, 1, -1, 2, 7, 0.5, 1e-3, 1e15, 1e15 + 1, 1e16, -1e16, 1e308, -1.7e308, 1.7976931348623157e308, 5e-324,
    2.2250738585072014e-308, 1e-310, 3e-320, float("nan"), float("inf"), -float("inf"), 2**31, 2**40, 2**40 + 1,
    -(2**40), 2**53 + 1, 2**63, -(2**63), 2**64, 2**1024, 10**400, -(10**400), True, False,
)  # fmt: skip
"""Numbers, and what Python takes for one."""

TEXTS: tuple[str, ...] = (
    "", " ", "\t", "\n", "\r\n", "\0", "a\0b", "\ud800", "x\udfff", "\ufeff", "\u2028", "\u202e", "é", "名",
    "😀", "e\u0301", "１２", "٣", "½", "1_000", "0x10", "0o17", "0b1", "1e5", "1D+03", "1.5d3", ".5", "5.",
    "+1", "--1", "- 1", "1,5", "1e400", "-1e400", "1e-400", "NaN", "nan", "Infinity", "-inf", ".inf", ".nan",
    "null", "~", "None", "true", "yes", "no", "off", "{", "}", "{}", "{x}", "{{x}}", "{{ x }}", "{% if %}", "{0}",
    "{x!r}", "{x.__class__}", "%s", "%(x)s", "${HOME}", "$(id)", "`id`", "a;b", "a&&b", "|", ">", "*", "?", "[",
    "]", "[]", "\\", "\\n", "'", '"', '"""', "''", "#", "# x", ":", "a: b", "- a", "&a", "*a", "!tag",
    "!!python/object:os.system", "<<", "%YAML 1.1", "---", "...", "@", "=", "a=b", "=b", "a=", "..", "../x", "a/b",
    "/nonexistent/x", ".", "-", "--", "-x", "--help", "--no-such", "FAIL", "FAIL: why", "FAILED", "value", "cost",
    "failed", "number", "params", "fidelity", "folder", "result", "here", "python", "coarse", "fine", "x", "tiles",
    "kind", "foam", "balsa", "real", "integer", "categorical", "last", "space", "random", "sf-ei", "dnn-mfbo",
    "maximize", "minimize", "90 s", "10 min", "1e3 h", "-5 s", "1 fortnight", "sqlite:///", "sqlite:///:memory:",
    "sqlite:////nonexistent/x.db", "sqlite://host/x", "postgresql://", "mysql://me@host/x", "://", "a://b",
    "http://[::1", "'; DROP TABLE trials; --", "__class__", "__proto__", "constructor", "0" * 40, "9" * 320,
    "9" * 5000, "a" * 300, "ü" * 5000,
)  # fmt: skip
"""Texts, many of them syntax somewhere."""

_TOKEN = re.compile(r"[\w.+-]+|[^\w\s]")


def number(chance: random.Random) -> Any:
    """A number: hostile, or an ordinary one of any size."""
    if chance.random() < 0.4:
        return chance.choice(NUMBERS)
    size = 10.0 ** chance.randint(-6, 6)
    return chance.choice((chance.randint(-20, 20), chance.uniform(-size, size), round(chance.uniform(0, size), 3)))


def text(chance: random.Random) -> str:
    """A text: hostile, two of them in a row, or random characters."""
    kind = chance.random()
    if kind < 0.7:
        return chance.choice(TEXTS)
    if kind < 0.85:
        return chance.choice(TEXTS) + chance.choice(TEXTS)
    high = chance.choice((0x7F, 0x2FF, 0xFFFF, 0x10FFFF))
    return "".join(chr(chance.randint(0, high)) for _ in range(chance.randint(1, 12)))


def anything(chance: random.Random, depth: int = 2) -> Any:
    """Any value that JSON can write, and some that it cannot."""
    kind = chance.randrange(8 if depth else 6)
    if kind < 2:
        return number(chance)
    if kind < 5:
        return text(chance)
    if kind == 5:
        return None
    several = range(chance.randint(0, 3))
    if kind == 6:
        return [anything(chance, depth - 1) for _ in several]
    return {text(chance): anything(chance, depth - 1) for _ in several}


def nested(chance: random.Random) -> str:
    """Brackets in brackets, sometimes deeper than any parser should go, sometimes closed."""
    (depth,) = chance.choices((3, 30, 300, 1_000, 5_000, 100_000), (60, 60, 20, 5, 3, 3))  # deep ones take long
    opening, closing = chance.choice((("[", "]"), ('{"a":', "}"), ("(", ")"), ("{", "}")))
    return opening * depth + chance.choice(("", "1", closing * depth))


def mutated(chance: random.Random, document: str) -> str:
    """A document with one to four mistakes in it; rarely none."""
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        document = _mutation(chance, document)
    return document


def encoded(chance: random.Random, document: str) -> bytes:
    """The bytes of a document; lone surrogates become bytes that are not UTF-8."""
    coding = chance.random()
    if coding < 0.96:
        return document.encode("utf-8", "surrogatepass")
    return document.encode(chance.choice(("utf-16", "utf-8-sig", "latin-1")), "replace")


def _mutation(chance: random.Random, document: str) -> str:
    kind = chance.random()
    if kind < 0.45:
        return _replace_token(chance, document)
    start, end = sorted((chance.randint(0, len(document)), chance.randint(0, len(document))))
    if kind < 0.55:
        return document[:start] + text(chance) + document[start:]
    if kind < 0.65:
        return document[:start] + document[min(end, start + 12) :]
    if kind < 0.72:
        return document[:start] + document[start : start + 60] + document[start:]
    if kind < 0.77:
        return document[:end]
    if kind < 0.80:
        return document[:start] + nested(chance) + document[start:]
    if kind < 0.82:
        return document.replace("\n", chance.choice(("\r\n", "\r", "\n\n", "\x85", " ")))
    lines = document.splitlines(keepends=True)
    if len(lines) < 2:
        return document + text(chance)
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    if kind < 0.90:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind < 0.95:
        lines[first] = " " * chance.randint(1, 4) + lines[first]
    else:
        lines.insert(first, lines[second])
    return "".join(lines)


def _replace_token(chance: random.Random, document: str) -> str:
    tokens = list(_TOKEN.finditer(document, 0, 5_000))
    if not tokens:
        return document + text(chance)
    found = chance.choice(tokens)
    new = text(chance) if chance.random() < 0.6 else _written(number(chance))
    return document[: found.start()] + new + document[found.end() :]


def _written(value: Any) -> str:
    """A number as text, without Python's limit on the length of integers."""
    return str(value) if not isinstance(value, int) or abs(value) < 10**4000 else "9" * 4300
