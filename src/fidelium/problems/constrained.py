"""Textbook problems with outcome constraints, all minimised, with cheap fidelities of our own.

Two to ten dimensions, one to eight constraints; the feasible set is tiny in `gardner2`, `g06` and `g07`, and in several
parts in `gardner1`, `gardner2` and `g24`. The cheap fidelities are what a rough model would be: damped,
shifted, with terms left out, in the value as well as in the outcomes; no constant of a strategy was fitted to them.

The optima were computed by SLSQP from many starts. Where a constraint is active,
the optimiser is stored a billionth inside, so that it is feasible in floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, pi, sin

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.space import Params, Real, SearchSpace

_TWO_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=10)))
_THREE_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("medium", cost=5), Fidelity("high", cost=20)))

Function = Callable[..., dict[str, float]]


def gardner1() -> Problem:
    """Waves in two dimensions, a third of the square infeasible in stripes; the optimum is on an edge of the square."""
    return _textbook(
        "gardner1",
        {"x1": (0, 6), "x2": (0, 6)},
        (gardner1_low, gardner1_high),
        ("c <= 0.5",),
        optimum=-2.0,
        optimisers=({"x1": 4.71238898038469, "x2": 0.0},),
        reference="Gardner et al. 2014, simulation 1",
    )


def gardner1_high(x1: float, x2: float) -> dict[str, float]:
    """f = cos(2 x₁) cos(x₂) + sin(x₁),   c = cos(x₁) cos(x₂) - sin(x₁) sin(x₂)."""
    return {"value": cos(2 * x1) * cos(x2) + sin(x1), "c": cos(x1) * cos(x2) - sin(x1) * sin(x2)}


def gardner1_low(x1: float, x2: float) -> dict[str, float]:
    """Damped and shifted waves on a slope."""
    high = gardner1_high(x1 + 0.2, x2 - 0.15)
    return {"value": 0.8 * high["value"] + 0.05 * x1 - 0.1, "c": 0.85 * high["c"] + 0.04 * (x2 - 3)}


def gardner2() -> Problem:
    """A slope with waves; the feasible set is two small discs, 1.8 % of the square."""
    return _textbook(
        "gardner2",
        {"x1": (0, 6), "x2": (0, 6)},
        (gardner2_low, gardner2_high),
        ("c <= -0.95",),
        optimum=0.2532358973354828,
        optimisers=({"x1": 4.712388936477776, "x2": 1.2532358975320899},),
        reference="Gardner et al. 2014, simulation 2",
    )


def gardner2_high(x1: float, x2: float) -> dict[str, float]:
    """f = sin(x₁) + x₂,   c = sin(x₁) sin(x₂)."""
    return {"value": sin(x1) + x2, "c": sin(x1) * sin(x2)}


def gardner2_low(x1: float, x2: float) -> dict[str, float]:
    """The waves damped, shifted and tilted."""
    return {
        "value": 0.7 * sin(x1 - 0.3) + 1.1 * x2 + 0.1,
        "c": 0.9 * sin(0.97 * x1 + 0.1) * sin(1.02 * x2 - 0.1) + 0.02 * (x1 - 3),
    }


def gramacy() -> Problem:
    """A plane over a square; a wave and a disc leave a feasible set with three arms, a local optimum in each."""
    return _textbook(
        "gramacy",
        {"x1": (0, 1), "x2": (0, 1)},
        (gramacy_low, gramacy_high),
        ("c1 <= 0", "c2 <= 0"),
        optimum=0.5997880520099627,
        optimisers=({"x1": 0.19512268762554824, "x2": 0.4046653643845424},),
        reference="Gramacy et al. 2016",
    )


def gramacy_high(x1: float, x2: float) -> dict[str, float]:
    """f = x₁ + x₂,   c₁ = 3/2 - x₁ - 2 x₂ - sin(2π (x₁² - 2 x₂))/2,   c₂ = x₁² + x₂² - 3/2."""
    wave = sin(2 * pi * (x1**2 - 2 * x2)) / 2
    return {"value": x1 + x2, "c1": 1.5 - x1 - 2 * x2 - wave, "c2": x1**2 + x2**2 - 1.5}


def gramacy_low(x1: float, x2: float) -> dict[str, float]:
    """A bent plane, a smaller and shifted wave, an ellipse."""
    wave = 0.35 * sin(2 * pi * (x1**2 - 2 * x2) + 0.3)
    return {
        "value": 0.9 * x1 + 1.1 * x2 + 0.2 * x1 * x2,
        "c1": 1.45 - 0.9 * x1 - 2.1 * x2 - wave,
        "c2": 0.9 * x1**2 + 1.1 * x2**2 - 1.5,
    }


def branin_product() -> Problem:
    """Branin's function with a tilt, above a hyperbola that passes through its basins; three fidelities."""
    return _textbook(
        "branin-product",
        {"x1": (0, 1), "x2": (0, 1)},
        (branin_product_low, branin_product_medium, branin_product_high),
        ("product >= 0.2",),
        optimum=5.575663828558085,
        optimisers=({"x1": 0.9675856315776421, "x2": 0.20670005162633756},),
        reference="Parr et al. 2012",
    )


