"""Numbers of an experiment: statistics over seeds, ratios to a baseline, ranks, a paired test between strategies."""

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
"""Regrets at or below this count as equal, and as zero in ranks and tables."""

FLOOR = 1e-6
"""Regrets below this count as this in ratios and figures: smaller ones make no practical difference."""

Measure = Callable[[Run, float], float]
"""A number of a run at a given cost spent."""

BEST_VALUE = "best value"

MEASURES: Mapping[str, Measure] = {
    "simple regret": Run.simple_regret,
    "inference regret": lambda run, cost: abs(run.inference_regret(cost)),
    "recommended design": Run.recommendation_regret,
    BEST_VALUE: Run.best_value,
}
"""The measures in tables and figures; all but the best value are >= 0, and 0 at the optimum."""

REGRETS = tuple(name for name in MEASURES if name != BEST_VALUE)


@dataclass(frozen=True)
class SeedStatistics:
    """Statistics of a number over the seeds.

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


def summarise(values: Iterable[float]) -> SeedStatistics:
    """The statistics of at least one number; infinite numbers make the statistics they enter infinite."""
    sample = sorted(values)
    mean = math.fsum(sample) / len(sample)
    spread = stdev(sample) if len(sample) > 1 and math.isfinite(mean) else 0.0
    lower, median, upper = (_quantile(sample, share) for share in (0.25, 0.5, 0.75))
    return SeedStatistics(mean, spread / math.sqrt(len(sample)), median, lower, upper)


def over_seeds(runs: Sequence[Run], measure: Measure, cost: float) -> SeedStatistics:
    """A measure of one strategy on one problem when `cost` was spent."""
    return summarise(measure(run, cost) for run in runs)


def by_strategy(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each strategy, in the order they first appear."""
    return _grouped(runs, lambda run: run.cell.strategy)


def by_problem(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each problem, in the order they first appear."""
    return _grouped(runs, lambda run: run.cell.problem)


@dataclass(frozen=True)
class Ratio:
    """A strategy compared with the baseline when the budget was spent.

    Args:
        problem: its name.
        strategy: its name.
        regret: simple regret over the seeds.
        baseline: the baseline's median simple regret.
    """

    problem: str
    strategy: str
    regret: SeedStatistics
    baseline: float

    def of(self, regret: float) -> float:
        """A regret in units of the baseline's."""
        return max(regret, FLOOR) / max(self.baseline, FLOOR)

    @property
    def median(self) -> float:
        """The ratio of the medians."""
        return self.of(self.regret.median)


def ratios(runs: Sequence[Run], baseline: str) -> list[Ratio]:
    """Every strategy compared with the baseline on every problem that both have run on."""
    found: list[Ratio] = []
    for problem, same in by_problem(runs).items():
        ends = {name: over_seeds(group, MEASURES["simple regret"], group[0].cell.budget)
                for name, group in by_strategy(same).items()}  # fmt: skip
        if baseline in ends:
            others = [(name, end) for name, end in ends.items() if name != baseline]
            found += [Ratio(problem, name, end, ends[baseline].median) for name, end in others]
    return found


def mean_factor(runs: Sequence[Run], strategy: str, baseline: str) -> float:
    """A strategy's final regret as a multiple of the baseline's: geometric mean over the problems and seeds of both."""
    ends = paired_ends([run for run in runs if run.cell.strategy in (strategy, baseline)], MEASURES["simple regret"])
    logs = np.log(np.maximum(ends[strategy], FLOOR)) - np.log(np.maximum(ends[baseline], FLOOR))
    return float(np.exp(np.mean(logs))) if len(logs) else float("nan")


def mean_ranks(runs: Iterable[Run], measure: Measure) -> dict[str, float]:
    """strategy -> its rank at the end, 1 the best, averaged over all problems and seeds that every strategy ran.

    Equal regrets share their ranks.
    """
    table = paired_ends(runs, measure)
    ranks = [_ranks(row) for row in zip(*table.values(), strict=True)]
    return {name: float(np.mean([each[i] for each in ranks])) if ranks else math.nan for i, name in enumerate(table)}


def paired_test(runs: Iterable[Run], strategy: str, other: str, measure: Measure) -> float:
    """The p-value of the differences between two strategies.

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
    """1 for the smallest; equal numbers share the mean of their ranks."""
    return [sum(other < each for other in row) + (1 + sum(other == each for other in row)) / 2 for each in row]


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation, also where some of the numbers are infinite."""
    position = share * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    return below if below == above else below + (position % 1) * (above - below)


def _grouped(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)
