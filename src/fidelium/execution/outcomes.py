"""The outcomes of a run: those in its result file, and those that a rule of their own finds.

What no constraint names is recorded if it can be read. What a constraint names must be there: without it, the run has
failed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fidelium.constraints import failure_of
from fidelium.errors import EvaluationError
from fidelium.execution.base import Measurement, checked_against
from fidelium.execution.command import Command
from fidelium.execution.failures import stderr_tail
from fidelium.execution.reasons import storable
from fidelium.execution.result_rules import ResultFile, ResultRule
from fidelium.history import Trial

_log = logging.getLogger("fidelium.execution")

STD = "std"
"""Among the rules of outcomes, the one that reads the standard error of the value."""


def read_outcomes(command: Command, trial: Trial, measured: Measurement, folder: Path) -> Measurement:
    """What a trial gave, with all its outcomes.

    Args:
        command: has the rules of outcomes that are read apart.
        trial: its parameters are no outcomes, and its constraints say which outcomes it must have.
        measured: what the rule of the value has read.
        folder: the trial's folder.

    Raises:
        UnreadableResultError: if the rule of the standard error or of a constrained outcome finds nothing.
        EvaluationError: if a constrained outcome is missing or not a finite number, or an outcome that a function
            returned has the name of a parameter.
    """
    constrained = {each.name for each in trial.constraints}
    if isinstance(command.result, ResultFile):  # a simulator may repeat its input there
        kept = {name: each for name, each in measured.outcomes.items() if name not in trial.params}
        measured = replace(measured, outcomes=kept)
    outcomes = dict(checked_against(trial, measured).outcomes)
    for name, rule in command.outcomes.items():
        if name == STD:
            measured = replace(measured, std=_standard_error(rule, folder))
            continue
        try:
            outcomes[name] = rule.read(folder).value
        except EvaluationError as error:
            if name in constrained:
                raise type(error)(f"the outcome {name!r}: {error}{stderr_tail(folder)}") from error
            outcomes.pop(name, None)
            _log.warning("trial %d: the outcome %r is not recorded: %s", trial.number, name, storable(str(error)))
    if (reason := failure_of(outcomes, trial.constraints)) is not None:
        raise EvaluationError(f"{_text_instead(command, trial, outcomes, folder) or reason}{stderr_tail(folder)}")
    return replace(measured, outcomes=outcomes)


def _standard_error(rule: ResultRule, folder: Path) -> float:
    """The standard error that a rule of its own finds.

    Raises:
        EvaluationError: if there is none: a value whose error is not known must not count as one without.
    """
    try:
        return rule.read(folder).value
    except EvaluationError as error:
        raise type(error)(f"the standard error (std): {error}{stderr_tail(folder)}") from error


def _text_instead(command: Command, trial: Trial, outcomes: Mapping[str, float], folder: Path) -> str | None:
    """What the result file holds in place of the first constrained outcome that is not a number, None if nothing."""
    if not isinstance(command.result, ResultFile):
        return None
    missing = next((each.name for each in trial.constraints if each.name not in outcomes), None)
    return None if missing is None else command.result.refused(folder, missing)
