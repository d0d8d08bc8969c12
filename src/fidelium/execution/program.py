"""External programs as objectives: the commands of each fidelity, one folder per evaluation.

What goes wrong is either the evaluation's (`EvaluationError`: a failed trial) or the set-up's (`SetupError`: the trial
is queued again and the run stops).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from fidelium.errors import EvaluationError, FidelityError, SettingError, SetupError
from fidelium.execution.base import Measurement
from fidelium.execution.command import Command, missing_programs
from fidelium.execution.failures import classified, read_result
from fidelium.execution.invocation import ExitStatus, Invocation
from fidelium.execution.outcomes import read_outcomes
from fidelium.execution.process import run_guarded
from fidelium.execution.reasons import shown
from fidelium.execution.run_folder import (
    OUTCOME,
    RunRequest,
    Tables,
    create_run_folder,
    find_run_folder,
    read_json,
    write_outcome,
    write_query,
)
from fidelium.fidelity import Fidelity
from fidelium.history import Trial


@dataclass(frozen=True)
class ExternalProgram:
    """Evaluates trials by running commands. It is picklable, and safe to use from several threads and processes.

    Args:
        commands: name of the fidelity -> its command, low to high.
        runs: the parent folder of the trials' folders.
        here: the value of `{here}`: the folder of the study's file.
        withheld: names of variables of fidelium's own environment that the programs do not get, such as PGPASSWORD.
        tables: parameter -> item -> descriptors, of catalogues: programs get the descriptors of the items, too.
    """

    commands: Mapping[str, Command]
    runs: Path
    here: Path
    withheld: frozenset[str] = frozenset()
    tables: Tables = field(default_factory=dict)

    def run(self, trial: Trial, cancelled: Event | None = None) -> Measurement:
        """Evaluate a trial.

        Args:
            trial: its number and attempt name the folder.
            cancelled: once set, the program and all processes it has started are ended.

        Raises:
            EvaluationError: if it failed or was cancelled, with the reason.
            UnreadableResultError: if the program succeeded, but the result rule finds nothing.
            SetupError: if it failed for a reason that is not the design's.
            FidelityError: if the trial's fidelity has no command.
        """
        command, position = self.command_of(trial.fidelity)
        request = RunRequest.of(trial, position, self.tables)
        folder = create_run_folder(self.runs.absolute(), request)
        invocation: Invocation | None = None
        status: ExitStatus | None = None
        try:
            write_query(folder, request)
            invocation = command.prepare(request, folder, self.here.absolute(), self.withheld)
            status = run_guarded(invocation, cancelled)
            measured = read_outcomes(command, trial, read_result(command.result, status, invocation), folder)
        except (EvaluationError, SetupError, SettingError, OSError, UnicodeError) as error:
            failure = classified(error, request, folder, status, prepared=invocation is not None)
            write_outcome(folder, _outcome(status, {"failed": str(failure)}))
            raise failure from error
        write_outcome(folder, _outcome(status, _found(measured)))
        return measured

    def reread(self, trial: Trial) -> tuple[Measurement, Path]:
        """The value of a trial that ran before, by the present result rule, and its folder. Nothing is run.

        Raises:
            EvaluationError: if there is no folder of its last attempt, the program did not exit with 0, or the value or
                an outcome that a constraint names is missing or bad.
            SetupError: if the function of the result rule cannot be called.
            FidelityError: if the trial's fidelity has no command.
        """
        command, position = self.command_of(trial.fidelity)
        folder = find_run_folder(self.runs.absolute(), RunRequest.of(trial, position))
        if folder is None:
            raise EvaluationError(f"no folder of attempt {trial.attempt} of this trial in {self.runs}")
        outcome = read_json(folder / OUTCOME)
        ended = outcome if isinstance(outcome, dict) else {}
        code, stopped = ended.get("exit_code"), ended.get("stopped")
        if code != 0 or isinstance(code, bool) or stopped is not None:
            how = shown(stopped or (f"exit code {code}" if code is not None else ended.get("signal") or "unknown"))
            raise EvaluationError(f"its program did not exit with 0, but: {how}; {folder}")
        status, invocation = ExitStatus(0, 0.0), Invocation(command.steps, folder, {})
        measured = read_result(command.result, status, invocation)
        return read_outcomes(command, trial, measured, folder), folder

    def problems(self) -> tuple[str, ...]:
        """What keeps the programs from being started on this machine, as far as it can be seen without running them."""
        found: dict[str, list[str]] = {}
        for fidelity, command in self.commands.items():
            for problem in missing_programs(command, self.here.absolute()):
                found.setdefault(problem, []).append(fidelity)
        return tuple(f"{', '.join(fidelities)}: {problem}" for problem, fidelities in found.items())

    def check(self) -> None:
        """Look for the programs on this machine.

        Raises:
            SetupError: if one cannot be started.
        """
        if found := self.problems():
            raise SetupError("; ".join(found))

    def command_of(self, fidelity: Fidelity) -> tuple[Command, int]:
        """The command of a fidelity, and its position in the ladder.

        Raises:
            FidelityError: if it has none.
        """
        names = list(self.commands)
        if fidelity.name not in names:
            known = ", ".join(map(repr, names))
            raise FidelityError(f"no command for fidelity {fidelity.name!r}; there are commands for {known}")
        return self.commands[fidelity.name], names.index(fidelity.name)


def _found(measured: Measurement) -> dict[str, Any]:
    """A measurement in `outcome.json`; JSON has no NaN."""
    found: dict[str, Any] = {"value": measured.value, "cost": measured.cost}
    if measured.std is not None:
        found["std"] = measured.std
    if measured.outcomes:
        outcomes = measured.outcomes.items()
        found["outcomes"] = {name: each if math.isfinite(each) else str(each) for name, each in outcomes}
    return found


def _outcome(status: ExitStatus | None, result: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `outcome.json`."""
    if status is None:  # it was not started, or its output could not be written
        return dict(result)
    return {
        "exit_code": status.code if status.signal is None else None,
        "signal": status.signal,
        "seconds": round(status.seconds, 3),
        "stopped": status.stopped,
        **result,
    }
