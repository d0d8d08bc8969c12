"""A small problem, and a strategy with a model whose every number is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

import fidelium as fd
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.base import Recommendation


@dataclass(frozen=True)
class MeanModel:
    """Predicts the mean of each fidelity everywhere, std 1, and recommends the best design seen at the target."""

    history: History

    def predict(self, unit_x: NDArray[np.float64], fidelity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.full(len(unit_x), self.history.observations[fidelity].y.mean()), np.ones(len(unit_x))

    def recommend(self) -> Recommendation:
        seen = self.history.observations[-1]
        return Recommendation(seen.unit_x[np.argmax(seen.y)], float(seen.y.max()), 0.5)


@dataclass(frozen=True)
class FakeStrategy:
    """Proposes a random new design at the cheapest fidelity, and keeps what it was called with."""

    fits: list[int] = field(default_factory=list)
    seen_pending: list[tuple[Query, ...]] = field(default_factory=list)
    seen_remaining: list[float] = field(default_factory=list)

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        self.seen_pending.append(tuple(pending))
        self.seen_remaining.append(history.remaining)
        return Query(history.space.decode(history.space.sample(key.generator(), 1)[0]), history.affordable[0])

    def model(self, history: History, key: Key) -> MeanModel:
        self.fits.append(len(history.trials))
        return MeanModel(history)


@pytest.fixture
def fake() -> FakeStrategy:
    return FakeStrategy()


@pytest.fixture
def space() -> fd.SearchSpace:
    return fd.SearchSpace({"x1": fd.Real(-5, 10), "x2": fd.Real(0, 15)})


@pytest.fixture
def ladder() -> list[fd.Fidelity]:
    return [fd.Fidelity("coarse", cost=1), fd.Fidelity("medium", cost=10), fd.Fidelity("fine", cost=100)]


@pytest.fixture
def objective() -> Callable[[dict[str, float], fd.Fidelity], float]:
    return lambda params, fidelity: params["x1"] + params["x2"] + fidelity.cost
