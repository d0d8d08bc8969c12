"""Heartbeats: how the workers of a study show that they are alive, and how others tell that one is not.

On the same machine the process of a worker can be looked up (`identity`); elsewhere only its heartbeats, stored with
the trials that it runs, say that it is alive.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from fidelium.errors import StorageError
from fidelium.history import Trial, TrialState
from fidelium.storage.base import StudyStore
from fidelium.study.identity import has_ended

BEAT = 5.0
"""Seconds between heartbeats."""

SILENT = 60.0
"""Seconds without a heartbeat after which a worker of another machine counts as dead."""

_FAREWELL = 1.0
"""Seconds to wait for the last heartbeat at the end; one that waits for a server that is away is left behind."""

_log = logging.getLogger("fidelium.study")


def dead_workers(trials: Iterable[Trial]) -> set[str]:
    """Workers of running trials whose process on this machine has ended."""
    workers = {trial.worker for trial in trials if trial.state is TrialState.RUNNING and trial.worker}
    return {worker for worker in workers if has_ended(worker)}


@contextmanager
def heartbeat(store: StudyStore, worker: str, after_each: Callable[[StudyStore], object]) -> Iterator[None]:
    """Send heartbeats for this worker while inside.

    Args:
        store: the study's trials.
        worker: who is alive.
        after_each: called after each heartbeat, to look after the trials of others.
    """
    done = threading.Event()
    heart = threading.Thread(
        target=_beat, args=(store, worker, after_each, done), name="fidelium-heartbeat", daemon=True
    )
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join(_FAREWELL)


def _beat(store: StudyStore, worker: str, after_each: Callable[[StudyStore], object], done: threading.Event) -> None:
    away = False
    back = -math.inf  # when the storage was last back after an outage
    while not done.wait(BEAT):
        try:
            store.beat(worker)
            back = time.monotonic() if away else back
            away = False
            if time.monotonic() - back >= SILENT:  # else all were silent because of the storage, not because they died
                after_each(store)
        except StorageError as error:  # the next heartbeat may succeed; a result that cannot be stored waits elsewhere
            if not away:
                _log.warning("no heartbeat until the storage is back: %s", error)
            away = True
