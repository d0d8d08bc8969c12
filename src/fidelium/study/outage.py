"""Outages of a storage: a run waits for a database server that restarts, or for space on a disk, instead of ending."""

from __future__ import annotations

import logging
import time

from fidelium.errors import StorageError, StorageUnavailableError

PATIENCE = 1800.0
"""Seconds that a run waits for its storage before it gives up."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before the second try, and between two tries at most; each pause is twice the one before."""

REPORT = 60.0
"""Seconds between two lines in the log."""

_log = logging.getLogger("fidelium.study")


class Outage:
    """Whether a storage is away at the moment, since when, and when to try again."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause = FIRST_PAUSE
        self._reported = self._next = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the storage was away when it was last used."""
        return self._since is not None

    @property
    def wait(self) -> float:
        """Seconds until the next try."""
        return max(self._next - time.monotonic(), 0.0) if self.is_on else 0.0

    def failed(self, error: StorageUnavailableError) -> None:
        """Note that the storage could not be used.

        Raises:
            StorageError: if it has been away for too long.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = self._reported = now
            self._pause = FIRST_PAUSE
            _log.warning("waiting up to %g min for the storage, starting nothing meanwhile: %s", PATIENCE / 60, error)
        if now - self._since >= PATIENCE:
            raise StorageError(
                f"gave up after {(now - self._since) / 60:.0f} min: {error}; run again when it is back, nothing is lost"
            ) from None
        if now - self._reported >= REPORT:
            self._reported = now
            _log.warning("still waiting for the storage after %.0f min: %s", (now - self._since) / 60, error)
        self._next = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def ended(self) -> None:
        """Note that the storage works."""
        if self._since is not None:
            _log.warning("the storage is back after %.0f s", time.monotonic() - self._since)
        self._since = None
