"""The sandwich panel: how it bends, and how far the beam formula is from it along two parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fidelium.plots.fields import Field, Scale, add_colours, add_edges, add_field, place_drawing
from fidelium.plots.style import FAINT, Look, Panel, add_heading, add_key, design_text, looks, new_figure
from fidelium.problems import Problem
from fidelium.problems.fem.bending import bend
from fidelium.problems.fem.panel import FOAM_MODULUS, SPAN
from fidelium.problems.fem.panel import Panel as SandwichPanel
from fidelium.problems.fem.sandwich import LAYOUT
from fidelium.space import Params, Real

_POINTS = 25
"""Designs along each parameter."""

_SAG = 0.02
"""Deflection in the picture, as a share of the span."""

_SHOWN = [0.1, 20.0]
"""Stiffnesses that are drawn."""

_HERE = {"color": FAINT, "width": 1.5, "dash": "dash"}


def draw(problem: Problem, design: Params) -> go.Figure:
    """The bent panel, coloured by the foam's density, above the stiffness along density and grading."""
    figure = new_figure(f"{problem.name}: {design_text(design)}", 1500, 760)
    _add_bent(figure, design)
    for number, (name, x) in enumerate((("core_density", (0, 0.47)), ("grading", (0.53, 1))), start=3):
        _add_curves(figure, problem, design, name, Panel(number, x, (0, 0.55)))
    for look in looks(problem.ladder):
        add_key(figure, look.label, mode="lines", line=_line(look))
    add_key(figure, "this design", mode="lines", line=_HERE)
    return figure


def _add_bent(figure: go.Figure, design: Params) -> None:
    """Both halves of the panel, bent until it shows, and the supports below its ends."""
    bent = bend(SandwichPanel(**design), LAYOUT)
    nodes = bent.mesh.refined()  # its vertices are the nodes of the quadratic elements
    triangles = np.concatenate([nodes.t[[0, 1, 2]], nodes.t[[0, 2, 3]]], axis=1)
    density = np.sqrt(SandwichPanel(**design).core_modulus(nodes.p[0]) / FOAM_MODULUS)
    scale = Scale.of_round_steps(float(density.min()), float(density.max()))
    left = nodes.p + _SAG * SPAN / bent.deflection * bent.displacement
    right = np.stack([SPAN - left[0], left[1]])
    panel = Panel(1, (0, 0.9), (0.68, 1))
    for points in (left, right):
        add_field(figure, panel, Field(points, triangles, density), scale)
        add_edges(figure, panel, points, np.asarray(bent.mesh.facets), colour="white", width=0.5)
    feet = np.array([[0, SPAN], [nodes.p[1].min() - 0.05] * 2])
    _add_supports(figure, panel, feet)
    place_drawing(figure, panel, np.concatenate([left, right, feet - 0.02], axis=1))
    add_colours(figure, Panel(2, (0.93, 0.942), (0.68, 1)), scale, "foam density")
    add_heading(figure, "The panel by plane elements, its deflection exaggerated", x=0)


def _add_supports(figure: go.Figure, panel: Panel, feet: NDArray[np.float64]) -> None:
    marker = {"symbol": "triangle-up", "size": 16, "color": FAINT, "line": {"width": 0}}
    x, y = feet.tolist()
    figure.add_scatter(x=x, y=y, mode="markers", marker=marker, showlegend=False, name="supports", **panel.axes)


def _add_curves(figure: go.Figure, problem: Problem, design: Params, name: str, panel: Panel) -> None:
    """The stiffness at each fidelity along one parameter through the design."""
    parameter = problem.space.parameters[name]
    assert isinstance(parameter, Real)
    values = [parameter.decode(np.array([unit])) for unit in np.linspace(0, 1, _POINTS)]
    for rung, look in zip(problem.ladder, looks(problem.ladder), strict=True):
        stiffness = [problem.evaluate({**design, name: value}, rung.name) for value in values]
        drawn: dict[str, Any] = {"mode": "lines", "line": _line(look), "name": look.label, "showlegend": False}
        figure.add_scatter(x=values, y=stiffness, **drawn, **panel.axes)
    here = {"x": [design[name]] * 2, "y": _SHOWN, "mode": "lines", "line": _HERE, "name": "this design"}
    figure.add_scatter(**here, showlegend=False, **panel.axes)
    x_axis: dict[str, Any] = {"title": {"text": name}} | ({"type": "log"} if parameter.log else {})
    y_axis = {"title": {"text": "stiffness, kPa/mm"}, "type": "log", "range": np.log10(_SHOWN).tolist()}
    panel.place(figure, x=x_axis, y=y_axis)


def _line(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "width": 2.5}
