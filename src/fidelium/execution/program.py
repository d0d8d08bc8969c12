"""An external program as an objective: one command per fidelity, a folder for every evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from fidelium.errors import EvaluationError, FidelityError, SettingError
from fidelium.execution.bounded import last_lines
from fidelium.execution.command import Command
from fidelium.execution.folders import Asked, new_folder, note_outcome, write_query
from fidelium.execution.measured import Measured
from fidelium.execution.process import STDERR, Ending, run_guarded
from fidelium.execution.results import reported_failure
from fidelium.fidelity import Fidelity
from fidelium.history import Trial


@dataclass(frozen=True)
class ExternalProgram:
    """Evaluates trials by running commands. It can be pickled, and used by any number of threads and processes.

    Args:
        commands: fidelity's name -> its command, low to high.
        runs: the folder that gets a folder for every attempt of a trial.
        here: what `{here}` stands for: the folder of the study's file.
    """

    commands: Mapping[str, Command]
    runs: Path
    here: Path

    def run(self, trial: Trial, cancelled: Event | None = None) -> Measured:
        """Evaluate a trial.

        Args:
            trial: its number and attempt name the folder.
            cancelled: once set, the program and all it has started is ended.

        Raises:
            EvaluationError: if there is no value, with the reason; also if it was cancelled.
            FidelityError: if there is no command for the trial's fidelity.
        """
        command, position = self._command(trial.fidelity)
        return evaluate(command, Asked.of(trial, position), self.runs, self.here, cancelled)

    def __call__(self, trial: Trial) -> Measured:
        """Evaluate a trial where nobody can cancel it: in another process or on another machine (an `Evaluator`)."""
        return self.run(trial)

    def _command(self, fidelity: Fidelity) -> tuple[Command, int]:
        names = list(self.commands)
        if fidelity.name not in names:
            raise FidelityError(f"no command for fidelity {fidelity.name!r}; there are {', '.join(map(repr, names))}")
        return self.commands[fidelity.name], names.index(fidelity.name)


def evaluate(command: Command, asked: Asked, runs: Path, here: Path, cancelled: Event | None = None) -> Measured:
    """Make a folder, run the command in it, and read the value.

    Raises:
        EvaluationError: if there is no value, with the reason.
    """
    folder = new_folder(runs.absolute(), asked)
    ending: Ending | None = None
    try:
        write_query(folder, asked)
        ending = run_guarded(command.prepared(asked, folder, here.absolute()), cancelled)
        measured = _measured(command, ending, folder)
    except (EvaluationError, SettingError, OSError, UnicodeError) as error:
        reason = _reason(error)
        note_outcome(folder, _outcome(ending, {"failed": reason}))
        raise EvaluationError(reason) from error
    note_outcome(folder, _outcome(ending, {"value": measured.value, "cost": measured.cost}))
    return measured


def _measured(command: Command, ending: Ending, folder: Path) -> Measured:
    if ending.stopped == "cancelled":
        raise EvaluationError(f"cancelled after {ending.seconds:.3g} s")
    if ending.stopped == "timeout":
        raise EvaluationError(f"timed out after {command.timeout:g} s{_says(folder)}")
    told = reported_failure(command.result, folder)
    if ending.code != 0:
        raise EvaluationError(f"{_how(ending)}{f': {told}' if told else _says(folder)}")
    if told is not None:
        raise EvaluationError(told)
    try:
        return command.result.read(folder)
    except EvaluationError as error:
        raise EvaluationError(f"{error}{_says(folder)}") from error


def _how(ending: Ending) -> str:
    if ending.code is None:
        return "the process that guards it was killed"
    return f"exit code {ending.code}" if ending.code >= 0 else f"killed by {ending.signal}"


def _says(folder: Path) -> str:
    """The last lines of stderr, if there are any."""
    lines = last_lines(folder / STDERR)
    return f"; stderr ends with: {lines}" if lines else ""


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot write to the trial's folder: {error.strerror or error}"
    if isinstance(error, UnicodeError):
        return f"a value cannot be written as text: {error}"
    return str(error)


def _outcome(ending: Ending | None, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `outcome.json`."""
    if ending is None:  # it was never started, or its output could not be kept
        return dict(answer)
    return {
        "exit_code": ending.code if ending.signal is None else None,
        "signal": ending.signal,
        "seconds": round(ending.seconds, 3),
        "stopped": ending.stopped,
        **answer,
    }
