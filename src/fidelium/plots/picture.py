"""What a problem looks like: contours of a function of two parameters, or the simulation behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fidelium.errors import SettingError
from fidelium.plots.fields import Scale, add_colours, add_contours
from fidelium.plots.style import INK, Panel, add_heading, new_drawing
from fidelium.problems import Problem
from fidelium.space import Params, Real

_SIMULATED = ("conductor", "plate", "sandwich")
"""Problems that `simulations` draws; it needs the extra that they need."""

_GRID = 241
"""Points of a contour picture along each axis."""


def picture(problem: Problem, params: Mapping[str, Any] | None = None) -> go.Figure:
    """A picture of a built-in problem at every fidelity.

    Args:
        problem: the problem.
        params: the design to draw; the first of the optimisers if None.

    Raises:
        SettingError: if there is no picture of such a problem.
        SpaceError: if the parameters are not a design of the problem's space.
    """
    design = problem.space.validate(problem.optimisers[0] if params is None else params)
    return _drawer(problem)(problem, design)


def _drawer(problem: Problem) -> Callable[[Problem, Params], go.Figure]:
    """Who draws a problem.

    Raises:
        SettingError: if nobody does.
    """
    if problem.name in _SIMULATED:
        return getattr(import_module("fidelium.plots.simulations"), f"draw_{problem.name}")
    parameters = problem.space.parameters.values()
    if len(parameters) == 2 and all(isinstance(each, Real) and not each.log for each in parameters):
        return _contours
    raise SettingError(
        f"there is no picture of {problem.name!r}: it is neither a simulation nor a function of two real parameters, "
        f"but one of {', '.join(problem.space.names)}"
    )


def _contours(problem: Problem, design: Params) -> go.Figure:
    """One panel per fidelity, each with its own colours; diamonds are the optimisers, a circle another design."""
    figure = new_drawing(f"{problem.name}: {problem.direction} at {problem.ladder.target.name}", 1400, 480)
    width = 1.03 / len(problem.ladder)
    for m, rung in enumerate(problem.ladder):
        panel = Panel(2 * m + 1, (m * width, (m + 0.75) * width), (0, 1))
        _add_landscape(figure, panel, problem, m)
        _mark(figure, panel, problem, design)
        add_heading(figure, f"{rung.name} (cost {rung.cost:g})", x=panel.x[0])
    return figure


def _add_landscape(figure: go.Figure, panel: Panel, problem: Problem, m: int) -> None:
    """The values of a fidelity, their colours explained on the right."""
    unit, function = np.linspace(0, 1, _GRID), problem.functions[m]
    x, y = ([parameter.decode(np.array([each])) for each in unit] for parameter in problem.space.parameters.values())
    values = np.array([[function(first, second) for first in x] for second in y])
    scale = Scale.of_equal_areas(values)
    add_contours(figure, panel, np.array(x), np.array(y), values, scale)
    width = panel.x[1] - panel.x[0]
    add_colours(figure, Panel(panel.number + 1, (panel.x[1] + 0.03 * width, panel.x[1] + 0.07 * width), panel.y), scale)
    first, second = problem.space.names
    y_title = {"text": second if m == 0 else ""}
    x_axis = {"range": [x[0], x[-1]], "title": {"text": first}, "nticks": 6}
    panel.place(figure, x=x_axis, y={"range": [y[0], y[-1]], "title": y_title, "nticks": 6})


def _mark(figure: go.Figure, panel: Panel, problem: Problem, design: Params) -> None:
    """The optimisers, and the design if it is none of them."""
    others = [] if design in problem.optimisers else [design]
    for name, symbol, shown in (("optimum", "diamond", problem.optimisers), ("design", "circle", others)):
        marker = {"color": "white", "symbol": symbol, "size": 10, "line": {"color": INK, "width": 1.5}}
        x, y = ([each[parameter] for each in shown] for parameter in problem.space.names)
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, showlegend=False, name=name, **panel.axes)
