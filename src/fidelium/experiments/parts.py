"""What is each part of a method good for? The method beside itself with one part removed, on the same starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from fidelium.experiments.metrics import MEASURES, by_problem, by_strategy, over_seeds, paired_test
from fidelium.experiments.ratios import FLOOR, ratios
from fidelium.experiments.records import Run
from fidelium.experiments.tables import Table, short
from fidelium.plots.style import FAINT, INK, Panel, add_key, new_figure

_MEASURE = MEASURES["simple regret"]
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D31")
_ROW, _TOP, _BOTTOM = 30, 110, 60
"""Pixels of a method, and of what is above and below all of them."""


def mean_factor(runs: Sequence[Run], strategy: str, baseline: str) -> float:
    """How many times the baseline's regret a strategy ends with: the geometric mean over problems and seeds of both."""
    ends = {
        name: {(run.cell.problem, run.cell.seed): max(_MEASURE(run, run.cell.budget), FLOOR) for run in same}
        for name, same in by_strategy(runs).items()
        if name in (strategy, baseline)
    }
    shared = ends[strategy].keys() & ends[baseline].keys()
    logs = [np.log(ends[strategy][pair]) - np.log(ends[baseline][pair]) for pair in shared]
    return float(np.exp(np.mean(logs))) if logs else float("nan")


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
    places = {name: len(names) - 1 - i for i, name in enumerate(names)}
    figure = new_figure(title, 860, _TOP + _BOTTOM + _ROW * len(names))
    figure.update_layout(margin={"l": 210, "r": 25, "t": _TOP, "b": _BOTTOM})
    panel = Panel(1, (0.0, 1.0), (0.0, 1.0))
    panel.place(
        figure,
        x={"type": "log", "dtick": 1, "exponentformat": "power",
           "title": {"text": f"simple regret at the end, as a multiple of {baseline}'s"}},
        y={"tickvals": list(places.values()), "ticktext": list(places), "range": [-0.7, len(names) - 0.3]},
    )  # fmt: skip
    equal = {"color": FAINT, "width": 1, "dash": "dot"}
    figure.add_scatter(x=[1, 1], y=[-0.7, len(names) - 0.3], mode="lines", line=equal, showlegend=False, **panel.axes)
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
