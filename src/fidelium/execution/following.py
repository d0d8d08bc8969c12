"""Following a program while it runs: reads its pipes, watches the clock, and stops it when that is due."""

from __future__ import annotations

import math
import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from threading import Event
from typing import IO, Any

from fidelium.execution.bounded import BoundedLog

GUARD_PATIENCE = 10.0
"""Seconds beyond the grace time that the guard gets to end everything."""

_TICK = 0.1
"""Seconds between looks at the `cancelled` event."""

_DRAIN = 1.0
"""Seconds to wait for the end of the output after the guard has ended: an escaped process may hold the pipe open."""


@dataclass
class Follower:
    """Follows one program: its output, the guard's report, the clock, and whether it is cancelled.

    Args:
        guard: the guard process; closing its standard input ends the program.
        report: what the guard reports to.
        grace: seconds that the guard gives the program to end.
        until: when the program has to end, by the monotonic clock; infinity for never.
        cancelled: once set, the program has to end.
        stopped: why it had to end, "timeout" or "cancelled".
        said: what the guard has reported.
    """

    guard: subprocess.Popen[bytes]
    report: IO[bytes]
    grace: float
    until: float
    cancelled: Event | None
    stopped: str | None = None
    said: bytes = b""

    def follow(self, out: BoundedLog, err: BoundedLog) -> None:
        """Read until the program and its output have ended."""
        with selectors.DefaultSelector() as selector:
            for source, log in ((self.guard.stdout, out), (self.guard.stderr, err), (self.report, None)):
                assert source is not None
                selector.register(source, selectors.EVENT_READ, log)
            while self.report in _sources(selector):
                self._read(selector, self._pause())
                if self.stopped is None:
                    self._stop_if_due()
                elif time.monotonic() >= self.until:  # even the guard hangs
                    break
            self._drain(selector)

    def _pause(self) -> float | None:
        """Seconds until there is something to look at besides the pipes, None for never."""
        left = max(self.until - time.monotonic(), 0.0)
        if self.cancelled is not None and self.stopped is None:
            return min(left, _TICK)
        return None if math.isinf(left) else left

    def _read(self, selector: selectors.BaseSelector, pause: float | None) -> None:
        for key, _ in selector.select(pause):
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fileobj)
            elif key.data is None:
                self.said += data
            else:
                key.data.write(data)

    def _stop_if_due(self) -> None:
        """Let the guard end everything, if the time is over or somebody wants it."""
        if self.cancelled is not None and self.cancelled.is_set():
            self.stopped = "cancelled"
        elif time.monotonic() >= self.until:
            self.stopped = "timeout"
        else:
            return
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        self.until = time.monotonic() + self.grace + GUARD_PATIENCE

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """The guard has ended: read what is left in the pipes, but wait for nobody who holds them open."""
        until = time.monotonic() + _DRAIN
        while selector.get_map() and time.monotonic() < until:
            self._read(selector, max(until - time.monotonic(), 0.0))


def _sources(selector: selectors.BaseSelector) -> list[Any]:
    return [key.fileobj for key in selector.get_map().values()]
