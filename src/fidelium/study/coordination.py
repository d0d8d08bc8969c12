"""How the workers of a study coordinate: heartbeats, recovery of trials whose worker died, and turns to choose.

A worker's name says which process of which machine it is, so that others can tell whether it is alive. Of all who use a
study, one at a time chooses the next trial.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fidelium.errors import StorageError
from fidelium.history import Trial, TrialState
from fidelium.storage.base import StudyStore

BEAT = 5.0
"""Seconds between heartbeats."""

SILENT = 60.0
"""Seconds without a heartbeat after which a worker of another machine is taken for dead."""

RESTARTS = 10
"""How many times a trial is started again after its worker vanished."""

_log = logging.getLogger("fidelium.study")


def worker_name() -> str:
    """A new name that says which process of which machine this is."""
    return f"{_machine()}/{os.getpid()}/{secrets.token_hex(4)}"


def dead_workers(trials: Iterable[Trial]) -> set[str]:
    """Workers of running trials whose process on this machine has ended."""
    workers = {trial.worker for trial in trials if trial.state is TrialState.RUNNING and trial.worker}
    return {worker for worker in workers if _is_dead(worker)}


def recover(store: StudyStore) -> tuple[Trial, ...]:
    """Queue again what vanished workers were running."""
    taken = store.recover(SILENT, dead_workers(store.trials()), RESTARTS)
    for trial in taken:
        _log.warning("trial %d is %s: its worker %s vanished", trial.number, trial.state, trial.worker)
    return taken


@contextmanager
def heartbeat(store: StudyStore, worker: str) -> Iterator[None]:
    """Say that this worker is alive while inside, and notice others that are not."""
    done = threading.Event()
    heart = threading.Thread(target=_beat, args=(store, worker, done), name="fidelium-heartbeat", daemon=True)
    heart.start()
    try:
        yield
    finally:
        done.set()
        heart.join()


def _beat(store: StudyStore, worker: str, done: threading.Event) -> None:
    while not done.wait(BEAT):
        try:
            store.beat(worker)
            recover(store)
        except StorageError as error:  # the next beat may succeed; what must succeed is told where it matters
            _log.warning("no heartbeat: %s", error)


def _machine() -> str:
    """This machine, or this container of it: where a process number means something."""
    try:
        namespace = f"-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # no Linux
        namespace = ""
    return socket.gethostname().replace("/", "-") + namespace


def _is_dead(worker: str) -> bool:
    machine, _, rest = worker.partition("/")
    process = rest.partition("/")[0]
    return machine == _machine() and process.isdigit() and not _is_alive(int(process))


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # there signal 0 ends a process; the heartbeat alone tells
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, so alive
        return True
    return True


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
