"""The paper's synthetic problems against hand-computed numbers and independently written formulas."""

import math
from math import cos, exp, pi, sin, sqrt

import numpy as np
import pytest

from fidelium import problems

BRANIN, PARK1, LEVY = problems.get("branin"), problems.get("park1"), problems.get("levy")


def random_designs(problem: problems.Problem, count: int) -> list[dict[str, float]]:
    generator = np.random.default_rng(0)
    return [problem.space.decode(unit_x) for unit_x in problem.space.sample(generator, count)]


def values(problem: problems.Problem, fidelity: str, designs: list[dict[str, float]]) -> np.ndarray:
    return np.array([problem.evaluate(params, fidelity) for params in designs])


@pytest.mark.parametrize(
    ("problem", "optimum", "costs", "initial"),
    [
        (BRANIN, -0.397887, (1, 10, 100), {"low": 20, "medium": 20, "high": 2}),
        (PARK1, 25.589254, (1, 10), {"low": 5, "high": 2}),
        (LEVY, 0.0, (1, 10, 100), {"low": 20, "medium": 20, "high": 2}),
    ],
    ids=["branin", "park1", "levy"],
)
def test_settings_of_the_paper(
    problem: problems.Problem, optimum: float, costs: tuple[float, ...], initial: dict[str, int]
) -> None:
    assert problem.optimum == pytest.approx(optimum, abs=5e-7)
    assert problem.ladder.costs == costs
    assert problem.initial == initial
    assert problem.direction == "maximize"


# --- Branin: the functions of Perdikaris et al. 2017, which are minimised, in the usual constants a, b, c, r, s, t


def perdikaris_high(x1: float, x2: float) -> float:
    a, b, c, r, s, t = 1, 5.1 / (4 * pi**2), 5 / pi, 6, 10, 1 / (8 * pi)
    return a * (x2 - b * x1**2 + c * x1 - r) ** 2 + s * (1 - t) * cos(x1) + s


def perdikaris_medium(x1: float, x2: float) -> float:
    return 10 * sqrt(perdikaris_high(x1 - 2, x2 - 2)) + 2 * (x1 - 0.5) - 3 * (3 * x2 - 1) - 1


def perdikaris_low(x1: float, x2: float) -> float:
    return perdikaris_medium(1.2 * (x1 + 2), 1.2 * (x2 + 2)) - 3 * x2 + 1


@pytest.mark.parametrize(
    ("fidelity", "minimised"),
    [("low", perdikaris_low), ("medium", perdikaris_medium), ("high", perdikaris_high)],
)
def test_branin_is_the_negated_literature(fidelity: str, minimised) -> None:
    designs = random_designs(BRANIN, 200)
    expected = [-minimised(**params) for params in designs]
    np.testing.assert_allclose(values(BRANIN, fidelity, designs), expected, rtol=1e-11, atol=1e-11)


def test_branin_by_hand() -> None:
    # at the origin: -(−6)² − (10 − 0.39788735772973816) − 10
    assert BRANIN.evaluate({"x1": 0, "x2": 0}, "high") == pytest.approx(-55.60211264227026, rel=1e-14)
    # f₃ moved by (2, 2) is at its origin: −10 √55.60211… − 2·1.5 + 3·5 + 1
    assert BRANIN.evaluate({"x1": 2, "x2": 2}, "medium") == pytest.approx(13 - 10 * sqrt(55.60211264227026), rel=1e-14)
    # f₃ at its first optimum, reached from x = (π + 2)/1.2 − 2 and (2.275 + 2)/1.2 − 2
    x1, x2 = (pi + 2) / 1.2 - 2, (2.275 + 2) / 1.2 - 2
    medium = -10 * sqrt(5 / (4 * pi)) - 2 * (pi + 1.5) + 3 * (3 * 4.275 - 1) + 1
    assert BRANIN.evaluate({"x1": x1, "x2": x2}, "low") == pytest.approx(medium + 3 * x2 - 1, rel=1e-12)