def branin_product_high(x1: float, x2: float) -> dict[str, float]:
    """f = (v - 5.1 u²/(4π²) + 5 u/π - 6)² + 10 ((1 - 1/(8π)) cos u + 1) + 5 x₁,  u = 15 x₁ - 5,  v = 15 x₂."""
    u, v = 15 * x1 - 5, 15 * x2
    parabola = v - 5.1 * u**2 / (4 * pi**2) + 5 * u / pi - 6
    return {"value": parabola**2 + 10 * ((1 - 1 / (8 * pi)) * cos(u) + 1) + 5 * x1, "product": x1 * x2}


def branin_product_medium(x1: float, x2: float) -> dict[str, float]:
    """f and the product a little shifted, on a slope."""
    shifted = branin_product_high(x1 - 0.03, x2 + 0.02)["value"]
    return {"value": 0.9 * shifted + 8 * (x2 - 0.5), "product": (x1 + 0.02) * (x2 - 0.02)}


def branin_product_low(x1: float, x2: float) -> dict[str, float]:
    """Half of f without its waves in x₁, and a hyperbola that is too flat."""
    u, v = 15 * x1 - 5, 15 * x2
    parabola = v - 0.12 * u**2 + 1.5 * u - 6
    return {"value": 0.5 * parabola**2 + 5 * cos(u + 0.3) + 5 * x1, "product": 0.9 * x1 * x2 + 0.05 * x1}


def g04() -> Problem:
    """Himmelblau's problem: five dimensions, three outcomes with two limits each, the optimum in a corner of them."""
    return _textbook(
        "g04",
        {"x1": (78, 102), "x2": (33, 45), "x3": (27, 45), "x4": (27, 45), "x5": (27, 45)},
        (g04_low, g04_high),
        ("0 <= u <= 92", "90 <= v <= 110", "20 <= w <= 25"),
        optimum=-30665.538671787443,
        optimisers=(
            {
                "x1": 78.00000000000001,
                "x2": 33.0,
                "x3": 29.995256025704546,
                "x4": 44.99999999996314,
                "x5": 36.77581290575671,
            },
        ),
        reference="Himmelblau 1972; Liang et al. 2006, g04",
    )


def g04_high(x1: float, x2: float, x3: float, x4: float, x5: float) -> dict[str, float]:
    """f = 5.3578547 x₃² + 0.8356891 x₁ x₅ + 37.293239 x₁ - 40792.141, and three bilinear outcomes."""
    return {
        "value": 5.3578547 * x3**2 + 0.8356891 * x1 * x5 + 37.293239 * x1 - 40792.141,
        "u": 85.334407 + 0.0056858 * x2 * x5 + 0.0006262 * x1 * x4 - 0.0022053 * x3 * x5,
        "v": 80.51249 + 0.0071317 * x2 * x5 + 0.0029955 * x1 * x2 + 0.0021813 * x3**2,
        "w": 9.300961 + 0.0047026 * x3 * x5 + 0.0012547 * x1 * x3 + 0.0019085 * x3 * x4,
    }


