"""Design problems of mechanical engineering with outcome constraints, all minimised, with cheap fidelities of our own.

Three to ten parameters, some of them integers, two to eleven constraints. The cheap fidelities are what an engineer
writes down first: a term of the load left out, a stiffness of a simpler section, forces of another structure.

The optima were computed by SLSQP from thousands of starts, once for every value of the integers that matter. Where a
constraint is active, the optimiser is stored a billionth inside, so that it is feasible in floating point.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem
from fidelium.space import Integer, Real, SearchSpace

_TWO_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=10)))


def welded_beam() -> Problem:
    """The cheapest beam welded to a wall; its stresses and deflections reach a thousand times their limits."""
    return Problem(
        name="welded-beam",
        space=SearchSpace(
            {"weld": Real(0.125, 2), "length": Real(0.1, 10), "height": Real(0.1, 10), "width": Real(0.125, 2)}
        ),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MINIMIZE,
        functions=(welded_beam_low, welded_beam_high),
        optimum=1.7248523085642735,
        optimisers=(
            {
                "weld": 0.2057296397790417, "length": 3.47048866570948, "height": 9.03662391068203,
                "width": 0.20572963984751874,
            },
        ),
        initial={"low": 16, "high": 4},
        reference="Rao 1996; Coello 2000",
        constraints=(
            "shear <= 13600", "stress <= 30000", "deflection <= 0.25", "buckling_load >= 6000", "overhang <= 0",
        ),
    )  # fmt: skip


_LOAD, _ARM, _YOUNG, _SHEAR = 6000.0, 14.0, 30e6, 12e6
"""Of the welded beam: lbf, inch, psi, psi."""


def welded_beam_high(weld: float, length: float, height: float, width: float) -> dict[str, float]:
    """Costs of weld and bar; shear in the weld, bending stress, deflection and buckling load of the bar."""
    direct = _LOAD / (sqrt(2) * weld * length)
    radius = hypot(length / 2, (weld + height) / 2)
    polar = 2 * sqrt(2) * weld * length * (length**2 / 12 + ((weld + height) / 2) ** 2)
    torsion = _LOAD * (_ARM + length / 2) * radius / polar
    critical = 4.013 * _YOUNG * height * width**3 / (6 * _ARM**2)
    return {
        "value": 1.10471 * weld**2 * length + 0.04811 * height * width * (_ARM + length),
        "shear": sqrt(direct**2 + direct * torsion * length / radius + torsion**2),
        "stress": 6 * _LOAD * _ARM / (width * height**2),
        "deflection": 4 * _LOAD * _ARM**3 / (_YOUNG * height**3 * width),
        "buckling_load": critical * (1 - height / (2 * _ARM) * sqrt(_YOUNG / (4 * _SHEAR))),
        "overhang": weld - width,
    }


def welded_beam_low(weld: float, length: float, height: float, width: float) -> dict[str, float]:
    """The weld costs nothing extra and turns about its middle; the bar is a little longer and does not tip over."""
    direct = _LOAD / (sqrt(2) * weld * length)
    polar = 2 * sqrt(2) * weld * length * (length**2 + 3 * height**2) / 12
    torsion = _LOAD * _ARM * hypot(length, height) / 2 / polar
    arm = _ARM + length / 4
    return {
        "value": 0.055 * height * width * (_ARM + length),
        "shear": hypot(direct, torsion),
        "stress": 6 * _LOAD * arm / (width * height**2),
        "deflection": 4 * _LOAD * arm**3 / (_YOUNG * height**3 * width),
        "buckling_load": 0.8 * 4.013 * _YOUNG * height * width**3 / (6 * _ARM**2),
        "overhang": weld - width,
    }


def spring() -> Problem:
    """The lightest spring: a thin curved valley between two active constraints.

    The wire ends at 0.2, not at 2: one as thick as the coil is not a spring, and divides by zero.
    """
    return Problem(
        name="spring",
        space=SearchSpace({"wire": Real(0.05, 0.2), "coil": Real(0.25, 1.3), "turns": Real(2, 15)}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MINIMIZE,
        functions=(spring_low, spring_high),
        optimum=0.012665232788243257,
        optimisers=({"wire": 0.05168906298345387, "coil": 0.3567177855246634, "turns": 11.28896307090085},),
        initial={"low": 13, "high": 3},
        reference="Arora 1989; Belegundu 1982",
        constraints=("deflection >= 1", "shear <= 1", "frequency >= 1", "diameter <= 1.5"),
    )


def spring_high(wire: float, coil: float, turns: float) -> dict[str, float]:
    """Weight; deflection, shear stress with Wahl's factor, surge frequency (shares of their limits), diameter."""
    return {
        "value": (turns + 2) * coil * wire**2,
        "deflection": coil**3 * turns / (71785 * wire**4),
        "shear": (4 * coil**2 - wire * coil) / (12566 * (coil * wire**3 - wire**4)) + 1 / (5108 * wire**2),
        "frequency": 140.45 * wire / (coil**2 * turns),
        "diameter": coil + wire,
    }


