"""Evaluation in the caller's own thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


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
