"""What the rest of a budget pays for: how many runs of each fidelity, and about how much time they take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fidelium.history import Trial
from fidelium.snapshot import Snapshot
from fidelium.text import duration, visible


@dataclass(frozen=True)
class RunsLeft:
    """What is left for one fidelity.

    Args:
        name: the fidelity's.
        cost_each: what a run is expected to cost.
        alone: how many runs the rest of the budget pays for if no other fidelity is run.
        runs: how many of them if each fidelity gets the share of the costs that it had so far; None before any run.
        seconds_each: what a run takes, as far as workers have run any.
    """

    name: str
    cost_each: float
    alone: int
    runs: int | None
    seconds_each: float | None


@dataclass(frozen=True)
class Forecast:
    """What the rest of a budget pays for.

    Args:
        left: the rest, neither spent nor reserved for queued trials.
        fidelities: what is left for each, low to high.
    """

    left: float
    fidelities: tuple[RunsLeft, ...]

    @staticmethod
    def of(now: Snapshot) -> Forecast | None:
        """The forecast for a study at one moment; None without a budget."""
        if math.isinf(now.budget):
            return None
        left = max(now.remaining, 0.0)
        spent = sum(used.cost for used in now.usage)
        found: list[RunsLeft] = []
        for used in now.usage:
            here = [trial for trial in now.finished if trial.fidelity.name == used.fidelity.name]
            runs = round(left * used.cost / spent / used.cost_each) if spent else None
            each = used.cost_each
            found.append(RunsLeft(used.fidelity.name, each, _fitting(left, each), runs, _mean_seconds(here)))
        return Forecast(left, tuple(found))

    @property
    def has_runs(self) -> bool:
        """Whether another run fits."""
        return any(each.alone for each in self.fidelities)

    @property
    def seconds(self) -> float | None:
        """How long the expected runs take, one after the other; None if that is not known."""
        parts = [(each.runs, each.seconds_each) for each in self.fidelities if each.runs]
        if not parts or any(seconds is None for _, seconds in parts):
            return None
        return math.fsum((runs or 0) * (seconds or 0.0) for runs, seconds in parts)

    @property
    def text(self) -> str:
        """In words: "40, enough for 40 coarse or 4 fine; with the shares so far 20 coarse and 2 fine, about 3 h"."""
        alone = _listed(((each.name, each.alone) for each in self.fidelities), "or")
        if not alone:
            return f"{self.left:g}, not enough for a run"
        together = _listed(((each.name, each.runs) for each in self.fidelities), "and")
        mixed = f"; with the shares so far {together}" if together and len(self.fidelities) > 1 else ""
        time = "" if self.seconds is None else f", about {duration(self.seconds)} of run time"
        return f"{self.left:g}, enough for {alone}{mixed}{time}"

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        each = [
            {"name": one.name, "cost_each": one.cost_each, "runs_alone": one.alone, "runs": one.runs}
            for one in self.fidelities
        ]
        return {"left": self.left, "fidelities": each, "seconds": self.seconds}


def _fitting(left: float, cost: float) -> int:
    """How many runs of a cost fit; 3 of 0.1 into 0.3."""
    return math.floor(left / cost * (1 + 1e-12))


def _listed(counts: Iterable[tuple[str, int | None]], last: str) -> str:
    parts = [f"{count} {visible(name)}" for name, count in counts if count]
    return f" {last} ".join(([", ".join(parts[:-1])] if len(parts) > 1 else []) + parts[-1:])


def _mean_seconds(trials: Iterable[Trial]) -> float | None:
    """Seconds of a run by a worker; a person's time between asking and telling says nothing."""
    times = [
        trial.finished - trial.started
        for trial in trials
        if trial.heartbeat is not None and trial.started is not None and trial.finished is not None
    ]
    return max(fmean(times), 0.0) if times else None
