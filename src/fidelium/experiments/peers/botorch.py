"""BoTorch's methods as peers, with BoTorch's models, priors and settings except where stated.

    botorch-logei      log expected improvement, only the target (Ament et al. 2023)
    botorch-mfmes      max-value entropy search per cost, a multi-task process (Takeno et al. 2020)
    botorch-stmf-mes   the same with the fidelity as a number in the model
    botorch-mfkg       knowledge gradient per cost, the fidelity as a number in the model (Wu et al. 2019)

The process with the fidelity as a number is that of BoTorch's tutorial on discrete fidelities, except for the numbers:
0.5, 0.75 and 1 there, equally spaced from 0 to 1 here. In this kernel f_m is the target plus an error that shrinks with
1 - m / (M - 1). From the initial observations of seeds 0 to 3, equal spacing raises the evidence (with the priors) by
4 to 11 nats on branin and 6 to 25 on levy, and lowers it by 0.3 to 0.5 on park1.

    KG(x, m) = E[max_x' E[f_M(x') | y_m(x)]] - max_x' E[f_M(x')],     a(x, m) = KG(x, m) / λ_m

In the tutorial the rise of the maximum in each fantasy is divided by the cost, and a fall multiplied: at a cost of 100
a fall weighs 10^4 times as much as a rise. Here the expected rise is divided, as the formula says.

Importing this module imports PyTorch, which uses one thread from the first use of `seeded` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch import fit_gpytorch_mll
from botorch.acquisition import LogExpectedImprovement, PosteriorMean
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.acquisition.max_value_entropy_search import qMultiFidelityMaxValueEntropy
from botorch.models import MultiTaskGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from numpy.typing import NDArray

from fidelium.errors import NoDataError, SettingError
from fidelium.experiments.peers.adapters import (
    Units,
    mean_and_spread,
    numbered,
    per_cost,
    spaced,
    standardised,
    with_column,
)
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation
from fidelium.strategies.initial_design import RandomSearch
from fidelium.timing import stage

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

F_STAR_DESIGNS = 1000
"""Random designs at which samples of f* are drawn."""

JOINT_FIT_STEPS = 200
"""Maximum steps of L-BFGS-B when the process of all fidelities is fitted. BoTorch has no such limit, and takes 1500
for three fidelities and 42 observations: 9 s, for 1.5 nats of evidence more than after 200 in 1.1 s."""

FANTASIES = 16
"""Fantasy values of y_m(x), each with its own best design x'; all are optimised together. BoTorch's default is 64, the
tutorial has 128; a study would then take an hour."""


@dataclass(frozen=True)
class Search:
    """Effort of the search for the best design.

    Args:
        restarts: number of local searches.
        raw_samples: random designs from which their starts are chosen.
        steps: maximum steps of L-BFGS-B in each, BoTorch's limit if None.
    """

    restarts: int = 10
    raw_samples: int = 512
    steps: int | None = None


THOROUGH = Search()
"""The default of all searches."""

QUICK = Search(restarts=4, raw_samples=64, steps=40)


@dataclass(frozen=True)
class LogImprovement:
    """`SingleTaskGP` of the target x `LogExpectedImprovement`, only at the target."""

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
        # a remaining budget below the target's cost is spent at a lower fidelity
        return Query(history.space.decode(unit_x), history.affordable[-1])

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of the target.

        Raises:
            NoDataError: if the target has not been observed yet.
        """
        seen, target = history.observations[-1], len(history.ladder) - 1
        if not len(seen):
            raise NoDataError("botorch-logei models only the target, which has no observations yet")
        process = SingleTaskGP(tensor(seen.unit_x), tensor(seen.y)[:, None], outcome_transform=Standardize(m=1))
        return PeerModel(fitted(process, key), {target: (0.0, 1.0)}, (), history, key)


@dataclass(frozen=True)
class MaxValueEntropy:
    """`MultiTaskGP` of all fidelities, each standardised x `qMultiFidelityMaxValueEntropy` per cost."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of the highest gain about f* per cost."""
        return most_informative(self.model, history, pending, key)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities, each with its own units.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        seen = {m: each for m, each in enumerate(history.observations) if len(each)}
        if not seen:
            raise NoDataError("botorch-mfmes needs at least one observation for its model: no trial is done yet")
        columns = numbered(len(history.ladder))
        units = {m: mean_and_spread(each.y) for m, each in seen.items()}
        x = np.concatenate([with_column(each.unit_x, columns[m]) for m, each in seen.items()])
        y = np.concatenate([standardised(each.y, units[m]) for m, each in seen.items()])
        with seeded(key):  # the covariance between the fidelities starts at random
            process = MultiTaskGP(
                tensor(x),
                tensor(y)[:, None],
                task_feature=-1,
                output_tasks=[len(history.ladder) - 1],
                all_tasks=list(range(max(len(history.ladder), 2))),  # a single task ends in an error of GPyTorch
                outcome_transform=None,
            )
        return PeerModel(fitted(process, key, JOINT_FIT_STEPS), units, columns, history, key)


