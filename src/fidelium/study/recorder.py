"""Storing what came out of evaluations: at once, or, if the storage is away, as soon as it is back.

A result is never thrown away. While the storage is away it is kept in a file as well, for the case that the process
ends, too. After a connection that was lost while writing the recorder looks whether the write was done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fidelium.errors import TrialError
from fidelium.history import Trial
from fidelium.storage.base import Result, StudyStore
from fidelium.study.kept_results import KeptResults

_log = logging.getLogger("fidelium.study")


@dataclass(frozen=True)
class Ended:
    """A trial whose evaluation has ended.

    Args:
        trial: the trial as it was started.
        result: its value or failure; None if it is given back.
        reason: why it is given back.
        cost: what the attempt that is given back took, if the study pays for it.
    """

    trial: Trial
    result: Result | None = None
    reason: str | None = None
    cost: float | None = None


class Recorder:
    """What is still to be stored of the evaluations of one worker.

    Args:
        store: where it is stored.
        kept: where results are kept while the storage is away.
    """

    def __init__(self, store: StudyStore, kept: KeptResults) -> None:
        self.pending: list[Ended] = []
        self._store = store
        self._kept = kept
        self._files: dict[int, Path | None] = {}

    def store_pending(self) -> Iterator[Trial]:
        """Store what is pending, in this order; each trial as it is then. What came too late is dropped.

        Raises:
            StorageError: if the storage cannot take it; it is still pending then.
        """
        while self.pending:
            ended = self.pending[0]
            stored = self._stored(ended)
            del self.pending[0]
            file = self._files.pop(ended.trial.number, None)
            if file is not None:
                self._kept.discard(file)
            if stored is not None:
                yield stored

    def keep_pending(self) -> None:
        """Write results that are pending to files."""
        for ended in self.pending:
            number = ended.trial.number
            if ended.result is not None and number not in self._files:
                self._files[number] = file = self._kept.write(ended.trial, ended.result)
                if file is not None:
                    _log.warning("the result of trial %d is kept in %s", number, file)

    def report_pending(self) -> None:
        """Say in the log what could not be stored, and where it is."""
        for ended in self.pending:
            number, result = ended.trial.number, ended.result
            file = self._files.get(number)
            if file is not None:
                _log.warning("the result of trial %d is stored when the study is resumed, from %s", number, file)
            elif result is not None:
                lost = result.reason if result.value is None else repr(result.value)
                _log.error("the result of trial %d is not stored: %s", number, lost)

    def store_kept(self) -> None:
        """Store the results that an earlier run has kept."""
        for file, trial, result in self._kept.found(self._store.trials()):
            if self._stored(Ended(trial, result)) is not None:
                _log.warning("the result of trial %d, kept in %s, is stored", trial.number, file)
            self._kept.discard(file)

    def _stored(self, ended: Ended) -> Trial | None:
        """The trial as it is stored; None if another worker has started it since."""
        number, attempt = ended.trial.number, ended.trial.attempt
        try:
            if ended.result is None:
                return self._store.requeue(number, attempt, ended.reason, ended.cost)
            return self._store.finish(number, attempt, ended.result)
        except TrialError as late:
            found = self._store.trials()[number]
            if _is_result(found, ended):  # the connection was lost after the write, or a successor has done it
                return found
            _log.warning("the result of trial %d came too late: %s", number, late)
            return None


def _is_result(found: Trial, ended: Ended) -> bool:
    """Whether this is the stored trial of an evaluation that has ended."""
    if ended.result is None or (found.attempt, found.worker) != (ended.trial.attempt, ended.trial.worker):
        return False
    return (found.state, found.value) == (ended.result.state, ended.result.value)
