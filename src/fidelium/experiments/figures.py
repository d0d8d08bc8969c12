"""The figures of an experiment: regret against cost, ratios to a baseline, seconds per suggestion.

Each method has one colour in all of them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fidelium import problems
from fidelium.experiments.methods import peer_names
from fidelium.experiments.metrics import (
    BEST_VALUE,
    FLOOR,
    MEASURES,
    Measure,
    SeedStatistics,
    by_problem,
    by_strategy,
    mean_factor,
    over_seeds,
    ratios,
    summarise,
)
from fidelium.experiments.records import Run
from fidelium.plots import write
from fidelium.plots.style import FAINT, INK, Panel, add_heading, add_key, new_figure, translucent
from fidelium.strategies import registry

# Okabe and Ito's colours for ours, Paul Tol's muted ones for peers: both made for colour-blind readers
_COLOURS = {
    "dnn-mfbo": "#D55E00",
    "dnn-mfbo-paper": "#E69F00",
    "mf-mes": "#0072B2",
    "mf-pes": "#009E73",
    "mf-gp-ucb": "#56B4E9",
    "mf-sko": "#CC79A7",
    "mtnn-bo": "#8C6D31",
    "sf-mes": "#5E5E5E",
    "sf-ei": "#1B1B1B",
    "nargp-mes": "#6A3D9A",
    "random": "#A9A9A9",
    "botorch-mfmes": "#332288",
    "botorch-stmf-mes": "#88CCEE",
    "botorch-mfkg": "#117733",
    "botorch-logei": "#999933",
    "optuna-tpe": "#AA4499",
    "smac": "#882255",
}

_SPARE = ("#44AA99", "#DDCC77", "#CC6677", "#4477AA", "#66CCEE")
_PROBLEM_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D31")

_POINTS = 61
"""Number of costs at which a curve is drawn."""

_WIDTH, _HEIGHT, _KEY_WIDTH, _KEY_HEIGHT = 380, 300, 215, 24
"""Pixels of a panel with its labels, and of a legend entry."""

_GAP, _LABELLED_GAP = 0.16, 0.27
"""Space between panels as a share of their width; the second where panels have their own labels."""

_ROW, _TOP, _BOTTOM = 34, 110, 60
"""Pixels of a row, and of the margins above and below the rows."""

_WIDE = 2.0
"""Decades beyond which a logarithmic axis of seconds has one tick per decade instead of two."""


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn.

    Args:
        colour: of its lines and bars.
        dash: of its lines.
        width: of its lines.
    """

    colour: str
    dash: str | None
    width: float

    @property
    def line(self) -> dict[str, Any]:
        """Plotly's settings of its line."""
        return {"color": self.colour, "width": self.width, "dash": self.dash}


def method_style(strategy: str) -> MethodStyle:
    """The style of a method; methods without a fixed colour get a spare one chosen by their name."""
    colour = _COLOURS.get(strategy) or _SPARE[zlib.crc32(strategy.encode()) % len(_SPARE)]
    dash = "dash" if strategy in peer_names() else None
    return MethodStyle(colour, dash, width=3.5 if strategy == registry.DEFAULT else 1.8)


def regret_figure(
    runs: Sequence[Run], title: str, measures: Sequence[str], average: str = "median", best_values: bool = False
) -> go.Figure:
    """A row of panels per measure, a column per problem, a curve with its band per strategy.

    Args:
        runs: complete cells.
        title: above it.
        measures: names of `MEASURES`, top to bottom.
        average: "median", with a band between the quartiles, or "mean", with a band of one standard error each way.
        best_values: whether simulated problems, whose optimum is only the best value known, get a panel each with the
            best values observed, at the right, instead of a column of regrets.
    """
    groups, methods = by_problem(runs), list(by_strategy(runs))
    places = _places(list(groups), measures, best_values)
    rows, columns = len(measures), 1 + max(place.column for place in places)
    figure = _figure(title, columns, rows, methods)
    gap = _LABELLED_GAP if any(place.column > 0 and place.measure == BEST_VALUE for place in places) else _GAP
    for place in places:
        panel = _panel(place.row, place.column, rows, columns, gap)
        below = all(other.row <= place.row for other in places if other.column == place.column)
        panel.place(figure, x={"title": {"text": "cost" if below else ""}, "nticks": 6}, y=_values_axis(place))
        _add_curves(figure, panel, groups[place.problem], place.measure, average)
        if place.row == 0 and place.measure != BEST_VALUE:
            add_heading(figure, place.problem, panel.x[0])
    _add_keys(figure, methods)
    return figure


@dataclass(frozen=True)
class _GridPanel:
    """One panel of the grid: its problem, its measure and its position."""

    problem: str
    measure: str
    row: int
    column: int


