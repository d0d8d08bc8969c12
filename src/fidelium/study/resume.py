"""Resuming a study: what dead workers were running is queued again."""

from __future__ import annotations

import logging

from fidelium.history import Trial
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
