"""`botorch-logei`: log expected improvement with a Gaussian process of the target (Ament et al. 2023).

BoTorch's model, priors and settings; the target alone.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize

from fidelium.errors import NoDataError
from fidelium.experiments.peers.botorch_parts import PeerModel, fitted, seeded, tensor
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.random import RandomSearch
from fidelium.timing import stage


@dataclass(frozen=True)
class LogImprovement:
    """`SingleTaskGP` of the target x `LogExpectedImprovement`, at the target alone."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The design of the highest log expected improvement on the best observation."""
        seen, target = history.observations[-1], len(history.ladder) - 1
        if not len(seen):
            return RandomSearch().propose(history, pending, key)
        with stage("fit"):
            model = self.model(history, key)
        with stage("search"), seeded(key):
            improvement = LogExpectedImprovement(model.process, best_f=float(np.max(seen.y)))
            unit_x, _ = model.highest(improvement, target)
        # what is left of a budget and buys nothing at the target is spent below it
        return Query(history.space.decode(unit_x), history.affordable[-1])

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of the target.

        Raises:
            NoDataError: if the target has not been observed yet.
        """
        seen, target = history.observations[-1], len(history.ladder) - 1
        if not len(seen):
            raise NoDataError("botorch-logei models the target alone, which has not been observed yet")
        process = SingleTaskGP(tensor(seen.unit_x), tensor(seen.y)[:, None], outcome_transform=Standardize(m=1))
        return PeerModel(fitted(process, key), {target: (0.0, 1.0)}, (), history, key)
