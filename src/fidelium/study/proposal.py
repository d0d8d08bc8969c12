"""What a study asks next: the initial design first, then the strategy. Pure functions of the history."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from fidelium.errors import SettingError
from fidelium.history import History, Query
from fidelium.randomness import Key
from fidelium.space import Params
from fidelium.strategies.base import Strategy


def next_of_design(history: History, design: Iterable[Query]) -> Query | None:
    """The first affordable query of the initial design that nobody asked, None if there is none left."""
    # found by comparing, not by counting: so it is still there when a larger budget affords what was skipped
    asked = {_identity(t.params, history.ladder.index(t.fidelity)) for t in history.trials}
    for query in design:
        if query.fidelity in history.affordable and _identity(query.params, query.fidelity) not in asked:
            return query
    return None


def next_of_strategy(history: History, strategy: Strategy, key: Key) -> Query:
    """The strategy's proposal.

    Raises:
        BudgetError: if the strategy wants nothing that the remaining budget buys.
        SettingError: if the strategy proposes a fidelity it may not.
        SpaceError: if the strategy proposes a design that is not valid.
    """
    query = strategy.propose(history, history.pending, key)
    if query.fidelity not in history.affordable:
        raise SettingError(f"the strategy proposed fidelity {query.fidelity!r}, affordable are {history.affordable}")
    return replace(query, params=history.space.validate(query.params))


def _identity(params: Params, fidelity: int) -> Hashable:
    # with the types, since the choices True and 1 are equal in Python
    return fidelity, tuple((type(value), value) for value in params.values())
