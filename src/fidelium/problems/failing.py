"""Problems whose runs fail: in a hidden region around the unconstrained optimum, or at random. All are maximised.

A run in the region raises `EvaluationError`, like a mesher that dies at thin walls. It does so at every fidelity; the
region of the cheap one is a little different. The optimum of the rest lies on the region's edge, which succeeds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sin

import numpy as np

from fidelium.errors import EvaluationError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.problems.base import Problem, Returned
from fidelium.problems.robustness import peaks
from fidelium.space import Params, Real, SearchSpace

_TWO_FIDELITIES = FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=10)))

_EDGE = 1e-12
"""The edge of a region succeeds: a rounding error does not make it fail."""

_BALL_CENTRE = (0.6, 0.4, 0.55, 0.35)
_BALL_WEIGHTS = (4.0, 3.0, 1.0, 2.0)
_BALL_RADIUS = 0.25


def fails_half_space() -> Problem:
    """Fails where a + b > 1.1; the unconstrained optimum is (0.65, 0.65)."""
    return _failing(
        "fails-half-space",
        ("a", "b"),
        (half_space_low, half_space_high),
        optimum=-0.02,
        optimisers=({"a": 0.55, "b": 0.55},),
    )


def half_space_high(a: float, b: float) -> float:
    """f = -(a - 0.65)² - (b - 0.65)²."""
    _fail_if(a + b > 1.1 + _EDGE, "the walls touch")
    return -((a - 0.65) ** 2) - (b - 0.65) ** 2


def half_space_low(a: float, b: float) -> float:
    """The paraboloid a little aside, with waves; fails where a + b > 1.15."""
    _fail_if(a + b > 1.15, "the walls touch")
    return -((a - 0.7) ** 2) - 0.8 * (b - 0.6) ** 2 + 0.03 * sin(9 * a)


def fails_corner() -> Problem:
    """Fails where all three parameters are below 0.3, and the unconstrained optimum is: 2.7 % of the cube."""
    return _failing(
        "fails-corner",
        ("a", "b", "c"),
        (corner_low, corner_high),
        optimum=-0.01,
        optimisers=({"a": 0.1, "b": 0.15, "c": 0.3},),
    )


def corner_high(a: float, b: float, c: float) -> float:
    """f = -(a - 0.1)² - (b - 0.15)² - (c - 0.2)²."""
    _fail_if(a < 0.3 and b < 0.3 and c < 0.3, "the elements are too thin")
    return -((a - 0.1) ** 2) - (b - 0.15) ** 2 - (c - 0.2) ** 2


def corner_low(a: float, b: float, c: float) -> float:
    """The paraboloid a little aside, with waves; fails where all are below 0.25."""
    _fail_if(a < 0.25 and b < 0.25 and c < 0.25, "the elements are too thin")
    return -0.8 * (a - 0.15) ** 2 - (b - 0.1) ** 2 - 1.2 * (c - 0.25) ** 2 + 0.02 * sin(8 * (a + b))


def fails_band() -> Problem:
    """Fails in a diagonal band, |a + b/2 - 0.7| < 0.12; the optimum is on its lower edge, the upper one is worse."""
    return _failing(
        "fails-band",
        ("a", "b"),
        (band_low, band_high),
        optimum=-0.0045,
        optimisers=({"a": 0.43, "b": 0.3},),
    )


def band_high(a: float, b: float) -> float:
    """f = -(a - 0.49)² - (b - 0.33)²: the summit lies inside the band."""
    _fail_if(abs(a + b / 2 - 0.7) < 0.12 - _EDGE, "resonance: no steady state")
    return -((a - 0.49) ** 2) - (b - 0.33) ** 2


def band_low(a: float, b: float) -> float:
    """The paraboloid a little aside, with waves; the band is a little higher and narrower."""
    _fail_if(abs(a + b / 2 - 0.72) < 0.1, "resonance: no steady state")
    return -0.9 * (a - 0.5) ** 2 - 1.1 * (b - 0.28) ** 2 + 0.03 * sin(7 * b)


def fails_ball() -> Problem:
    """Fails in a ball of radius 0.25 around the unconstrained optimum, in four dimensions."""
    centre = dict(zip(("a", "b", "c", "d"), _BALL_CENTRE, strict=True))
    flattest = [{**centre, "c": centre["c"] + side * _BALL_RADIUS} for side in (-1, 1)]
    return _failing(
        "fails-ball",
        ("a", "b", "c", "d"),
        (ball_low, ball_high),
        optimum=-_BALL_WEIGHTS[2] * _BALL_RADIUS**2,
        optimisers=tuple(flattest),
    )


def ball_high(a: float, b: float, c: float, d: float) -> float:
    """f = -Σ wᵢ (xᵢ - cᵢ)²: on the edge of the ball the best value is -min wᵢ times the square of its radius."""
    return _ball((a, b, c, d), _BALL_RADIUS)


def ball_low(a: float, b: float, c: float, d: float) -> float:
    """The paraboloid of a point a little aside, with waves; fails in a ball of radius 0.22."""
    return 0.9 * _ball((a + 0.03, b - 0.02, c, d + 0.02), 0.22) + 0.03 * sin(6 * a + 3 * d)


def _ball(x: tuple[float, ...], radius: float) -> float:
    steps = [each - centre for each, centre in zip(x, _BALL_CENTRE, strict=True)]
    _fail_if(sum(step**2 for step in steps) < radius**2 - _EDGE, "the solver diverged")
    return -sum(weight * step**2 for weight, step in zip(_BALL_WEIGHTS, steps, strict=True))


def fails_randomly() -> Problem:
    """`peaks`, where one run in ten fails, anywhere."""
    return replace(with_random_failures(peaks(), rate=0.1, seed=1), name="fails-randomly")


@dataclass(frozen=True)
class RandomFailures:
    """A function that fails for a share of all designs; for the same ones each time.

    Args:
        function: what it is otherwise.
        rate: the share that fails, from 0 to 1.
        seed: which designs fail.
    """

    function: Callable[..., Returned]
    rate: float
    seed: int

    def __call__(self, **params: object) -> Returned:
        """The function's result.

        Raises:
            EvaluationError: if the design is one of those that fail.
        """
        design = repr((self.seed, sorted(params.items())))
        lot = float(np.random.default_rng(zlib.crc32(design.encode())).random())
        _fail_if(lot < self.rate, "the licence server did not answer")
        return self.function(**params)


def with_random_failures(problem: Problem, rate: float, seed: int) -> Problem:
    """The problem with a share of its designs failing at random, others at each fidelity."""
    functions = tuple(RandomFailures(each, rate, seed + 1000 * m) for m, each in enumerate(problem.functions))
    return replace(problem, functions=functions, fails=True)


def _fail_if(condition: bool, reason: str) -> None:
    if condition:
        raise EvaluationError(reason)


def _failing(
    name: str,
    parameters: tuple[str, ...],
    functions: tuple[Callable[..., Returned], ...],
    optimum: float,
    optimisers: tuple[Params, ...],
) -> Problem:
    """A problem in the unit cube, maximised, whose functions fail."""
    return Problem(
        name=name,
        space=SearchSpace({each: Real(0, 1) for each in parameters}),
        ladder=_TWO_FIDELITIES,
        direction=Direction.MAXIMIZE,
        functions=functions,
        optimum=optimum,
        optimisers=optimisers,
        initial={"low": 4 + 3 * len(parameters), "high": 3},
        reference="ours",
        fails=True,
    )
