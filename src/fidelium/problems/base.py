"""A problem (a space, a ladder, one function per fidelity, the target's optimum as data) and the regrets on it.

Regret is the distance of a result from the optimum; larger is worse for both directions. With f* the optimum of the
target f_M, written for maximising (for minimising all differences change sign):

- simple regret           f* - max {f_M(x_i) : queried at the target}          best design observed
- inference regret        f* - max_x mean_M(x)                                 highest posterior mean (the paper's)
- recommendation regret   f* - f_M(argmax_x mean_M(x))                         true value of the recommended design

With constraints only feasible designs count: f* is the best feasible value, and an infeasible design has an infinite
regret.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fidelium.constraints import OutcomeConstraint, outcome_constraints
from fidelium.errors import EvaluationError, SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.space import Params, SearchSpace

Returned = Any
"""What a run gives: its value, a float, or a dict of "value" and named outcomes."""


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
        optimum: the best value at the target, with constraints the best feasible one.
        optimisers: all designs that reach it; where a constraint is active, feasible ones next to them.
        initial: name of fidelity -> number of initial points.
        reference: where the problem was published.
        simulated: whether a value comes from a simulation: slow to evaluate, and the optimum is the best one known.
        noise: standard deviation of a value at each fidelity, low to high; None: no noise.
        constraints: on the outcomes at the target, as texts; a function then returns a dict of "value" and outcomes.
        fails: whether a function raises `EvaluationError` for some designs.
        cost_factor: what a run of a design really costs, in units of the fidelity's cost, and reports; None: that cost.

    Raises:
        SettingError: if there is not one function per fidelity (and one finite noise >= 0, if there are any), the
            optimum is not finite or has no optimiser, an initial size is not a whole number >= 0, or a constraint is
            not one.
        FidelityError: if `initial` names a fidelity the ladder does not have.
        SpaceError: if an optimiser is outside the space.
    """

    name: str
    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    functions: tuple[Callable[..., Returned], ...]
    optimum: float
    optimisers: tuple[Params, ...]
    initial: Mapping[str, int]
    reference: str
    simulated: bool = False
    noise: tuple[float, ...] | None = None
    constraints: tuple[str, ...] = ()
    fails: bool = False
    cost_factor: Callable[[Params], float] | None = None

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
        outcome_constraints(self.constraints, self.space.parameters)

    @cached_property
    def limits(self) -> tuple[OutcomeConstraint, ...]:
        """The constraints, parsed."""
        return outcome_constraints(self.constraints)

    def evaluate(self, params: Mapping[str, Any], fidelity_name: str) -> Returned:
        """What a design gives at a fidelity, without noise: a number, or a dict if there are constraints.

        Raises:
            SpaceError: if the parameters are not a design of the space.
            FidelityError: if the ladder has no fidelity of that name.
            EvaluationError: if the run fails.
        """
        found = self.functions[self.ladder.index(fidelity_name)](**self.space.validate(params))
        return {name: float(each) for name, each in found.items()} if isinstance(found, dict) else float(found)

    def value(self, params: Mapping[str, Any], fidelity_name: str) -> float:
        """The true value of a design at a fidelity, feasible or not.

        Raises:
            SpaceError: if the parameters are not a design of the space.
            FidelityError: if the ladder has no fidelity of that name.
            EvaluationError: if the run fails.
        """
        return value_and_outcomes(self.evaluate(params, fidelity_name))[0]

    def feasible_value(self, params: Mapping[str, Any]) -> float | None:
        """The true value of a design at the target; None if the run fails or violates a constraint.

        Raises:
            SpaceError: if the parameters are not a design of the space.
        """
        try:
            value, outcomes = value_and_outcomes(self.evaluate(params, self.ladder.target.name))
        except EvaluationError:
            return None
        return value if all(each.meets(outcomes[each.name]) for each in self.limits) else None

    def observe(self, params: Mapping[str, Any], fidelity_name: str) -> Returned:
        """As `evaluate`, the value with its noise: the same each time a design is observed, like a mesh's error.

        Raises:
            SpaceError: if the parameters are not a design of the space.
            FidelityError: if the ladder has no fidelity of that name.
            EvaluationError: if the run fails.
        """
        found = self.evaluate(params, fidelity_name)
        if self.noise is None:
            return found
        design = repr((self.name, fidelity_name, sorted(self.space.validate(params).items())))
        generator = np.random.default_rng(zlib.crc32(design.encode()))
        error = self.noise[self.ladder.index(fidelity_name)] * float(generator.normal())
        return {**found, "value": found["value"] + error} if isinstance(found, dict) else found + error

    def cost(self, params: Mapping[str, Any], fidelity_name: str) -> float:
        """What a run of a design really costs.

        Raises:
            SpaceError: if the parameters are not a design of the space.
            FidelityError: if the ladder has no fidelity of that name.
        """
        declared = self.ladder.costs[self.ladder.index(fidelity_name)]
        return declared if self.cost_factor is None else declared * self.cost_factor(self.space.validate(params))

    def __call__(self, params: Mapping[str, Any], fidelity: Fidelity) -> Returned:
        """The objective as a study calls it."""
        found = self.observe(params, fidelity.name)
        if self.cost_factor is None:
            return found
        whole = found if isinstance(found, dict) else {"value": found}
        return {**whole, "cost": self.cost(params, fidelity.name)}


def value_and_outcomes(result: Returned) -> tuple[float, dict[str, float]]:
    """The value of a result, and its outcomes by name."""
    if isinstance(result, dict):
        return result["value"], {name: each for name, each in result.items() if name != "value"}
    return result, {}


def _are_deviations(noise: tuple[float, ...], count: int) -> bool:
    return len(noise) == count and all(math.isfinite(std) and std >= 0 for std in noise)


def simple_regret(problem: Problem, values_at_target: Iterable[float]) -> float:
    """f* - max_i f_M(x_i): distance of the best value observed at the target; infinite without observations."""
    return min((_shortfall(problem, value) for value in values_at_target), default=math.inf)


def inference_regret(problem: Problem, estimated_max: float) -> float:
    """f* - max_x mean_M(x): distance of the highest posterior mean; negative if the model is too optimistic."""
    return _shortfall(problem, estimated_max)


def recommendation_regret(problem: Problem, recommended_params: Mapping[str, Any]) -> float:
    """f* - f_M(recommended x): distance of the recommended design's true value; infinite if it is not feasible.

    Raises:
        SpaceError: if the parameters are not a design of the problem's space.
    """
    value = problem.feasible_value(recommended_params)
    return math.inf if value is None else _shortfall(problem, value)


def _shortfall(problem: Problem, value: float) -> float:
    return problem.direction.sign * (problem.optimum - value)
