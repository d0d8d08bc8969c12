"""BoTorch's methods as peers, with BoTorch's models, priors and settings except where a class says otherwise.

    botorch-logei      log expected improvement, the target alone (Ament et al. 2023)
    botorch-mfmes      max-value entropy search per cost, a multi-task process (Takeno et al. 2020)
    botorch-stmf-mes   the same with the fidelity as a number to the model
    botorch-mfkg       knowledge gradient per cost, the fidelity as a number to the model (Wu et al. 2019)

The process with the fidelity as a number is that of BoTorch's tutorial on discrete fidelities, but for the numbers:
0.5, 0.75 and 1 there, 0 to 1 at equal distances here. To this kernel f_m is the target plus an error that shrinks with
1 - m / (M - 1). From the initial observations of seeds 0 to 3 the evidence, with the priors, is 4 to 11 nats higher so
on branin, 6 to 25 on levy, and 0.3 to 0.5 lower on park1.

    KG(x, m) = E[max_x' E[f_M(x') | y_m(x)]] - max_x' E[f_M(x')],     a(x, m) = KG(x, m) / λ_m

In the tutorial the rise of the maximum in each fantasy is divided by the cost, and a fall multiplied: at a cost of 100
a fall weighs 10^4 times as much as a rise. Here the expected rise is divided, as the formula says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, PosteriorMean
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.acquisition.max_value_entropy_search import qMultiFidelityMaxValueEntropy
from botorch.models import MultiTaskGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms import Standardize

from fidelium.errors import NoDataError
from fidelium.experiments.peers.botorch_models import PeerModel, Search, fitted, seeded, tensor
from fidelium.experiments.peers.shared import numbered, spaced, standardised, units_of, with_column
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.initial_design import RandomSearch
from fidelium.timing import stage

# pyright: reportMissingImports=false


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


# pyright: reportMissingImports=false


def continuous_model(history: History, key: Key) -> PeerModel:
    """`SingleTaskMultiFidelityGP` of x and m / (M - 1), all fidelities standardised together.

    Raises:
        NoDataError: if nothing has been observed yet.
    """
    if not any(len(seen) for seen in history.observations):
        raise NoDataError("this peer has nothing to learn a model from yet: no trial is done")
    columns = spaced(len(history.ladder))
    x = np.concatenate([with_column(seen.unit_x, columns[m]) for m, seen in enumerate(history.observations)])
    y = np.concatenate([seen.y for seen in history.observations])
    units = units_of(y)
    process = SingleTaskMultiFidelityGP(
        tensor(x),
        tensor(standardised(y, units))[:, None],
        data_fidelities=[history.space.dimension],
        outcome_transform=None,  # done by `units`, so that acquisitions compute with numbers around 1
    )
    return PeerModel(fitted(process, key), dict.fromkeys(range(len(columns)), units), columns, history, key)


# pyright: reportMissingImports=false


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


# pyright: reportMissingImports=false


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


# pyright: reportMissingImports=false


JOINT_FIT_STEPS = 200
"""Steps of L-BFGS-B at most when the process of all fidelities is fitted. BoTorch has no such limit, and takes 1500
for three fidelities and 42 observations: 9 s, for 1.5 nats of evidence more than after 200 in 1.1 s."""


@dataclass(frozen=True)
class MaxValueEntropy:
    """`MultiTaskGP` of all fidelities, each standardised x `qMultiFidelityMaxValueEntropy` per cost."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of the highest gain about f* per cost."""
        return most_informative(self.model, history, pending, key)

    def model(self, history: History, key: Key) -> PeerModel:
        """The process of all fidelities, each with units of its own.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        seen = {m: each for m, each in enumerate(history.observations) if len(each)}
        if not seen:
            raise NoDataError("botorch-mfmes has nothing to learn a model from yet: no trial is done")
        columns = numbered(len(history.ladder))
        units = {m: units_of(each.y) for m, each in seen.items()}
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
