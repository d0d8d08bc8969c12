"""Regrets as ratios to a baseline's, problem by problem: does a cheap fidelity help, and does it ever harm?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from fidelium.experiments.figures import look_of
from fidelium.experiments.metrics import (
    MEASURES,
    Summary,
    Table,
    by_problem,
    by_strategy,
    over_seeds,
    paired_ends,
    paired_test,
    short,
)
from fidelium.experiments.records import Run
from fidelium.plots.style import FAINT, INK, Panel, add_key, new_figure

FLOOR = 1e-6
"""Regrets below this count as this: better is of no use to anyone."""

_ROW, _TOP, _BOTTOM = 34, 110, 60
"""Pixels of a row, and of what is above and below all of them."""


@dataclass(frozen=True)
class Ratio:
    """A strategy beside the baseline when the budget was spent.

    Args:
        problem: its name.
        strategy: its name.
        regret: simple regret over the seeds.
        baseline: the baseline's median simple regret.
    """

    problem: str
    strategy: str
    regret: Summary
    baseline: float

    def of(self, regret: float) -> float:
        """A regret in units of the baseline's."""
        return max(regret, FLOOR) / max(self.baseline, FLOOR)

    @property
    def median(self) -> float:
        """The ratio of the medians."""
        return self.of(self.regret.median)


def ratios(runs: Sequence[Run], baseline: str) -> list[Ratio]:
    """Every strategy beside the baseline on every problem that both have run on."""
    found: list[Ratio] = []
    for problem, same in by_problem(runs).items():
        ends = {name: over_seeds(group, MEASURES["simple regret"], group[0].cell.budget)
                for name, group in by_strategy(same).items()}  # fmt: skip
        if baseline in ends:
            others = [(name, end) for name, end in ends.items() if name != baseline]
            found += [Ratio(problem, name, end, ends[baseline].median) for name, end in others]
    return found


def ratio_table(runs: Sequence[Run], baseline: str, most: dict[str, float]) -> Table:
    """Median simple regrets when the budget was spent, their ratio, and what it should be at most."""
    rows = tuple(
        (each.problem, each.strategy, short(each.regret.median), short(each.baseline), _judged(each, most))
        + ((f"{most[each.problem]:g}",) if each.problem in most else ("–",))
        for each in ratios(runs, baseline)
    )
    title = f"simple regret when the budget was spent, median over the seeds, beside {baseline}"
    return Table(title, ("problem", "strategy", "regret", f"{baseline}'s", "ratio", "at most"), rows)


def ratio_figure(runs: Sequence[Run], baseline: str, most: dict[str, float], title: str) -> go.Figure:
    """A row per problem: the ratio of the medians, with a line between the quartiles; a tick where it should end."""
    found = ratios(runs, baseline)
    problems = list(dict.fromkeys(each.problem for each in found))
    figure, panel, places = rows_figure(title, problems, f"simple regret at the end, as a ratio to {baseline}'s")
    for name, bound in most.items():
        if name in places:
            limit = {"color": INK, "width": 2}
            ends = [places[name] - 0.32, places[name] + 0.32]
            figure.add_scatter(x=[bound] * 2, y=ends, mode="lines", line=limit, showlegend=False, **panel.axes)
    for each in found:
        look, place = look_of(each.strategy), places[each.problem]
        quartiles = [each.of(each.regret.lower), each.of(each.regret.upper)]
        figure.add_scatter(
            x=quartiles, y=[place] * 2, mode="lines", line={"color": look.colour, "width": 3}, showlegend=False,
            **panel.axes,
        )  # fmt: skip
        marker = {"color": look.colour, "size": 11, "symbol": "circle"}
        figure.add_scatter(x=[each.median], y=[place], mode="markers", marker=marker, showlegend=False, **panel.axes)
    for name in dict.fromkeys(each.strategy for each in found):
        add_key(figure, name, mode="markers", marker={"color": look_of(name).colour, "size": 11, "symbol": "circle"})
    add_key(figure, "at most", mode="lines", line={"color": INK, "width": 2})
    return figure


def rows_figure(title: str, names: Sequence[str], axis: str) -> tuple[go.Figure, Panel, dict[str, int]]:
    """A figure to be filled: a row per name, the first on top, a logarithmic axis of ratios and a line at 1.

    Returns:
        The figure, its axes, and the height of every row.
    """
    places = {name: len(names) - 1 - i for i, name in enumerate(names)}
    figure = new_figure(title, 800, _TOP + _BOTTOM + _ROW * len(names))
    figure.update_layout(margin={"l": 40 + 9 * max(map(len, names), default=0), "r": 25, "t": _TOP, "b": _BOTTOM})
    panel = Panel(1, (0.0, 1.0), (0.0, 1.0))
    ends = [-0.7, len(names) - 0.3]
    panel.place(
        figure,
        x={"type": "log", "dtick": 1, "exponentformat": "power", "title": {"text": axis}},
        y={"tickvals": list(places.values()), "ticktext": list(places), "range": ends},
    )
    equal = {"color": FAINT, "width": 1, "dash": "dot"}
    figure.add_scatter(x=[1, 1], y=ends, mode="lines", line=equal, showlegend=False, **panel.axes)
    return figure, panel, places


def _judged(ratio: Ratio, most: dict[str, float]) -> str:
    text = short(ratio.median)
    return f"**{text}**" if ratio.median <= most.get(ratio.problem, 0.0) else text


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