def test_branin_low_has_the_corrected_sign() -> None:
    # f₁(x) = +f₂(1.2 (x + 2)) + 3 x₂ − 1 wherever 1.2 (x + 2) is in the domain; the paper prints −f₂
    designs = random_designs(BRANIN, 400)
    inside = [p for p in designs if 1.2 * (p["x1"] + 2) <= 10 and 1.2 * (p["x2"] + 2) <= 15]
    moved = [{name: 1.2 * (value + 2) for name, value in p.items()} for p in inside]
    expected = values(BRANIN, "medium", moved) + np.array([3 * p["x2"] - 1 for p in inside])
    assert len(inside) > 100
    np.testing.assert_allclose(values(BRANIN, "low", inside), expected, rtol=1e-12)


# --- Park1


def park1_as_printed(x1: float, x2: float, x3: float, x4: float) -> float:
    return x1 / 2 * (sqrt(1 + (x2 + x3**2) * x4 / x1**2) - 1) + (x1 + 3 * x4) * exp(1 + sin(x3))


def test_park1_is_the_printed_formula() -> None:
    designs = random_designs(PARK1, 200)
    high = np.array([park1_as_printed(**params) for params in designs])
    np.testing.assert_allclose(values(PARK1, "high", designs), high, rtol=1e-11)
    low = [
        (1 + sin(p["x1"]) / 10) * f - 2 * p["x1"] + p["x2"] ** 2 + p["x3"] ** 2 + 0.5
        for p, f in zip(designs, high, strict=True)
    ]
    np.testing.assert_allclose(values(PARK1, "low", designs), low, rtol=1e-11)


@pytest.mark.parametrize(("x2", "x3", "x4"), [(0, 0, 0), (1, 0, 0), (0.3, 0.7, 0.9), (1, 1, 1)])
def test_park1_takes_the_limit_at_zero(x2: float, x3: float, x4: float) -> None:
    at_zero = PARK1.evaluate({"x1": 0, "x2": x2, "x3": x3, "x4": x4}, "high")
    limit = sqrt((x2 + x3**2) * x4) / 2 + 3 * x4 * exp(1 + sin(x3))
    assert at_zero == pytest.approx(limit, rel=1e-15)
    assert at_zero == pytest.approx(park1_as_printed(1e-9, x2, x3, x4), abs=1e-7)


def test_park1_by_hand() -> None:
    ones = {"x1": 1, "x2": 1, "x3": 1, "x4": 1}
    high = (sqrt(3) - 1) / 2 + 4 * math.e ** (1 + 0.8414709848078965)
    assert PARK1.evaluate(ones, "high") == pytest.approx(high, rel=1e-14)
    assert PARK1.evaluate(ones, "low") == pytest.approx((1 + 0.08414709848078965) * high + 0.5, rel=1e-14)
    # at the origin f₂ = 0 and f₁ = 0.5
    zeros = dict.fromkeys(ones, 0)
    assert [PARK1.evaluate(zeros, name) for name in PARK1.ladder.names] == [0.5, 0.0]


# --- Levy


def test_levy_by_hand() -> None:
    # at integers every sine vanishes: f₃ = −(x₁ − 1)² − (x₂ − 1)²
    origin = [LEVY.evaluate({"x1": 0, "x2": 0}, name) for name in LEVY.ladder.names]
    assert origin == pytest.approx([-sqrt(5), -exp(0.1 * sqrt(2)) - 0.1 * sqrt(5), -2.0], rel=1e-14)
    assert LEVY.evaluate({"x1": -10, "x2": -10}, "high") == pytest.approx(-242, rel=1e-14)
    best = [LEVY.evaluate({"x1": 1, "x2": 1}, name) for name in LEVY.ladder.names]
    assert best == pytest.approx([-1.0, -1.1, 0.0], abs=1e-14)
    # x = (1/2, 1/4): sin²(3π/2) = 1, sin²(3π/4) = 1/2, sin²(π/2) = 1: −1 − 1/4 · 3/2 − 9/16 · 2
    assert LEVY.evaluate({"x1": 0.5, "x2": 0.25}, "high") == pytest.approx(-2.5, rel=1e-14)


@pytest.mark.parametrize("fidelity", ["low", "medium"])
def test_lower_levy_decreases_with_the_size_of_the_target(fidelity: str) -> None:
    designs = random_designs(LEVY, 300)
    order = np.argsort(np.abs(values(LEVY, "high", designs)))
    assert np.all(np.diff(values(LEVY, fidelity, designs)[order]) < 0)
