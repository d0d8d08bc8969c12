"""A strategy whose networks are chosen once, by a search on the study's initial data.

`propose` stays pure: the search is a function of those observations alone (its key is fixed), and its result is cached,
so that a resumed study finds the same without searching again.

The initial data are the first trials of a study: until every fidelity has as many as `initial` says, and the given
trials that directly follow. While one of them is missing or running, the default architecture is used. A failed trial
counts, but is not learned from.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fidelium.history import History, Observations, Query, TrialState
from fidelium.randomness import Key
from fidelium.strategies.base import Model, Modelled, Strategy
from fidelium.strategies.initial_design import default_sizes, validated_sizes
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.timing import stage
from fidelium.tuning.cross_validation import comparable_fidelities
from fidelium.tuning.memory import remembered
from fidelium.tuning.search import ArchitectureSearch, best_scored

_log = logging.getLogger("fidelium.tune")

_KEY = Key((0,))
"""Key of every search: searches differ by their observations, which come from the study's seed."""


class ModelledStrategy(Strategy, Modelled, Protocol):
    """A strategy with a model, such as `DnnMfbo`."""


@dataclass(frozen=True)
class SearchedStrategy:
    """The strategy of the architecture that a search finds best for the initial data.

    Args:
        search: how the architecture is found.
        strategy_of: makes the strategy with that architecture.
        initial: points of the initial design by fidelity's name, as passed to `create_study`: the same default if None,
            only the observations added before the first query if empty.
    """

    search: ArchitectureSearch
    strategy_of: Callable[[StackArchitecture], ModelledStrategy]
    initial: Mapping[str, int] | None = None

    def propose(self, history: History, pending: Sequence[Query], key: Key) -> Query:
        """The query of that strategy."""
        return self.strategy_of(self.architecture(history)).propose(history, pending, key)

    def model(self, history: History, key: Key) -> Model:
        """The model of that strategy."""
        return self.strategy_of(self.architecture(history)).model(history, key)

    def architecture(self, history: History) -> StackArchitecture:
        """The architecture found for the history's initial data; the default one while they are not complete."""
        default = StackArchitecture.default(len(history.ladder))
        observations = initial_data(history, self.initial)
        if observations is None or not comparable_fidelities(observations):
            return default
        with stage("architecture"):
            return remembered((self.search, _KEY), observations, lambda: self._found(observations))

    def _found(self, observations: Sequence[Observations]) -> StackArchitecture:
        counts = "/".join(str(len(seen)) for seen in observations)
        _log.info("searching an architecture for %s observations with %r", counts, self.search)
        winner = best_scored(self.search.run(observations, _KEY, _report))
        _log.info("found %r, score %.3f", winner.architecture, winner.score)
        return winner.architecture


def _report(share: float, score: float) -> None:
    _log.debug("%.0f %% searched, best score %.3f", 100 * share, score)


def initial_data(history: History, initial: Mapping[str, int] | None) -> tuple[Observations, ...] | None:
    """The observations of the initial data, None while a trial of them is missing or running."""
    space, ladder = history.space, history.ladder
    missing = +Counter(default_sizes(space, ladder) if initial is None else validated_sizes(initial, ladder))
    end = 0
    for trial in history.trials:
        if not missing and not trial.given:
            break
        missing = missing - Counter([trial.fidelity.name])
        end += 1
    first = history.trials[:end]
    if missing or any(trial.state is TrialState.RUNNING for trial in first):
        return None
    return replace(history, trials=first).observations
