"""BoTorch's gain about f*, the target's maximum: the acquisition of two peers, which differ in their models."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.max_value_entropy_search import qMultiFidelityMaxValueEntropy
from botorch.models.deterministic import GenericDeterministicModel

from fidelium.experiments.peers.botorch_parts import PeerModel, seeded
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.random import RandomSearch
from fidelium.timing import stage

F_STAR_DESIGNS = 1000
"""Random designs whose values samples of f* are drawn from."""


def most_informative(
    fit: Callable[[History, Key], PeerModel], history: History, pending: Sequence[Query], key: Key
) -> Query:
    """The query that tells most about f* per cost, a random one before the first observation."""
    if not any(len(seen) for seen in history.observations):
        return RandomSearch().propose(history, pending, key)
    with stage("fit"):
        model = fit(history, key)
    with seeded(key):
        with stage("fstar"):
            gain = _gain(model)
        with stage("search"):
            return model.highest_per_cost(gain)


def _gain(model: PeerModel) -> Any:
    """The information about f* that an observation of (x, m) brings, its cost not counted."""
    free = InverseCostWeightedUtility(GenericDeterministicModel(lambda x: torch.ones_like(x[..., -1:])))
    designs = torch.rand(F_STAR_DESIGNS, model.history.space.dimension + 1, dtype=torch.float64)
    return qMultiFidelityMaxValueEntropy(
        model.process, model.to_target(designs), cost_aware_utility=free, project=model.to_target
    )
