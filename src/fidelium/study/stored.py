"""A study as it is stored: what it is made from, and its trials."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fidelium.definition import StudyDefinition
from fidelium.fidelity import FidelityLadder
from fidelium.history import Change, Direction, History, Trial, TrialState
from fidelium.snapshot import Snapshot
from fidelium.space import SearchSpace
from fidelium.storage.base import Storage, StudyStore
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy

if TYPE_CHECKING:
    import pandas as pd


class StoredStudy:
    """The part of a `Study` that reads: it asks nothing, changes nothing and has no model.

    Args:
        definition: what the study is made from.
        store: where its trials are kept.
        storage: the open storage that `close` closes; None if the caller closes it.
    """

    def __init__(self, definition: StudyDefinition, store: StudyStore, storage: Storage | None = None) -> None:
        self._definition = definition
        self._store = store
        self._storage = storage

    def close(self) -> None:
        """Close the storage; the study cannot be used afterwards. A study is also a context manager that does this."""
        if self._storage is not None:
            self._storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def definition(self) -> StudyDefinition:
        """Everything that the study is made from."""
        return self._definition

    @property
    def space(self) -> SearchSpace:
        """The parameters."""
        return self._definition.space

    @property
    def ladder(self) -> FidelityLadder:
        """The fidelities, low to high; the last is the target."""
        return self._definition.ladder

    @property
    def direction(self) -> Direction:
        """Maximise or minimise."""
        return self._definition.direction

    @property
    def strategy(self) -> str | Strategy:
        """The strategy, as it was given."""
        assert not isinstance(self._definition.strategy, registry.StoredStrategy)  # `load_study` refuses it
        return self._definition.strategy

    @property
    def seed(self) -> int:
        """The seed of all randomness; the one drawn if none was given."""
        return self._definition.seed

    @property
    def name(self) -> str | None:
        """What the user calls the study."""
        return self._definition.name

    @property
    def store(self) -> StudyStore:
        """Where its trials are kept; for code that runs studies. Everybody else uses `ask` and `tell`."""
        return self._store

    @property
    def initial(self) -> dict[str, int]:
        """Points of the initial design, by fidelity; if left to us, a small budget reduces them."""
        return dict(self._definition.initial)

    # --- its trials ---

    def snapshot(self, budget: float = math.inf) -> Snapshot:
        """The study as it is now, from one read of the storage: trials, spent, remaining, pending, best.

        Args:
            budget: what the study may spend in total.
        """
        trials, constraints = self._store.trials(), self._definition.constraints
        if constraints != self._store.definition.constraints:  # the stored study is viewed with others
            trials = tuple(replace(trial, constraints=constraints) for trial in trials)
        return Snapshot(self._definition, trials, budget)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials as they are now: queued, running, done, failed and lost ones, and data that was given."""
        return self.snapshot().trials

    @property
    def best(self) -> Trial | None:
        """The best feasible trial at the target fidelity, None if there is none."""
        return self.snapshot().best

    @property
    def spent(self) -> float:
        """The cost of all trials that were run or are running, failed ones included; data that was given is free."""
        return self.snapshot().spent

    def history(self) -> History:
        """All trials in the form that strategies use."""
        return self.snapshot().history

    def changes(self) -> tuple[Change, ...]:
        """What people have changed, oldest first: queued, excluded, retried, annotated trials, and stops by a rule."""
        return self._store.changes()

    def to_dataframe(self) -> pd.DataFrame:
        """All trials as a table with the columns of `fidelium export`.

        They are number, state, fidelity, cost, value, one column per parameter and per outcome, feasible if there are
        constraints, then measured_cost, std, excluded, given, attempt, worker, started, finished, priority, tags
        (joined by commas), note and reason.

        A parameter called like one of the other columns gets the prefix `params_`.
        """
        from fidelium.study.dataframe import to_dataframe  # pandas is slow to import, and only needed here

        return to_dataframe(self.space, self.trials, self._definition.constraints)

    def __repr__(self) -> str:
        now = self.snapshot()
        counts, best = Counter(trial.fidelity.name for trial in now.trials), now.best
        found = "feasible value" if self._definition.constraints else "value"
        parts = [
            f"{len(now.trials)} trials ({', '.join(f'{counts[name]} {name}' for name in self.ladder.names)})",
            *(f"{count} {state}" for state, count in now.states.items() if count and state != TrialState.DONE),
            f"spent {now.spent:g}",
            f"no {found} at the target yet" if best is None else f"best {best.value:g} at {best.params}",
        ]
        title = "Study" if self.name is None else f"Study {self.name!r}"
        return f"<{title} to {self.direction} {self.ladder.target.name!r}: {', '.join(parts)}>"
