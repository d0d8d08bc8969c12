"""A problem (a space, a ladder, one function per fidelity, the target's optimum as data) and the regrets on it.

Regret is the distance of a result from the optimum; larger is worse for both directions. With f* the optimum of the
target f_M, written for maximising (for minimising all differences change sign):

- simple regret           f* - max {f_M(x_i) : queried at the target}          best design observed
- inference regret        f* - max_x mean_M(x)                                 highest posterior mean (the paper's)
- recommendation regret   f* - f_M(argmax_x mean_M(x))                         true value of the recommended design
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.space import Params, SearchSpace


@dataclass(frozen=True)
class Problem:
    """An objective at several fidelities whose best value is known.

    It is an objective itself: `study.optimize(problem, budget=...)`.

    Args:
        name: what `problems.get` calls it.
        space: the parameters.
        ladder: the fidelities, low to high.
        direction: whether the value at the target is maximised or minimised.
        functions: one per fidelity, low to high, called with the parameters as keywords.
        optimum: the best value at the target.
        optimisers: all designs that reach it.
        initial: name of fidelity -> number of initial points.
        reference: where the problem was published.
        simulated: whether a value comes from a simulation: slow to evaluate, and the optimum is the best one known.
        noise: standard deviation of an observation at each fidelity, low to high; None: no noise.

    Raises:
        SettingError: if there is not one function per fidelity (and one finite noise >= 0, if there are any), the
            optimum is not finite or has no optimiser, or an initial size is not a whole number >= 0.
        FidelityError: if `initial` names a fidelity the ladder does not have.
        SpaceError: if an optimiser is outside the space.
    """

    name: str
    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    functions: tuple[Callable[..., float], ...]
    optimum: float
    optimisers: tuple[Params, ...]
    initial: Mapping[str, int]
    reference: str
    simulated: bool = False
    noise: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.functions) != len(self.ladder):
            raise SettingError(
                f"problem {self.name!r} needs one function per fidelity ({len(self.ladder)}), got {len(self.functions)}"
            )
        if self.noise is not None and not _are_deviations(self.noise, len(self.ladder)):
            raise SettingError(
                f"problem {self.name!r} needs a finite noise >= 0 per fidelity ({len(self.ladder)}), got {self.noise!r}"
            )
        if not math.isfinite(self.optimum) or not self.optimisers:
            raise SettingError(f"problem {self.name!r} needs a finite optimum and its optimisers, got {self.optimum!r}")
        for params in self.optimisers:
            self.space.validate(params)
        for fidelity, size in self.initial.items():
            self.ladder.index(fidelity)
            if not isinstance(size, int) or size < 0:
                raise SettingError(f"the initial size at {fidelity!r} must be a whole number >= 0, got {size!r}")

    def evaluate(self, params: Mapping[str, Any], fidelity_name: str) -> float:
        """The true value of a design at a fidelity.

        Raises:
            SpaceError: if the parameters are not a design of the space.
            FidelityError: if the ladder has no fidelity of that name.
        """
        function = self.functions[self.ladder.index(fidelity_name)]
        return float(function(**self.space.validate(params)))

    def observe(self, params: Mapping[str, Any], fidelity_name: str) -> float:
        """The value with its noise, which is the same each time a design is observed, like the error of a mesh.

        Raises:
            SpaceError: if the parameters are not a design of the space.
            FidelityError: if the ladder has no fidelity of that name.
        """
        value = self.evaluate(params, fidelity_name)
        if self.noise is None:
            return value
        design = repr((self.name, fidelity_name, sorted(self.space.validate(params).items())))
        generator = np.random.default_rng(zlib.crc32(design.encode()))
        return value + self.noise[self.ladder.index(fidelity_name)] * float(generator.normal())

    def __call__(self, params: Mapping[str, Any], fidelity: Fidelity) -> float:
        """The objective as a study calls it."""
        return self.observe(params, fidelity.name)


def _are_deviations(noise: tuple[float, ...], count: int) -> bool:
    return len(noise) == count and all(math.isfinite(std) and std >= 0 for std in noise)


def simple_regret(problem: Problem, values_at_target: Iterable[float]) -> float:
    """f* - max_i f_M(x_i): distance of the best value observed at the target; infinite without observations."""
    return min((_shortfall(problem, value) for value in values_at_target), default=math.inf)


def inference_regret(problem: Problem, estimated_max: float) -> float:
    """f* - max_x mean_M(x): distance of the highest posterior mean; negative if the model is too optimistic."""
    return _shortfall(problem, estimated_max)


def recommendation_regret(problem: Problem, recommended_params: Mapping[str, Any]) -> float:
    """f* - f_M(recommended x): distance of the recommended design's true value.

    Raises:
        SpaceError: if the parameters are not a design of the problem's space.
    """
    return _shortfall(problem, problem.evaluate(recommended_params, problem.ladder.target.name))


def _shortfall(problem: Problem, value: float) -> float:
    return problem.direction.sign * (problem.optimum - value)
