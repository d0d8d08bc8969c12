"""What is each part of a method good for? The method beside itself with one part removed, on the same starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from fidelium.experiments.metrics import MEASURES, by_problem, by_strategy, over_seeds, paired_ends, paired_test
from fidelium.experiments.ratios import FLOOR, ratios, rows_figure
from fidelium.experiments.records import Run
from fidelium.experiments.tables import Table, short
from fidelium.plots.style import INK, add_key

_MEASURE = MEASURES["simple regret"]
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D31")


def mean_factor(runs: Sequence[Run], strategy: str, baseline: str) -> float:
    """How many times the baseline's regret a strategy ends with: the geometric mean over problems and seeds of both."""
    ends = paired_ends([run for run in runs if run.cell.strategy in (strategy, baseline)], _MEASURE)
    logs = np.log(np.maximum(ends[strategy], FLOOR)) - np.log(np.maximum(ends[baseline], FLOOR))
    return float(np.exp(np.mean(logs))) if len(logs) else float("nan")


def part_table(runs: Sequence[Run], baseline: str) -> Table:
    """Median simple regrets when the budget was spent, and how many times the baseline's they are over all."""
    problems = by_problem(runs)
    rows = [
        (name, *(_end(same, problem) for problem in problems), *_beside(runs, name, baseline))
        for name, same in by_strategy(runs).items()
    ]
    title = f"simple regret when the budget was spent, medians; as a multiple of {baseline}'s, geometric mean over all"
    return Table(title, ("strategy", *problems, "multiple", "p"), tuple(rows))


def part_figure(runs: Sequence[Run], baseline: str, title: str) -> go.Figure:
    """A row per method: how many times the baseline's regret, over all and by problem."""
    names = [name for name in by_strategy(runs) if name != baseline]
    figure, panel, places = rows_figure(title, names, f"simple regret at the end, as a multiple of {baseline}'s")
    found = ratios(runs, baseline)
    for i, problem in enumerate(by_problem(runs)):
        marker = {"color": _COLOURS[i % len(_COLOURS)], "size": 8, "symbol": "circle"}
        own = [each for each in found if each.problem == problem]
        x, y = [each.median for each in own], [places[each.strategy] for each in own]
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, showlegend=False, **panel.axes)
        add_key(figure, problem, mode="markers", marker=marker)
    marker = {"color": INK, "size": 12, "symbol": "diamond"}
    x = [mean_factor(runs, name, baseline) for name in names]
    figure.add_scatter(x=x, y=list(places.values()), mode="markers", marker=marker, showlegend=False, **panel.axes)
    add_key(figure, "mean of all", mode="markers", marker=marker)
    return figure


def _end(runs: Sequence[Run], problem: str) -> str:
    own = [run for run in runs if run.cell.problem == problem]
    return short(over_seeds(own, _MEASURE, own[0].cell.budget).median) if own else "–"


def _beside(runs: Sequence[Run], name: str, baseline: str) -> tuple[str, str]:
    if name == baseline:
        return "1", "–"
    return short(mean_factor(runs, name, baseline)), f"{paired_test(runs, name, baseline, _MEASURE):.2g}"
