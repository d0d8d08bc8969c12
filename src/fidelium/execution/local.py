"""Evaluations in processes of this machine: one process per slot, so that one that dies takes nothing else with it.

Objectives are sent by value (cloudpickle, through loky), so they may be lambdas, closures or functions of a notebook,
and a script needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from loky.process_executor import ProcessPoolExecutor


class LocalProcesses(Executor):
    """Processes with one evaluation each at a time.

    A future whose process was killed ends with `BrokenExecutor`; its slot gets a new process.

    Args:
        workers: how many.
    """

    def __init__(self, workers: int) -> None:
        self._processes = [_new_process() for _ in range(workers)]
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(workers):
            self._free.put(slot)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call in a process that is free, after waiting for one if need be."""
        slot = self._free.get()
        try:
            future = self._processes[slot].submit(fn, *args, **kwargs)
        except BrokenExecutor:  # it died between two evaluations
            self._processes[slot] = _new_process()
            future = self._processes[slot].submit(fn, *args, **kwargs)
        future.add_done_callback(lambda ended: self._ended(slot, ended))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes; without waiting, what they are doing ends with them."""
        del cancel_futures  # every call has started
        for process in self._processes:
            process.shutdown(wait=wait, kill_workers=not wait)

    def _ended(self, slot: int, future: Future[Any]) -> None:
        if not future.cancelled() and isinstance(future.exception(), BrokenExecutor):
            self._processes[slot] = _new_process()
        self._free.put(slot)


def _new_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, timeout=None, initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    """In the new process: leave Ctrl-C to the parent, and end when the parent does, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
