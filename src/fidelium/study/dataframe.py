"""The trials of a study as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fidelium.history import Trial
from fidelium.space import SearchSpace, column_names

_COLUMNS = ("number", "state", "fidelity", "cost", "value", "reason")


def to_dataframe(space: SearchSpace, trials: Sequence[Trial]) -> pd.DataFrame:
    """One row per trial: number, state, fidelity, cost, value, the parameters, reason.

    A parameter called like one of the other columns gets the prefix `params_`.
    """
    table = {
        "number": [trial.number for trial in trials],
        "state": [str(trial.state) for trial in trials],
        "fidelity": [trial.fidelity.name for trial in trials],
        "cost": [trial.cost for trial in trials],
        "value": [float("nan") if trial.value is None else trial.value for trial in trials],
    }
    for name, column in column_names(space, _COLUMNS).items():
        table[column] = [trial.params[name] for trial in trials]
    table["reason"] = [trial.reason for trial in trials]
    return pd.DataFrame(table)
