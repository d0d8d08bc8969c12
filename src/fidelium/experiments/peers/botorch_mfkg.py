"""`botorch-mfkg`: the knowledge gradient per cost, the fidelity being a number to the model (Wu et al. 2019).

    KG(x, m) = E[max_x' E[f_M(x') | y_m(x)]] - max_x' E[f_M(x')],     a(x, m) = KG(x, m) / λ_m

Searches are those of BoTorch's tutorial on discrete fidelities, the way to count costs is not. There the rise of the
maximum in each fantasy is divided by the cost, and a fall multiplied: at a cost of 100 a fall weighs 10^4 times as much
as a rise. Here the expected rise is divided, as the formula says.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from botorch.acquisition import PosteriorMean
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient

from fidelium.experiments.peers.botorch_parts import PeerModel, Search, seeded, tensor
from fidelium.experiments.peers.botorch_stmf import continuous_model
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.random import RandomSearch
from fidelium.timing import stage

FANTASIES = 16
"""Values that y_m(x) may have, each with a best design x' of its own: all of them are climbed at once. BoTorch's
default is 64, the tutorial has 128; a study would then take an hour."""

SEARCH = Search(restarts=4, raw_samples=64, steps=40)


@dataclass(frozen=True)
class KnowledgeGradient:
    """`SingleTaskMultiFidelityGP` x `qMultiFidelityKnowledgeGradient` per cost."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query after which the highest mean at the target is expected to rise most per cost."""
        if not any(len(seen) for seen in history.observations):
            return RandomSearch().propose(history, pending, key)
        with stage("fit"):
            model = self.model(history, key)
        with seeded(key):
            with stage("fstar"):
                gradient = _gradient(model)
            with stage("search"):
                return model.highest_per_cost(gradient, SEARCH)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        return continuous_model(history, key)


def _gradient(model: PeerModel) -> Any:
    """The expected rise of the highest mean at the target, the cost not counted."""
    _, now = model.highest(PosteriorMean(model.process), len(model.history.ladder) - 1)
    return qMultiFidelityKnowledgeGradient(
        model.process, num_fantasies=FANTASIES, current_value=tensor(np.array(now)), project=model.to_target
    )
