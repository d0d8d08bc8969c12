"""A trial's folder: a new one for every attempt, with the query in `query.json` and what happened in `outcome.json`."""

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
class Asked:
    """What a program is asked.

    Args:
        number: the trial's number.
        attempt: how many times the trial was started, this time included.
        params: values of all parameters.
        fidelity: the fidelity to evaluate at.
        position: the fidelity's position in the ladder, 0 the cheapest.
    """

    number: int
    attempt: int
    params: Params
    fidelity: Fidelity
    position: int

    @classmethod
    def of(cls, trial: Trial, position: int) -> Asked:
        """What a trial asks."""
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


def new_folder(runs: Path, asked: Asked) -> Path:
    """Make the folder `00012-fine`, from the second attempt on `00012-fine-2`; never one that is there already.

    Raises:
        EvaluationError: if it cannot be made.
    """
    attempt = f"-{asked.attempt}" if asked.attempt > 1 else ""
    name = f"{asked.number:05d}-{safe_name(asked.fidelity.name)}{attempt}"
    for again in count():
        folder = runs / (f"{name}.{again}" if again else name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not runs.is_dir():
                raise EvaluationError(f"cannot make the folder {folder}: {runs} is not a folder") from None
        except OSError as error:
            raise EvaluationError(f"cannot make the folder {folder}: {error.strerror}") from None
        else:
            return folder
    raise AssertionError("count() does not end")


def safe_name(name: str) -> str:
    """A name with nothing in it that means something in a path, 40 characters at most.

    Letters and digits of any script stay. Names may become equal: the trial's number tells folders apart.
    """
    return re.sub(r"[^\w-]", "_", name)[:40]


def write_query(folder: Path, asked: Asked) -> None:
    """Write `query.json`: strict JSON, UTF-8, letters of all scripts as they are.

    Raises:
        EvaluationError: if a value cannot be written so.
        OSError: if the disk is full.
    """
    try:
        text = json.dumps(asked.as_json(), ensure_ascii=False, allow_nan=False, indent=2).encode()
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"the parameters cannot be written as JSON: {error}") from None
    (folder / QUERY).write_bytes(text + b"\n")


def note_outcome(folder: Path, outcome: Mapping[str, Any]) -> None:
    """Write `outcome.json`. It is for people: if it cannot be written, the trial's outcome is the same."""
    try:
        (folder / OUTCOME).write_text(json.dumps(outcome, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        _log.warning("cannot write %s: %s", folder / OUTCOME, error.strerror)
