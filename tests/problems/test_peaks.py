"""The lower fidelities of `peaks` are what their names say, by numbers."""

import numpy as np
import pytest

from fidelium import problems
from fidelium.problems import Problem

DESIGNS = [{"x": float(x), "y": float(y)} for x, y in np.random.default_rng(0).uniform(-3, 3, (500, 2))]
SUMMIT = problems.get("peaks").optimisers[0]


def values(problem: Problem, fidelity: str) -> np.ndarray:
    return np.array([problem.evaluate(params, fidelity) for params in DESIGNS])


def correlation(name: str) -> float:
    problem = problems.get(name)
    return float(np.corrcoef(values(problem, "low"), values(problem, "high"))[0, 1])


def test_hand_computed_values() -> None:
    origin = {"x": 0.0, "y": 0.0}
    peaks = problems.get("peaks")
    assert peaks.evaluate(origin, "high") == pytest.approx(3 / np.e - 1 / (3 * np.e), rel=1e-14)
    assert problems.get("peaks-opposed").evaluate(origin, "low") == pytest.approx(-8 / (3 * np.e), rel=1e-14)
    assert problems.get("peaks-jumping").evaluate({"x": 1.0, "y": 0.5}, "low") == pytest.approx(
        peaks.evaluate({"x": 1.0, "y": 0.5}, "high") + 2, rel=1e-14
    )
    assert problems.get("peaks-shifted").evaluate({"x": 0.6, "y": -0.4}, "low") == pytest.approx(8 / (3 * np.e))
    assert problems.get("peaks-blind").evaluate(SUMMIT, "low") == 0.0


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
    assert blind.evaluate(far, "low") == pytest.approx(blind.evaluate(far, "high"), rel=1e-6)


@pytest.mark.parametrize(("name", "ratio"), [("peaks-dear", 2), ("peaks", 10), ("peaks-cheap", 1000)])
def test_ratios_of_costs(name: str, ratio: float) -> None:
    low, high = problems.get(name).ladder.costs
    assert high / low == ratio
