"""The tables of the experiment with costs that depend on the design: regrets when the same true cost was spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from fidelium.experiments.metrics import FLOOR, by_problem, by_strategy, over_seeds
from fidelium.experiments.records import Run
from fidelium.experiments.tables import Table, short_number


def cost_tables(runs: Sequence[Run], baseline: str | None, at_most: Mapping[str, float]) -> list[Table]:
    """Regrets at the checkpoints in units of the baseline's, and how they were spent.

    Args:
        runs: of all methods.
        baseline: the one that the others are compared with.
        at_most: upper bounds for the ratio at the end, by problem.
    """
    compared = [] if baseline is None else [_ratios(runs, baseline, at_most)]
    return [*compared, _spending(runs)]


def _ratios(runs: Sequence[Run], baseline: str, at_most: Mapping[str, float]) -> Table:
    rows: list[tuple[str, ...]] = []
    for problem, same in by_problem(runs).items():
        groups = by_strategy(same)
        for name, own in groups.items():
            if name == baseline or baseline not in groups:
                continue
            costs = own[0].cell.checkpoints
            both = [(_median(own, cost), _median(groups[baseline], cost)) for cost in costs]
            shown = [f"{cost:g}: {short_number(_ratio(*pair))}" for cost, pair in zip(costs[:-1], both, strict=False)]
            end, most = _ratio(*both[-1]), at_most.get(problem)
            judged = f"**{short_number(end)}**" if most is not None and end <= most else short_number(end)
            medians = tuple(map(short_number, both[-1]))
            paired = short_number(_paired(own, groups[baseline]))
            limit = "–" if most is None else f"{most:g}"
            rows.append((problem, name, f"{costs[-1]:g}", *medians, judged, limit, paired, ", ".join(shown) or "–"))
    title = f"regret when the same true cost was spent, median over the seeds, compared with {baseline}"
    header = (
        "problem",
        "strategy",
        "true cost",
        "regret",
        f"{baseline}'s",
        "ratio",
        "at most",
        "seed by seed",
        "before",
    )
    return Table(title, header, tuple(rows))


def _spending(runs: Sequence[Run]) -> Table:
    """How many runs the same cost paid for, and what a run at the target cost."""
    rows = tuple(
        (
            problem,
            name,
            f"{fmean(len(run.queries) for run in own):.3g}",
            f"{fmean(len(run.target_queries) for run in own):.3g}",
            f"{fmean(_mean_cost(run) for run in own):.3g}",
        )
        for problem, same in by_problem(runs).items()
        for name, own in by_strategy(same).items()
    )
    title = "runs of a study, those at the target, and what one of these really cost (means)"
    return Table(title, ("problem", "strategy", "runs", "at the target", "cost of one"), rows)


def _median(runs: Sequence[Run], cost: float) -> float:
    return over_seeds(runs, Run.simple_regret, cost).median


def _ratio(regret: float, other: float) -> float:
    return 1.0 if regret == other else max(regret, FLOOR) / max(other, FLOOR)


def _paired(own: Sequence[Run], others: Sequence[Run]) -> float:
    """The geometric mean over the seeds of the ratios of the regrets at the end."""
    ends = {run.cell.seed: run.simple_regret(run.cell.budget) for run in others}
    logs = [
        math.log(_ratio(run.simple_regret(run.cell.budget), ends[run.cell.seed]))
        for run in own
        if run.cell.seed in ends and math.isfinite(ends[run.cell.seed])
    ]
    return math.exp(fmean(logs)) if logs and all(map(math.isfinite, logs)) else math.nan


def _mean_cost(run: Run) -> float:
    return fmean(query["cost"] for query in run.target_queries) if run.target_queries else 0.0
