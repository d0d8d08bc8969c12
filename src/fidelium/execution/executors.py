"""Executors: where the evaluations of a study run.

A single worker is the caller's thread. Several are processes of this machine, one per slot, so that one that dies takes
nothing else with it; objectives are sent by value (cloudpickle, through loky), so they may be lambdas, closures or
functions of a notebook, and a script needs no `if __name__ == "__main__"`. Any `concurrent.futures` executor will do.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fidelium.errors import SettingError
from fidelium.execution.base import Evaluator, FunctionEvaluator, Objective
from fidelium.execution.program import ExternalProgram

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

_log = logging.getLogger("fidelium.study")


class InThisThread(Executor):
    """Evaluates at once, before `submit` returns: with one worker there is nothing to gain from another thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call, and return the finished future. Interruptions go through."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  as every executor does: who asks for the result gets it
            future.set_exception(error)
        return future


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
    from loky import ProcessPoolExecutor  # only needed here

    return ProcessPoolExecutor(max_workers=1, timeout=None, initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    """In the new process: leave Ctrl-C to the parent, and end when the parent does, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def workers_of(executor: Executor) -> int | None:
    """The number of workers of an executor of the standard library, of loky or of Dask; None if it does not say.

    None of them has a public attribute for it. One that renames its private attribute is one that does not say.
    """
    size = getattr(executor, "_max_workers", None)
    if size is None and (client := getattr(executor, "_client", None)) is not None:  # Dask's
        size = sum(client.ncores().values())
    return size if isinstance(size, int) and size > 0 else None


@contextmanager
def local(objective: Objective | ExternalProgram, workers: int) -> Iterator[tuple[Evaluator, Executor]]:
    """An executor on this machine for an objective, ended on the way out, together with what it still runs.

    A single worker is this thread. Of several, a function has a process each, or, if it cannot be sent to one, a
    thread; external programs are processes already, and a thread waits for each.
    """
    cancelled = threading.Event()
    evaluate = _cancellable(objective, cancelled)
    executor = _local_executor(evaluate, workers)
    try:
        yield evaluate, executor
    except BaseException:
        cancelled.set()
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()


def elsewhere(objective: Objective | ExternalProgram, executor: Executor, workers: int | None) -> tuple[Evaluator, int]:
    """The evaluator for an executor that the user brought, and how many evaluations it takes at once.

    Raises:
        SettingError: if the executor is none, or does not say how many workers it has.
    """
    if not isinstance(executor, Executor):
        raise SettingError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
    size = workers_of(executor) if workers is None else workers
    if size is None:
        raise SettingError(f"{type(executor).__name__} does not say how many workers it has; pass workers=")
    return objective.run if isinstance(objective, ExternalProgram) else FunctionEvaluator(objective), size


def _cancellable(objective: Objective | ExternalProgram, cancelled: threading.Event) -> Evaluator:
    if isinstance(objective, ExternalProgram):
        return lambda trial: objective.run(trial, cancelled)
    return FunctionEvaluator(objective)


def _local_executor(evaluate: Evaluator, workers: int) -> Executor:
    if workers == 1:
        return InThisThread()
    if isinstance(evaluate, FunctionEvaluator) and _can_be_sent(evaluate):
        return LocalProcesses(workers)
    return ThreadPoolExecutor(workers, thread_name_prefix="fidelium")


def _can_be_sent(evaluate: Evaluator) -> bool:
    import cloudpickle  # what loky sends functions with

    try:
        cloudpickle.dumps(evaluate)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        _log.warning("the objective cannot be sent to another process, so evaluations run in threads: %s", error)
        return False
    return True
