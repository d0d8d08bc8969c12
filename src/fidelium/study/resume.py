"""Resuming a study: what dead workers were running is queued again."""

from __future__ import annotations

import logging

from fidelium.errors import FideliumError, UnsureError
from fidelium.history import Trial, TrialState
from fidelium.storage.base import StudyStore
from fidelium.study.heartbeat import SILENT, dead_workers

RESTARTS = 10
"""How many times a trial is started again after its worker died."""

_log = logging.getLogger("fidelium.study")


def recover(store: StudyStore) -> tuple[Trial, ...]:
    """Queue again what dead workers were running.

    Returns:
        The trials concerned, as they are now: queued, or lost after too many restarts.
    """
    recovered = store.recover(SILENT, dead_workers(store.trials()), RESTARTS)
    for trial in recovered:
        _log.warning("trial %d is %s: its worker %s vanished", trial.number, trial.state, trial.worker)
    return recovered


def add_once(store: StudyStore, trial: Trial, budget: float) -> Trial | None:
    """Add a running trial as `StudyStore.add` does; if the connection is lost meanwhile, see whether it is stored.

    Raises:
        UnsureError: if that cannot be seen.
        FideliumError: as `StudyStore.add`.
    """
    try:
        return store.add(trial, alive=trial.worker is not None, budget=budget)
    except UnsureError:
        stored = _stored(store, trial)
        if stored is None:
            raise
        return stored


def give_back_unseen(store: StudyStore, trial: Trial) -> None:
    """Queue a trial that was chosen, if it is stored: its asker was interrupted and does not know of it."""
    try:
        stored = _stored(store, trial)
        if stored is not None:
            store.requeue(stored.number, stored.attempt, "interrupted")
    except FideliumError as error:
        _log.warning("trial %d may be left running without a worker: %s", trial.number, error)


def _stored(store: StudyStore, trial: Trial) -> Trial | None:
    """A trial as it was stored by its asker, who has the turn to choose; None if it is not there."""
    found = next(iter(store.trials()[trial.number : trial.number + 1]), None)
    if found is None or (found.worker, found.attempt, found.state) != (trial.worker, 1, TrialState.RUNNING):
        return None
    return found if (found.params, found.fidelity.name) == (trial.params, trial.fidelity.name) else None
