"""Which design to recommend: a new one only if it beats the best observed one with good probability. No JAX here.

What was observed is what is reported: the value of a design that was run, where the model takes runs to repeat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fidelium.history import Observations

Values = NDArray[np.float64]

SURE = 1.0
"""Standard deviations by which a new design must be expected above the best observed one: 84 % if the model is right.
Of those that it let pass, 8 in 10 were better indeed (docs/experiments-log.md, "Recommend what was observed")."""


@dataclass(frozen=True)
class Expected:
    """Designs and what is known of the target there, in the model's units, to be maximised.

    Args:
        unit_x: a design in each row.
        mean: of the target.
        std: of the target; of what a run would give, for a design that has not been run.
        believed: the model's own mean, where `mean` is a value that was observed; `mean` if None.
    """

    unit_x: Values
    mean: Values
    std: Values
    believed: Values | None = None

    def at(self, row: int) -> Expected:
        """One of the designs."""
        believed = None if self.believed is None else self.believed[[row]]
        return Expected(self.unit_x[[row]], self.mean[[row]], self.std[[row]], believed)

    @property
    def level(self) -> Values:
        """What another design must be expected above: where the model is too hopeful here, it may be so there, too."""
        return self.mean if self.believed is None else np.maximum(self.mean, self.believed)


def observed_designs(seen: Observations, posterior: Expected, noise_std: Values, repeats: float) -> Expected:
    """Every design that was run at the target, once, with its own value where runs repeat, else with the posterior's.

    Runs repeat where they report a standard error of 0, or report none and the model finds little noise; and no two
    runs of the design gave different values.

    Args:
        seen: the observations of the target, in the model's units.
        posterior: of each observation's design.
        noise_std: the model's noise where each observation is.
        repeats: noise up to this counts as ripples of a deterministic simulator.
    """
    _, first, which = np.unique(seen.unit_x, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    lowest, highest = np.full(len(first), math.inf), np.full(len(first), -math.inf)
    np.minimum.at(lowest, which, seen.y)
    np.maximum.at(highest, which, seen.y)
    little = noise_std <= repeats
    if seen.std is not None:
        little = np.where(np.isnan(seen.std), little, seen.std == 0.0)
    repeat = np.ones(len(first), dtype=bool)
    np.logical_and.at(repeat, which, little)
    exact = (lowest == highest) & repeat
    mean = np.where(exact, highest, posterior.mean[first])
    std = np.where(exact, 0.0, posterior.std[first])
    return Expected(seen.unit_x[first], mean, std, posterior.mean[first])


def surest(designs: Expected) -> Expected:
    """The design of the highest mean minus one standard deviation."""
    return designs.at(int(np.argmax(designs.mean - designs.std)))


def recommended(new: Expected, observed: Expected) -> tuple[Expected, bool]:
    """The surest new design if it is better than the best observed one with good probability, else that one.

    Args:
        new: designs that have not been run, may be none.
        observed: designs that have been run, may be none, but not both.

    Returns:
        The design, and whether it has been run.
    """
    if not len(observed.mean):
        return surest(new), False
    best = surest(observed)
    if not len(new.mean):
        return best, True
    # P(f(x) > f(best)) = Phi(lead / sqrt(var + var of the best)); both are normal, and taken to be independent
    lead = (new.mean - best.level) / np.sqrt(new.std**2 + best.std**2 + np.finfo(float).tiny)
    row = int(np.argmax(np.where(lead >= SURE, new.mean - new.std, -math.inf)))
    return (new.at(row), False) if lead[row] >= SURE else (best, True)
