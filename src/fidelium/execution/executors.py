"""Executors: where the evaluations of a study run.

One worker runs in the caller's thread. Several local workers are processes, one per slot, so a crash of one does not
affect the others. Objectives are pickled by value (cloudpickle, through loky): lambdas, closures and notebook functions
work, and a script needs no `if __name__ == "__main__"`. Any other `concurrent.futures` executor can be passed instead.
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


@contextmanager
def local_executor(objective: Objective | ExternalProgram, workers: int) -> Iterator[tuple[Evaluator, Executor]]:
    """An evaluator and an executor on this machine; on exit, running evaluations end and the executor shuts down.

    One worker is the calling thread. Several workers are processes, or threads if the objective cannot be pickled.
    External programs are processes already, so a thread waits for each.

    Raises:
        SetupError: if a program is not on this machine.
    """
    if isinstance(objective, ExternalProgram):
        objective.check()
    cancelled = threading.Event()
    evaluate = _cancellable_evaluator(objective, cancelled)
    executor = _new_executor(evaluate, workers)
    try:
        yield evaluate, executor
    except BaseException:
        cancelled.set()
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()


def evaluator_for_executor(
    objective: Objective | ExternalProgram, executor: Executor, workers: int | None
) -> tuple[Evaluator, int]:
    """The evaluator for an executor that the user supplies, and the number of parallel evaluations.

    Raises:
        SettingError: if `executor` is not an executor, or its number of workers is unknown and `workers` is None.
    """
    if not isinstance(executor, Executor):
        raise SettingError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
    count = worker_count(executor) if workers is None else workers
    if count is None:
        raise SettingError(f"cannot determine the number of workers of {type(executor).__name__}; pass workers=")
    return objective.run if isinstance(objective, ExternalProgram) else FunctionEvaluator(objective), count


def worker_count(executor: Executor) -> int | None:
    """The number of workers of an executor of the standard library, loky or Dask; None if it cannot be determined."""
    count = getattr(executor, "_max_workers", None)
    if count is None and (client := getattr(executor, "_client", None)) is not None:  # Dask
        count = sum(client.ncores().values())
    return count if isinstance(count, int) and count > 0 else None


class SynchronousExecutor(Executor):
    """Runs each call in the caller's thread, before `submit` returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call and return the finished future. `KeyboardInterrupt` propagates."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  as in every executor, `result()` raises it
            future.set_exception(error)
        return future


class LocalProcessExecutor(Executor):
    """Local processes, each running one evaluation at a time.

    If a process is killed, its future raises `BrokenExecutor` and the slot gets a new process.

    Args:
        workers: the number of processes.
    """

    def __init__(self, workers: int) -> None:
        self._processes = [_new_process() for _ in range(workers)]
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(workers):
            self._free.put(slot)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call in a free process, waiting until there is one."""
        slot = self._free.get()
        try:
            future = self._processes[slot].submit(fn, *args, **kwargs)
        except BrokenExecutor:  # the process died between two evaluations
            self._processes[slot] = _new_process()
            future = self._processes[slot].submit(fn, *args, **kwargs)
        future.add_done_callback(lambda done: self._release(slot, done))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes; with `wait=False`, kill them and the calls they run."""
        del cancel_futures  # every submitted call has started
        for process in self._processes:
            process.shutdown(wait=wait, kill_workers=not wait)

    def _release(self, slot: int, future: Future[Any]) -> None:
        if not future.cancelled() and isinstance(future.exception(), BrokenExecutor):
            self._processes[slot] = _new_process()
        self._free.put(slot)


def _cancellable_evaluator(objective: Objective | ExternalProgram, cancelled: threading.Event) -> Evaluator:
    if isinstance(objective, ExternalProgram):
        return lambda trial: objective.run(trial, cancelled)
    return FunctionEvaluator(objective)


def _new_executor(evaluate: Evaluator, workers: int) -> Executor:
    if workers == 1:
        return SynchronousExecutor()
    if isinstance(evaluate, FunctionEvaluator) and _is_picklable(evaluate):
        return LocalProcessExecutor(workers)
    return ThreadPoolExecutor(workers, thread_name_prefix="fidelium")


def _is_picklable(evaluate: Evaluator) -> bool:
    import cloudpickle  # what loky sends functions with

    try:
        cloudpickle.dumps(evaluate)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        _log.warning("the objective cannot be pickled, so evaluations run in threads instead of processes: %s", error)
        return False
    return True


def _new_process() -> ProcessPoolExecutor:
    from loky import ProcessPoolExecutor  # only needed here

    return ProcessPoolExecutor(max_workers=1, timeout=None, initializer=_initialize_process, initargs=(os.getpid(),))


def _initialize_process(parent: int) -> None:
    """In a new process: leave Ctrl-C to the parent, and exit when the parent ends, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
