"""Trials as rows of a table: the columns of `fidelium export` and of `Study.to_dataframe`, which are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fidelium.history import Trial
from fidelium.space import Params, SearchSpace, column_names

LEADING = ("number", "state", "fidelity", "cost", "value")
"""The columns before the parameters."""

TRAILING = ("measured_cost", "excluded", "given", "attempt", "worker", "started", "finished", "reason")
"""The columns after the parameters."""


@dataclass(frozen=True)
class ObservationRow:
    """An observation that exists already: a row of a file, or of another study.

    Args:
        params: values of all parameters.
        fidelity: the fidelity's name.
        value: what was observed.
    """

    params: Params
    fidelity: str
    value: float


def trial_record(trial: Trial) -> dict[str, Any]:
    """A trial as plain values, with all its fields; `params` is a dict."""
    return {
        "number": trial.number,
        "state": str(trial.state),
        "params": trial.params,
        "fidelity": trial.fidelity.name,
        "cost": trial.cost,
        "value": trial.value,
        "reason": trial.reason,
        "excluded": trial.excluded,
        "given": trial.given,
        "attempt": trial.attempt,
        "worker": trial.worker,
        "started": trial.started,
        "finished": trial.finished,
        "measured_cost": trial.measured_cost,
    }


def parameter_columns(space: SearchSpace) -> dict[str, str]:
    """The column of each parameter; one named like another column gets the prefix `params_`."""
    return column_names(space, (*LEADING, *TRAILING))


def table_columns(space: SearchSpace) -> tuple[str, ...]:
    """All columns, in their order."""
    return (*LEADING, *parameter_columns(space).values(), *TRAILING)


def table_row(space: SearchSpace, trial: Trial) -> dict[str, Any]:
    """A trial as a row: column -> value, in the order of the columns."""
    record = trial_record(trial)
    return (
        {name: record[name] for name in LEADING}
        | {column: trial.params[name] for name, column in parameter_columns(space).items()}
        | {name: record[name] for name in TRAILING}
    )
