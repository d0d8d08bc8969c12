"""`fidelium reread`: take the values of trials that ran, but whose result could not be read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import find_file, open_study
from fidelium.cli.options import AsJson, File
from fidelium.cli.output import console, counted, print_json
from fidelium.cli.repair import Numbers, Reason
from fidelium.errors import EvaluationError, TrialError
from fidelium.text import reason_line, visible

if TYPE_CHECKING:
    from fidelium.execution.program import ExternalProgram
    from fidelium.history import Trial
    from fidelium.study import Study


@dataclass(frozen=True)
class _Reread:
    """What the folder of a trial gives: a value, or why there is none."""

    trial: Trial
    value: float | None = None
    cost: float | None = None
    outcomes: Mapping[str, float] = field(default_factory=dict)
    folder: Path | None = None
    problem: str | None = None
    std: float | None = None


def reread(
    where: File,
    numbers: Numbers = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be taken.")] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Read the results of failed trials again, with the result rule that the file has now. Nothing is run.

    Without numbers: all trials that failed, were lost, or are queued again after a run. A value is taken if the program
    exited with 0 in the trial's last attempt.
    """
    found, file = find_file(where)
    with open_study(found) as study:
        answers = [_read(file.program, trial) for trial in _candidates(study, numbers)]
        if not dry_run:
            answers = [
                answer if answer.value is None else _take(study, answer, answer.value, reason) for answer in answers
            ]
    if as_json:
        print_json({"dry_run": dry_run, "trials": [_json(answer) for answer in answers]})
        return
    out = console()
    for answer in answers:
        out.print(f"trial {answer.trial.number} at {visible(answer.trial.fidelity.name)}: {_text(answer)}")
    taken = sum(answer.value is not None for answer in answers)
    verb = "would be taken" if dry_run else "taken"
    out.print(f"{counted(taken, 'value')} {verb}; {counted(len(answers) - taken, 'trial')} without one")


def _candidates(study: Study, numbers: list[int] | None) -> list[Trial]:
    """The trials to read again.

    Raises:
        TrialError: if the study has no trial with one of the numbers.
    """
    from fidelium.history import TrialState

    trials = study.trials
    if numbers:
        if missing := [number for number in numbers if number >= len(trials)]:
            raise TrialError(f"this study has no trial {missing[0]}; it has {len(trials)}, numbered from 0")
        return [trials[number] for number in dict.fromkeys(numbers)]
    ended = (TrialState.FAILED, TrialState.LOST)
    return [
        trial
        for trial in trials
        if not trial.excluded and (trial.state in ended or (trial.state is TrialState.QUEUED and trial.attempt > 0))
    ]


def _read(program: ExternalProgram, trial: Trial) -> _Reread:
    from fidelium.execution.reasons import storable
    from fidelium.history import TrialState

    if trial.state in (TrialState.DONE, TrialState.RUNNING):
        return _Reread(trial, problem=f"it is {trial.state}")
    try:
        measured, folder = program.reread(trial)
    except EvaluationError as error:
        return _Reread(trial, problem=storable(str(error)))
    return _Reread(trial, measured.value, measured.cost, measured.outcomes, folder, std=measured.std)


def _take(study: Study, answer: _Reread, value: float, reason: str) -> _Reread:
    why = reason or f"reread from {answer.folder}"
    try:
        study.correct(answer.trial, value, answer.cost, why, outcomes=answer.outcomes, std=answer.std)
    except TrialError as error:  # a worker has started it meanwhile
        return _Reread(answer.trial, problem=str(error))
    return answer


def _text(answer: _Reread) -> str:
    if answer.value is None:
        return f"no value: {reason_line(answer.problem)}"
    cost = "" if answer.cost is None else f", measured cost {answer.cost:g}"
    outcomes = "".join(f", {name} {outcome:g}" for name, outcome in answer.outcomes.items())
    error = "" if answer.std is None else f" ± {answer.std:g}"
    return f"{answer.value!r}{error}{outcomes}{cost} from {answer.folder}"


def _json(answer: _Reread) -> dict[str, Any]:
    return {
        "number": answer.trial.number,
        "fidelity": answer.trial.fidelity.name,
        "value": answer.value,
        "outcomes": {name: each for name, each in answer.outcomes.items() if math.isfinite(each)},
        "measured_cost": answer.cost,
        "std": answer.std,
        "folder": None if answer.folder is None else str(answer.folder),
        "problem": answer.problem,
    }
