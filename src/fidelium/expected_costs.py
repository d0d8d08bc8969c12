"""What a run is expected to cost: what is declared, times what was learned from the costs that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fidelium.costs.declared import sample_designs
from fidelium.costs.learned import CostModel
from fidelium.fidelity import FidelityLadder
from fidelium.space import SearchSpace

Values = NDArray[np.float64]

_SAMPLE = 256


@dataclass(frozen=True)
class ExpectedCosts:
    """What runs are expected to cost, in the unit of the budget.

    Args:
        space: the parameters.
        ladder: the fidelities with their declared costs.
        model: what was learned; None if costs are not measured, or nothing was.
    """

    space: SearchSpace
    ladder: FidelityLadder
    model: CostModel | None = None

    @property
    def are_declared(self) -> bool:
        """Whether all costs are the declared numbers."""
        return self.model is None and not self.ladder.depends_on_design

    @property
    def depend_on_design(self) -> bool:
        """Whether the expected cost of a fidelity differs between designs."""
        return self.ladder.depends_on_design or (self.model is not None and self.model.depends_on_design)

    def at(self, unit_x: Values, fidelity: int) -> Values:
        """The expected costs of designs, rows of the unit cube `(n, d)`, at a fidelity's position."""
        declared = self.declared_at(unit_x, fidelity)
        return declared if self.model is None else declared * np.exp(self.model.log_ratio(unit_x, fidelity))

    def of(self, params: Mapping[str, Any], fidelity: int) -> float:
        """The expected cost of a design."""
        declared = self.ladder[fidelity].cost_of(params)
        if self.model is None:
            return declared
        place = self.space.place(params)
        if place is None:  # outside of the present bounds
            return declared * math.exp(self.model.level[fidelity])
        return declared * math.exp(self.model.log_ratio(place[None], fidelity)[0])

    @cached_property
    def typical(self) -> tuple[float, ...]:
        """The expected cost of each fidelity, low to high: the median over designs where it depends on them."""
        if not self.depend_on_design:
            return self._levels
        return tuple(float(np.median(costs)) for costs in self._sampled)

    @cached_property
    def cheapest(self) -> tuple[float, ...]:
        """The least expected cost of each fidelity over many designs."""
        return self._levels if not self.depend_on_design else tuple(float(np.min(costs)) for costs in self._sampled)

    def declared_at(self, unit_x: Values, fidelity: int) -> Values:
        """The declared costs of designs."""
        rung = self.ladder[fidelity]
        if rung.design_cost is None:
            return np.full(len(unit_x), rung.typical_cost)
        return rung.design_cost.at(unit_x)

    @property
    def _levels(self) -> tuple[float, ...]:
        if self.model is None:
            return self.ladder.costs
        return tuple(cost * math.exp(level) for cost, level in zip(self.ladder.costs, self.model.level, strict=True))

    @cached_property
    def _sampled(self) -> tuple[Values, ...]:
        designs = sample_designs(self.space, _SAMPLE)
        return tuple(self.at(designs, m) for m in range(len(self.ladder)))
