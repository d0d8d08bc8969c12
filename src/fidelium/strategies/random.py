"""Random search: uniform designs at the target fidelity, the yardstick every other strategy must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.strategies.initial_design import unasked_point


@dataclass(frozen=True)
class RandomSearch:
    """Queries a uniformly random design at the highest affordable fidelity."""

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        fidelity = history.affordable[-1]
        return Query(history.space.decode(unasked_point(history, pending, fidelity, key)), fidelity)
