"""What BoTorch's peers share: random numbers, fits, searches over designs, and the model that a study shows.

Importing this module imports PyTorch, which computes with one thread from the first use of `seeded` on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch import fit_gpytorch_mll
from botorch.acquisition import PosteriorMean
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from numpy.typing import NDArray

from fidelium.errors import SettingError
from fidelium.experiments.peers.shared import Units, per_cost, with_column
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false


@dataclass(frozen=True)
class Search:
    """How hard to search for the best design.

    Args:
        restarts: climbs.
        raw_samples: random designs that their starts are chosen from.
        steps: of L-BFGS-B at most in each climb, BoTorch's own limit if None.
    """

    restarts: int = 10
    raw_samples: int = 512
    steps: int | None = None


THOROUGH = Search()
"""Of all searches but where a peer says otherwise."""


@dataclass(frozen=True)
class PeerModel:
    """A fitted process of BoTorch, as the study and the acquisitions see it.

    Args:
        process: of x alone, or of x and a last column that stands for the fidelity.
        units: of the process's values at each fidelity it knows.
        columns: the last column's value at each fidelity, low to high; empty if there is no such column.
        history: what it was fitted to.
        key: of the search for the recommended design.
    """

    process: Any
    units: Mapping[int, Units]
    columns: tuple[float, ...]
    history: History
    key: Key

    def predict(self, unit_x: NDArray[np.float64], fidelity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of the objective, in its units.

        Raises:
            SettingError: if the process knows nothing of this fidelity.
        """
        if fidelity not in self.units:
            raise SettingError(f"this peer models fidelities {list(self.units)} alone, got {fidelity!r}")
        shift, scale = self.units[fidelity]
        inputs = with_column(unit_x, self.columns[fidelity]) if self.columns else unit_x
        found = self.process.posterior(tensor(inputs))
        mean, variance = (part[:, 0].detach().numpy() for part in (found.mean, found.variance))
        return shift + scale * mean, scale * np.sqrt(variance)

    def recommend(self) -> Recommendation:
        """The design of the highest mean at the target."""
        target = len(self.history.ladder) - 1
        with seeded(self.key):
            unit_x, _ = self.highest(PosteriorMean(self.process), target)
        mean, std = self.predict(unit_x[None], target)
        return Recommendation(unit_x, float(mean[0]), float(std[0]))

    def highest(self, acquisition: Any, fidelity: int, search: Search = THOROUGH) -> tuple[NDArray[np.float64], float]:
        """The best valid design at a fidelity, and the acquisition's value where the climb ended."""
        dimension = self.history.space.dimension
        ends = [1.0] * dimension + list(self.columns[-1:])
        found, value = optimize_acqf(
            acquisition,
            bounds=tensor(np.array([np.zeros(len(ends)), ends])),
            q=1,
            num_restarts=search.restarts,
            raw_samples=search.raw_samples,
            fixed_features={dimension: self.columns[fidelity]} if self.columns else None,
            options=None if search.steps is None else {"maxiter": search.steps},
        )
        return self.history.space.snap(found[:, :dimension].numpy())[0], float(value)

    def highest_per_cost(self, gain: Any, search: Search = THOROUGH) -> Query:
        """The affordable query of the highest gain per cost.

        The gain is climbed at each fidelity on its own and divided by the cost afterwards: divided by a cost of 100
        beforehand, its gradients are below what L-BFGS-B takes for zero.
        """
        costs = self.history.ladder.costs
        found = {m: self.highest(gain, m, search) for m in self.history.affordable}
        best = max(found, key=lambda m: per_cost(found[m][1], costs[m]))
        return Query(self.history.space.decode(found[best][0]), best)

    def to_target(self, inputs: torch.Tensor) -> torch.Tensor:
        """The same designs at the target: the last column replaced."""
        return torch.cat([inputs[..., :-1], torch.full_like(inputs[..., -1:], self.columns[-1])], dim=-1)


@contextmanager
def seeded(key: Key) -> Iterator[None]:
    """PyTorch with one thread and the random numbers of a key; the generator is afterwards as it was."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.word())
        yield


def tensor(array: NDArray[np.float64]) -> torch.Tensor:
    """The array in double precision for PyTorch."""
    return torch.as_tensor(array, dtype=torch.float64)


def fitted(process: Any, key: Key, steps: int | None = None) -> Any:
    """The process with its most probable hyper-parameters, found in so many steps at most."""
    with seeded(key):
        evidence = ExactMarginalLogLikelihood(process.likelihood, process)
        fit_gpytorch_mll(evidence, optimizer_kwargs={"options": {} if steps is None else {"maxiter": steps}})
    return process
