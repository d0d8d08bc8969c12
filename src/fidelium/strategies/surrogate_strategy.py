"""Surrogate x acquisition: fit what is known, rank what could be asked, ask the best that is new.

All model-based strategies are this one, with another surrogate, another acquisition, or other settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fidelium.acquisition.base import Acquisition, Candidate
from fidelium.errors import BudgetError, NoDataError
from fidelium.history import History, Query
from fidelium.numerics.backend import jax_session
from fidelium.randomness import Key
from fidelium.strategies.initial_design import unasked_point
from fidelium.strategies.model import PosteriorModel
from fidelium.surrogates.base import Posterior, Surrogate
from fidelium.timing import stage


@dataclass(frozen=True)
class SurrogateStrategy:
    """Algorithm 1 with a choice of surrogate and acquisition.

    Args:
        surrogate: what is learned from the history.
        acquisition: what a query is worth.
        target_only: whether only the target is ever asked.
        reserve_last: whether the last affordable query at the target is kept for the most promising design.
        steady: the key of the surrogate's random parts, the same in every step; None: new ones in each. With new ones,
            the surrogate changes its mind about details, and queries that should refine an optimum wander about it.
    """

    surrogate: Surrogate[Posterior]
    acquisition: Acquisition
    target_only: bool = False
    reserve_last: bool = False
    steady: Key | None = Key((0, 0))

    @jax_session()
    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The best query that is new.

        Raises:
            BudgetError: if only the target is ever asked, and the remaining budget does not buy it.
        """
        fit_key, rank_key, model_key, spare_key = key.split(4)
        fidelities = self._fidelities(history)
        if not _has_data(history):
            return Query(history.space.decode(unasked_point(history, pending, fidelities[0], key)), fidelities[0])
        if self.reserve_last and history.is_last_target_query:
            with stage("search"):
                designs = self.model(history, model_key).promising()
            target = len(history.ladder) - 1
            ranked = [Candidate(x, target, 0.0) for x in designs]
            return replace(_first_new(ranked, history, pending, spare_key), worth=None)  # not asked for its gain
        with stage("fit"):
            posterior = self._posterior(history, pending, fit_key)  # line 1 / 6
        ranked = self.acquisition.rank(posterior, history, fidelities, rank_key)  # lines 3 and 4
        return _first_new(ranked, history, pending, spare_key)

    @jax_session()
    def model(self, history: History, key: Key) -> PosteriorModel:
        """The surrogate fitted to the history."""
        if not _has_data(history):
            raise NoDataError("there is nothing to learn a model from yet: no trial is done")
        fit_key, search_key = key.split(2)
        return PosteriorModel(self._posterior(history, (), fit_key), history, search_key)

    def _posterior(self, history: History, pending: Sequence[Query], key: Key) -> Posterior:
        posterior = self.surrogate.fit(history.observations, self.steady or key)
        # a query that is running, or failed, will not tell anything new: as if its expected value had been observed
        unseen = (*pending, *history.failed)
        return posterior.given(history.encode(unseen), [query.fidelity for query in unseen]) if unseen else posterior

    def _fidelities(self, history: History) -> Sequence[int]:
        """The fidelities to consider."""
        if not self.target_only:
            return (history.unreserved if self.reserve_last else ()) or history.affordable
        target = len(history.ladder) - 1
        if target not in history.affordable:
            raise BudgetError(
                f"this strategy asks the target alone, which costs {history.ladder.costs[-1]:g}; "
                f"the remaining budget is {history.remaining:g}"
            )
        return (target,)


def _has_data(history: History) -> bool:
    return any(len(seen) for seen in history.observations)


def _first_new(ranked: Sequence[Candidate], history: History, pending: Sequence[Query], key: Key) -> Query:
    """The best candidate that has not been asked before; a random new design if there is none."""
    asked: dict[int, set[bytes]] = {}
    for m in {candidate.fidelity for candidate in ranked}:
        running = [query for query in pending if query.fidelity == m]
        asked[m] = {x.tobytes() for x in np.concatenate([history.asked(m), history.encode(running)])}
    for candidate in ranked:
        if candidate.unit_x.tobytes() not in asked[candidate.fidelity]:
            return Query(history.space.decode(candidate.unit_x), candidate.fidelity, candidate.worth)
    spare = {m: unasked_point(history, pending, m, key) for m in dict.fromkeys(c.fidelity for c in ranked)}
    # a finite space may be exhausted at one fidelity and not at another, or (then the first is as good as any) at all
    fidelity = next((m for m, unit_x in spare.items() if unit_x.tobytes() not in asked[m]), ranked[0].fidelity)
    return Query(history.space.decode(spare[fidelity]), fidelity)
