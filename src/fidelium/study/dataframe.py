"""The trials of a study as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fidelium.history import Trial
from fidelium.space import SearchSpace
from fidelium.trial_table import table_columns, table_row

_NUMBERS = ("cost", "value", "measured_cost", "started", "finished")
"""Columns of floats, NaN where there is no value."""


def to_dataframe(space: SearchSpace, trials: Sequence[Trial]) -> pd.DataFrame:
    """One row per trial, with the columns of `fidelium export`: number, state, fidelity, cost, value, parameters, ...

    A parameter called like one of the other columns gets the prefix `params_`.
    """
    frame = pd.DataFrame([table_row(space, trial) for trial in trials], columns=list(table_columns(space)))
    return frame.astype(dict.fromkeys(_NUMBERS, float))
