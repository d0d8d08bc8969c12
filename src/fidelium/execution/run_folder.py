"""A trial's folder: one for every attempt, with the query in `query.json` and the outcome in `outcome.json`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fidelium.errors import EvaluationError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.space import Params

QUERY, OUTCOME = "query.json", "outcome.json"

_log = logging.getLogger("fidelium.execution")


@dataclass(frozen=True)
class RunRequest:
    """What a program is asked to evaluate: the content of `query.json`.

    Args:
        number: the trial's number.
        attempt: number of the attempt, from 1.
        params: the values of all parameters.
        fidelity: the fidelity to evaluate at.
        position: the fidelity's position in the ladder, 0 the cheapest.
    """

    number: int
    attempt: int
    params: Params
    fidelity: Fidelity
    position: int

    @classmethod
    def of(cls, trial: Trial, position: int) -> RunRequest:
        """The request for a trial whose fidelity is at `position` in the ladder."""
        return cls(trial.number, trial.attempt, trial.params, trial.fidelity, position)

    def as_json(self) -> dict[str, Any]:
        """The content of `query.json`."""
        return {
            "number": self.number,
            "attempt": self.attempt,
            "params": self.params,
            "fidelity": self.fidelity.name,
            "position": self.position,
            "cost": self.fidelity.cost,
        }


def create_run_folder(runs: Path, request: RunRequest) -> Path:
    """Create a new folder: `00012-fine`, or `00012-fine-2` for the second attempt, or `00012-fine.1` if that exists.

    Raises:
        EvaluationError: if it cannot be created.
    """
    attempt = f"-{request.attempt}" if request.attempt > 1 else ""
    name = f"{request.number:05d}-{safe_name(request.fidelity.name)}{attempt}"
    for copy in count():
        folder = runs / (f"{name}.{copy}" if copy else name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not runs.is_dir():
                raise EvaluationError(f"cannot create the folder {folder}: {runs} is not a folder") from None
        except OSError as error:
            raise EvaluationError(f"cannot create the folder {folder}: {error.strerror}") from None
        else:
            return folder
    raise AssertionError("count() does not end")


def safe_name(name: str) -> str:
    """The name with every character that is special in a path replaced by `_`, cut to 40 characters.

    Letters and digits of all scripts are kept. Different names may become equal.
    """
    return re.sub(r"[^\w-]", "_", name)[:40]


def write_query(folder: Path, request: RunRequest) -> None:
    """Write `query.json`: strict JSON in UTF-8, without ASCII escapes.

    Raises:
        EvaluationError: if a value cannot be written as JSON.
        OSError: if the file cannot be written.
    """
    try:
        text = json.dumps(request.as_json(), ensure_ascii=False, allow_nan=False, indent=2).encode()
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"the parameters cannot be written as JSON: {error}") from None
    (folder / QUERY).write_bytes(text + b"\n")


def write_outcome(folder: Path, outcome: Mapping[str, Any]) -> None:
    """Write `outcome.json`. It is informational: if it cannot be written, only a warning is logged."""
    try:
        (folder / OUTCOME).write_text(json.dumps(outcome, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        _log.warning("cannot write %s: %s", folder / OUTCOME, error.strerror)
