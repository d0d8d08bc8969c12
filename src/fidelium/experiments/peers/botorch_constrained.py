"""`botorch-clogei`: BoTorch's constrained log expected improvement (Ament et al. 2023), only the target.

A `SingleTaskGP` of the value and one of each constrained outcome (`ModelListGP`), `qLogNoisyExpectedImprovement` with a
constraint for each limit. Limits are in units of the outcome's spread, because BoTorch's smooth step from feasible to
infeasible is 0.001 wide. Before the first feasible design its improvement is about feasibility alone.

The first 2 (d + 1) designs are a Sobol sequence, the size of BoTorch's tutorials, paid for like the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import GenericMCObjective
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.sampling import SobolQMCNormalSampler
from torch.quasirandom import SobolEngine

from fidelium.experiments.peers.adapters import mean_and_spread
from fidelium.experiments.peers.botorch import PeerModel, fitted, seeded, tensor
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.timing import stage

# pyright: reportMissingImports=false, reportArgumentType=false

SAMPLES = 128
"""Joint samples of value and outcomes; BoTorch's default is 512. Fewer, so that suggestions take less time."""


@dataclass(frozen=True)
class ConstrainedLogImprovement:
    """`ModelListGP` of value and outcomes x `qLogNoisyExpectedImprovement` with constraints, only at the target."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The design of the highest constrained log expected improvement; at first those of a Sobol sequence."""
        seen, dimension = history.observations[-1], history.space.dimension
        position = len(history.asked(len(history.ladder) - 1))
        if position < 2 * (dimension + 1) or not len(seen):
            with stage("search"):
                sequence = SobolEngine(dimension, scramble=True, seed=Key(key.entropy[:1]).word())
                unit_x = sequence.draw(position + 1, dtype=torch.float64)[-1].numpy()
            return Query(history.space.decode(history.space.snap(unit_x[None])[0]), history.affordable[-1])
        with stage("fit"):
            columns = [seen.y, *(outcome[-1].y for outcome in history.outcomes)]
            process = ModelListGP(*(_process(seen.unit_x, y, key) for y in columns))
        with stage("search"), seeded(key):
            improvement = qLogNoisyExpectedImprovement(
                process,
                X_baseline=tensor(seen.unit_x),
                sampler=SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=key.word()),
                objective=GenericMCObjective(lambda z, X=None: z[..., 0]),
                constraints=_limits(history) or None,
                prune_baseline=True,
            )
            unit_x, _ = PeerModel(process, {}, (), history, key).highest(improvement, len(history.ladder) - 1)
        return Query(history.space.decode(unit_x), history.affordable[-1])


def _process(unit_x: np.ndarray, y: np.ndarray, key: Key) -> Any:
    process = SingleTaskGP(tensor(unit_x), tensor(y)[:, None], outcome_transform=Standardize(m=1))
    return fitted(process, key)


def _limits(history: History) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    """For every limit, a function of the samples that is <= 0 where it is met."""
    found: list[Callable[[torch.Tensor], torch.Tensor]] = []
    for number, (each, outcome) in enumerate(zip(history.constraints, history.outcomes, strict=True), start=1):
        _, spread = mean_and_spread(outcome[-1].y)
        if not math.isinf(each.upper):
            found.append(lambda z, i=number, limit=each.upper, scale=spread: (z[..., i] - limit) / scale)
        if not math.isinf(each.lower):
            found.append(lambda z, i=number, limit=each.lower, scale=spread: (limit - z[..., i]) / scale)
    return found
