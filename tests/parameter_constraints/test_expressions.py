"""Constraint texts: what they mean, that Python agrees bit for bit, gradients, and one clear sentence for bad ones."""

from __future__ import annotations

import math
import operator
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.errors import SpaceError
from fidelium.parameter_constraints.expressions import Columns, Variable, differentiate, evaluate
from fidelium.parameter_constraints.parser import DEEPEST, LONGEST, parse

REALS = {"a": Variable("real"), "b": Variable("real"), "c": Variable("real")}
VARIABLES = {
    **REALS,
    "n": Variable("integer"),
    "core": Variable("choice", ("foam", "balsa")),
    "poles": Variable("choice", (2, 4, 6)),
    "flag": Variable("choice", (True, False)),
    "wall thickness": Variable("real"),
    "x-1": Variable("real"),
    "Δt": Variable("real"),
    "min": Variable("real"),
}


def columns(**values: Any) -> Columns:
    numbers = {name: np.atleast_1d(np.asarray(value, dtype=float)) for name, value in values.items()}
    return Columns(numbers, {})


def holds(text: str, **values: Any) -> list[bool]:
    return parse(text, VARIABLES).holds(columns(**values)).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", True),
        ("a <= 2", True),
        ("a < 2", False),
        ("a >= 2", True),
        ("a > 2", False),
        ("1 < a < b < 4", True),
        ("1 < a < b < 3", False),
        ("a + 2 * b == n", None),
        ("-a ** 2 <= -4", True),  # as in Python: -(a**2)
        ("2 ** -a == n", None),
        ("2 ** a ** b <= 256", True),  # from the right
        ("2 ** a ** b >= 256", True),
        ("a - b - 1 <= -2", True),  # from the left
        ("a / b / 2 <= 1 / 3", True),
        ("(a + b) * 2 >= 10", True),
        ("+a - -b >= 5", True),
        ("min(a, b) + max(a, b, 7) >= 9", True),
        ("abs(a - b) + sqrt(4) + exp(0) + log(1) + sin(0) + cos(0) <= 5", True),
        ("1e1 * .5 * 2. <= a * 5", True),
    ],
)
def test_a_constraint_means_what_it_says(text, expected):
    if expected is None:
        with pytest.raises(SpaceError, match="== is for whole numbers"):
            parse(text, VARIABLES)
    else:
        assert holds(text, a=2.0, b=3.0) == [expected]


def test_names_that_are_not_words_are_quoted_and_functions_may_be_names():
    known = {"wall thickness": 2.0, "x-1": 1.0, "Δt": 0.5, "min": 3.0}
    for text in ("`wall thickness` <= 3", "`x-1` < `wall thickness`", "Δt < 1", "min(min, 2) <= 2"):
        assert parse(text, VARIABLES).holds(Columns({n: np.array([v]) for n, v in known.items()}, {})).all()


def test_choices_are_compared_with_texts_and_numbers():
    at = Columns({"poles": np.array([2.0, 4.0, 6.0])}, {"core": np.array([0, 1, 1]), "poles": np.array([0, 1, 2])})
    for text, expected in [
        ('core == "foam"', [True, False, False]),
        ("'foam' != core", [False, True, True]),
        ("poles == 4", [False, True, False]),
        ("poles != 4", [True, False, True]),
        ("2 * poles > 6", [False, True, True]),
    ]:
        assert parse(text, VARIABLES).holds(at).tolist() == expected


def test_whole_numbers_may_be_equal():
    assert holds("n == 3", n=[2, 3, 4]) == [False, True, False]
    assert holds("2 * n != 6", n=[2, 3, 4]) == [True, False, True]


