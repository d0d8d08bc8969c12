"""Time the stages of a suggestion: `stage` marks a part of the work, `record` collects the seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_seconds: ContextVar[dict[str, float] | None] = ContextVar("fidelium_stage_seconds", default=None)


@contextmanager
def record() -> Iterator[dict[str, float]]:
    """Collect the seconds of every stage run inside the context; each is added when its stage ends."""
    seconds: dict[str, float] = {}
    token = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the seconds inside the context to stage `name`, if a `record` is active."""
    seconds = _seconds.get()
    if seconds is None:
        yield
        return
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
