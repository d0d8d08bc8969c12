"""The common style of all figures: colour-blind safe colours, light background, panels placed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from fidelium.costs.declared import formula_text
from fidelium.fidelity import FidelityLadder
from fidelium.history import Trial
from fidelium.problems import Problem
from fidelium.study import Study

# Okabe and Ito's palette: cool colours for the cheap fidelities, vermillion for the target
_CHEAP = ("#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#E69F00")
_TARGET = "#D55E00"
_SYMBOLS = ("circle", "square", "triangle-up", "cross", "triangle-down")

INK = "#222222"
FAINT = "#8A8A8A"
FAILED = "failed"
"""The name of the marks of failed runs."""

_GREY = "#B0B0B0"
_GRID = "#E6E6E6"
_FONT = 14


@dataclass(frozen=True)
class FidelityStyle:
    """How a fidelity is drawn in all figures.

    Args:
        label: its name and cost.
        colour: of its lines and markers.
        symbol: of its markers.
    """

    label: str
    colour: str
    symbol: str


def fidelity_styles(ladder: FidelityLadder) -> tuple[FidelityStyle, ...]:
    """The style of each fidelity, low to high."""
    cheap = [
        FidelityStyle(
            f"{rung.name} (cost {formula_text(rung.cost)})", _CHEAP[m % len(_CHEAP)], _SYMBOLS[m % len(_SYMBOLS)]
        )
        for m, rung in enumerate(ladder[:-1])
    ]
    target = ladder.target
    return (*cheap, FidelityStyle(f"{target.name} (cost {formula_text(target.cost)}, target)", _TARGET, "diamond"))


def translucent(colour: str, alpha: float) -> str:
    """A colour such as "#0072B2" with this opacity, as Plotly writes it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


@dataclass(frozen=True)
class Panel:
    """A pair of axes in a figure.

    Args:
        number: 1 for the first pair.
        x: from and to, as shares of the width.
        y: from and to, as shares of the height, from below.
    """

    number: int
    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def axes(self) -> dict[str, str]:
        """The settings that draw a trace in this panel."""
        return {"xaxis": self._name("x"), "yaxis": self._name("y")}

    def place(self, figure: go.Figure, *, x: dict[str, Any], y: dict[str, Any]) -> None:
        """Add the axes to the figure, with Plotly's settings for each."""
        for letter, other, domain, settings in (("x", "y", self.x, x), ("y", "x", self.y, y)):
            name = f"{letter}axis{self._suffix}"
            common = {"showgrid": True, "gridcolor": _GRID, "zeroline": False, "linecolor": FAINT, "ticks": "outside"}
            figure.update_layout({name: common | {"domain": domain, "anchor": self._name(other)} | settings})

    @property
    def _suffix(self) -> str:
        return "" if self.number == 1 else str(self.number)

    def _name(self, letter: str) -> str:
        return f"{letter}{self._suffix}"


def title_of(study: Study, problem: Problem | None = None) -> str:
    """A one-line title of a study."""
    what = study.name or (problem.name if problem is not None else "study")
    how = study.strategy if isinstance(study.strategy, str) else type(study.strategy).__name__
    asked = sum(not trial.given for trial in study.trials)
    return f"{what} with {how}: {asked} queries for a cost of {study.spent:g}"


def new_figure(title: str, width: int, height: int) -> go.Figure:
    """An empty figure with a title and a legend above the panels."""
    return go.Figure(
        layout={
            "title": {"text": title, "x": 0.01, "xanchor": "left", "y": 0.985, "yanchor": "top", "font": {"size": 18}},
            "width": width,
            "height": height,
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "font": {"family": "DejaVu Sans, Verdana, sans-serif", "size": _FONT, "color": INK},
            "margin": {"l": 80, "r": 25, "t": 120, "b": 60},
            "legend": {
                "orientation": "h",
                "x": 0.0,
                "y": 1 + 36 / (height - 180),
                "xanchor": "left",
                "yanchor": "bottom",
            },
        }
    )


def new_drawing(title: str, width: int, height: int) -> go.Figure:
    """An empty figure with a title and no legend."""
    figure = new_figure(title, width, height)
    return figure.update_layout(margin={"l": 75, "r": 60, "t": 85, "b": 55})


def design_text(params: Mapping[str, object]) -> str:
    """The values of a design in one line."""
    texts = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in params.values())
    return ", ".join(f"{name} {text}" for name, text in zip(params, texts, strict=True))


def add_heading(figure: go.Figure, text: str, x: float) -> None:
    """Add a heading above a part of the figure."""
    place = {"x": x, "y": 1.01, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(text=text, showarrow=False, font={"size": 15}, **place)


def add_key(figure: go.Figure, name: str, **drawn: Any) -> None:
    """Add a legend entry; traces with data stay out of the legend, so that each entry appears once."""
    figure.add_scatter(x=[None], y=[None], name=name, showlegend=True, xaxis="x", yaxis="y", **drawn)


def feasibility_colours(study: Study, style: FidelityStyle, trials: Sequence[Trial]) -> str | list[str]:
    """The colour of the markers of these trials: the fidelity's, grey where a constraint is violated."""
    if not study.definition.constraints:
        return style.colour
    return [_GREY if trial.feasible is False else style.colour for trial in trials]


def add_feasibility_keys(figure: go.Figure, study: Study) -> None:
    """Add infeasible trials to the legend, if there are constraints, and failed ones, if a slice marks one."""
    marker = {"symbol": "circle", "size": 10}
    if study.definition.constraints:
        add_key(figure, "infeasible", mode="markers", marker=marker | {"color": _GREY})
    if any(trace.name == FAILED for trace in figure.data):
        add_key(figure, FAILED, mode="markers", marker=marker | {"color": FAINT, "symbol": "x"})


def add_fidelity_keys(figure: go.Figure, ladder: FidelityLadder) -> None:
    """Add the fidelities to the legend, low to high."""
    for style in fidelity_styles(ladder):
        add_key(figure, style.label, mode="markers", marker={"color": style.colour, "symbol": style.symbol, "size": 10})
