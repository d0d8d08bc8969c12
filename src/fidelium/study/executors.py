"""Where the evaluations of a study run: the choice of an executor."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from fidelium.errors import SettingError
from fidelium.execution.base import Evaluator
from fidelium.execution.function import FunctionEvaluator, Objective
from fidelium.execution.inline import InThisThread
from fidelium.execution.program import ExternalProgram
from fidelium.execution.sizes import workers_of

_log = logging.getLogger("fidelium.study")


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
        from fidelium.execution.local import LocalProcesses  # loky is only needed here

        return LocalProcesses(workers)
    return ThreadPoolExecutor(workers, thread_name_prefix="fidelium")


def _can_be_sent(evaluate: Evaluator) -> bool:
    import cloudpickle  # brought by loky

    try:
        cloudpickle.dumps(evaluate)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        _log.warning("the objective cannot be sent to another process, so evaluations run in threads: %s", error)
        return False
    return True