def spring_low(wire: float, coil: float, turns: float) -> dict[str, float]:
    """Without the end turns, the curvature of the wire and its direct shear; the ends take part in the deflection."""
    return {
        "value": turns * coil * wire**2,
        "deflection": coil**3 * (turns + 1) / (71785 * wire**4),
        "shear": 4 * coil / (12566 * wire**3),
        "frequency": 140.45 * wire / (coil**2 * (turns + 1)),
        "diameter": coil + wire,
    }


def spring_three() -> Problem:
    """The spring with a third fidelity between: four outcomes on three fidelities, which suggestions are timed with."""
    fidelities = (Fidelity("low", cost=1), Fidelity("medium", cost=4), Fidelity("high", cost=16))
    return replace(
        spring(),
        name="spring-three",
        ladder=FidelityLadder(fidelities),
        functions=(spring_low, spring_medium, spring_high),
        initial={"low": 13, "medium": 6, "high": 3},
    )


def spring_medium(wire: float, coil: float, turns: float) -> dict[str, float]:
    """With one of the two end turns, and the direct shear of the wire, but not its curvature."""
    return {
        "value": (turns + 1) * coil * wire**2,
        "deflection": coil**3 * (turns + 0.5) / (71785 * wire**4),
        "shear": 4 * coil / (12566 * wire**3) + 1 / (5108 * wire**2),
        "frequency": 140.45 * wire / (coil**2 * (turns + 0.5)),
        "diameter": coil + wire,
    }


def pressure_vessel() -> Problem:
    """The cheapest vessel of a given volume; plates come in sixteenths of an inch, so two parameters are integers."""
    return Problem(
        name="pressure-vessel",
        space=SearchSpace(
            {"shell": Integer(1, 32), "head": Integer(1, 32), "radius": Real(10, 100), "length": Real(10, 200)}
        ),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MINIMIZE,
        functions=(pressure_vessel_low, pressure_vessel_high),
        optimum=6059.714335048433,
        optimisers=({"shell": 13, "head": 7, "radius": 42.09844559585492, "length": 176.63659584243945},),
        initial={"low": 16, "high": 4},
        reference="Sandgren 1990",
        constraints=("shell_margin >= 0", "head_margin >= 0", "volume >= 1296000"),
    )


def pressure_vessel_high(shell: int, head: int, radius: float, length: float) -> dict[str, float]:
    """Cost of material, forming and welding; thickness beyond that the pressure needs, volume in cubic inches."""
    side, end = shell / 16, head / 16
    forming = 0.6224 * side * radius * length + 1.7781 * end * radius**2
    return {
        "value": forming + 3.1661 * side**2 * length + 19.84 * side**2 * radius,
        "shell_margin": side - 0.0193 * radius,
        "head_margin": end - 0.00954 * radius,
        "volume": np.pi * radius**2 * (length + 4 / 3 * radius),
    }


def pressure_vessel_low(shell: int, head: int, radius: float, length: float) -> dict[str, float]:
    """Without welding, the heads as flat as discs, thin-walled formulas."""
    side, end = shell / 16, head / 16
    return {
        "value": 0.65 * side * radius * length + 1.6 * end * radius**2,
        "shell_margin": side - 0.0185 * radius,
        "head_margin": end - 0.0105 * radius,
        "volume": 3.1 * radius**2 * (length + 0.9 * radius),
    }