def _places(names: Sequence[str], measures: Sequence[str], best_values: bool) -> list[_GridPanel]:
    """Columns of regrets, then the panels of best values, filled column by column."""
    simulated = [name for name in names if best_values and problems.get(name).simulated]
    others = [name for name in names if name not in simulated]
    regrets = [_GridPanel(name, each, row, i) for i, name in enumerate(others) for row, each in enumerate(measures)]
    values = [
        _GridPanel(name, BEST_VALUE, i % len(measures), len(others) + i // len(measures))
        for i, name in enumerate(simulated)
    ]
    return regrets + values


def _values_axis(place: _GridPanel) -> dict[str, Any]:
    if place.measure == BEST_VALUE:
        return {"title": {"text": f"{place.problem}: best value", "standoff": 6}, "nticks": 6}
    label = place.measure if place.column == 0 else ""
    return {"type": "log", "dtick": 1, "exponentformat": "power", "title": {"text": label, "standoff": 6}}


def _add_curves(figure: go.Figure, panel: Panel, runs: Sequence[Run], measure: str, average: str) -> None:
    """Staircases, since a best value is kept. All bands first, then the lines above them."""
    courses = {name: _course(same, MEASURES[measure], measure, average) for name, same in by_strategy(runs).items()}
    for name, (costs, _, lower, upper) in courses.items():
        for edge, fill in ((upper, None), (lower, "tonexty")):
            figure.add_scatter(
                x=costs,
                y=edge,
                mode="lines",
                line={"width": 0, "color": "rgba(0,0,0,0)", "shape": "hv"},
                fill=fill,
                fillcolor=translucent(method_style(name).colour, 0.12),
                showlegend=False,
                hoverinfo="skip",
                **panel.axes,
            )
    for name, (costs, centre, _, _) in courses.items():
        line = method_style(name).line | {"shape": "hv"}
        figure.add_scatter(x=costs, y=centre, mode="lines", name=name, line=line, showlegend=False, **panel.axes)


def _course(
    runs: Sequence[Run], measure: Measure, name: str, average: str
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Costs, and the average and both edges of the band there."""
    cell = runs[0].cell
    even = [float(cost) for cost in np.linspace(0, cell.budget, _POINTS)]
    costs = even if name in ("simple regret", BEST_VALUE) else [0.0, *cell.recommendation_costs]
    found = [_edges(over_seeds(runs, measure, cost), average) for cost in costs]
    floor = -math.inf if name == BEST_VALUE else FLOOR
    centre, lower, upper = ([max(each[i], floor) for each in found] for i in range(3))
    return costs, centre, lower, upper


def _edges(summary: SeedStatistics, average: str) -> tuple[float, float, float]:
    if average == "median":
        return summary.median, summary.lower, summary.upper
    return summary.mean, summary.mean - summary.standard_error, summary.mean + summary.standard_error


def _add_keys(figure: go.Figure, methods: Sequence[str]) -> None:
    for name in methods:
        add_key(figure, name, mode="lines", line=method_style(name).line)


def time_figure(runs: Sequence[Run], title: str) -> go.Figure:
    """A panel per problem: mean processor seconds of a suggestion, with one standard error each way."""
    groups, methods = by_problem(runs), list(by_strategy(runs))
    figure = _figure(title, len(groups), 1, [])
    times = {
        problem: {name: summarise(run.query_seconds for run in group) for name, group in by_strategy(same).items()}
        for problem, same in groups.items()
    }
    means = [each.mean for found in times.values() for each in found.values()]
    ends = [math.log10(min(means)) - 0.2, math.log10(max(means)) + 0.2]  # the same in all panels
    ticks = _ticks(*ends)
    places = {name: len(methods) - 1 - i for i, name in enumerate(methods)}
    for column, (problem, found) in enumerate(times.items()):
        panel = _panel(0, column, 1, len(groups))
        panel.place(
            figure,
            x={"type": "log", "tickvals": ticks, "ticktext": [f"{each:g}" for each in ticks], "range": ends,
               "title": {"text": "seconds per suggestion"}},
            y={"tickvals": list(places.values()), "ticktext": list(places), "range": [-0.7, len(methods) - 0.3],
               "showticklabels": column == 0},
        )  # fmt: skip
        for name, each in found.items():
            _add_time(figure, panel, method_style(name), places[name], each)
        add_heading(figure, problem, panel.x[0])
    figure.update_layout(showlegend=False, margin={"l": 150})
    return figure


def _ticks(first: float, last: float) -> list[float]:
    """Ticks of a logarithmic axis between two powers of ten: 1, 10, ..., and 3, 30, ... if it is short."""
    each = (1.0,) if last - first > _WIDE else (1.0, 3.0)
    ticks = [part * 10.0**power for power in range(math.floor(first), math.ceil(last)) for part in each]
    return [tick for tick in ticks if first <= math.log10(tick) <= last]


def _add_time(figure: go.Figure, panel: Panel, style: MethodStyle, place: float, seconds: SeedStatistics) -> None:
    """A point with its error; not a bar, since a logarithmic axis has no zero for it to start from."""
    mean, error = seconds.mean, seconds.standard_error
    line = {"color": style.colour, "width": 2.5}
    ends = [max(mean - error, 0.1 * mean), mean + error]
    figure.add_scatter(x=ends, y=[place] * 2, mode="lines", line=line, showlegend=False, **panel.axes)
    marker = {"color": style.colour, "symbol": "circle", "size": 11}
    figure.add_scatter(x=[mean], y=[place], mode="markers", marker=marker, showlegend=False, **panel.axes)


def ratio_figure(runs: Sequence[Run], baseline: str, most: dict[str, float], title: str) -> go.Figure:
    """A row per problem: the ratio of the medians, with a line between the quartiles; a tick at the bound."""
    found = ratios(runs, baseline)
    problems = list(dict.fromkeys(each.problem for each in found))
    figure, panel, places = _rows_figure(title, problems, f"simple regret at the end, as a ratio to {baseline}'s")
    for name, bound in most.items():
        if name in places:
            limit = {"color": INK, "width": 2}
            ends = [places[name] - 0.32, places[name] + 0.32]
            figure.add_scatter(x=[bound] * 2, y=ends, mode="lines", line=limit, showlegend=False, **panel.axes)
    for each in found:
        style, place = method_style(each.strategy), places[each.problem]
        quartiles = [each.of(each.regret.lower), each.of(each.regret.upper)]
        figure.add_scatter(
            x=quartiles, y=[place] * 2, mode="lines", line={"color": style.colour, "width": 3}, showlegend=False,
            **panel.axes,
        )  # fmt: skip
        marker = {"color": style.colour, "size": 11, "symbol": "circle"}
        figure.add_scatter(x=[each.median], y=[place], mode="markers", marker=marker, showlegend=False, **panel.axes)
    for name in dict.fromkeys(each.strategy for each in found):
        marker = {"color": method_style(name).colour, "size": 11, "symbol": "circle"}
        add_key(figure, name, mode="markers", marker=marker)
    add_key(figure, "at most", mode="lines", line={"color": INK, "width": 2})
    return figure


def ablation_figure(runs: Sequence[Run], baseline: str, title: str) -> go.Figure:
    """A row per method: its regret as a multiple of the baseline's, over all and by problem."""
    names = [name for name in by_strategy(runs) if name != baseline]
    figure, panel, places = _rows_figure(title, names, f"simple regret at the end, as a multiple of {baseline}'s")
    found = ratios(runs, baseline)
    for i, problem in enumerate(by_problem(runs)):
        marker = {"color": _PROBLEM_COLOURS[i % len(_PROBLEM_COLOURS)], "size": 8, "symbol": "circle"}
        own = [each for each in found if each.problem == problem]
        x, y = [each.median for each in own], [places[each.strategy] for each in own]
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, showlegend=False, **panel.axes)
        add_key(figure, problem, mode="markers", marker=marker)
    marker = {"color": INK, "size": 12, "symbol": "diamond"}
    x = [mean_factor(runs, name, baseline) for name in names]
    figure.add_scatter(x=x, y=list(places.values()), mode="markers", marker=marker, showlegend=False, **panel.axes)
    add_key(figure, "mean of all", mode="markers", marker=marker)
    return figure


def _rows_figure(title: str, names: Sequence[str], axis: str) -> tuple[go.Figure, Panel, dict[str, int]]:
    """An empty figure with a row per name, the first on top, a logarithmic axis of ratios and a line at 1.

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


def write_figure(figure: go.Figure, folder: Path, name: str) -> Path:
    """Write NAME.html and NAME.png; returns the path of the latter."""
    write(figure, folder / f"{name}.html", folder / f"{name}.png")
    return folder / f"{name}.png"


def _figure(title: str, columns: int, rows: int, methods: Sequence[str]) -> go.Figure:
    width = max(_WIDTH * columns, 700)
    top = 85 + _KEY_HEIGHT * math.ceil(len(methods) / (width // _KEY_WIDTH))
    figure = new_figure(title, width, top + 60 + _HEIGHT * rows)
    figure.update_layout(margin={"l": 80, "r": 25, "t": top, "b": 60}, legend={"y": 1 + 30 / (_HEIGHT * rows)})
    return figure


def _panel(row: int, column: int, rows: int, columns: int, gap: float = _GAP) -> Panel:
    """The panel at a position of the grid, numbered by rows from the top left."""
    wide, high = 1 / (columns + gap * (columns - 1)), 1 / (rows + 0.18 * (rows - 1))
    left, top = column * wide * (1 + gap), 1 - row * high * 1.18
    return Panel(1 + row * columns + column, (left, min(left + wide, 1.0)), (max(top - high, 0.0), top))
