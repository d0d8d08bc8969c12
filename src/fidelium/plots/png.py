"""PNG files of our Plotly figures, drawn by matplotlib.

Plotly's own export needs a browser, matplotlib does not. This draws the part of Plotly that our figures use:
scatter traces (lines, markers, bands, filled polygons), filled contours, axes placed by their domains, one legend above
them, a title.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "diamond": "D",
    "x": "X",
}
_DASHES = {None: "-", "dash": "--", "dot": ":"}
_POINTS = 0.72
"""Points per pixel of the figure, which is laid out at 100 pixels per inch."""


def write_png(figure: go.Figure, path: Path, scale: float = 2.0) -> None:
    """Write a figure to a PNG file, with `scale` times as many pixels each way as its layout says."""
    layout: dict[str, Any] = figure.layout.to_plotly_json()
    canvas = Figure(figsize=(layout["width"] / 100, layout["height"] / 100), dpi=100 * scale, facecolor="white")
    numbers = [name.removeprefix("xaxis") for name in layout if name.startswith("xaxis")]
    panels = {number: _add_axes(canvas, layout, number) for number in numbers}
    keys: list[tuple[Artist, str]] = []
    upper: Any = None
    for trace in figure.data:
        artist = _draw(panels[(trace.xaxis or "x").removeprefix("x")], trace, upper)
        if trace.showlegend is not False:
            keys.append((artist, trace.name))
        upper = trace
    _add_headings(canvas, layout)
    _add_title_and_legend(canvas, layout, keys)
    canvas.savefig(path)


def _add_axes(canvas: Figure, layout: dict[str, Any], number: str) -> Axes:
    x_axis, y_axis = layout[f"xaxis{number}"], layout[f"yaxis{number}"]
    (left, right), (bottom, top) = x_axis["domain"], y_axis["domain"]
    (left, bottom), (right, top) = _on_canvas(layout, left, bottom), _on_canvas(layout, right, top)
    axes = canvas.add_axes((left, bottom, right - left, top - bottom))
    _dress(axes, "x", x_axis, layout["font"])
    _dress(axes, "y", y_axis, layout["font"])
    _frame(axes, x_axis, y_axis)
    axes.set_axisbelow(True)
    return axes


def _frame(axes: Axes, x_axis: dict[str, Any], y_axis: dict[str, Any]) -> None:
    """A line along each visible axis, and no other."""
    side = y_axis.get("side", "left")
    if side == "right":
        axes.yaxis.tick_right()
        axes.yaxis.set_label_position("right")
    seen = {"bottom": x_axis.get("visible", True), side: y_axis.get("visible", True)}
    for name, spine in axes.spines.items():
        spine.set_visible(seen.get(name, False))
        spine.set_color(x_axis["linecolor"])
    axes.xaxis.set_visible(seen["bottom"])
    axes.yaxis.set_visible(seen[side])


def _on_canvas(layout: dict[str, Any], x: float, y: float) -> tuple[float, float]:
    """A point in Plotly's coordinates (between the margins) as shares of the whole figure."""
    margin, width, height = layout["margin"], layout["width"], layout["height"]
    inner_width, inner_height = width - margin["l"] - margin["r"], height - margin["t"] - margin["b"]
    return (margin["l"] + x * inner_width) / width, (margin["b"] + y * inner_height) / height


def _dress(axes: Axes, letter: str, settings: dict[str, Any], font: dict[str, Any]) -> None:
    """Scale, range, ticks and title of one axis."""
    axis = axes.xaxis if letter == "x" else axes.yaxis
    if settings.get("type") == "log":
        axes.set(**{f"{letter}scale": "log"})
        decades = "dtick" in settings
        axis.set_major_locator(LogLocator(10, subs=(1.0,) if decades else (1.0, 2.0, 5.0), numticks=8))
        axis.set_minor_formatter(NullFormatter())
        if not decades:
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if "tickvals" in settings:
        axis.set_ticks(settings["tickvals"], settings["ticktext"])
    elif settings.get("type") != "log":
        axis.set_major_locator(MaxNLocator(settings.get("nticks", 9), steps=[1, 2, 2.5, 5, 10]))
    if "range" in settings:
        ends = np.array(settings["range"], dtype=float)
        axes.set(**{f"{letter}lim": 10**ends if settings.get("type") == "log" else ends})
    axis.set_tick_params(labelsize=0.9 * font["size"] * _POINTS, labelcolor=font["color"], color=settings["linecolor"])
    if not settings.get("showticklabels", True):
        axis.set_tick_params(labelleft=False, labelbottom=False)
    axis.set_label_text(settings.get("title", {}).get("text", ""), fontsize=font["size"] * _POINTS, color=font["color"])
    if settings.get("showgrid"):
        axis.grid(True, color=settings["gridcolor"], linewidth=_POINTS)


