"""The trials of a study as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fidelium.constraints import OutcomeConstraint
from fidelium.history import Trial
from fidelium.space import SearchSpace
from fidelium.trial_table import TrialTable

_NUMBERS = ("cost", "value", "measured_cost", "std", "started", "finished")
"""Columns of floats, NaN where there is no value."""


def to_dataframe(
    space: SearchSpace, trials: Sequence[Trial], constraints: Sequence[OutcomeConstraint] = ()
) -> pd.DataFrame:
    """One row per trial, with the columns of `fidelium export`: number, state, fidelity, cost, value, parameters, ...

    An outcome is NaN where a trial has none, and `feasible` is None where it is not known.

    A parameter called like one of the other columns gets the prefix `params_`.
    """
    table = TrialTable.of(space, trials, constraints)
    frame = pd.DataFrame([table.row(trial) for trial in trials], columns=list(table.columns))
    return frame.astype(dict.fromkeys((*_NUMBERS, *table.outcomes.values()), float))
