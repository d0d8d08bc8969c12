"""Pictures of problems: contours of a function of two parameters, or the simulation behind it; meshes and fields.

Fields are drawn as the lines and filled bands that both Plotly and our PNG files can draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fidelium.errors import EvaluationError, SettingError
from fidelium.plots.style import INK, Panel, add_heading, new_drawing
from fidelium.problems import Problem, value_and_outcomes
from fidelium.space import Params, Real

_SIMULATED = ("conductor", "plate", "sandwich")
"""Problems that `simulations` draws; it needs the extra `fem`."""

_GRID = 241
"""Points of a contour picture along each axis."""

_FEWEST = 100
"""If fewer points of a picture are feasible, the infeasible ones are drawn too."""

_BANDS = 16
"""Number of colours of a field."""

_INVISIBLE: dict[str, Any] = {"visible": False, "showgrid": False}


def picture(problem: Problem, params: Mapping[str, Any] | None = None) -> go.Figure:
    """A picture of a built-in problem at every fidelity.

    Args:
        problem: the problem.
        params: the design to draw; the first of the optimisers if None.

    Raises:
        SettingError: if this problem has no picture.
        SpaceError: if the parameters are not a design of the problem's space.
    """
    design = problem.space.validate(problem.optimisers[0] if params is None else params)
    return _drawer(problem)(problem, design)


def _drawer(problem: Problem) -> Callable[[Problem, Params], go.Figure]:
    """The function that draws a problem.

    Raises:
        SettingError: if there is none.
    """
    if problem.name in _SIMULATED:
        return getattr(import_module("fidelium.plots.simulations"), f"draw_{problem.name}")
    parameters = problem.space.parameters.values()
    if len(parameters) == 2 and all(isinstance(each, Real) and not each.log for each in parameters):
        return _contours
    raise SettingError(
        f"there is no picture of {problem.name!r}: pictures need a simulation or a function of two real parameters, "
        f"got a function of {', '.join(problem.space.names)}"
    )


def _contours(problem: Problem, design: Params) -> go.Figure:
    """One panel per fidelity, each with its own colours; diamonds are the optimisers, a circle another design.

    Designs that fail or are infeasible are blank.
    """
    figure = new_drawing(f"{problem.name}: {problem.direction} at {problem.ladder.target.name}", 1400, 480)
    width = 1.03 / len(problem.ladder)
    for m, rung in enumerate(problem.ladder):
        panel = Panel(2 * m + 1, (m * width, (m + 0.75) * width), (0, 1))
        _add_landscape(figure, panel, problem, m)
        _mark(figure, panel, problem, design)
        add_heading(figure, f"{rung.name} (cost {rung.typical_cost:g})", x=panel.x[0])
    return figure


def _add_landscape(figure: go.Figure, panel: Panel, problem: Problem, m: int) -> None:
    """The values of a fidelity, with their colour scale on the right."""
    unit = np.linspace(0, 1, _GRID)
    x, y = ([parameter.decode(np.array([each])) for each in unit] for parameter in problem.space.parameters.values())
    values = np.array([[_height(problem, m, first, second) for first in x] for second in y])
    if np.isfinite(values).sum() < _FEWEST:  # a feasible set too small to see
        values = np.array([[_height(problem, m, first, second, limited=False) for first in x] for second in y])
    scale = ColourScale.of_equal_areas(values)
    add_contours(figure, panel, np.array(x), np.array(y), values, scale)
    width = panel.x[1] - panel.x[0]
    add_colours(figure, Panel(panel.number + 1, (panel.x[1] + 0.03 * width, panel.x[1] + 0.07 * width), panel.y), scale)
    first, second = problem.space.names
    y_title = {"text": second if m == 0 else ""}
    x_axis = {"range": [x[0], x[-1]], "title": {"text": first}, "nticks": 6}
    panel.place(figure, x=x_axis, y={"range": [y[0], y[-1]], "title": y_title, "nticks": 6})


def _height(problem: Problem, m: int, first: float, second: float, limited: bool = True) -> float:
    """The value of a design; NaN, which leaves the picture blank, if it fails or, if limited, is infeasible here."""
    try:
        value, outcomes = value_and_outcomes(
            problem.functions[m](**dict(zip(problem.space.names, (first, second), strict=True)))
        )
    except EvaluationError:
        return math.nan
    met = all(each.meets(outcomes[each.name]) for each in problem.limits)
    return value if met or not limited else math.nan


def _mark(figure: go.Figure, panel: Panel, problem: Problem, design: Params) -> None:
    """The optimisers, and the design if it is not one of them."""
    others = [] if design in problem.optimisers else [design]
    for name, symbol, shown in (("optimum", "diamond", problem.optimisers), ("design", "circle", others)):
        marker = {"color": "white", "symbol": symbol, "size": 10, "line": {"color": INK, "width": 1.5}}
        x, y = ([each[parameter] for each in shown] for parameter in problem.space.names)
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, showlegend=False, name=name, **panel.axes)


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
class ColourScale:
    """Colours of value bands, from dark to light.

    Args:
        levels: the bounds of the bands, increasing.
    """

    levels: tuple[float, ...]

    @classmethod
    def of_round_steps(cls, low: float, high: float) -> ColourScale:
        """Bands of equal round widths over this range."""
        from matplotlib.ticker import MaxNLocator

        steps = MaxNLocator(_BANDS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=_BANDS // 2)
        return cls(tuple(map(float, steps.tick_values(low, high))))

    @classmethod
    def of_equal_areas(cls, values: NDArray[np.float64]) -> ColourScale:
        """Bands that hold equally many values each: a plateau gets as many colours as a slope."""
        return cls(tuple(np.unique(np.nanquantile(values, np.linspace(0, 1, _BANDS + 1))).tolist()))

    @property
    def colours(self) -> list[str]:
        """One per band."""
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        return [to_hex(shade) for shade in colormaps["viridis"](np.linspace(0, 1, len(self.levels) - 1))]


def add_field(figure: go.Figure, panel: Panel, field: Field, scale: ColourScale) -> None:
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
    scale: ColourScale,
) -> None:
    """Fill the bands between the levels of values on a grid, a row for each y; Plotly and matplotlib find the bands."""
    count, colours = len(scale.levels) - 1, scale.colours
    band = np.interp(values, scale.levels, np.arange(count + 1))  # Plotly supports only evenly spaced levels
    between = [[number / (count - 1), colour] for number, colour in enumerate(colours)]
    colouring: dict[str, Any] = {"colorscale": between, "zmin": 0.5, "zmax": count - 0.5, "showscale": False}
    levels: dict[str, Any] = {"contours": {"start": 1, "end": count - 1, "size": 1}, "line": {"width": 0}}
    figure.add_contour(
        x=x, y=y, z=band, name="field", hoverinfo="skip", showlegend=False, **colouring, **levels, **panel.axes
    )


def add_filled(figure: go.Figure, panel: Panel, polygons: Sequence[NDArray[np.float64]], colour: str) -> None:
    """Fill polygons, one point per row; inner ones with the opposite orientation are holes."""
    x, y = _with_gaps([polygon.T for polygon in polygons])
    line = {"color": colour, "width": 0.5}  # without it the background shows between two bands
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


def add_colours(figure: go.Figure, panel: Panel, scale: ColourScale, title: str = "") -> None:
    """Add a colour bar in a narrow panel, all bands equally high."""
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
    """Place a drawing of these points without axes, as large as fits the panel, with equal scales in x and y."""
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
    """Lines of one row per axis, concatenated with None after each."""
    span = max((float(np.ptp(line, axis=1).max()) for line in lines), default=1.0)
    digits = 4 - math.floor(math.log10(span or 1.0))  # enough for a picture: a file of ten thousand edges stays small
    x: list[float | None] = []
    y: list[float | None] = []
    for line in lines:
        across, up = np.round(line, digits).tolist()
        x += [*across, None]
        y += [*up, None]
    return x, y
