"""What the model of a study has learned, in a few numbers and sentences: what cheap runs tell, where runs fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fidelium.fidelity import FidelityLadder
from fidelium.history import History
from fidelium.strategies.base import FidelityModel, Model, RunModel

USELESS = 0.3
"""Correlation below which runs at a fidelity tell next to nothing about the target: a tenth of its variance."""


@dataclass(frozen=True)
class Learned:
    """What a model has learned.

    Args:
        ladder: the fidelities.
        correlations: of each fidelity below the target with the target, by name; empty if the model does not say.
        success: probability that a run at the target succeeds at the best design, None while nothing has failed.
    """

    ladder: FidelityLadder
    correlations: Mapping[str, float]
    success: float | None = None

    @staticmethod
    def of(model: Model, history: History) -> Learned:
        """What this model has learned from the history."""
        names, found = history.ladder.names, np.array([])
        if isinstance(model, FidelityModel):
            found = model.correlations()
        correlations = {name: float(value) for name, value in zip(names[:-1], found[:-1], strict=False)}
        chance = None
        if isinstance(model, RunModel) and history.learns_success:
            chance = float(model.success(np.asarray(model.recommend().unit_x)[None])[0])
        return Learned(history.ladder, correlations, chance)

    @property
    def lines(self) -> tuple[str, ...]:
        """What to tell people, a line each."""
        target = self.ladder.target.name
        told = [f"{name} and {target} correlate by {value:.2f}" for name, value in self.correlations.items()]
        for name, value in self.correlations.items():
            if abs(value) < USELESS:
                told.append(
                    f"{name} tells next to nothing about {target} ({value:.2f}): single-fidelity search would do"
                )
        if self.success is not None:
            told.append(f"runs near the recommended design succeed with probability {self.success:.2f}")
        return tuple(told)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"correlations": dict(self.correlations), "success": self.success}