def speed_reducer() -> Problem:
    """The lightest gearbox: seven parameters, one of them the number of teeth, and eleven constraints."""
    return Problem(
        name="speed-reducer",
        space=SearchSpace(
            {
                "face": Real(2.6, 3.6), "module": Real(0.7, 0.8), "teeth": Integer(17, 28),
                "length1": Real(7.3, 8.3), "length2": Real(7.3, 8.3),
                "diameter1": Real(2.9, 3.9), "diameter2": Real(5.0, 5.5),
            }
        ),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MINIMIZE,
        functions=(speed_reducer_low, speed_reducer_high),
        optimum=2994.4710661468202,
        optimisers=(
            {
                "face": 3.500000000000001, "module": 0.7000000000000001, "teeth": 17, "length1": 7.3,
                "length2": 7.715319911478245, "diameter1": 3.3502146660964485, "diameter2": 5.286654464980222,
            },
        ),
        initial={"low": 25, "high": 5},
        reference="Golinski 1970; bounds of Mezura-Montes and Coello 2005",
        constraints=tuple(f"c{i} <= 0" for i in range(1, 12)),
    )  # fmt: skip


def speed_reducer_high(
    face: float, module: float, teeth: int, length1: float, length2: float, diameter1: float, diameter2: float
) -> dict[str, float]:
    """Weight; teeth in bending and contact, deflections and stresses of both shafts, and proportions."""
    return _speed_reducer(face, module, teeth, length1, length2, diameter1, diameter2, torques=(16.9e6, 157.5e6))


def speed_reducer_low(
    face: float, module: float, teeth: int, length1: float, length2: float, diameter1: float, diameter2: float
) -> dict[str, float]:
    """Solid wheels, bearings further apart, shafts that carry a torque only, all limits a few per cent off."""
    found = _speed_reducer(
        face, module, teeth, 1.03 * length1, 1.03 * length2, diameter1, diameter2, torques=(18.5e6, 150e6)
    )
    solid = 0.7854 * face * module**2 * 3.4 * teeth**2
    shafts = 0.7854 * (length1 * diameter1**2 + length2 * diameter2**2)
    offsets = {"c1": 0.03, "c2": -0.03, "c5": 0.01, "c6": -0.01, "c8": 0.0, "c11": -0.01}
    outcomes = {name: found[name] + offsets.get(name, 0.02) for name in found if name != "value"}
    return {**outcomes, "value": solid + shafts + 7 * (diameter1**3 + diameter2**3)}


def _speed_reducer(
    face: float, module: float, teeth: int, length1: float, length2: float, diameter1: float, diameter2: float,
    torques: tuple[float, float],
) -> dict[str, float]:  # fmt: skip
    pitch = module * teeth
    wheels = 0.7854 * face * module**2 * (3.3333 * teeth**2 + 14.9334 * teeth - 43.0934)
    holes = 1.508 * face * (diameter1**2 + diameter2**2)
    shafts = 0.7854 * (length1 * diameter1**2 + length2 * diameter2**2) + 7.4777 * (diameter1**3 + diameter2**3)
    return {
        "value": wheels - holes + shafts,
        "c1": 27 / (face * module * pitch) - 1,
        "c2": 397.5 / (face * pitch**2) - 1,
        "c3": 1.93 * length1**3 / (pitch * diameter1**4) - 1,
        "c4": 1.93 * length2**3 / (pitch * diameter2**4) - 1,
        "c5": sqrt((745 * length1 / pitch) ** 2 + torques[0]) / (110 * diameter1**3) - 1,
        "c6": sqrt((745 * length2 / pitch) ** 2 + torques[1]) / (85 * diameter2**3) - 1,
        "c7": pitch / 40 - 1,
        "c8": 5 * module / face - 1,
        "c9": face / (12 * module) - 1,
        "c10": (1.5 * diameter1 + 1.9) / length1 - 1,
        "c11": (1.1 * diameter2 + 1.9) / length2 - 1,
    }


