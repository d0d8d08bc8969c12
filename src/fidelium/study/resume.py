"""Resuming a study: what must be the same as before, and what dead workers were running is queued again."""

from __future__ import annotations

import logging

from fidelium.definition import StudyDefinition
from fidelium.errors import SettingError
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


def check_same_problem(stored: StudyDefinition, new: StudyDefinition) -> None:
    """Refuse a definition under which stored values would mean something else; strategy and seed may change.

    Args:
        stored: the definition in the storage.
        new: the definition to resume with.

    Raises:
        SettingError: if parameters, fidelities or direction differ.
    """
    for what, old, wanted in (
        ("parameters", stored.space.parameters, new.space.parameters),
        ("fidelities", list(stored.ladder), list(new.ladder)),
        ("direction", str(stored.direction), str(new.direction)),
    ):
        if old != wanted:
            raise SettingError(
                f"the stored study {new.stored_name!r} has other {what}: {old} there, {wanted} here; "
                "use those, or another name for a new study"
            )
