"""What is asserted of a study that was under fire, from three witnesses: its storage, the ledger, and the kills."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from pathlib import Path

from fidelium.history import Trial, TrialState
from tests.chaos.plan import Plan
from tests.chaos.simulator import FAILURE, value_of

FAULTS = ("lost", "doubled", "overspent", "stuck", "left", "traceback", "other")
"""What may be found, in the order of the table."""


_DELIVERY = 0.3
"""Seconds after which Dask has forgotten a result that was stored, and so does not run it again."""


@dataclass(frozen=True)
class Finding:
    """Something that must not be.

    Args:
        fault: one of `FAULTS`.
        text: what and where.
    """

    fault: str
    text: str


@dataclass(frozen=True)
class Kill:
    """A process that was killed.

    Args:
        time: when, in seconds since 1970.
        role: of the process.
        crew: the member of the crew that it was or descended from.
        number: the trial that it ran, None if it ran none.
        attempt: the attempt of that trial.
    """

    time: float
    role: str
    crew: str
    number: int | None = None
    attempt: int | None = None


@dataclass
class Run:
    """One run of the simulator, as the ledger tells it: `ended` is "finish", "fail", or "" if it never came to that."""

    number: int
    attempt: int
    crew: str
    started: float
    ended: str = ""
    value: float | None = None


@dataclass(frozen=True)
class Verdict:
    """How a study came through.

    Args:
        plan: the study.
        kills: what was killed.
        restarts: of the server, by this study.
        states: number of trials by state.
        reruns: runs of the simulator that were repeated because of a kill.
        findings: what must not be; empty if all is well.
    """

    plan: Plan
    kills: Sequence[Kill] = ()
    restarts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    reruns: int = 0
    findings: Sequence[Finding] = ()


def read_ledger(path: Path) -> list[Run]:
    """All runs of the simulator, in the order of their starts."""
    runs: list[Run] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        event, time, number, attempt, crew, *value = line.split("\t")
        if event == "start":
            runs.append(Run(int(number), int(attempt), crew, float(time)))
            continue
        key = (int(number), int(attempt), crew)
        run = next(run for run in reversed(runs) if (run.number, run.attempt, run.crew) == key)
        run.ended, run.value = event, float(value[0]) if value else None
    return runs


def expected(trial: Trial) -> float | None:
    """The value that the simulator gives for the trial's design, None if it fails."""
    return value_of(trial.params["x"], trial.params["tiles"], trial.params["kind"], trial.fidelity.name)


def look(plan: Plan, before: Sequence[Trial], now: Sequence[Trial]) -> Iterable[Finding]:
    """What must hold at any moment: nothing that was stored vanishes or changes, and the budget is kept."""
    numbers = [trial.number for trial in now]
    if numbers != list(range(len(now))):
        yield Finding("lost", f"numbers {numbers} are not 0, 1, 2, ...")
    for old in before:
        new = now[old.number] if old.number < len(now) else None
        if new is None or (new.params, new.fidelity) != (old.params, old.fidelity):
            yield Finding("lost", f"trial {old.number} was {old}, and then {new}")
        elif old.state in (TrialState.DONE, TrialState.FAILED) and (new.state, new.value) != (old.state, old.value):
            yield Finding("lost", f"the result of trial {old.number} was {old}, and then {new}")
    if (spent := fsum(trial.cost for trial in now)) > plan.budget:
        yield Finding("overspent", f"{spent:g} of {plan.budget:g} spent")


def judge(plan: Plan, trials: Sequence[Trial], runs: Sequence[Run], kills: Sequence[Kill]) -> list[Finding]:
    """What must hold after the end."""
    findings: list[Finding] = []
    by_number: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        by_number[run.number].append(run)
    for trial in trials:
        findings += _judge_trial(trial, by_number[trial.number], kills)
        findings += _judge_runs(plan, trial, by_number[trial.number], kills)
    for number in by_number.keys() - {trial.number for trial in trials}:
        findings.append(Finding("lost", f"trial {number} was run, but is not stored"))
    twice = Counter((trial.fidelity.name, repr(trial.params)) for trial in trials)
    findings += [Finding("doubled", f"{query} was asked {times} times") for query, times in twice.items() if times > 1]
    if plan.budget - fsum(trial.cost for trial in trials) >= plan.cheapest:
        findings.append(Finding("stuck", f"ended with {fsum(t.cost for t in trials):g} of {plan.budget:g} spent"))
    return findings


def _judge_trial(trial: Trial, runs: Sequence[Run], kills: Sequence[Kill]) -> Iterable[Finding]:
    """What is stored is what the simulator computed, and a failure has a cause."""
    value = expected(trial)
    if trial.state is TrialState.DONE:
        if trial.value != value:
            yield Finding("lost", f"trial {trial.number} has the value {trial.value}, not {value}: {trial}")
        if not any(run.attempt == trial.attempt and run.ended == "finish" for run in runs):
            yield Finding("lost", f"trial {trial.number} has a value, but no run finished: {trial}, {runs}")
    elif trial.state is TrialState.FAILED:
        hit = any(kill.number == trial.number and kill.attempt == trial.attempt for kill in kills)
        declared = value is None and f"exit code {FAILURE}" in (trial.reason or "")
        if not hit and not declared:
            yield Finding("lost", f"trial {trial.number} failed without a cause: {trial.reason!r}; {runs}")
    elif trial.state is TrialState.LOST:
        yield Finding("lost", f"trial {trial.number} is lost after {trial.attempt} attempts: {trial.reason!r}")
    else:
        yield Finding("stuck", f"trial {trial.number} is {trial.state} after the end: {trial}")


def _judge_runs(plan: Plan, trial: Trial, runs: Sequence[Run], kills: Sequence[Kill]) -> Iterable[Finding]:
    """Nothing is run again without a cause, and nothing is run after its value was stored."""
    for before, after in pairwise(runs):
        if not _is_explained(plan, before, after, kills):
            yield Finding("doubled", f"trial {trial.number} was run again without a cause: {before}, {after}, {trial}")
    for run in runs:
        if trial.finished is not None and run.started > trial.finished and not _is_repeated_by_dask(plan, trial, kills):
            yield Finding("doubled", f"trial {trial.number} was run after its end at {trial.finished}: {run}, {trial}")


def _is_repeated_by_dask(plan: Plan, trial: Trial, kills: Sequence[Kill]) -> bool:
    """Whether Dask may have run the trial again: a worker of it died while its result was on the way to the runner."""
    finished = trial.finished or 0.0
    hits = (kill.time for kill in kills if kill.role == "dask-worker")
    return plan.way == "dask" and any(finished - 1.0 <= time <= finished + _DELIVERY for time in hits)


def _is_explained(plan: Plan, before: Run, after: Run, kills: Sequence[Kill]) -> bool:
    """Whether a kill between two runs of a trial, or its own failure, is why it was run again."""
    if before.ended == "fail" and before.attempt <= plan.retries:
        return True
    for kill in kills:
        if not before.started - 1.0 <= kill.time <= after.started:  # a process is killed, then that is noted
            continue
        if kill.role in ("guard", "simulator"):
            if (kill.number, kill.attempt) == (before.number, before.attempt):
                return True
        elif kill.crew == before.crew or (plan.way == "dask" and kill.role == "runner"):
            return True
    return False
