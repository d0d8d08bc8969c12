"""Hand-computed and published values of the problems in other dimensions."""

from math import exp, pi, sin, sqrt

import pytest

from fidelium import problems


def test_sine_is_the_line_times_the_square_of_the_low_fidelity() -> None:
    sine = problems.get("sine")
    assert sine.evaluate({"x": 1 / 16}, "low") == pytest.approx(1.0)
    assert sine.evaluate({"x": 1 / 16}, "high") == pytest.approx(1 / 16 - sqrt(2))


@pytest.mark.parametrize("dimension", [4, 10])
def test_rosenbrock(dimension: int) -> None:
    problem = problems.get(f"rosenbrock{dimension}")
    zeros, twos = (dict.fromkeys(problem.space.names, value) for value in (0.0, 2.0))
    pairs = dimension - 1
    assert problem.evaluate(zeros, "high") == -pairs
    assert problem.evaluate(twos, "high") == -401 * pairs
    assert problem.evaluate(zeros, "low") == pytest.approx((4 - pairs) / 10)
    assert problem.evaluate(twos, "low") == pytest.approx((4 + dimension - 401 * pairs) / (10 + dimension / 2))


def test_hartmann() -> None:
    problem = problems.get("hartmann6")
    assert problem.optimum == pytest.approx(3.32237, abs=5e-6)  # as published
    third = dict(zip(problem.space.names, (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650), strict=True))
    assert problem.evaluate(third, "high") > 3.0  # the centre of the third hill, with what the fourth adds
    fourth = dict(zip(problem.space.names, (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381), strict=True))
    assert problem.evaluate(fourth, "high") == pytest.approx(3.2, abs=0.01)
    rough_one = exp(-4) * (13 / 9) ** 9  # the rough exponential of 0, instead of 1
    others = problem.evaluate(fourth, "low") * 1.94 - 2.58 - 4 * rough_one
    assert abs(others) < 0.01  # far hills add next to nothing here


def test_mixed() -> None:
    mixed = problems.get("mixed")
    assert mixed.evaluate({"thickness": 0.3, "ribs": 2, "material": "steel"}, "high") == 3.0
    there = {"thickness": 0.7, "ribs": 6, "material": "aluminium"}  # u = 0.1 + 1/20
    expected = 3.5 - 1 / 6 - 6 * 0.15**2 - sin(4 * pi * 0.15) ** 2 / 2
    assert mixed.evaluate(there, "high") == pytest.approx(expected)
    assert mixed.evaluate(there | {"thickness": 0.65}, "low") == pytest.approx(0.8 * expected)
    best_low = max(mixed.evaluate({"thickness": t / 100, "ribs": 2, "material": "steel"}, "low") for t in range(101))
    assert best_low > max(
        mixed.evaluate({"thickness": t / 100, "ribs": n, "material": m}, "low")
        for t in range(0, 101, 5)
        for n in range(9)
        for m in ("aluminium", "carbon")
    )