def g04_low(x1: float, x2: float, x3: float, x4: float, x5: float) -> dict[str, float]:
    """Every product replaced by its tangent plane at the middle of the ranges."""
    return {
        "value": 5.3578547 * (72 * x3 - 1296) + 0.8356891 * (90 * x5 + 36 * x1 - 3240) + 37.293239 * x1 - 40792.141,
        "u": 85.5 + 0.0056858 * (39 * x5 + 36 * x2 - 1404) + 0.0225 * x1 + 0.05 * x4 - 0.079 * (x3 + x5),
        "v": 80.2 + 0.0071317 * (39 * x5 + 36 * x2 - 1404) + 0.0029955 * (90 * x2 + 39 * x1 - 3510) + 0.157 * x3 - 2.8,
        "w": 9.5 + 0.17 * (x3 + x5) - 6.1 + 0.0012547 * (90 * x3 + 36 * x1 - 3240) + 0.0687 * (x3 + x4) - 2.5,
    }


def g06() -> Problem:
    """A cubic, and a crescent between two circles that is 0.0066 % of the box."""
    return _textbook(
        "g06",
        {"x1": (13, 100), "x2": (0, 100)},
        (g06_low, g06_high),
        ("c1 <= 0", "c2 <= 0"),
        optimum=-6961.813875580002,
        optimisers=({"x1": 14.095000000000063, "x2": 0.8429607892156009},),
        reference="Floudas and Pardalos 1990; Liang et al. 2006, g06",
    )


def g06_high(x1: float, x2: float) -> dict[str, float]:
    """f = (x₁ - 10)³ + (x₂ - 20)³,  c₁ = 100 - (x₁ - 5)² - (x₂ - 5)²,  c₂ = (x₁ - 6)² + (x₂ - 5)² - 82.81."""
    return {
        "value": (x1 - 10) ** 3 + (x2 - 20) ** 3,
        "c1": 100 - (x1 - 5) ** 2 - (x2 - 5) ** 2,
        "c2": (x1 - 6) ** 2 + (x2 - 5) ** 2 - 82.81,
    }


def g06_low(x1: float, x2: float) -> dict[str, float]:
    """Shifted cubics, and circles with other centres and radii."""
    return {
        "value": 0.9 * (x1 - 9) ** 3 + 1.1 * (x2 - 21) ** 3,
        "c1": 96 - 0.95 * (x1 - 4.8) ** 2 - 1.05 * (x2 - 5.3) ** 2,
        "c2": 1.05 * (x1 - 6.2) ** 2 + 0.95 * (x2 - 4.7) ** 2 - 86,
    }


def g07() -> Problem:
    """Ten dimensions: a bowl, three linear and five quadratic constraints, six of them active."""
    return _textbook(
        "g07",
        {f"x{i}": (-10, 10) for i in range(1, 11)},
        (g07_low, g07_high),
        tuple(f"c{i} <= 0" for i in range(1, 9)),
        optimum=24.3062090681801,
        optimisers=(
            {
                "x1": 2.171996312306568,
                "x2": 2.363683101536809,
                "x3": 8.773925726346985,
                "x4": 5.095984325475445,
                "x5": 0.9906547151793959,
                "x6": 1.4305738049789127,
                "x7": 1.3216441039668076,
                "x8": 9.828725728332202,
                "x9": 8.28009148010753,
                "x10": 8.375926552579479,
            },
        ),
        reference="Hock and Schittkowski 1981, problem 113; Liang et al. 2006, g07",
    )


def g07_high(**x: float) -> dict[str, float]:
    """A quadratic function and eight outcomes of ten variables (problem 113 of Hock and Schittkowski)."""
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = x.values()
    return {
        "value": x1**2 + x2**2 + x1 * x2 - 14 * x1 - 16 * x2 + (x3 - 10) ** 2 + 4 * (x4 - 5) ** 2 + (x5 - 3) ** 2
        + 2 * (x6 - 1) ** 2 + 5 * x7**2 + 7 * (x8 - 11) ** 2 + 2 * (x9 - 10) ** 2 + (x10 - 7) ** 2 + 45,
        "c1": -105 + 4 * x1 + 5 * x2 - 3 * x7 + 9 * x8,
        "c2": 10 * x1 - 8 * x2 - 17 * x7 + 2 * x8,
        "c3": -8 * x1 + 2 * x2 + 5 * x9 - 2 * x10 - 12,
        "c4": 3 * (x1 - 2) ** 2 + 4 * (x2 - 3) ** 2 + 2 * x3**2 - 7 * x4 - 120,
        "c5": 5 * x1**2 + 8 * x2 + (x3 - 6) ** 2 - 2 * x4 - 40,
        "c6": x1**2 + 2 * (x2 - 2) ** 2 - 2 * x1 * x2 + 14 * x5 - 6 * x6,
        "c7": 0.5 * (x1 - 8) ** 2 + 2 * (x2 - 4) ** 2 + 3 * x5**2 - x6 - 30,
        "c8": -3 * x1 + 6 * x2 + 12 * (x9 - 8) ** 2 - 7 * x10,
    }  # fmt: skip


