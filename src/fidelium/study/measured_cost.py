"""What an attempt cost, where a study counts measured costs: what it reports, or else the seconds it took."""

from __future__ import annotations

from statistics import median

from fidelium.history import TrialState
from fidelium.snapshot import Snapshot

_BY_THE_CLOCK = (0.4, 1.1)
"""Costs per second of whole runs, as the storage sees them, that mean seconds: starting and storing take time, too."""


def attempt_cost(now: Snapshot, reported: float | None, seconds: float | None, *, failed: bool) -> float | None:
    """What an attempt cost; None if the study counts declared costs, or nothing is known.

    A run that fails often reports nothing. Where others report their costs in another unit, its seconds are converted.

    Args:
        now: the study.
        reported: what the run says.
        seconds: how long it took, None if that is not known.
        failed: whether it failed.
    """
    if not now.definition.measures_costs:
        return reported
    if reported is not None or seconds is None:
        return reported
    return seconds * (cost_per_second(now) if failed else 1.0)


def cost_per_second(now: Snapshot) -> float:
    """The unit of the costs in runs' seconds: 1 if runs are timed by the clock, or there are none to tell from."""
    rates = [
        trial.measured_cost / (trial.finished - trial.started)
        for trial in now.trials
        if trial.state is TrialState.DONE
        and trial.attempt == 1
        and trial.measured_cost
        and trial.started is not None
        and trial.finished is not None
        and trial.finished > trial.started
    ]
    rate = median(rates) if rates else 1.0
    return 1.0 if _BY_THE_CLOCK[0] <= rate <= _BY_THE_CLOCK[1] else rate
