"""Histories made by hand, for strategies to decide from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Query, Trial, TrialState
from fidelium.space import Params, SearchSpace

Told = tuple[Params, int, float]
LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("high", 10)))


def _trial(number: int, params: Params, fidelity: Fidelity, state: TrialState, value: float | None) -> Trial:
    return Trial(number, params, fidelity, state, value, reason="crashed" if state is TrialState.FAILED else None)


@pytest.fixture(scope="session")
def history_of() -> Callable[..., History]:
    """Makes a history from (params, fidelity, value) of done trials and from failed queries."""

    def make(
        space: SearchSpace,
        told: Iterable[Told] = (),
        failed: Iterable[Query] = (),
        ladder: FidelityLadder = LADDER,
        remaining: float = math.inf,
        direction: Direction = Direction.MAXIMIZE,
    ) -> History:
        lives: list[tuple[Any, ...]] = [(params, ladder[m], TrialState.DONE, value) for params, m, value in told]
        lives += [(query.params, ladder[query.fidelity], TrialState.FAILED, None) for query in failed]
        trials = tuple(_trial(number, *life) for number, life in enumerate(lives))
        return History(space, ladder, direction, trials, remaining)

    return make