def ten_bar_truss() -> Problem:
    """The lightest cantilever of ten bars: the largest stress and the largest displacement of its six nodes.

    The areas are logarithmic: a stress is inversely proportional to them.
    """
    return Problem(
        name="ten-bar-truss",
        space=SearchSpace({f"a{i}": Real(0.1, 35, log=True) for i in range(1, 11)}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MINIMIZE,
        functions=(ten_bar_truss_low, ten_bar_truss_high),
        optimum=5060.853660338493,
        optimisers=(
            {
                "a1": 30.521808758618526, "a2": 0.1, "a3": 23.19988428946247, "a4": 15.222907722642837,
                "a5": 0.1, "a6": 0.5513555259800299, "a7": 7.457200821140512,
                "a8": 21.036429093913917, "a9": 21.528440705656898, "a10": 0.1,
            },
        ),
        initial={"low": 34, "high": 7},
        reference="Venkayya 1971, load case 1; Haftka and Gürdal 1992",
        constraints=("stress <= 25", "displacement <= 2"),
    )  # fmt: skip


_TRUSS_NODES = np.array([(720, 360), (720, 0), (360, 360), (360, 0), (0, 360), (0, 0)], dtype=float)  # inch
_TRUSS_BARS = ((4, 2), (2, 0), (5, 3), (3, 1), (2, 3), (0, 1), (4, 3), (5, 2), (2, 1), (3, 0))
_TRUSS_FREE = 8
"""The unknowns: x and y of nodes 0 to 3; nodes 4 and 5 are held by the wall."""

_TRUSS_YOUNG, _TRUSS_DENSITY = 1e4, 0.1  # ksi, lb/in^3
_TRUSS_LOAD = np.array([0, 0, 0, -100, 0, 0, 0, -100], dtype=float)  # kip


def ten_bar_truss_high(**areas: float) -> dict[str, float]:
    """Weight; the stress and displacement of  K u = p,  K = Bᵀ diag(E aᵢ/Lᵢ) B."""
    area = np.array(list(areas.values()))
    lengths, directions = _truss()
    stiffness = directions.T @ ((_TRUSS_YOUNG * area / lengths)[:, None] * directions)
    displacement = np.asarray(np.linalg.solve(stiffness, _TRUSS_LOAD), dtype=np.float64)
    stress = _TRUSS_YOUNG / lengths * (directions @ displacement)
    return _truss_outcomes(area, stress, displacement)


def ten_bar_truss_low(**areas: float) -> dict[str, float]:
    """As a beam: the diagonals of a panel share the shear force like their areas, the rest follows from equilibrium.

    The two posts (bars 5 and 6), which a beam does not have, are not checked for stress.
    """
    area = np.array(list(areas.values()))
    lengths, _ = _truss()
    force, virtual = _beam_forces(area, 100.0, 100.0), _beam_forces(area, 1.0, 0.0)
    tip = float(np.sum(force * virtual * lengths / (_TRUSS_YOUNG * area)))  # by virtual work
    return _truss_outcomes(area, np.delete(force / area, (4, 5)), np.array([tip]))


def _beam_forces(area: NDArray[np.float64], tip: float, middle: float) -> NDArray[np.float64]:
    """The forces of bars 1 to 10 under loads at the tip and in the middle of the lower chord."""
    down1, up1 = (tip + middle) * area[[6, 7]] / (area[6] + area[7])  # vertical parts in the panel at the wall
    down2, up2 = tip * area[[8, 9]] / (area[8] + area[9])
    chords_and_posts = (tip + up1, up2, -tip - down1, -down2, up1 - down2, up2)
    return np.array([*chords_and_posts, *(sqrt(2) * part for part in (down1, -up1, down2, -up2))])


def _truss_outcomes(
    area: NDArray[np.float64], stress: NDArray[np.float64], displacement: NDArray[np.float64]
) -> dict[str, float]:
    return {
        "value": _TRUSS_DENSITY * float(area @ _truss()[0]),
        "stress": float(np.max(np.abs(stress))),
        "displacement": float(np.max(np.abs(displacement))),
    }


@cache
def _truss() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lengths of the bars, and B: the elongation of each bar for a displacement of each unknown."""
    ends = _TRUSS_NODES[np.array(_TRUSS_BARS)]
    spans = ends[:, 1] - ends[:, 0]
    lengths = np.linalg.norm(spans, axis=1)
    elongation = np.zeros((len(_TRUSS_BARS), 2 * len(_TRUSS_NODES)))
    for bar, (first, second) in enumerate(_TRUSS_BARS):
        direction = spans[bar] / lengths[bar]
        elongation[bar, 2 * first : 2 * first + 2] = -direction
        elongation[bar, 2 * second : 2 * second + 2] = direction
    return lengths, elongation[:, :_TRUSS_FREE]
