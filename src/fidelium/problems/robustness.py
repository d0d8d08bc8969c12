"""Problems of the robustness experiment, to which no constant of a strategy was fitted (docs/problems.md).

`peaks...`: one target with many lower fidelities: good, useless and misleading ones. The target is the surface known
from Matlab's `peaks`: one summit, two lower hills, two hollows. They show what a poor choice of the cheap simulation
costs. The others have one to ten dimensions, one of them with mixed parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import exp, floor, hypot, pi, sin, sqrt

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.space import Categorical, Integer, Real, SearchSpace

_TWO_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=10)))
_SUMMIT = {"x": -0.0093175819599541, "y": 1.58136796293899977}
Surface = Callable[[float, float], float]

_HARTMANN_STEEPNESS = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)

_HARTMANN_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)

_BEST_OF_MATERIAL = {"steel": (3.0, 2, 0.3), "aluminium": (3.5, 5, 0.6), "carbon": (4.0, 4, 0.8)}
"""Material -> its best value, and the ribs and the thickness that reach it."""


def peaks() -> Problem:
    """A good low fidelity: damped, stretched and tilted."""
    return _peaks_with("peaks", peaks_coarse)


def peaks_exact() -> Problem:
    """The low fidelity is the target itself."""
    return _peaks_with("peaks-exact", peaks_high)


def peaks_shifted() -> Problem:
    """The low fidelity is the target shifted by a tenth of the range."""
    return _peaks_with("peaks-shifted", peaks_shifted_low)


def peaks_noisy() -> Problem:
    """The low fidelity is the target with noise of half its spread."""
    return _peaks_with("peaks-noisy", peaks_high, noise=(1.0, 0.0))


def peaks_opposed() -> Problem:
    """The low fidelity is the negative of the target."""
    return _peaks_with("peaks-opposed", peaks_opposed_low)


def peaks_constant() -> Problem:
    """The low fidelity is constant: it carries no information."""
    return _peaks_with("peaks-constant", peaks_constant_low)


def peaks_jumping() -> Problem:
    """The low fidelity jumps, by as much as the target's spread."""
    return _peaks_with("peaks-jumping", peaks_jumping_low)


def peaks_blind() -> Problem:
    """The low fidelity is right except near the summit, which it does not show."""
    return _peaks_with("peaks-blind", peaks_blind_low)


def peaks_rough() -> Problem:
    """Noise on both fidelities."""
    return _peaks_with("peaks-rough", peaks_coarse, noise=(0.5, 0.2))


def peaks_dear() -> Problem:
    """As `peaks`, but the low fidelity costs half as much as the target."""
    return _peaks_with("peaks-dear", peaks_coarse, target_cost=2)


def peaks_cheap() -> Problem:
    """As `peaks`, but the low fidelity costs a thousandth of the target."""
    return _peaks_with("peaks-cheap", peaks_coarse, target_cost=1000)


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


def _peaks_with(name: str, low: Surface, target_cost: float = 10, noise: tuple[float, float] | None = None) -> Problem:
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