@dataclass(frozen=True)
class ContinuousMaxValueEntropy:
    """`SingleTaskMultiFidelityGP` x `qMultiFidelityMaxValueEntropy` per cost."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of the highest gain about f* per cost."""
        return most_informative(self.model, history, pending, key)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        return continuous_model(history, key)


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
                return model.highest_per_cost(gradient, QUICK)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        return continuous_model(history, key)


def _gradient(model: PeerModel) -> Any:
    """The expected rise of the highest mean at the target, without the cost."""
    _, now = model.highest(PosteriorMean(model.process), len(model.history.ladder) - 1)
    return qMultiFidelityKnowledgeGradient(
        model.process, num_fantasies=FANTASIES, current_value=tensor(np.array(now)), project=model.to_target
    )


def most_informative(
    fit: Callable[[History, Key], PeerModel], history: History, pending: Sequence[Query], key: Key
) -> Query:
    """The query with the most information about f* per cost, a random one before the first observation."""
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
    """The information about f* in an observation of (x, m), without its cost."""
    free = InverseCostWeightedUtility(GenericDeterministicModel(lambda x: torch.ones_like(x[..., -1:])))
    designs = torch.rand(F_STAR_DESIGNS, model.history.space.dimension + 1, dtype=torch.float64)
    return qMultiFidelityMaxValueEntropy(
        model.process, model.to_target(designs), cost_aware_utility=free, project=model.to_target
    )


def continuous_model(history: History, key: Key) -> PeerModel:
    """`SingleTaskMultiFidelityGP` of x and m / (M - 1), all fidelities standardised together.

    Raises:
        NoDataError: if nothing has been observed yet.
    """
    if not any(len(seen) for seen in history.observations):
        raise NoDataError("this peer needs at least one observation for its model: no trial is done yet")
    columns = spaced(len(history.ladder))
    x = np.concatenate([with_column(seen.unit_x, columns[m]) for m, seen in enumerate(history.observations)])
    y = np.concatenate([seen.y for seen in history.observations])
    units = mean_and_spread(y)
    process = SingleTaskMultiFidelityGP(
        tensor(x),
        tensor(standardised(y, units))[:, None],
        data_fidelities=[history.space.dimension],
        outcome_transform=None,  # done by `units`, so that acquisitions compute with numbers around 1
    )
    return PeerModel(fitted(process, key), dict.fromkeys(range(len(columns)), units), columns, history, key)


@dataclass(frozen=True)
class PeerModel:
    """A fitted process of BoTorch, as the study and the acquisitions see it.

    Args:
        process: of x alone, or of x and a last column for the fidelity.
        units: of the process's values at each fidelity it models.
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
            SettingError: if the process does not model this fidelity.
        """
        if fidelity not in self.units:
            raise SettingError(f"this peer models only fidelities {list(self.units)}, got {fidelity!r}")
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
        """The best valid design at a fidelity, and the acquisition's value where the search ended."""
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
        return self.history.space.repair(found[:, :dimension].numpy())[0], float(value)

    def highest_per_cost(self, gain: Any, search: Search = THOROUGH) -> Query:
        """The affordable query of the highest gain per cost.

        The gain is maximised at each fidelity separately and divided by the cost afterwards: divided by a cost of 100
        before, its gradients would be below the tolerance of L-BFGS-B.
        """
        costs = self.history.ladder.costs
        found = {m: self.highest(gain, m, search) for m in self.history.affordable}
        best = max(found, key=lambda m: per_cost(found[m][1], costs[m]))
        return Query(self.history.space.decode(found[best][0]), best)

    def to_target(self, inputs: torch.Tensor) -> torch.Tensor:
        """The same designs at the target: the last column replaced."""
        return torch.cat([inputs[..., :-1], torch.full_like(inputs[..., -1:], self.columns[-1])], dim=-1)


def fitted(process: Any, key: Key, steps: int | None = None) -> Any:
    """The process with its most probable hyper-parameters, found in at most `steps` steps."""
    with seeded(key):
        evidence = ExactMarginalLogLikelihood(process.likelihood, process)
        fit_gpytorch_mll(evidence, optimizer_kwargs={"options": {} if steps is None else {"maxiter": steps}})
    return process


@contextmanager
def seeded(key: Key) -> Iterator[None]:
    """PyTorch with one thread and the random numbers of a key; the generator's state is restored afterwards."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.word())
        yield


def tensor(array: NDArray[np.float64]) -> torch.Tensor:
    """The array in double precision for PyTorch."""
    return torch.as_tensor(array, dtype=torch.float64)
