"""Our quick choice of an architecture: a few, scored together in one vmapped call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import Scored, StackArchitecture, Watch
from fidelium.surrogates.stacked_dnn.crossvalidation import CrossValidation

SHAPES = ((2, 32), (2, 128), (3, 128))
"""Depths and widths that are tried, all fidelities alike."""

LEARNING_RATES = (3e-4, 1e-3, 3e-3)
"""Learning rates that are tried, each with every shape."""


@dataclass(frozen=True)
class QuickChoice:
    """The best of a few architectures.

    Args:
        validation: how they are scored.
    """

    validation: CrossValidation = CrossValidation()

    def run(self, observations: Sequence[Observations], key: Key, watch: Watch) -> tuple[Scored, ...]:
        """Every architecture with its score, the default one first."""
        architectures = few_architectures(len(observations))
        scores = self.validation.scores(observations, architectures, key, lambda share: watch(share, -math.inf))
        return tuple(Scored(each, float(score)) for each, score in zip(architectures, scores, strict=True))


def few_architectures(fidelities: int) -> tuple[StackArchitecture, ...]:
    """The default architecture, and the others that are tried."""
    tried = [
        StackArchitecture((depth,) * fidelities, (width,) * fidelities, rate)
        for (depth, width), rate in product(SHAPES, LEARNING_RATES)
    ]
    return tuple(dict.fromkeys([StackArchitecture.default(fidelities), *tried]))
