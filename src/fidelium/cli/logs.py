"""What a running study says: warnings always, a line per trial where there is no terminal for a bar."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Stderr(logging.Handler):
    """Writes to what stderr is now: a live bar puts itself in its place, to keep lines apart from itself."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except (OSError, RuntimeError):  # the terminal is gone, or Ctrl-C came amid a line: no reason to end
            return


@contextmanager
def logging_to_stderr(*, quiet: bool) -> Iterator[None]:
    """Print what fidelium logs while inside: with times and a line per trial if no bar is shown, unless quiet."""
    log, handler = logging.getLogger("fidelium"), _Stderr()
    lines = not quiet and not sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s" if lines else "%(message)s", "%H:%M:%S"))
    before = log.level, log.propagate
    log.setLevel(logging.INFO if lines else logging.WARNING)
    log.propagate = False  # or it would be printed twice where a program has set up logging
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before
