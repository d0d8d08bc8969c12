"""Numbers of an experiment: summaries over seeds, ranks, a paired test between strategies, and tables of texts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any

import numpy as np

from fidelium.experiments.records import Run

SMALLEST = 1e-9
"""Regrets at or below this count as equal: it is what logarithmic axes and ranks call zero."""

Measure = Callable[[Run, float], float]
"""A number of a run when a cost was spent."""

BEST_VALUE = "best value"

MEASURES: Mapping[str, Measure] = {
    "simple regret": Run.simple_regret,
    "inference regret": lambda run, cost: abs(run.inference_regret(cost)),
    "recommended design": Run.recommendation_regret,
    BEST_VALUE: Run.best_value,
}
"""What tables and figures show; all but the best value are >= 0, and 0 at the optimum."""

REGRETS = tuple(name for name in MEASURES if name != BEST_VALUE)


@dataclass(frozen=True)
class Summary:
    """A number over the seeds.

    Args:
        mean: the mean.
        standard_error: of the mean, s / sqrt(n); 0 with one seed.
        median: the median.
        lower: the lower quartile.
        upper: the upper quartile.
    """

    mean: float
    standard_error: float
    median: float
    lower: float
    upper: float


def summarise(values: Iterable[float]) -> Summary:
    """The summary of some numbers, at least one; an infinite one makes what it enters infinite."""
    sample = sorted(values)
    mean = math.fsum(sample) / len(sample)
    spread = stdev(sample) if len(sample) > 1 and math.isfinite(mean) else 0.0
    lower, median, upper = (_quantile(sample, share) for share in (0.25, 0.5, 0.75))
    return Summary(mean, spread / math.sqrt(len(sample)), median, lower, upper)


def by_strategy(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each strategy, in the order they first appear."""
    return _grouped(runs, lambda run: run.cell.strategy)


def by_problem(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each problem, in the order they first appear."""
    return _grouped(runs, lambda run: run.cell.problem)


def over_seeds(runs: Sequence[Run], measure: Measure, cost: float) -> Summary:
    """A measure of one strategy on one problem when `cost` was spent."""
    return summarise(measure(run, cost) for run in runs)


def mean_ranks(runs: Iterable[Run], measure: Measure) -> dict[str, float]:
    """strategy -> its rank at the end, 1 the best, averaged over all problems and seeds that every strategy ran.

    Equal regrets share their ranks.
    """
    table = paired_ends(runs, measure)
    ranks = [_ranks(row) for row in zip(*table.values(), strict=True)]
    return {name: float(np.mean([each[i] for each in ranks])) if ranks else math.nan for i, name in enumerate(table)}


def paired_test(runs: Iterable[Run], strategy: str, other: str, measure: Measure) -> float:
    """How likely differences like those between two strategies would be if they were equally good.

    Wilcoxon's signed-rank test, two-sided, of log10 of the measure at the end, paired by problem and seed; equal pairs
    are left out. With five pairs it is never below 0.06.

    Returns:
        The p-value; 1 if no pair differs.
    """
    from scipy.stats import wilcoxon  # slow to import

    table = paired_ends([run for run in runs if run.cell.strategy in (strategy, other)], measure)
    differences = np.log10(table[strategy]) - np.log10(table[other])
    differences = differences[(differences != 0) & np.isfinite(differences)]
    if not len(differences):
        return 1.0
    found: Any = wilcoxon(differences)
    return float(found.pvalue)


def paired_ends(runs: Iterable[Run], measure: Measure) -> dict[str, list[float]]:
    """strategy -> its measure at the end, one per (problem, seed) that every strategy ran, in the same order."""
    groups = {
        name: {(run.cell.problem, run.cell.seed): max(measure(run, run.cell.budget), SMALLEST) for run in same}
        for name, same in by_strategy(runs).items()
    }
    shared = sorted(set.intersection(*(set(found) for found in groups.values()))) if groups else []
    return {name: [found[pair] for pair in shared] for name, found in groups.items()}


def _ranks(row: Sequence[float]) -> list[float]:
    """1 for the smallest; equal numbers get the mean of the ranks they take up together."""
    return [sum(other < each for other in row) + (1 + sum(other == each for other in row)) / 2 for each in row]


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation, also where some of the numbers are infinite."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below if below == above else below + (place % 1) * (above - below)


def _grouped(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Args:
        title: what it shows.
        header: names of the columns.
        rows: one per strategy.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as Markdown, under its title."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def short(number: float) -> str:
    """A regret in a table; what is rounding of the optimum's value is 0."""
    return f"{0.0 if abs(number) <= SMALLEST else number:.2g}"
