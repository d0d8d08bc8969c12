"""The table of experiments on listed designs: the cost at which the very best one was run at the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from fidelium.experiments.metrics import by_problem, by_strategy
from fidelium.experiments.records import Run
from fidelium.experiments.tables import Table


def found_tables(runs: Sequence[Run], baseline: str | None) -> list[Table]:
    """For every problem, the cost until the best design was run at the target: by seed, the median, and its ratio."""
    return [_found_table(problem, same, baseline) for problem, same in by_problem(runs).items()]


def _found_table(problem: str, runs: Sequence[Run], baseline: str | None) -> Table:
    groups = by_strategy(runs)
    seeds = sorted({run.cell.seed for run in runs})
    found = {name: {run.cell.seed: run.cost_to_reach(0.0) for run in own} for name, own in groups.items()}
    medians = {name: median(costs.values()) for name, costs in found.items()}
    rows: list[tuple[str, ...]] = []
    for name, costs in found.items():
        shown = [_cost(costs[seed]) if seed in costs else "–" for seed in seeds]
        compared = medians.get(baseline or "", math.nan)
        ratio = "–" if name == baseline or not math.isfinite(compared) else f"{medians[name] / compared:.2g}"
        rows.append((name, *shown, _cost(medians[name]), ratio))
    title = f"{problem}: cost until the best design was run at the target, by seed"
    return Table(title, ("strategy", *map(str, seeds), "median", f"ratio to {baseline}"), tuple(rows))


def _cost(cost: float) -> str:
    return f"{cost:.3g}" if math.isfinite(cost) else "not found"
