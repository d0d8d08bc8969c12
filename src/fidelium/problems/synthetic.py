"""The paper's three synthetic problems (supplement, Sec. 1), all maximised.

Costs and initial sizes are those of Sec. 6.1; where a printed formula is not followed, the docstring says so.
"""

from __future__ import annotations

from math import cos, exp, pi, sin, sqrt

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.space import Real, SearchSpace

_TWO_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=10)))
_THREE_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("medium", cost=10), Fidelity("high", cost=100)))

_BRANIN_WAVE = 10 - 5 / (4 * pi)


def branin() -> Problem:
    """Branin with three fidelities: non-linear transformations, non-uniform scalings and shifts between them."""
    return Problem(
        name="branin",
        space=SearchSpace({"x1": Real(-5, 10), "x2": Real(0, 15)}),
        ladder=_THREE_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=(branin_low, branin_medium, branin_high),
        optimum=_BRANIN_WAVE - 10,  # the square vanishes and cos(x₁) = -1: -5/(4π)
        optimisers=({"x1": -pi, "x2": 12.275}, {"x1": pi, "x2": 2.275}, {"x1": 3 * pi, "x2": 2.475}),
        initial={"low": 20, "medium": 20, "high": 2},
        reference="Forrester et al. 2008; fidelities: Perdikaris et al. 2017",
    )


def branin_high(x1: float, x2: float) -> float:
    """f₃(x) = -(-1.275 x₁²/π² + 5 x₁/π + x₂ - 6)² - (10 - 5/(4π)) cos(x₁) - 10."""
    parabola = -1.275 * x1**2 / pi**2 + 5 * x1 / pi + x2 - 6
    return -(parabola**2) - _BRANIN_WAVE * cos(x1) - 10


def branin_medium(x1: float, x2: float) -> float:
    """f₂(x) = -10 √(-f₃(x - 2)) - 2 (x₁ - 0.5) + 3 (3 x₂ - 1) + 1; the root is real, as f₃ < 0 everywhere."""
    return -10 * sqrt(-branin_high(x1 - 2, x2 - 2)) - 2 * (x1 - 0.5) + 3 * (3 * x2 - 1) + 1


def branin_low(x1: float, x2: float) -> float:
    """f₁(x) = f₂(1.2 (x + 2)) + 3 x₂ - 1.

    The paper prints -f₂, but its f₂ is already the negated function of Perdikaris et al. 2017: one sign too many.
    """
    return branin_medium(1.2 * (x1 + 2), 1.2 * (x2 + 2)) + 3 * x2 - 1


def park1() -> Problem:
    """Park1 with two fidelities in four dimensions; the optimum is a corner."""
    return Problem(
        name="park1",
        space=SearchSpace({name: Real(0, 1) for name in ("x1", "x2", "x3", "x4")}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=(park1_low, park1_high),
        optimum=park1_high(1, 1, 1, 1),
        optimisers=({"x1": 1.0, "x2": 1.0, "x3": 1.0, "x4": 1.0},),
        initial={"low": 5, "high": 2},
        reference="Park 1991; fidelities: Xiong et al. 2013",
    )


def park1_high(x1: float, x2: float, x3: float, x4: float) -> float:
    """f₂(x) = x₁/2 [√(1 + (x₂ + x₃²) x₄/x₁²) - 1] + (x₁ + 3 x₄) exp(1 + sin x₃).

    With x₁ ≥ 0 multiplied into the root nothing is divided by, and x₁ = 0 is the exact limit.
    """
    # x₁ √(1 + a/x₁²) = √(x₁² + a)
    return (sqrt(x1**2 + (x2 + x3**2) * x4) - x1) / 2 + (x1 + 3 * x4) * exp(1 + sin(x3))


def park1_low(x1: float, x2: float, x3: float, x4: float) -> float:
    """f₁(x) = [1 + sin(x₁)/10] f₂(x) - 2 x₁ + x₂² + x₃² + 0.5."""
    return (1 + sin(x1) / 10) * park1_high(x1, x2, x3, x4) - 2 * x1 + x2**2 + x3**2 + 0.5


def levy() -> Problem:
    """Levy with three fidelities: the lower two are decreasing functions of |f₃| alone, so they share its optimiser."""
    return Problem(
        name="levy",
        space=SearchSpace({"x1": Real(-10, 10), "x2": Real(-10, 10)}),
        ladder=_THREE_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=(levy_low, levy_medium, levy_high),
        optimum=0.0,
        optimisers=({"x1": 1.0, "x2": 1.0},),
        initial={"low": 20, "medium": 20, "high": 2},
        reference="Laguna and Martí 2005",
    )


def levy_high(x1: float, x2: float) -> float:
    """f₃(x) = -sin²(3π x₁) - (x₁ - 1)² [1 + sin²(3π x₂)] - (x₂ - 1)² [1 + sin²(2π x₂)]."""
    first = (x1 - 1) ** 2 * (1 + sin(3 * pi * x2) ** 2)
    second = (x2 - 1) ** 2 * (1 + sin(2 * pi * x2) ** 2)
    return -(sin(3 * pi * x1) ** 2) - first - second


def levy_medium(x1: float, x2: float) -> float:
    """f₂(x) = -exp(0.1 √(-f₃(x))) - 0.1 √(1 + f₃(x)²); -f₃ is a sum of squares, so the root is real."""
    target = levy_high(x1, x2)
    return -exp(0.1 * sqrt(-target)) - 0.1 * sqrt(1 + target**2)


def levy_low(x1: float, x2: float) -> float:
    """f₁(x) = -√(1 + f₃(x)²)."""
    return -sqrt(1 + levy_high(x1, x2) ** 2)