def _draw(axes: Axes, trace: Any, upper: Any) -> Artist:
    if trace.type == "contour":
        return _draw_contours(axes, trace)
    empty = len(trace.x) == 1 and trace.x[0] is None  # a legend entry
    x, y = ([], []) if empty else (trace.x, trace.y)
    if trace.fill == "tonexty":
        step: Any = "post" if trace.line.shape == "hv" else None
        return axes.fill_between(x, upper.y, y, color=_rgba(trace.fillcolor), linewidth=0, step=step)
    if trace.fill == "toself":
        return _draw_polygons(axes, trace)
    if trace.mode == "markers":
        return _draw_markers(axes, x, y, trace.marker)
    (line,) = axes.plot(
        x,
        y,
        color=_rgba(trace.line.color or "rgba(0,0,0,0)"),
        linewidth=trace.line.width * _POINTS,
        linestyle=_DASHES[trace.line.dash],
        drawstyle="steps-post" if trace.line.shape == "hv" else "default",
    )
    return line


def _draw_polygons(axes: Axes, trace: Any) -> Artist:
    """All polygons of a trace, a None after each; as one shape, so that inner polygons can be holes."""
    points = np.array([trace.x, trace.y], dtype=float).T
    gap = np.isnan(points[:, 0])
    first = np.roll(gap, 1)  # the last point is a gap
    shape = Outline(points[~gap], np.where(first, Outline.MOVETO, Outline.LINETO)[~gap])
    colours = {"facecolor": _rgba(trace.fillcolor), "edgecolor": _rgba(trace.line.color)}
    return axes.add_patch(PathPatch(shape, linewidth=trace.line.width * _POINTS, **colours))


def _draw_contours(axes: Axes, trace: Any) -> Artist:
    """Filled bands of values on a grid; the levels are 0, 1, ... and each band has its colour."""
    colours = [colour for _, colour in trace.colorscale]
    axes.contourf(trace.x, trace.y, trace.z, np.arange(len(colours) + 1), colors=colours)
    return axes.patch


def _draw_markers(axes: Axes, x: Any, y: Any, marker: Any) -> Artist:
    """All markers of a trace; one call per symbol, since matplotlib draws one symbol at a time."""
    symbols = np.array([marker.symbol] * len(x) if isinstance(marker.symbol, str) else marker.symbol, dtype=object)
    opacity: Any = np.broadcast_to(1.0 if marker.opacity is None else np.asarray(marker.opacity, dtype=float), len(x))
    colours: Any = marker.color if isinstance(marker.color, str) else np.array(marker.color, dtype=object)
    drawn: Artist | None = None
    for symbol in dict.fromkeys(symbols) or [marker.symbol]:
        chosen = symbols == symbol
        drawn = axes.scatter(
            np.asarray(x, dtype=float)[chosen],
            np.asarray(y, dtype=float)[chosen],
            s=(marker.size * _POINTS) ** 2,
            marker=_MARKERS[symbol if isinstance(symbol, str) else "circle"],
            c=colours if isinstance(colours, str) else list(colours[chosen]),
            alpha=opacity[chosen] if len(x) else None,
            edgecolors=marker.line.color or "none",
            linewidths=(marker.line.width or 0) * _POINTS,
            zorder=3,
        )
    assert drawn is not None
    return drawn


def _add_headings(canvas: Figure, layout: dict[str, Any]) -> None:
    for heading in layout.get("annotations", ()):
        x, y = _on_canvas(layout, heading["x"], heading["y"])
        size = heading["font"]["size"] * _POINTS
        canvas.text(x, y, heading["text"], fontsize=size, color=layout["font"]["color"], va="bottom")


def _add_title_and_legend(canvas: Figure, layout: dict[str, Any], keys: list[tuple[Artist, str]]) -> None:
    title, font, height = layout["title"], layout["font"], layout["height"]
    size = title["font"]["size"] * _POINTS
    canvas.text(title["x"], title["y"] - 8 / height, title["text"], fontsize=size, color=font["color"], va="top")
    canvas.legend(
        [artist for artist, _ in keys],
        [name for _, name in keys],
        loc="upper left",
        bbox_to_anchor=(title["x"] - 0.005, title["y"] - 36 / height),
        ncols=_legend_columns([name for _, name in keys], layout["width"] / font["size"]),
        frameon=False,
        fontsize=0.95 * font["size"] * _POINTS,
        columnspacing=1.4,
        handletextpad=0.5,
    )


def _legend_columns(names: list[str], width: float) -> int:
    """All in one row if they fit, else equal columns as wide as the widest; widths in units of the font size."""
    widths = [0.6 * len(name) + 4 for name in names]
    return max(1, len(names) if sum(widths) <= width else int(width / max(widths)))


def _rgba(colour: str) -> tuple[float, float, float, float]:
    """A colour as Plotly writes it, "#0072B2" or "rgba(0,114,178,0.2)"."""
    if not colour.startswith("rgba("):
        return to_rgba(colour)
    red, green, blue, alpha = (float(part) for part in colour[5:-1].split(","))
    return red / 255, green / 255, blue / 255, alpha
