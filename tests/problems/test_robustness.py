"""The lower fidelities of `peaks` are what their names say, by numbers; published values of the other problems."""

from math import exp, pi, sin, sqrt

import numpy as np
import pytest

from fidelium import problems
from fidelium.problems import Problem

DESIGNS = [{"x": float(x), "y": float(y)} for x, y in np.random.default_rng(0).uniform(-3, 3, (500, 2))]
SUMMIT = problems.get("peaks").optimisers[0]


def values(problem: Problem, fidelity: str) -> np.ndarray:
    return np.array([problem.value(params, fidelity) for params in DESIGNS])


def correlation(name: str) -> float:
    problem = problems.get(name)
    return float(np.corrcoef(values(problem, "low"), values(problem, "high"))[0, 1])


def test_hand_computed_values() -> None:
    origin = {"x": 0.0, "y": 0.0}
    peaks = problems.get("peaks")
    assert peaks.value(origin, "high") == pytest.approx(3 / np.e - 1 / (3 * np.e), rel=1e-14)
    assert problems.get("peaks-opposed").value(origin, "low") == pytest.approx(-8 / (3 * np.e), rel=1e-14)
    assert problems.get("peaks-jumping").value({"x": 1.0, "y": 0.5}, "low") == pytest.approx(
        peaks.value({"x": 1.0, "y": 0.5}, "high") + 2, rel=1e-14
    )
    assert problems.get("peaks-shifted").value({"x": 0.6, "y": -0.4}, "low") == pytest.approx(8 / (3 * np.e))
    assert problems.get("peaks-blind").value(SUMMIT, "low") == 0.0


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("peaks", 0.85, 0.95),
        ("peaks-exact", 1.0, 1.0),
        ("peaks-shifted", 0.45, 0.7),
        ("peaks-jumping", 0.8, 0.95),
        ("peaks-blind", 0.8, 0.95),
        ("peaks-opposed", -1.0, -1.0),
    ],
)
def test_how_well_the_low_fidelity_tells_of_the_target(name: str, lowest: float, highest: float) -> None:
    assert lowest - 1e-12 <= correlation(name) <= highest + 1e-12


def test_the_constant_one_tells_nothing() -> None:
    assert np.ptp(values(problems.get("peaks-constant"), "low")) == 0.0


def test_the_blind_one_is_right_far_from_the_summit_alone() -> None:
    blind = problems.get("peaks-blind")
    far = {"x": -1.5, "y": -1.0}
    assert blind.value(far, "low") == pytest.approx(blind.value(far, "high"), rel=1e-6)


@pytest.mark.parametrize(("name", "ratio"), [("peaks-dear", 2), ("peaks", 10), ("peaks-cheap", 1000)])
def test_ratios_of_costs(name: str, ratio: float) -> None:
    low, high = problems.get(name).ladder.costs
    assert high / low == ratio


def test_sine_is_the_line_times_the_square_of_the_low_fidelity() -> None:
    sine = problems.get("sine")
    assert sine.value({"x": 1 / 16}, "low") == pytest.approx(1.0)
    assert sine.value({"x": 1 / 16}, "high") == pytest.approx(1 / 16 - sqrt(2))


@pytest.mark.parametrize("dimension", [4, 10])
def test_rosenbrock(dimension: int) -> None:
    problem = problems.get(f"rosenbrock{dimension}")
    zeros, twos = (dict.fromkeys(problem.space.names, value) for value in (0.0, 2.0))
    pairs = dimension - 1
    assert problem.value(zeros, "high") == -pairs
    assert problem.value(twos, "high") == -401 * pairs
    assert problem.value(zeros, "low") == pytest.approx((4 - pairs) / 10)
    assert problem.value(twos, "low") == pytest.approx((4 + dimension - 401 * pairs) / (10 + dimension / 2))


def test_hartmann() -> None:
    problem = problems.get("hartmann6")
    assert problem.optimum == pytest.approx(3.32237, abs=5e-6)  # as published
    third = dict(zip(problem.space.names, (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650), strict=True))
    assert problem.value(third, "high") > 3.0  # the centre of the third hill, with what the fourth adds
    fourth = dict(zip(problem.space.names, (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381), strict=True))
    assert problem.value(fourth, "high") == pytest.approx(3.2, abs=0.01)
    rough_one = exp(-4) * (13 / 9) ** 9  # the rough exponential of 0, instead of 1
    others = problem.value(fourth, "low") * 1.94 - 2.58 - 4 * rough_one
    assert abs(others) < 0.01  # far hills add next to nothing here


def test_mixed() -> None:
    mixed = problems.get("mixed")
    assert mixed.value({"thickness": 0.3, "ribs": 2, "material": "steel"}, "high") == 3.0
    there = {"thickness": 0.7, "ribs": 6, "material": "aluminium"}  # u = 0.1 + 1/20
    expected = 3.5 - 1 / 6 - 6 * 0.15**2 - sin(4 * pi * 0.15) ** 2 / 2
    assert mixed.value(there, "high") == pytest.approx(expected)
    assert mixed.value(there | {"thickness": 0.65}, "low") == pytest.approx(0.8 * expected)
    best_low = max(mixed.value({"thickness": t / 100, "ribs": 2, "material": "steel"}, "low") for t in range(101))
    assert best_low > max(
        mixed.value({"thickness": t / 100, "ribs": n, "material": m}, "low")
        for t in range(0, 101, 5)
        for n in range(9)
        for m in ("aluminium", "carbon")
    )
