"""Trials as rows of a table: the columns of `fidelium export` and of `Study.to_dataframe`, which are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fidelium.constraints import OutcomeConstraint
from fidelium.history import Trial
from fidelium.space import Params, SearchSpace, column_names

LEADING = ("number", "state", "fidelity", "cost", "value")
"""The columns before the parameters."""

TRAILING = (
    *("measured_cost", "std", "excluded", "given", "attempt", "worker", "started", "finished"),
    *("priority", "tags", "note", "reason"),
)
"""The columns after the parameters and outcomes."""

FEASIBLE = "feasible"
"""The column after the outcomes, in a study with constraints."""


@dataclass(frozen=True)
class ObservationRow:
    """An observation that exists already: a row of a file, or of another study.

    Args:
        params: values of all parameters.
        fidelity: the fidelity's name.
        value: what was observed.
        outcomes: named results beside the value.
        std: standard error of the value, None if it is not known.
    """

    params: Params
    fidelity: str
    value: float
    outcomes: Mapping[str, float] = field(default_factory=dict)
    std: float | None = None


def trial_record(trial: Trial) -> dict[str, Any]:
    """A trial as plain values, with all its fields; `params` and `outcomes` are dicts, `tags` a list."""
    return {
        "number": trial.number,
        "state": str(trial.state),
        "params": trial.params,
        "fidelity": trial.fidelity.name,
        "cost": trial.cost,
        "value": trial.value,
        "outcomes": dict(trial.outcomes),
        "feasible": trial.feasible if trial.constraints else None,
        "reason": trial.reason,
        "excluded": trial.excluded,
        "given": trial.given,
        "attempt": trial.attempt,
        "worker": trial.worker,
        "started": trial.started,
        "finished": trial.finished,
        "measured_cost": trial.measured_cost,
        "priority": trial.priority,
        "note": trial.note,
        "tags": list(trial.tags),
        "std": trial.std,
    }


def parameter_columns(space: SearchSpace) -> dict[str, str]:
    """The column of each parameter; one named like another column gets the prefix `params_`."""
    return column_names(space, (*LEADING, FEASIBLE, *TRAILING))


@dataclass(frozen=True)
class TrialTable:
    """The columns of a table of trials, and its rows.

    Args:
        space: the parameters.
        outcomes: name of each outcome -> its column.
        constrained: whether there is a column `feasible`.
    """

    space: SearchSpace
    outcomes: Mapping[str, str] = field(default_factory=dict)
    constrained: bool = False

    @classmethod
    def of(
        cls, space: SearchSpace, trials: Iterable[Trial], constraints: Iterable[OutcomeConstraint] = ()
    ) -> TrialTable:
        """The table of these trials: an outcome of any of them has a column, in the order in which they appear.

        One that is named like a parameter's column gets the prefix `outcomes_`.
        """
        limited = [each.name for each in constraints]
        names = dict.fromkeys([*(name for trial in trials for name in trial.outcomes), *limited])
        taken = set(parameter_columns(space).values())
        columns: dict[str, str] = {}
        for name in names:
            column = name
            while column in taken or (column != name and column in names):
                column = f"outcomes_{column}"
            columns[name] = column
        return cls(space, columns, bool(limited))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in their order."""
        judged = (FEASIBLE,) if self.constrained else ()
        return (*LEADING, *parameter_columns(self.space).values(), *self.outcomes.values(), *judged, *TRAILING)

    def row(self, trial: Trial) -> dict[str, Any]:
        """A trial as a row: column -> value, in the order of the columns."""
        record = trial_record(trial) | {"tags": ",".join(trial.tags)}
        return (
            {name: record[name] for name in LEADING}
            | {column: trial.params[name] for name, column in parameter_columns(self.space).items()}
            | {column: trial.outcomes.get(name) for name, column in self.outcomes.items()}
            | ({FEASIBLE: trial.feasible} if self.constrained else {})
            | {name: record[name] for name in TRAILING}
        )
