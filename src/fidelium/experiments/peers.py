"""Peers from outside: BoTorch's methods as strategies, to measure ours against from the same starts.

`botorch-logei` is log expected improvement with a Gaussian process of the target (Ament et al. 2023), `botorch-mfmes`
max-value entropy search per cost with a Gaussian process of all fidelities (Takeno et al. 2020), both with BoTorch's
own models, priors and settings but for `JOINT_FIT_STEPS`. They need the extra `peers`; PyTorch is imported when one of
them is first asked, and computes with one thread from then on. They are for experiments: pending and failed queries are
not looked at.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import NoDataError, SettingError
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies import registry
from fidelium.strategies.base import Recommendation, Strategy
from fidelium.timing import stage

if TYPE_CHECKING:
    from torch import Tensor

RESTARTS, RAW_SAMPLES = 10, 512
"""Of every search over designs: climbs, and the random designs their starts are chosen from."""

JOINT_FIT_STEPS = 200
"""Steps of L-BFGS-B at most when a process of all fidelities is fitted. BoTorch has no such limit, and takes 1500 steps
for three fidelities and 42 observations: 9 s, for 1.5 nats of evidence more than after 200 in 1.1 s."""

F_STAR_DESIGNS = 1000
"""Random designs whose values samples of f* are drawn from."""


def names() -> tuple[str, ...]:
    """The names of all peers."""
    return tuple(_PEERS)


def check(name: str) -> None:
    """Refuse what is neither the name of a strategy nor that of a peer that can run here.

    Raises:
        UnknownNameError: if there is no such strategy.
        SettingError: if it is a peer, and the extra is missing.
    """
    if name not in _PEERS:
        registry.check(name)
    elif find_spec("botorch") is None:
        raise SettingError(f"{name!r} needs BoTorch, which is not installed; pip install 'fidelium[peers]' brings it")


def resolve(name: str) -> str | Strategy:
    """The peer of that name; the name of a strategy of ours as it is.

    Raises:
        UnknownNameError: if there is no such strategy.
        SettingError: if it is a peer, and the extra is missing.
    """
    check(name)
    return _PEERS[name]() if name in _PEERS else name


@dataclass(frozen=True)
class PeerModel:
    """A fitted process of BoTorch as the study sees it.

    Args:
        process: a `SingleTaskGP` of x, or a `MultiTaskGP` of x and the fidelity.
        units: shift and scale of the process's values at each fidelity it knows.
        joint: whether the fidelity is the last column of its inputs.
        history: what it was fitted to.
        key: of the search for the recommended design.
    """

    process: Any
    units: Mapping[int, tuple[float, float]]
    joint: bool
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
        found = self.process.posterior(_tensor(_at(unit_x, fidelity) if self.joint else unit_x))
        mean, variance = (part[:, 0].detach().numpy() for part in (found.mean, found.variance))
        return shift + scale * mean, scale * np.sqrt(variance)

    def recommend(self) -> Recommendation:
        """The design of the highest mean at the target."""
        from botorch.acquisition import PosteriorMean

        target = len(self.history.ladder) - 1
        with _seeded(self.key):
            unit_x, _ = _highest(PosteriorMean(self.process), self.history, target if self.joint else None)
        mean, std = self.predict(unit_x[None], target)
        return Recommendation(unit_x, float(mean[0]), float(std[0]))


@dataclass(frozen=True)
class LogImprovement:
    """`SingleTaskGP` of the target x `LogExpectedImprovement`, at the target alone."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The design of the highest log expected improvement on the best observation."""
        from botorch.acquisition import LogExpectedImprovement

        with stage("fit"):
            process = self.model(history, key).process
        with stage("search"), _seeded(key):
            improvement = LogExpectedImprovement(process, best_f=float(np.max(history.observations[-1].y)))
            unit_x, _ = _highest(improvement, history, None)
        # what is left of a budget and buys nothing at the target is spent below it
        return Query(history.space.decode(unit_x), history.affordable[-1])

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of the target.

        Raises:
            NoDataError: if the target has not been observed yet.
        """
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize

        seen = history.observations[-1]
        if not len(seen):
            raise NoDataError("botorch-logei models the target alone, which has not been observed yet")
        process = SingleTaskGP(_tensor(seen.unit_x), _tensor(seen.y)[:, None], outcome_transform=Standardize(m=1))
        return PeerModel(_fitted(process, key), {len(history.ladder) - 1: (0.0, 1.0)}, False, history, key)


@dataclass(frozen=True)
class MaxValueEntropy:
    """`MultiTaskGP` of all fidelities, each standardised x `qMultiFidelityMaxValueEntropy` per cost."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of the highest gain per cost.

        The gain is climbed at each fidelity on its own and divided by the cost afterwards: divided by a cost of 100
        beforehand, its gradients are below what L-BFGS-B takes for zero.
        """
        with stage("fit"):
            process = self.model(history, key).process
        with _seeded(key):
            with stage("fstar"):
                gain = _gain(process, history)
            with stage("search"):
                found = {m: _highest(gain, history, m) for m in history.affordable}
        best = max(found, key=lambda m: _per_cost(found[m][1], history.ladder.costs[m]))
        return Query(history.space.decode(found[best][0]), best)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities."""
        from botorch.models import MultiTaskGP

        seen = [(m, each) for m, each in enumerate(history.observations) if len(each)]
        units = {m: _units(each.y) for m, each in seen}
        x = np.concatenate([_at(each.unit_x, m) for m, each in seen])
        y = np.concatenate([(each.y - units[m][0]) / units[m][1] for m, each in seen])
        with _seeded(key):  # the covariance between the fidelities starts at random
            process = MultiTaskGP(
                _tensor(x),
                _tensor(y)[:, None],
                task_feature=-1,
                output_tasks=[len(history.ladder) - 1],
                all_tasks=list(range(len(history.ladder))),
                outcome_transform=None,
            )
        return PeerModel(_fitted(process, key, JOINT_FIT_STEPS), units, True, history, key)