def sine() -> Problem:
    """One dimension, minimised: the target is the square of the low fidelity, times a line."""
    return Problem(
        name="sine",
        space=SearchSpace({"x": Real(0, 1)}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MINIMIZE,
        functions=(sine_low, sine_high),
        optimum=-1.3520062598112024,
        optimisers=({"x": 0.0619146894664},),
        initial={"low": 10, "high": 3},
        reference="Perdikaris et al. 2017",
    )


def sine_high(x: float) -> float:
    """f₂(x) = (x - √2) f₁(x)²."""
    return (x - sqrt(2)) * sine_low(x) ** 2


def sine_low(x: float) -> float:
    """f₁(x) = sin(8π x)."""
    return sin(8 * pi * x)


def rosenbrock4() -> Problem:
    """Four dimensions: a bent valley among slopes a thousand times as high."""
    return _rosenbrock(4)


def rosenbrock10() -> Problem:
    """Ten dimensions: a bent valley among slopes a thousand times as high."""
    return _rosenbrock(10)


def rosenbrock_high(**x: float) -> float:
    """f₂(x) = -Σ [100 (xᵢ₊₁ - xᵢ²)² + (1 - xᵢ)²]."""
    neighbours = pairwise(x.values())
    return -sum(100 * (after - here**2) ** 2 + (1 - here) ** 2 for here, after in neighbours)


def rosenbrock_low(**x: float) -> float:
    """f₁(x) = (f₂(x) + 4 + Σ xᵢ/2) / (10 + Σ xᵢ/4)."""
    total = sum(x.values())
    return (rosenbrock_high(**x) + 4 + total / 2) / (10 + total / 4)


def _rosenbrock(dimension: int) -> Problem:
    names = [f"x{i + 1}" for i in range(dimension)]
    return Problem(
        name=f"rosenbrock{dimension}",
        space=SearchSpace({name: Real(-2, 2) for name in names}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=(rosenbrock_low, rosenbrock_high),
        optimum=0.0,
        optimisers=(dict.fromkeys(names, 1.0),),
        initial={"low": 5 * dimension, "high": dimension},
        reference="Rosenbrock 1960; fidelities: Mainini et al. 2022",
    )


def hartmann6() -> Problem:
    """Six dimensions, four hills; the low fidelity has other heights and an approximate exponential."""
    best = (0.2016895118, 0.1500106877, 0.4768739762, 0.2753324293, 0.3116516161, 0.6573005334)
    return Problem(
        name="hartmann6",
        space=SearchSpace({f"x{i + 1}": Real(0, 1) for i in range(6)}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=(hartmann6_low, hartmann6_high),
        optimum=3.3223680114155147,
        optimisers=({f"x{i + 1}": value for i, value in enumerate(best)},),
        initial={"low": 30, "high": 6},
        reference="Hartmann 1973; fidelities: Park et al. 2017",
    )


def hartmann6_high(**x: float) -> float:
    """f₂(x) = Σ αₖ exp(-Σ Aₖᵢ (xᵢ - Pₖᵢ)²), α = (1, 1.2, 3, 3.2)."""
    return sum(height * exp(-d) for height, d in zip((1, 1.2, 3, 3.2), _hartmann_distances(x), strict=True))


def hartmann6_low(**x: float) -> float:
    """f₁(x) = [2.58 + Σ βₖ e(-Σ Aₖᵢ (xᵢ - Pₖᵢ)²)] / 1.94, β = (0.5, 0.5, 2, 4), e(z) = exp(-4) [1 + (z + 4)/9]⁹."""
    terms = zip((0.5, 0.5, 2, 4), _hartmann_distances(x), strict=True)
    return (2.58 + sum(height * exp(-4) * (1 + (4 - d) / 9) ** 9 for height, d in terms)) / 1.94


def _hartmann_distances(x: dict[str, float]) -> list[float]:
    rows = zip(_HARTMANN_STEEPNESS, _HARTMANN_CENTRES, strict=True)
    return [sum(a * (v - p) ** 2 for a, p, v in zip(*row, x.values(), strict=True)) for row in rows]


def mixed() -> Problem:
    """A real, an integer and a categorical parameter; the low fidelity prefers another material and thickness."""
    return Problem(
        name="mixed",
        space=SearchSpace(
            {"thickness": Real(0, 1), "ribs": Integer(0, 8), "material": Categorical(tuple(_BEST_OF_MATERIAL))}
        ),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=(mixed_low, mixed_high),
        optimum=4.0,
        optimisers=({"thickness": 0.8, "ribs": 4, "material": "carbon"},),
        initial={"low": 15, "high": 4},
        reference="ours",
    )


def mixed_high(thickness: float, ribs: int, material: str) -> float:
    """f₂ = b - (n - n₀)²/6 - 6 u² - sin²(4π u)/2, u = t - t₀ + (n - n₀)/20, for a material's b, n₀, t₀."""
    best, ribs_there, thickness_there = _BEST_OF_MATERIAL[material]
    off = thickness - thickness_there + (ribs - ribs_there) / 20
    return best - (ribs - ribs_there) ** 2 / 6 - 6 * off**2 - sin(4 * pi * off) ** 2 / 2


def mixed_low(thickness: float, ribs: int, material: str) -> float:
    """f₁ = 0.8 f₂(t + 0.05, n, material), and 1 more for steel."""
    return 0.8 * mixed_high(thickness + 0.05, ribs, material) + (1.0 if material == "steel" else 0.0)