def g07_low(**x: float) -> dict[str, float]:
    """All of it at a point that is shifted and shrunk; the mixed terms of f and c₆ left out, the limits off."""
    u = {name: 0.95 * value + 0.2 for name, value in x.items()}
    found = g07_high(**u)
    offsets = {"c1": -3.0, "c2": 4.0, "c3": 2.0, "c4": -8.0, "c5": 6.0, "c6": 3.0, "c7": -4.0, "c8": 6.0}
    mixed = u["x1"] * u["x2"]
    outcomes = {name: 0.9 * found[name] + offset for name, offset in offsets.items()}
    return {**outcomes, "c6": outcomes["c6"] + 1.8 * mixed, "value": 0.9 * (found["value"] - mixed) + 10}


def g08() -> Problem:
    """Waves with a long tail: the values reach 1,500 in a corner, the feasible optimum is -0.096."""
    return _textbook(
        "g08",
        {"x1": (0, 10), "x2": (0, 10)},
        (g08_low, g08_high),
        ("c1 <= 0", "c2 <= 0"),
        optimum=-0.0958250414180142,
        optimisers=({"x1": 1.2279712993279865, "x2": 4.245373313059531},),
        reference="Koziel and Michalewicz 1999; Liang et al. 2006, g08",
    )


def g08_high(x1: float, x2: float) -> dict[str, float]:
    """f = -sin³(2π x₁) sin(2π x₂) / (x₁³ (x₁ + x₂)),  c₁ = x₁² - x₂ + 1,  c₂ = 1 - x₁ + (x₂ - 4)².

    Nothing is divided by: sin³(2π x₁)/x₁³ is the cube of 2π sinc(2 x₁), and f at the origin is its limit along x₁ = 0.
    """
    return {"value": _g08_waves(x1, x2), "c1": x1**2 - x2 + 1, "c2": 1 - x1 + (x2 - 4) ** 2}


def g08_low(x1: float, x2: float) -> dict[str, float]:
    """Smaller and shifted waves, parabolas that are moved."""
    return {
        "value": 0.9 * _g08_waves(x1 + 0.03, x2 + 0.02) + 0.02,
        "c1": 0.9 * x1**2 - x2 + 1.2,
        "c2": 0.8 - 1.05 * x1 + 0.9 * (x2 - 4.1) ** 2,
    }


def _g08_waves(x1: float, x2: float) -> float:
    first = sin(2 * pi * x1) / x1 if x1 > 0 else 2 * pi
    second = sin(2 * pi * x2) / (x1 + x2) if x1 + x2 > 0 else 2 * pi
    return -(first**3) * second


def g09() -> Problem:
    """Seven dimensions: sixth powers whose values reach ten million, two of four constraints active."""
    return _textbook(
        "g09",
        {f"x{i}": (-10, 10) for i in range(1, 8)},
        (g09_low, g09_high),
        ("c1 <= 0", "c2 <= 0", "c3 <= 0", "c4 <= 0"),
        optimum=680.63005737439,
        optimisers=(
            {
                "x1": 2.330499264470502,
                "x2": 1.9513723222915154,
                "x3": -0.4775415093880291,
                "x4": 4.365726408584891,
                "x5": -0.6244870644580924,
                "x6": 1.0381308088053576,
                "x7": 1.5942265247267269,
            },
        ),
        reference="Hock and Schittkowski 1981, problem 100; Liang et al. 2006, g09",
    )