_PEERS: dict[str, type[LogImprovement] | type[MaxValueEntropy]] = {
    "botorch-logei": LogImprovement,
    "botorch-mfmes": MaxValueEntropy,
}


@contextmanager
def _seeded(key: Key) -> Iterator[None]:
    """PyTorch with one thread and the random numbers of a key; the generator is afterwards as it was."""
    import torch

    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.word())
        yield


def _tensor(array: NDArray[np.float64]) -> Tensor:
    import torch

    return torch.as_tensor(array, dtype=torch.float64)


def _at(unit_x: NDArray[np.float64], fidelity: int) -> NDArray[np.float64]:
    """The designs with the fidelity as their last column."""
    return np.column_stack([unit_x, np.full(len(unit_x), float(fidelity))])


def _units(y: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard deviation of the values; 1 where there is no spread."""
    spread = float(np.std(y, ddof=1)) if len(y) > 1 else 0.0
    return float(np.mean(y)), spread or 1.0


def _fitted(process: Any, key: Key, steps: int | None = None) -> Any:
    """The process with its most probable hyper-parameters, found in so many steps at most."""
    from botorch import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    with _seeded(key):
        evidence = ExactMarginalLogLikelihood(process.likelihood, process)
        fit_gpytorch_mll(evidence, optimizer_kwargs={"options": {} if steps is None else {"maxiter": steps}})
    return process


def _gain(process: Any, history: History) -> Any:
    """The information about f* that an observation of (x, m) brings, its cost not counted."""
    import torch
    from botorch.acquisition.cost_aware import InverseCostWeightedUtility
    from botorch.acquisition.max_value_entropy_search import qMultiFidelityMaxValueEntropy
    from botorch.models.deterministic import GenericDeterministicModel

    target = float(len(history.ladder) - 1)

    def to_target(x: Tensor) -> Tensor:
        return torch.cat([x[..., :-1], torch.full_like(x[..., -1:], target)], dim=-1)

    free = InverseCostWeightedUtility(GenericDeterministicModel(lambda x: torch.ones_like(x[..., -1:])))
    designs = torch.rand(F_STAR_DESIGNS, history.space.dimension + 1, dtype=torch.float64)
    return qMultiFidelityMaxValueEntropy(process, to_target(designs), cost_aware_utility=free, project=to_target)


def _per_cost(gain: float, cost: float) -> float:
    """The gain per cost, and, as BoTorch has it, the loss times the cost: sampled gains may be below zero."""
    return gain / cost if gain > 0 else gain * cost


def _highest(acquisition: Any, history: History, fidelity: int | None) -> tuple[NDArray[np.float64], float]:
    """The best valid design, and the acquisition's value where the climb ended.

    Args:
        acquisition: what to climb.
        history: says what is valid.
        fidelity: the value of the last column; None if there is no such column.
    """
    from botorch.optim import optimize_acqf

    dimension = history.space.dimension
    upper = [1.0] * dimension + ([] if fidelity is None else [float(len(history.ladder) - 1)])
    found, value = optimize_acqf(
        acquisition,
        bounds=_tensor(np.array([np.zeros(len(upper)), upper])),
        q=1,
        num_restarts=RESTARTS,
        raw_samples=RAW_SAMPLES,
        fixed_features=None if fidelity is None else {dimension: float(fidelity)},
    )
    return history.space.snap(found[:, :dimension].numpy())[0], float(value)
