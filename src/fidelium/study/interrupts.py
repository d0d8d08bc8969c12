"""Ctrl-C during a run: once finishes what is running, twice stops immediately."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger("fidelium.study")


class Interrupts:
    """Whether Ctrl-C was pressed: the first time what is running is finished, the second time everything stops."""

    def __init__(self) -> None:
        self.pressed = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler.

        Raises:
            KeyboardInterrupt: the second time.
        """
        del number, frame
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        _log.warning("interrupted: finishing what is running; press Ctrl-C again to stop immediately")


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count Ctrl-C while inside. Python allows that in the main thread only: elsewhere nothing changes."""
    pressed = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, pressed.handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: not set by Python
