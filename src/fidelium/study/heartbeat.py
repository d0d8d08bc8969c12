"""Heartbeats: how the workers of a study show that they are alive, and how others tell that one is not.

A worker's name says which process of which machine it is. On the same machine its process can be looked up; elsewhere
only its heartbeats, stored with the trials that it runs, say that it is alive.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fidelium.errors import StorageError
from fidelium.history import Trial, TrialState
from fidelium.storage.base import StudyStore

BEAT = 5.0
"""Seconds between heartbeats."""

SILENT = 60.0
"""Seconds without a heartbeat after which a worker of another machine counts as dead."""

_log = logging.getLogger("fidelium.study")


def worker_name() -> str:
    """A new name that says which process of which machine this is."""
    return f"{_machine()}/{os.getpid()}/{secrets.token_hex(4)}"


def dead_workers(trials: Iterable[Trial]) -> set[str]:
    """Workers of running trials whose process on this machine has ended."""
    workers = {trial.worker for trial in trials if trial.state is TrialState.RUNNING and trial.worker}
    return {worker for worker in workers if _is_dead(worker)}


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
        heart.join()


def _beat(store: StudyStore, worker: str, after_each: Callable[[StudyStore], object], done: threading.Event) -> None:
    while not done.wait(BEAT):
        try:
            store.beat(worker)
            after_each(store)
        except StorageError as error:  # the next heartbeat may succeed; a result that cannot be stored raises elsewhere
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
