"""A trial's folder: one for every attempt, with the query in `query.json` and the outcome in `outcome.json`."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import logging
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any

from fidelium.errors import EvaluationError, SetupError
from fidelium.fidelity import Fidelity
from fidelium.history import Trial
from fidelium.space import Params

QUERY, OUTCOME = "query.json", "outcome.json"

Tables = Mapping[str, Mapping[Any, Mapping[str, float]]]
"""Parameter -> item -> descriptors, of catalogues."""

_MAY_CHANGE = ("position", "cost", "descriptors")
"""What the definition of a study may say differently after a trial was run."""

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
        descriptors: of the items chosen from catalogues, by parameter.
    """

    number: int
    attempt: int
    params: Params
    fidelity: Fidelity
    position: int
    descriptors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, trial: Trial, position: int, tables: Tables | None = None) -> RunRequest:
        """The request for a trial whose fidelity is at `position` in the ladder.

        Args:
            trial: the trial.
            position: of its fidelity.
            tables: parameter -> item -> descriptors, of catalogues.
        """
        items = {name: table.get(trial.params.get(name)) for name, table in (tables or {}).items()}
        known = {name: descriptors for name, descriptors in items.items() if descriptors is not None}
        rung = trial.fidelity.of_design(trial.params)
        return cls(trial.number, trial.attempt, trial.params, rung, position, known)

    def as_json(self) -> dict[str, Any]:
        """The content of `query.json`."""
        return {
            "number": self.number,
            "attempt": self.attempt,
            "params": self.params,
            "fidelity": self.fidelity.name,
            "position": self.position,
            "cost": self.fidelity.cost,
            **(
                {"descriptors": {name: dict(each) for name, each in self.descriptors.items()}}
                if self.descriptors
                else {}
            ),
        }


def create_run_folder(runs: Path, request: RunRequest) -> Path:
    """Create a new folder: `00012-fine`, or `00012-fine-2` for the second attempt, or `00012-fine.1` if that exists.

    Raises:
        SetupError: if it cannot be created.
    """
    name = folder_name(request)
    for copy in count():
        folder = runs / (f"{name}.{copy}" if copy else name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not runs.is_dir():
                raise SetupError(f"cannot create the folder {folder}: {runs} is not a folder; move it") from None
        except OSError as error:
            raise disk_error(error, folder) from None
        else:
            return folder
    raise AssertionError("count() does not end")


def find_run_folder(runs: Path, request: RunRequest) -> Path | None:
    """The folder that an attempt was last run in, known by its `query.json`; None if there is none.

    Several studies may share `runs`, and a study may have been started anew: so a name alone is not enough.
    """
    name = folder_name(request)
    copies = [int(path.name[len(name) + 1 :]) for path in runs.glob(f"{glob.escape(name)}.*") if _is_copy(path, name)]
    for copy in (*sorted(copies, reverse=True), 0):
        folder = runs / (f"{name}.{copy}" if copy else name)
        query = read_json(folder / QUERY)
        if isinstance(query, dict) and all(
            query.get(key) == value for key, value in request.as_json().items() if key not in _MAY_CHANGE
        ):
            return folder
    return None


def read_json(path: Path) -> Any:
    """The content of a small JSON file in a trial's folder; None if it is not there or is not JSON."""
    try:
        with open_regular(path) as file:
            return json.loads(file.read(1 << 24))
    except (OSError, ValueError, RecursionError):
        return None


def folder_name(run: RunRequest | Trial) -> str:
    """The name of the folder of an attempt: `00012-fine`, `00012-fine-2` for the second."""
    attempt = f"-{run.attempt}" if run.attempt > 1 else ""
    return f"{run.number:05d}-{safe_name(run.fidelity.name)}{attempt}"


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
    text = json.dumps(outcome, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n"
    try:
        replace_file(folder, OUTCOME, text)
    except OSError as error:
        _log.warning("cannot write %s: %s", folder / OUTCOME, error.strerror)


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Write a file into a trial's folder, whole or not at all.

    Whatever the program left at that name is replaced: a link is not followed, nor a link in place of the folder.

    Raises:
        OSError: if it cannot be written.
    """
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _replace(directory, name, data)
    finally:
        os.close(directory)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file that a program has left; a named pipe does not block.

    Raises:
        OSError: if it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def disk_error(error: OSError, path: Path) -> SetupError:
    """Why a trial's folder cannot be written or used, and what to do: it is not the design's fault."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"the disk of {path} is full ({why}): free some space and run again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return SetupError(
            f"cannot write {path} ({why}): make it writable, or set runs: in the study file, and run again"
        )
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
        return SetupError(f"this machine cannot run more ({why}): use fewer workers or raise its limits, and run again")
    return SetupError(f"cannot write {path} ({why}): repair that and run again")


def _is_copy(path: Path, name: str) -> bool:
    return re.fullmatch(r"[1-9][0-9]{0,8}", path.name[len(name) + 1 :]) is not None


def _replace(directory: int, name: str, data: bytes) -> None:
    """Write a file below an open folder, as a new one under another name that is then renamed."""
    partial = f".{name}.partial"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(partial, flags, 0o666, dir_fd=directory), "wb") as file:
            file.write(data)
        os.replace(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=directory)
        raise
