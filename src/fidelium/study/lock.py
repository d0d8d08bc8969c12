"""The lock on choosing: of all threads, processes and machines that use a study, one at a time chooses the next trial.

Choosing takes seconds of fitting, and two that chose at the same time would choose the same. The lock saves work, no
more: a storage refuses a trial whose number is taken. So an error while it is renewed or released is logged, not
raised: the trial that was chosen meanwhile is stored.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from fidelium.errors import StorageError
from fidelium.storage.base import StudyStore
from fidelium.study.identity import has_ended, worker_name

TURN = 15.0
"""Seconds a turn lasts unless it is renewed: how long others wait for a process of another machine that died."""

_LONGEST_NAP = 0.5

_log = logging.getLogger("fidelium.study")


@contextmanager
def choosing_lock(store: StudyStore) -> Iterator[None]:
    """Wait for the turn to choose the next trial, and hold it while inside.

    In a shared store a turn ends by itself unless it is renewed, so that nobody waits for a process that died; if that
    process was on this machine, nobody waits at all.

    Raises:
        StorageError: if the turn cannot be taken; not while it is held or released.
    """
    holder = worker_name()
    seconds = TURN if store.is_shared else math.inf
    nap = 0.01
    while not store.take_turn(holder, seconds, has_ended):
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)
    try:
        with _renewed(store, holder) if store.is_shared else nullcontext():
            yield
    finally:
        try:
            store.end_turn(holder)
        except StorageError as error:
            _log.warning("the turn to choose ends by itself in %.0f s: %s", seconds, error)


@contextmanager
def _renewed(store: StudyStore, holder: str) -> Iterator[None]:
    done = threading.Event()
    renewer = threading.Thread(target=_renew, args=(store, holder, done), daemon=True)
    renewer.start()
    try:
        yield
    finally:
        done.set()
        renewer.join()


def _renew(store: StudyStore, holder: str, done: threading.Event) -> None:
    while not done.wait(TURN / 3):
        try:
            store.take_turn(holder, TURN)
        except StorageError as error:  # the next one may succeed
            _log.warning("the turn to choose is not renewed: %s", error)
