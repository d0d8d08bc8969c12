"""One target, many lower fidelities: good ones, useless ones and misleading ones. What must a strategy not fall for?

The target is the surface known from Matlab's `peaks`: one summit, two lower hills, two hollows. No constant of a
strategy was fitted to these problems; they are there to show what an unlucky choice of the cheap simulation costs
(docs/problems.md).
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, floor, hypot

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.space import Real, SearchSpace

_SUMMIT = {"x": -0.0093175819599541, "y": 1.58136796293899977}

Surface = Callable[[float, float], float]


def peaks() -> Problem:
    """A low fidelity as one hopes for: damped, stretched and tilted."""
    return _with("peaks", peaks_coarse)


def peaks_exact() -> Problem:
    """The low fidelity is the target itself."""
    return _with("peaks-exact", peaks_high)


def peaks_shifted() -> Problem:
    """Everything is a tenth of the range away from where it belongs."""
    return _with("peaks-shifted", peaks_shifted_low)


def peaks_noisy() -> Problem:
    """The low fidelity is the target with noise of half its spread."""
    return _with("peaks-noisy", peaks_high, noise=(1.0, 0.0))


def peaks_opposed() -> Problem:
    """The better, the worse: the low fidelity is the negative of the target."""
    return _with("peaks-opposed", peaks_opposed_low)


def peaks_constant() -> Problem:
    """The low fidelity says nothing at all."""
    return _with("peaks-constant", peaks_constant_low)


def peaks_jumping() -> Problem:
    """The low fidelity jumps, by as much as the target's spread."""
    return _with("peaks-jumping", peaks_jumping_low)


def peaks_blind() -> Problem:
    """The low fidelity is right but for a neighbourhood of the summit, which it does not see."""
    return _with("peaks-blind", peaks_blind_low)


def peaks_rough() -> Problem:
    """Noise on both fidelities."""
    return _with("peaks-rough", peaks_coarse, noise=(0.5, 0.2))


def peaks_dear() -> Problem:
    """As `peaks`, but the low fidelity costs half as much as the target."""
    return _with("peaks-dear", peaks_coarse, target_cost=2)


def peaks_cheap() -> Problem:
    """As `peaks`, but the low fidelity costs a thousandth of the target."""
    return _with("peaks-cheap", peaks_coarse, target_cost=1000)


def peaks_high(x: float, y: float) -> float:
    """f₂(x, y) = 3 (1 - x)² exp(-x² - (y + 1)²) - 10 (x/5 - x³ - y⁵) exp(-x² - y²) - exp(-(x + 1)² - y²)/3."""
    first = 3 * (1 - x) ** 2 * exp(-(x**2) - (y + 1) ** 2)
    return first - 10 * (x / 5 - x**3 - y**5) * exp(-(x**2) - y**2) - exp(-((x + 1) ** 2) - y**2) / 3


def peaks_coarse(x: float, y: float) -> float:
    """f₁(x, y) = 0.7 f₂(0.9 x + 0.1, 0.9 y - 0.1) + 0.3 x."""
    return 0.7 * peaks_high(0.9 * x + 0.1, 0.9 * y - 0.1) + 0.3 * x


def peaks_shifted_low(x: float, y: float) -> float:
    """f₁(x, y) = f₂(x - 0.6, y + 0.4)."""
    return peaks_high(x - 0.6, y + 0.4)


def peaks_opposed_low(x: float, y: float) -> float:
    """f₁(x, y) = -f₂(x, y)."""
    return -peaks_high(x, y)


def peaks_constant_low(x: float, y: float) -> float:
    """f₁(x, y) = 1."""
    return 1.0


def peaks_jumping_low(x: float, y: float) -> float:
    """f₁(x, y) = f₂(x, y) + 2 (⌊x + y⌋ mod 2)."""
    return peaks_high(x, y) + 2 * (floor(x + y) % 2)


def peaks_blind_low(x: float, y: float) -> float:
    """f₁(x, y) = f₂(x, y) (1 - exp(-2 r²)), r the distance from the summit."""
    distance = hypot(x - _SUMMIT["x"], y - _SUMMIT["y"])
    return peaks_high(x, y) * (1 - exp(-2 * distance**2))


def _with(name: str, low: Surface, target_cost: float = 10, noise: tuple[float, float] | None = None) -> Problem:
    return Problem(
        name=name,
        space=SearchSpace({"x": Real(-3, 3), "y": Real(-3, 3)}),
        ladder=FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=target_cost))),
        direction=Direction.MAXIMIZE,
        functions=(low, peaks_high),
        optimum=8.1062135894423367,
        optimisers=(_SUMMIT,),
        initial={"low": 10, "high": 3},
        reference="the surface of Matlab's peaks",
        noise=noise,
    )
