"""What a strategy is: a pure function from the history to the next query. No JAX here, so importing it is cheap."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fidelium.history import History, Query
from fidelium.randomness import Key


@runtime_checkable
class Strategy(Protocol):
    """Decides where, and at which fidelity, to evaluate next.

    `propose` is pure: it keeps no state, and the same history, pending queries and key give the same query. Its query
    is valid in the history's space and affordable (`history.affordable`).
    """

    @abstractmethod
    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The next query, given everything observed (which may be nothing) and the queries still running.

        Raises:
            BudgetError: if the remaining budget is below the cost of every query it would ask.
        """
        ...


@dataclass(frozen=True)
class Recommendation:
    """The design a model would choose, in the maximising sign and the objective's units.

    Args:
        unit_x: the design as a point of the unit cube, `(d,)`.
        mean: posterior mean of the target there.
        std: posterior standard deviation of the target there.
        feasible_probability: that a run of the target there succeeds and meets all constraints.
    """

    unit_x: NDArray[np.float64]
    mean: float
    std: float
    feasible_probability: float = 1.0


@runtime_checkable
class Model(Protocol):
    """A fitted surrogate as the study sees it: arrays in, arrays out, in the objective's units, to be maximised."""

    @abstractmethod
    def predict(self, unit_x: NDArray[np.float64], fidelity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and standard deviation of the objective at points `(n, d)` and a fidelity's position.

        Where values were bent: the median, and half of the width of the interval of 68 %.
        """
        ...

    @abstractmethod
    def recommend(self) -> Recommendation:
        """The design this model would choose at the target."""
        ...


@runtime_checkable
class RunModel(Model, Protocol):
    """A model that also knows the outcomes that have limits, and whether runs succeed."""

    @abstractmethod
    def predict_outcome(
        self, unit_x: NDArray[np.float64], fidelity: int, outcome: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and standard deviation of the outcome of the constraint at this position, as `predict`."""
        ...

    @abstractmethod
    def feasibility(self, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that a run of the target succeeds and meets all constraints, at points `(n, d)`."""
        ...

    @abstractmethod
    def success(self, unit_x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that a run of the target succeeds, at points `(n, d)`."""
        ...


@runtime_checkable
class FidelityModel(Model, Protocol):
    """A model that knows how alike the fidelities are."""

    @abstractmethod
    def correlations(self) -> NDArray[np.float64]:
        """The correlation between each fidelity and the target over the designs, as learned; 1 of the target."""
        ...


@runtime_checkable
class ImprovementModel(Model, Protocol):
    """A model that says how much better than the best another run of the target is expected to be."""

    @abstractmethod
    def improvements(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Designs with the largest expected improvement of the target over the best feasible value, and what it is.

        In the objective's units, times the probability of being feasible; None while no feasible value is known.
        """
        ...


@runtime_checkable
class Modelled(Protocol):
    """A strategy that can show the model behind its choices."""

    @abstractmethod
    def model(self, history: History, key: Key) -> Model:
        """The surrogate fitted to the history.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        ...
