"""The conductor: temperatures on the mesh of each fidelity, and the response of the right edge (the paper's figure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from skfem import MeshTri

from fidelium.plots.fields import Field, Scale, add_colours, add_edges, add_field, place_drawing
from fidelium.plots.style import INK, Panel, add_heading, add_key, design_text, looks, new_figure
from fidelium.problems import Problem
from fidelium.problems.fem.conductor import COARSE, FINE, LEVEL, SIDE
from fidelium.problems.fem.heat import HOT, Response, respond
from fidelium.problems.fem.o_grid import Ellipse, o_grid
from fidelium.space import Params

_ENOUGH = 0.95 * HOT
"""Where the response curves end."""

_SHOWN = 60.0, HOT
"""Temperatures that have colours: when the right edge has 70 degrees, nothing is much colder."""

_LEVEL_LINE: dict[str, Any] = {"color": INK, "width": 1.5, "dash": "dot"}


def draw(problem: Problem, design: Params) -> go.Figure:
    """The temperatures when the right edge has reached its level, white the triangles; how its mean got there."""
    figure = new_figure(f"{problem.name}: {design_text(design)}", 1500, 560)
    meshes = [o_grid(rings, Ellipse(**design), SIDE) for rings in (COARSE, FINE)]
    for m, (rung, mesh) in enumerate(zip(problem.ladder, meshes, strict=True)):
        _add_temperatures(figure, Panel(m + 1, (0.29 * m, 0.29 * m + 0.275), (0, 1)), rung.name, mesh)
    add_colours(figure, Panel(3, (0.577, 0.589), (0, 1)), Scale.of_round_steps(*_SHOWN), "degrees")
    _add_responses(figure, Panel(4, (0.7, 1), (0, 1)), problem, [respond(mesh, _ENOUGH) for mesh in meshes])
    return figure


def _add_temperatures(figure: go.Figure, panel: Panel, name: str, mesh: MeshTri) -> None:
    reached, nodes = respond(mesh, LEVEL), mesh.refined()  # whose vertices are the nodes of the quadratic triangles
    add_field(figure, panel, Field(nodes.p, nodes.t, reached.temperature), Scale.of_round_steps(*_SHOWN))
    add_edges(figure, panel, mesh.p, np.asarray(mesh.facets), colour="white", width=0.4)
    place_drawing(figure, panel, mesh.p)
    add_heading(figure, f"{name}: {mesh.t.shape[1]} triangles, {reached.when(LEVEL):.5g} s", x=panel.x[0])


def _add_responses(figure: go.Figure, panel: Panel, problem: Problem, responses: Sequence[Response]) -> None:
    """The mean temperature of the right edge against time; the target's below, since it is the wider line."""
    last = len(responses) - 1
    for m, (look, response) in reversed(list(enumerate(zip(looks(problem.ladder), responses, strict=True)))):
        line: dict[str, Any] = {
            "color": look.colour,
            "width": 4 if m == last else 2,
            "dash": None if m == last else "dash",
        }
        x, y = response.times.tolist(), response.means.tolist()
        figure.add_scatter(x=x, y=y, mode="lines", line=line, showlegend=False, name=look.label, **panel.axes)
        add_key(figure, look.label, mode="lines", line=line)
    end = float(max(response.times[-1] for response in responses))
    level: dict[str, Any] = {"mode": "lines", "line": _LEVEL_LINE}
    figure.add_scatter(x=[0, end], y=[LEVEL, LEVEL], showlegend=False, name="level", **level, **panel.axes)
    add_key(figure, f"{LEVEL:g} degrees", **level)
    add_heading(figure, "Response of the right edge", x=panel.x[0])
    x_axis = {"range": [0, end], "title": {"text": "seconds"}}
    panel.place(figure, x=x_axis, y={"range": [0, HOT], "title": {"text": "mean temperature, degrees"}})
