"""Results that could not be stored: kept in files until the storage is back, or until the study is resumed.

Such a file lies in the trial's folder. It names the study, the trial, and the worker that ran it, so that it is never
taken for the result of another study in the same folder.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelium.errors import ObservationError
from fidelium.execution.run_folder import folder_name, open_regular, replace_file
from fidelium.history import Trial, TrialState
from fidelium.storage.base import Result

FILE = "result-to-store.json"

UNSTORED = "fidelium-unstored"
"""The folder, in the current one, for results of Python objectives, which have no folders of their own."""

_log = logging.getLogger("fidelium.study")


@dataclass(frozen=True)
class KeptResults:
    """Where the results of a study are kept that its storage could not take.

    Args:
        study: the study's name.
        folder: the parent of the trials' folders; created when it is needed.
    """

    study: str
    folder: Path

    def write(self, trial: Trial, result: Result) -> Path | None:
        """Keep a result; the file, or None, with a line in the log, if it cannot be written."""
        content = {
            **self._identity(trial),
            "params": trial.params,
            "value": result.value,
            "failed": result.reason,
            "measured_cost": result.measured_cost,
            "outcomes": dict(result.outcomes),
            "std": result.std,
        }
        text = json.dumps(content, indent=2, default=str).encode("utf-8", "backslashreplace")
        try:
            folder = max(self._folders(trial), key=_copy, default=self.folder / folder_name(trial))
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder, FILE, text + b"\n")
        except OSError as error:
            _log.warning("cannot keep the result of trial %d in a file: %s", trial.number, error)
            return None
        return folder / FILE

    def found(self, trials: Iterable[Trial]) -> Iterator[tuple[Path, Trial, Result]]:
        """The results that were kept for trials that still wait for one."""
        if not self.folder.is_dir():
            return
        for trial in trials:
            if trial.state.is_pending and trial.attempt > 0:
                for folder in self._folders(trial):
                    if (result := self._read(folder / FILE, trial)) is not None:
                        yield folder / FILE, trial, result

    def discard(self, file: Path) -> None:
        """Remove a file whose result is stored; its folder, too, if there is nothing else in it."""
        with suppress(OSError):
            file.unlink()
            if self.folder.name == UNSTORED:
                file.parent.rmdir()
                self.folder.rmdir()

    def _folders(self, trial: Trial) -> list[Path]:
        """Folders of this attempt of a trial: a second one of the same name gets a suffix such as `.1`."""
        name = folder_name(trial)
        return [path for path in self.folder.glob(f"{name}*") if path.name == name or path.stem == name]

    def _identity(self, trial: Trial) -> dict[str, Any]:
        return {
            "study": self.study,
            "number": trial.number,
            "attempt": trial.attempt,
            "worker": trial.worker,
            "fidelity": trial.fidelity.name,
        }

    def _read(self, file: Path, trial: Trial) -> Result | None:
        try:
            with open_regular(file) as kept:
                content = json.loads(kept.read())
            if not isinstance(content, dict) or not self._identity(trial).items() <= content.items():
                return None
            state = TrialState.DONE if content.get("failed") is None else TrialState.FAILED
            cost, outcomes = content.get("measured_cost"), content.get("outcomes", {})
            return Result(state, content.get("value"), content.get("failed"), cost, outcomes, content.get("std"))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, ObservationError):
            return None


def _copy(folder: Path) -> int:
    """Which of the folders of the same name this is."""
    suffix = folder.suffix.removeprefix(".")
    return int(suffix) if suffix.isdecimal() else 0