@pytest.mark.parametrize(
    "text",
    [
        "1 / a <= 5",
        "1 / a >= 5",
        "1 / (1 / a) >= 0",
        "log(a) <= 5",
        "log(a - 1) < 9",
        "sqrt(a - 1) >= 0",
        "(a - 1) ** 0.5 > -1",
        "exp(1e6 * (a + 1)) >= 1",
        "log(a) ** 0 >= 1",
        "a ** -1 >= 0",
        "max(1 / a, 2) >= 1",
        "1e308 * 10 * (1 - a) >= 0",
    ],
)
def test_where_it_cannot_be_computed_it_is_not_met(text):
    constraint = parse(text, VARIABLES)
    assert constraint.holds(columns(a=0.0)).tolist() == [False]
    margin, gradient = constraint.comparisons[0].margin_and_gradient(columns(a=[0.0]), ["a"])
    assert margin[0] == -math.inf
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a ==", "it ends where"),
        ("", "it ends where"),
        ("a", "expected a comparison"),
        ("a <", "it ends where"),
        ("< a", "got '<'"),
        ("a = 1", "write <=, >="),
        ("a ^ 2 < 1", r"write \*\* for a power"),
        ("a < 1 and b < 1", "write two constraints"),
        ("(a < 1", r"expected '\)', got '<'"),
        ("(a + 1 ", "not closed"),
        ("a) < 1", r"unexpected '\)'"),
        ("a b < 1", "unexpected 'b'"),
        ("2a < 1", "unexpected 'a'"),
        ("1_000 < a", "unexpected '_000'"),
        ("aa < 1", "did you mean 'a'"),
        ("width < 1", "unknown parameter 'width'; known: a, b, c, n, core, poles, flag, `wall thickness`"),
        ("sqr(a) < 1", "did you mean 'sqrt'"),
        ("__import__('os') < 1", "unknown function '__import__'"),
        ("a.b < 1", "unknown parameter 'a.b'"),
        ("a[0] < 1", r"unexpected '\['"),
        ("lambda: a", "unexpected ':'"),
        ("1 < 2", "no parameter"),
        ('"x" == "x"', "no parameter"),
        ("1e999 < a", "too large"),
        ("min(a) < 1", "at least two values, got 1"),
        ("sqrt(a, b) < 1", "one value, got 2"),
        ("sqrt() < 1", r"got '\)'"),
        ("a == 1", "'a' is real"),
        ("core < 1", "the choices of 'core' are not numbers"),
        ('core == "fom"', "did you mean 'foam'"),
        ("core == 1", "has no choice 1.0; its choices are 'foam', 'balsa'"),
        ("core == poles", "the choices of 'core' are not numbers"),
        ("flag == 1", "has no choice"),
        ('a <= "foam"', "the text 'foam' can only be compared"),
        ('core == "foam" + 1', "the text 'foam' can only be compared"),
        ("poles == 3", "its choices are 2, 4, 6"),
        ("`wall thick` < 1", "unknown parameter 'wall thick'; did you mean 'wall thickness'"),
        ("`a < 1", "unexpected '`'"),
        ("a < 1;", "unexpected ';'"),
        ("a < 1\nb < 1", "unexpected 'b'"),
        (7, "must be a text"),
        (None, "must be a text"),
    ],
)
def test_a_bad_text_is_one_clear_sentence(text, message):
    with pytest.raises(SpaceError, match=message) as error:
        parse(text, VARIABLES)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a" + ")" * 10_000 + " < 1",
        "(" * 400 + "a" + ")" * 400 + " < 1",
        "-" * 900 + "a < 1",
        "**".join(["a"] * 300) + " < 1",
        "9" * 990 + " < a",
        "min(" * 200 + "a < 1",
    ],
)
def test_hostile_texts_are_refused_at_once(text):
    began = time.monotonic()
    with pytest.raises(SpaceError):
        parse(text, VARIABLES)
    assert time.monotonic() - began < 0.1


def test_the_longest_and_the_deepest_are_computed():
    terms = (LONGEST - len("a < 9")) // len("+a")
    assert holds("a" + "+a" * terms + " < 9", a=[0.001, 1.0]) == [True, False]
    deep = "(" * (DEEPEST - 1) + "a" + ")" * (DEEPEST - 1)
    assert holds(f"{deep} < 1", a=[0.5, 1.5]) == [True, False]
    # 10**(10**(10**...)) would never end in integers
    assert holds("10 ** 10 ** 10 ** a >= 0", a=[0.0, 1.0]) == [True, False]


leaves = st.sampled_from(["a", "b", "c", "2", "0.5", "3e-3"])


