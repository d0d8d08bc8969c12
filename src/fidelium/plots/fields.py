"""Meshes and fields in a plane, as the lines and filled bands that both Plotly and our PNG files can draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fidelium.plots.style import INK, Panel

_BANDS = 16
"""Colours of a field."""

_INVISIBLE: dict[str, Any] = {"visible": False, "showgrid": False}


@dataclass(frozen=True, eq=False)
class Field:
    """Values over triangles of the plane.

    Args:
        points: the corners, one column each.
        triangles: the numbers of the three corners, one column each.
        values: at the corners.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """Which colour stands for which values, from dark to light.

    Args:
        levels: the bounds of the bands, increasing.
    """

    levels: tuple[float, ...]

    @classmethod
    def of_round_steps(cls, low: float, high: float) -> Scale:
        """Bands of equal round widths over this range."""
        from matplotlib.ticker import MaxNLocator

        steps = MaxNLocator(_BANDS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=_BANDS // 2)
        return cls(tuple(map(float, steps.tick_values(low, high))))

    @classmethod
    def of_equal_areas(cls, values: NDArray[np.float64]) -> Scale:
        """Bands that hold equally many of the values each: a plateau gets as many colours as a slope."""
        return cls(tuple(np.unique(np.quantile(values, np.linspace(0, 1, _BANDS + 1))).tolist()))

    @property
    def colours(self) -> list[str]:
        """One per band."""
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        return [to_hex(shade) for shade in colormaps["viridis"](np.linspace(0, 1, len(self.levels) - 1))]


def add_field(figure: go.Figure, panel: Panel, field: Field, scale: Scale) -> None:
    """Fill the bands between the levels of a field, each with its colour."""
    from matplotlib.figure import Figure
    from matplotlib.tri import Triangulation

    mesh = Triangulation(field.points[0], field.points[1], field.triangles.T)
    levels = np.array(scale.levels)
    values = np.clip(field.values, levels[0], levels[-1])
    bands = Figure().add_subplot().tricontourf(mesh, values, levels).get_paths()
    for band, colour in zip(bands, scale.colours, strict=True):
        if polygons := [np.asarray(each) for each in band.to_polygons()]:
            add_filled(figure, panel, polygons, colour)


def add_contours(
    figure: go.Figure,
    panel: Panel,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    values: NDArray[np.float64],
    scale: Scale,
) -> None:
    """Fill the bands between the levels of values on a grid, a row for each y; both programs do it by themselves."""
    count, colours = len(scale.levels) - 1, scale.colours
    band = np.interp(values, scale.levels, np.arange(count + 1))  # evenly spaced levels are all that Plotly knows
    between = [[number / (count - 1), colour] for number, colour in enumerate(colours)]
    colouring: dict[str, Any] = {"colorscale": between, "zmin": 0.5, "zmax": count - 0.5, "showscale": False}
    levels: dict[str, Any] = {"contours": {"start": 1, "end": count - 1, "size": 1}, "line": {"width": 0}}
    figure.add_contour(
        x=x, y=y, z=band, name="field", hoverinfo="skip", showlegend=False, **colouring, **levels, **panel.axes
    )


def add_filled(figure: go.Figure, panel: Panel, polygons: Sequence[NDArray[np.float64]], colour: str) -> None:
    """Fill polygons, one point per row; those inside others and turning the other way are holes."""
    x, y = _with_gaps([polygon.T for polygon in polygons])
    line = {"color": colour, "width": 0.5}  # or the background shines through between two bands
    drawn: dict[str, Any] = {"mode": "lines", "line": line, "fill": "toself", "fillcolor": colour}
    figure.add_scatter(x=x, y=y, hoverinfo="skip", showlegend=False, name="field", **drawn, **panel.axes)


def add_edges(
    figure: go.Figure,
    panel: Panel,
    points: NDArray[np.float64],
    edges: NDArray[np.int64],
    colour: str = INK,
    width: float = 0.8,
) -> None:
    """Draw the edges of a mesh, given by the numbers of their end points, one column each."""
    x, y = _with_gaps(list(points[:, edges].transpose(2, 0, 1)))
    drawn: dict[str, Any] = {"mode": "lines", "line": {"color": colour, "width": width}, "hoverinfo": "skip"}
    figure.add_scatter(x=x, y=y, showlegend=False, name="mesh", **drawn, **panel.axes)


def add_colours(figure: go.Figure, panel: Panel, scale: Scale, title: str = "") -> None:
    """Explain the colours in a narrow panel of its own, all bands equally high."""
    for band, colour in enumerate(scale.colours):
        add_filled(figure, panel, [np.array([[0, band], [1, band], [1, band + 1], [0, band + 1], [0, band]])], colour)
    count = len(scale.levels)
    shown = range(0, count, max(count // 8, 1))
    span = scale.levels[-1] - scale.levels[0]
    texts = [f"{level:.3g}" if abs(level) > 1e-6 * span else "0" for level in scale.levels]
    ticks = {"tickvals": list(shown), "ticktext": [texts[band] for band in shown]}
    y_axis = {"range": [0, count - 1], "side": "right", "showgrid": False, "title": {"text": title}}
    panel.place(figure, x={"range": [0, 1], **_INVISIBLE}, y=y_axis | ticks)


def place_drawing(figure: go.Figure, panel: Panel, points: NDArray[np.float64]) -> None:
    """Place a drawing of these points without axes, as large as the panel lets it be, equally long both ways."""
    layout: Any = figure.layout
    margin = layout.margin
    width = (panel.x[1] - panel.x[0]) * (layout.width - margin.l - margin.r)
    height = (panel.y[1] - panel.y[0]) * (layout.height - margin.t - margin.b)
    low, high = points.min(axis=1), points.max(axis=1)
    unit = 1.02 * max((high[0] - low[0]) / width, (high[1] - low[1]) / height)
    (x, y), halves = (low + high) / 2, (unit * width / 2, unit * height / 2)
    ranges = [[middle - half, middle + half] for middle, half in zip((x, y), halves, strict=True)]
    panel.place(figure, x={"range": ranges[0], **_INVISIBLE}, y={"range": ranges[1], **_INVISIBLE})


def _with_gaps(lines: Sequence[NDArray[np.float64]]) -> tuple[list[float | None], list[float | None]]:
    """Lines of one row per axis, one after the other, with nothing between them."""
    span = max((float(np.ptp(line, axis=1).max()) for line in lines), default=1.0)
    digits = 4 - math.floor(math.log10(span or 1.0))  # enough for a picture: a file of ten thousand edges stays small
    x: list[float | None] = []
    y: list[float | None] = []
    for line in lines:
        across, up = np.round(line, digits).tolist()
        x += [*across, None]
        y += [*up, None]
    return x, y
