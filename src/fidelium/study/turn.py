"""Taking turns: of all who use a study, in this process and in others, one at a time chooses the next trial."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fidelium.storage.base import StudyStore
from fidelium.study.worker import worker_name

TURN = 15.0
"""Seconds a turn lasts unless it is renewed: what others wait for somebody who died while choosing."""

_LONGEST_NAP = 0.5


@contextmanager
def turn(store: StudyStore) -> Iterator[None]:
    """Wait for the turn, and hold it while inside."""
    holder = worker_name()
    nap = 0.01
    while not store.take_turn(holder, TURN):
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)
    done = threading.Event()
    renewer = threading.Thread(target=_renew, args=(store, holder, done), daemon=True)
    renewer.start()
    try:
        yield
    finally:
        done.set()
        renewer.join()
        store.end_turn(holder)


def _renew(store: StudyStore, holder: str, done: threading.Event) -> None:
    while not done.wait(TURN / 3):
        store.take_turn(holder, TURN)