def compound(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(parts, st.sampled_from(["+", "-", "*", "/", "**"]), parts).map(
        lambda p: f"({p[0]}) {p[1]} ({p[2]})"
    )
    calls = st.tuples(st.sampled_from(["abs", "sqrt", "exp", "log", "sin", "cos", "-"]), parts).map(
        lambda p: f"{p[0]}({p[1]})"
    )
    extremes = st.tuples(st.sampled_from(["min", "max"]), parts, parts).map(lambda p: f"{p[0]}({p[1]}, {p[2]})")
    return pairs | calls | extremes


expressions = st.recursive(leaves, compound, max_leaves=8)
numbers = st.floats(-3, 3, allow_nan=False).map(lambda x: round(x, 3))
NAMES = {name: getattr(math, name) for name in ("sqrt", "exp", "log", "sin", "cos")} | {
    "abs": abs,
    "min": min,
    "max": max,
}


def by_python(text: str, values: dict[str, float]) -> float:
    """The same by Python itself; NaN where it raises or gives a complex number."""
    try:
        result = eval(text, {"__builtins__": {}}, {**NAMES, **values})
        return result if isinstance(result, (int, float)) and math.isfinite(result) else math.nan
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return math.nan


@given(expressions, st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=9))
def test_python_computes_the_same_for_one_design_and_for_many(text, rows):
    # whole numbers are floats here, so that Python's 2 ** 2 ** 9 is no integer of hundreds of digits
    steps = parse(f"a + ({text}) <= 1e300", VARIABLES).comparisons[0].left
    table = np.array(rows)
    together = evaluate(steps, columns(a=table[:, 0], b=table[:, 1], c=table[:, 2]))
    spelled = text.replace("(2)", "(2.0)")
    for row, value in zip(rows, together.tolist(), strict=True):
        alone = evaluate(steps, columns(a=row[0], b=row[1], c=row[2]))[0]
        assert alone == value or (math.isnan(alone) and math.isnan(value))
        expected = row[0] + by_python(spelled, dict(zip("abc", row, strict=True)))
        # what is infinite in between is NaN here, and may end in a number in Python; a square is a product here
        assert value == expected or math.isnan(value) or ("**" in text and value == pytest.approx(expected, rel=1e-6))
        if math.isnan(expected):
            assert math.isnan(value)


@given(expressions, numbers, numbers, numbers)
def test_gradients_are_those_of_finite_differences(text, a, b, c):
    steps = parse(f"a + ({text}) <= 1e300", VARIABLES).comparisons[0].left
    point, step = np.array([a, b, c]), 1e-6
    value, gradient = differentiate(steps, columns(a=a, b=b, c=c), list("abc"))
    for i in range(3):
        sides = [point + sign * step * np.eye(3)[i] for sign in (-2, -1, 1, 2)]
        far_low, low, high, far_high = (float(evaluate(steps, columns(a=x, b=y, c=z))[0]) for x, y, z in sides)
        slopes = [(value[0] - low) / step, (high - value[0]) / step, (far_high - far_low) / (4 * step)]
        if (
            not np.isfinite(slopes).all()
            or max(abs(value[0]), *map(abs, slopes)) > 1e4
            or np.ptp(slopes) > 1e-3 * (1 + abs(slopes[2]))
        ):
            continue  # at a kink, next to a pole, or where differences are not to be trusted
        assert gradient[0, i] == pytest.approx(slopes[2], rel=1e-2, abs=1e-2)


def test_margins_have_the_sign_of_the_comparison():
    for symbol, python in {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}.items():
        comparison = parse(f"a {symbol} b", VARIABLES).comparisons[0]
        for a, b in [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0), (1e308, -1e308), (5e-324, 0.0), (1.0, 1.0 + 2**-52)]:
            assert comparison.holds(columns(a=a, b=b)).tolist() == [python(a, b)]


def test_what_is_violated_is_said_with_numbers():
    def said(text: str, **values: float) -> str:
        return parse(text, VARIABLES).sides(columns(**values))

    assert said("a < b", a=3, b=2) == "3 < 2"
    assert said("1 <= a + b <= 2", a=3, b=2) == "1 <= 5 <= 2"
    assert said("a < b", a=1.0000000001, b=1) == "1.0000000001 < 1.0"
    assert "cannot be computed" in said("1 / a < b", a=0, b=1)


def test_linear_comparisons_are_known():
    linear = ["a <= b", "2 * a + b / 3 <= 4 - c", "n * a + n ** 2 <= 1", "-(a + b) * sin(n) >= 0"]
    curved = ["a * b <= 1", "a ** 2 <= b", "1 / a <= b", "abs(a) <= 1", "min(a, b) <= 1", "n ** a <= 3"]
    for text in linear:
        assert parse(text, VARIABLES).comparisons[0].is_linear(("a", "b", "c")), text
    for text in curved:
        assert not parse(text, VARIABLES).comparisons[0].is_linear(("a", "b", "c")), text