def g09_high(**x: float) -> dict[str, float]:
    """A polynomial and four outcomes of seven variables (problem 100 of Hock and Schittkowski)."""
    x1, x2, x3, x4, x5, x6, x7 = x.values()
    return {
        "value": (x1 - 10) ** 2 + 5 * (x2 - 12) ** 2 + x3**4 + 3 * (x4 - 11) ** 2 + 10 * x5**6 + 7 * x6**2 + x7**4
        - 4 * x6 * x7 - 10 * x6 - 8 * x7,
        "c1": -127 + 2 * x1**2 + 3 * x2**4 + x3 + 4 * x4**2 + 5 * x5,
        "c2": -282 + 7 * x1 + 3 * x2 + 10 * x3**2 + x4 - x5,
        "c3": -196 + 23 * x1 + x2**2 + 6 * x6**2 - 8 * x7,
        "c4": 4 * x1**2 + x2**2 - 3 * x1 * x2 + 2 * x3**2 + 5 * x6 - 11 * x7,
    }  # fmt: skip


def g09_low(**x: float) -> dict[str, float]:
    """At a point that is shifted and shrunk, without the terms that mix variables, the limits off."""
    u = {name: 0.97 * value + 0.1 for name, value in x.items()}
    found = g09_high(**u)
    offsets = {"c1": 10.0, "c2": -12.0, "c3": 8.0, "c4": 3 * u["x1"] * u["x2"] - 2}
    outcomes = {name: 0.95 * found[name] + offset for name, offset in offsets.items()}
    return {**outcomes, "value": 0.9 * (found["value"] + 4 * u["x6"] * u["x7"]) + 40}


def g24() -> Problem:
    """A plane over a feasible set of two parts that touch in a point, its optimum in a corner; three fidelities."""
    return _textbook(
        "g24",
        {"x1": (0, 3), "x2": (0, 4)},
        (g24_low, g24_medium, g24_high),
        ("c1 <= 0", "c2 <= 0"),
        optimum=-5.508013271686426,
        optimisers=({"x1": 2.3295201974780193, "x2": 3.1784930740773354},),
        reference="Floudas and Pardalos 1990; Liang et al. 2006, g24",
    )


def g24_high(x1: float, x2: float) -> dict[str, float]:
    """f = -x₁ - x₂ under two polynomials of the fourth degree."""
    return {
        "value": -x1 - x2,
        "c1": -2 * x1**4 + 8 * x1**3 - 8 * x1**2 + x2 - 2,
        "c2": -4 * x1**4 + 32 * x1**3 - 88 * x1**2 + 96 * x1 + x2 - 36,
    }


def g24_medium(x1: float, x2: float) -> dict[str, float]:
    """The polynomials a little to the left and too flat."""
    shifted = g24_high(x1 + 0.05, x2)
    return {"value": -0.95 * x1 - 1.05 * x2, "c1": 0.9 * shifted["c1"] - 0.1, "c2": 0.9 * shifted["c2"] + 0.5}


def g24_low(x1: float, x2: float) -> dict[str, float]:
    """The polynomials further to the right, at half of their height, on a bent plane."""
    shifted = g24_high(0.95 * x1 - 0.03, x2)
    return {
        "value": -0.9 * x1 - 1.1 * x2 + 0.05 * x1 * x2,
        "c1": 0.5 * shifted["c1"] - 0.6,
        "c2": 0.5 * shifted["c2"] + 1.5,
    }


def _textbook(
    name: str,
    bounds: Mapping[str, tuple[float, float]],
    functions: tuple[Function, ...],
    constraints: tuple[str, ...],
    optimum: float,
    optimisers: tuple[Params, ...],
    reference: str,
) -> Problem:
    """A problem of real parameters, minimised, with the ladder of as many fidelities as it has functions."""
    ladder = _TWO_FIDELITIES if len(functions) == 2 else _THREE_FIDELITIES
    sizes = {"low": 4 + 3 * len(bounds), "medium": 3 + len(bounds), "high": 2 + len(bounds) // 2}
    return Problem(
        name=name,
        space=SearchSpace({each: Real(low, high) for each, (low, high) in bounds.items()}),
        ladder=ladder,
        direction=Direction.MINIMIZE,
        functions=functions,
        optimum=optimum,
        optimisers=optimisers,
        initial={fidelity: sizes[fidelity] for fidelity in ladder.names},
        reference=reference,
        constraints=constraints,
    )
