"""Surrogate x acquisition: fit the history, rank the possible queries, ask the best one that is new.

The model-based strategies of `recipes.py` are `SurrogateStrategy` with a surrogate and an acquisition; the functions
below it are shared with `dnn_mfbo.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from fidelium.acquisition.base import Acquisition, Candidate
from fidelium.errors import BudgetError, NoDataError, NotWorthwhileError
from fidelium.history import History, Query
from fidelium.numerics.backend import jax_session
from fidelium.randomness import Key
from fidelium.strategies.initial_design import asked_or_pending, unasked_point
from fidelium.strategies.model import PosteriorModel
from fidelium.surrogates.base import Posterior, Surrogate
from fidelium.surrogates.runs import RunPosterior, fit_runs
from fidelium.timing import stage

STEADY = Key((0, 0))
"""Key of the surrogate's random parts in every step. With new ones in each step, the surrogate's details change, and
queries that should refine an optimum wander around it (docs/experiments-log.md, second round)."""


@dataclass(frozen=True)
class SurrogateStrategy:
    """A surrogate and an acquisition.

    Args:
        surrogate: what is learned from the history.
        acquisition: how queries are ranked.
        target_only: whether only the target is ever asked.
    """

    surrogate: Surrogate[Posterior]
    acquisition: Acquisition
    target_only: bool = False

    @jax_session()
    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The best query that is new.

        Raises:
            BudgetError: if only the target is ever asked, and the remaining budget is below its cost.
        """
        _, rank_key, _, spare_key = key.split(4)
        fidelities = (require_target(history),) if self.target_only else history.affordable
        if not has_data(history):
            return random_query(history, pending, fidelities[0], key)
        with stage("fit"):
            posterior = condition_on_unseen(fit_runs(self.surrogate, history, STEADY), history, pending)
        ranked = self.acquisition.rank(posterior, history, fidelities, rank_key)
        return first_new(ranked, history, pending, spare_key)

    @jax_session()
    def model(self, history: History, key: Key) -> PosteriorModel:
        """The surrogate fitted to the history.

        Raises:
            NoDataError: if nothing has been observed yet.
        """
        return fitted_model(partial(fit_runs, self.surrogate), STEADY, history, key)


def has_data(history: History) -> bool:
    """Whether there is an observation at any fidelity."""
    return any(len(seen) for seen in history.observations)


def require_target(history: History) -> int:
    """The position of the target, if it is affordable.

    Raises:
        BudgetError: if it is not.
    """
    target = len(history.ladder) - 1
    if target not in history.affordable:
        raise BudgetError(
            f"this strategy asks the target alone, which costs {history.costs.cheapest[-1]:g}; "
            f"the remaining budget is {history.remaining:g}"
        )
    return target


def random_query(history: History, pending: Sequence[Query], fidelity: int, key: Key) -> Query:
    """A uniformly random design that has not been asked at this fidelity."""
    return Query(history.space.decode(unasked_point(history, pending, fidelity, key)), fidelity)


def condition_on_unseen(
    posterior: Posterior | RunPosterior, history: History, pending: Sequence[Query]
) -> Posterior | RunPosterior:
    """Condition on fantasy observations of the queries that are running or failed, so that they are not asked again.

    A failure that a model of success learns from is not among them: it says nothing about the value.
    """
    unseen = (*pending, *(history.unexplained if isinstance(posterior, RunPosterior) else history.failed))
    return posterior.given(history.encode(unseen), [query.fidelity for query in unseen]) if unseen else posterior


Fit = Callable[[History, Key], Posterior | RunPosterior]
"""How a strategy learns."""


def fitted_model(fit: Fit, steady: Key | None, history: History, key: Key) -> PosteriorModel:
    """The surrogate fitted to the history, failed queries included, as the study sees it.

    Args:
        fit: how it is learned.
        steady: the key of its random parts, None for one that comes from `key`.
        history: the observations.
        key: of the search for the recommended design.

    Raises:
        NoDataError: if nothing has been observed yet.
    """
    if not has_data(history):
        raise NoDataError("no trial is done yet, so there is nothing to fit a model to; run or add a trial first")
    fit_key, search_key = key.split(2)
    posterior = fit(history, steady or fit_key)
    return PosteriorModel(condition_on_unseen(posterior, history, ()), history, search_key)


def _is_paid_for(history: History, candidate: Candidate) -> bool:
    """Whether its expected cost is within the remaining budget; fidelities that are not affordable are not ranked."""
    if not history.costs.depend_on_design:
        return True
    return bool(history.pays_for(candidate.unit_x[None], candidate.fidelity)[0])


def first_new(ranked: Sequence[Candidate], history: History, pending: Sequence[Query], key: Key) -> Query:
    """The best candidate that has not been asked before and is paid for; a random new design if there is none."""
    asked: dict[int, set[bytes]] = {}
    for m in {candidate.fidelity for candidate in ranked}:
        asked[m] = asked_or_pending(history, pending, m)
    for candidate in ranked:
        new = history.seen(candidate.fidelity, candidate.unit_x).tobytes() not in asked[candidate.fidelity]
        if new and _is_paid_for(history, candidate):
            return Query(history.space.decode(candidate.unit_x), candidate.fidelity, candidate.worth)
    if history.space.table is not None:
        return _any_new(ranked, history, pending, key)
    spare = {m: unasked_point(history, pending, m, key) for m in dict.fromkeys(c.fidelity for c in ranked)}
    # a finite space may be exhausted at one fidelity and not at another; if at all of them, any design will do
    unasked = (m for m, unit_x in spare.items() if history.seen(m, unit_x).tobytes() not in asked[m])
    fidelity = next(unasked, ranked[0].fidelity)
    return Query(history.space.decode(spare[fidelity]), fidelity)


def _any_new(ranked: Sequence[Candidate], history: History, pending: Sequence[Query], key: Key) -> Query:
    """A random new design of a space whose designs are all listed, at a fidelity that has one left.

    Raises:
        NotWorthwhileError: if every affordable fidelity is exhausted.
    """
    *others, last = dict.fromkeys((*(each.fidelity for each in ranked), *reversed(history.affordable)))
    for m in others:
        with suppress(NotWorthwhileError):
            return random_query(history, pending, m, key)
    return random_query(history, pending, last, key)
