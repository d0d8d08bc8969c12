"""Data from elsewhere: which trials of another study fit into this one, and adding observations exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fidelium.definition import StudyDefinition
from fidelium.errors import SettingError, SpaceError
from fidelium.history import Trial, TrialState
from fidelium.study.study import Study
from fidelium.trial_table import ObservationRow


@dataclass(frozen=True)
class Transfer:
    """What can be taken over from another study.

    Args:
        observations: those that fit, in the order of the trials.
        left_out: why trials do not fit -> how many, the most frequent first.
    """

    observations: tuple[ObservationRow, ...]
    left_out: Mapping[str, int]


def fitting(
    old: StudyDefinition, trials: Sequence[Trial], new: StudyDefinition, fixed: Mapping[str, Any] | None = None
) -> Transfer:
    """The observations of another study that are valid in a new one.

    A trial fits if it is done and not excluded, the new study has its fidelity (by name), its parameters have the
    same names and valid values, and it has the outcomes that the new study's constraints name.

    Args:
        old: the definition of the other study.
        trials: its trials.
        new: the definition of the new study.
        fixed: values of parameters that only one of the two studies has. One that is new had this value in all old
            runs; of one that is gone, the runs with this value fit.

    Raises:
        SettingError: if a fixed parameter is in both studies, or in none of them.
        SpaceError: if a fixed value is not valid.
    """
    values = _checked(old, new, fixed or {})
    found: list[ObservationRow] = []
    reasons: list[str] = []
    for trial in trials:
        reason = _misfit(trial, new, values)
        if reason is not None:
            reasons.append(reason)
        else:
            every = trial.params | values
            params = new.space.validate({name: every[name] for name in new.space.names})
            outcomes = {name: each for name, each in trial.outcomes.items() if name not in new.space.parameters}
            found.append(ObservationRow(params, trial.fidelity.name, float(trial.value or 0.0), outcomes, trial.std))
    return Transfer(tuple(found), dict(Counter(reasons).most_common()))


def add_missing(study: Study, observations: Sequence[ObservationRow]) -> int:
    """Add the observations that the study does not have yet, each once, whoever else does the same at the same time.

    An observation made twice is added twice. Repeating an interrupted call adds the rest.

    Returns:
        How many were added.

    Raises:
        SpaceError: if the parameters of an observation are not valid; nothing was added.
        FidelityError: if a fidelity is unknown.
    """
    rows = [replace(row, params=study.space.validate(row.params)) for row in observations]  # in the study's order
    added = 0
    while True:
        trials = study.trials
        missing = _missing(trials, rows)
        for number, row in enumerate(missing, len(trials)):
            rung = study.ladder[study.ladder.index(row.fidelity)]
            given = Trial(
                number, row.params, rung, TrialState.DONE, row.value, given=True, outcomes=row.outcomes, std=row.std
            )
            if study.store.add(given) is None:
                break  # somebody added a trial meanwhile, perhaps this one: look again
            added += 1
        else:
            return added


def _missing(trials: Sequence[Trial], observations: Sequence[ObservationRow]) -> list[ObservationRow]:
    """The observations that are not among the given trials."""
    # compared as text, since the choices True and 1 are equal in Python
    known = Counter(repr((t.params, t.fidelity.name, t.value)) for t in trials if t.given)
    missing: list[ObservationRow] = []
    for row in observations:
        key = repr((row.params, row.fidelity, row.value))
        if known[key]:
            known[key] -= 1
        else:
            missing.append(row)
    return missing


def _checked(old: StudyDefinition, new: StudyDefinition, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The fixed values, of parameters that only one of the two studies has."""
    ours, theirs = new.space.parameters, old.space.parameters
    values: dict[str, Any] = {}
    for name, value in fixed.items():
        if name not in ours and name not in theirs:
            raise SettingError(f"neither study has a parameter {name!r}; these have {list(ours)} and {list(theirs)}")
        if name in ours and name in theirs:
            raise SettingError(f"both studies have the parameter {name!r}: its values are taken from the old trials")
        values[name] = (ours.get(name) or theirs[name]).validate(value)
    return values


def _misfit(trial: Trial, new: StudyDefinition, fixed: Mapping[str, Any]) -> str | None:
    """Why a trial does not fit, None if it does."""
    if trial.state is not TrialState.DONE:
        return str(trial.state)
    if trial.excluded:
        return "excluded"
    if trial.fidelity.name not in new.ladder.names:
        return f"at fidelity {trial.fidelity.name!r}, which the new study has not"
    for name, value in trial.params.items():
        if name not in new.space.parameters and name not in fixed:
            return f"with the parameter {name!r}, which the new study has not (--fill {name}=VALUE takes one value)"
        if name not in new.space.parameters and repr(value) != repr(fixed[name]):
            return f"with another {name!r} than {fixed[name]!r}"
    for name, parameter in new.space.parameters.items():
        if name not in trial.params and name not in fixed:
            return f"without the parameter {name!r} (--fill {name}=VALUE says which value they had)"
        try:
            parameter.validate(trial.params.get(name, fixed.get(name)))
        except SpaceError:
            return f"with {name!r} outside of the new study's values"
    for each in new.constraints:
        if each.name not in trial.outcomes:
            return f"without the outcome {each.name!r}, which a constraint of the new study names"
    every = {**trial.params, **fixed}
    if not new.space.contains({name: every[name] for name in new.space.names}):
        return "violating a parameter constraint of the new study"
    return None
