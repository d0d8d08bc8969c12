"""What is going on: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

INTERVAL = 20.0
"""Seconds between two lines, where there is no terminal."""


class Progress(Protocol):
    """Shows how far a part has come."""

    def __call__(self, done: int, note: str) -> None: ...


@contextmanager
def progress(name: str, total: int) -> Iterator[Progress]:
    """Show the progress of one part while inside."""
    if not sys.stderr.isatty():
        yield _Lines(name, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as bars:
        task = bars.add_task(name, total=total, note="")

        def show(done: int, note: str) -> None:
            bars.update(task, completed=done, note=note)

        yield show


class _Lines:
    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.began = time.monotonic()
        self.last = self.began - INTERVAL
        self.note = ""

    def __call__(self, done: int, note: str) -> None:
        now = time.monotonic()
        if now - self.last < INTERVAL and (done < self.total or note == self.note):
            return
        self.note = note
        self.last = now
        line = f"{now - self.began:5.0f} s  {self.name}: {done:,} of {self.total:,}; {note}"
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
