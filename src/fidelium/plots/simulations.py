"""Pictures of the simulated problems, among them the paper's figures of the plate and the conductor.

The plate: the mesh of each fidelity, and the fourth mode. The conductor: temperatures on the mesh of each fidelity, and
the response of the right edge. The sandwich panel: its bending, and the error of the beam formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from skfem import MeshTet, MeshTri

from fidelium.plots.picture import ColourScale, Field, add_colours, add_edges, add_field, place_drawing
from fidelium.plots.style import (
    FAINT,
    INK,
    FidelityStyle,
    Panel,
    add_heading,
    add_key,
    design_text,
    fidelity_styles,
    new_drawing,
    new_figure,
)
from fidelium.problems import Problem
from fidelium.problems.fem import conductor, plate
from fidelium.problems.fem.conductor import HOT, LEVEL, Ellipse, Response, o_grid, respond
from fidelium.problems.fem.plate import THICKNESS, discretise, fourth_mode
from fidelium.problems.fem.sandwich import FOAM_MODULUS, LAYOUT, SPAN, SandwichPanel, bend
from fidelium.space import Params, Real

_ENOUGH = 0.95 * HOT
"""Temperature at which the response curves end."""

_TEMPERATURES = 60.0, HOT
"""Range of the colour scale: when the right edge has 70 degrees, nothing is much colder."""

_LEVEL_LINE: dict[str, Any] = {"color": INK, "width": 1.5, "dash": "dot"}

_AZIMUTH, _ELEVATION = np.radians(30), np.radians(28)
"""Viewing direction of the plate: from the front, slightly from the right, from above."""

_EXAGGERATION = 1.5
"""Height of the mode's crest, in units of the plate's thickness."""

_POINTS = 25
"""Number of designs along each parameter."""

_SAG = 0.02
"""Deflection in the picture, as a share of the span."""

_STIFFNESSES = [0.1, 20.0]
"""Range of the stiffness axis."""

_HERE = {"color": FAINT, "width": 1.5, "dash": "dash"}


def draw_conductor(problem: Problem, design: Params) -> go.Figure:
    """The temperatures when the right edge has reached its level, triangles in white; its mean against time."""
    figure = new_figure(f"{problem.name}: {design_text(design)}", 1500, 560)
    meshes = [o_grid(rings, Ellipse(**design), conductor.SIDE) for rings in (conductor.COARSE, conductor.FINE)]
    for m, (rung, mesh) in enumerate(zip(problem.ladder, meshes, strict=True)):
        _add_temperatures(figure, Panel(m + 1, (0.29 * m, 0.29 * m + 0.275), (0, 1)), rung.name, mesh)
    add_colours(figure, Panel(3, (0.577, 0.589), (0, 1)), ColourScale.of_round_steps(*_TEMPERATURES), "degrees")
    _add_responses(figure, Panel(4, (0.7, 1), (0, 1)), problem, [respond(mesh, _ENOUGH) for mesh in meshes])
    return figure


def _add_temperatures(figure: go.Figure, panel: Panel, name: str, mesh: MeshTri) -> None:
    reached, nodes = respond(mesh, LEVEL), mesh.refined()  # its vertices are the nodes of the quadratic triangles
    add_field(figure, panel, Field(nodes.p, nodes.t, reached.temperature), ColourScale.of_round_steps(*_TEMPERATURES))
    add_edges(figure, panel, mesh.p, np.asarray(mesh.facets), colour="white", width=0.4)
    place_drawing(figure, panel, mesh.p)
    add_heading(figure, f"{name}: {mesh.t.shape[1]} triangles, {reached.when(LEVEL):.5g} s", x=panel.x[0])


def _add_responses(figure: go.Figure, panel: Panel, problem: Problem, responses: Sequence[Response]) -> None:
    """The mean temperature of the right edge against time; the target's line is wider, so it is drawn first."""
    last = len(responses) - 1
    for m, (style, response) in reversed(list(enumerate(zip(fidelity_styles(problem.ladder), responses, strict=True)))):
        line: dict[str, Any] = {
            "color": style.colour,
            "width": 4 if m == last else 2,
            "dash": None if m == last else "dash",
        }
        x, y = response.times.tolist(), response.means.tolist()
        figure.add_scatter(x=x, y=y, mode="lines", line=line, showlegend=False, name=style.label, **panel.axes)
        add_key(figure, style.label, mode="lines", line=line)
    end = float(max(response.times[-1] for response in responses))
    level: dict[str, Any] = {"mode": "lines", "line": _LEVEL_LINE}
    figure.add_scatter(x=[0, end], y=[LEVEL, LEVEL], showlegend=False, name="level", **level, **panel.axes)
    add_key(figure, f"{LEVEL:g} degrees", **level)
    add_heading(figure, "Response of the right edge", x=panel.x[0])
    x_axis = {"range": [0, end], "title": {"text": "seconds"}}
    panel.place(figure, x=x_axis, y={"range": [0, HOT], "title": {"text": "mean temperature, degrees"}})


def draw_plate(problem: Problem, design: Params) -> go.Figure:
    """The two meshes, and the mode at the target, coloured by its upward motion."""
    figure = new_drawing(f"{problem.name}: {design_text(design)}", 1500, 400)
    for m, (rung, grid) in enumerate(zip(problem.ladder, (plate.COARSE, plate.FINE), strict=True)):
        mesh, panel = discretise(grid).mesh, Panel(m + 1, (0.325 * m, 0.325 * m + 0.3), (0, 1))
        add_edges(figure, panel, _seen(mesh.p), _edges(_facing(mesh)))
        place_drawing(figure, panel, _seen(mesh.p))
        value = problem.value(design, rung.name)
        add_heading(figure, f"{rung.name}: {mesh.t.shape[1]} tetrahedra, {value:.5g} Hz", x=panel.x[0])
    _add_mode(figure, design, Panel(3, (0.65, 0.95), (0, 1)))
    return figure


def _add_mode(figure: go.Figure, design: Params, panel: Panel) -> None:
    mode = fourth_mode(plate.FINE, **design)
    nodes = mode.mesh.refined()
    points = _seen(nodes.p + _EXAGGERATION * THICKNESS * mode.displacement)
    height = np.clip(mode.displacement[2], 0, 1)
    scale = ColourScale.of_round_steps(0.0, 1.0)
    add_field(figure, panel, Field(points, _facing(nodes), height), scale)
    add_edges(figure, panel, points, _edges(_facing(mode.mesh)), colour="white", width=0.5)
    place_drawing(figure, panel, points)
    add_heading(figure, f"fourth mode, {mode.frequency:.5g} Hz", x=panel.x[0])
    add_colours(figure, Panel(panel.number + 1, (0.965, 0.977), (0.1, 0.9)), scale, "upward motion")


def _seen(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points in space projected onto the picture, without perspective."""
    x, y, z = points
    right = np.cos(_AZIMUTH) * x + np.sin(_AZIMUTH) * y
    away = np.cos(_AZIMUTH) * y - np.sin(_AZIMUTH) * x
    return np.stack([right, np.sin(_ELEVATION) * away + np.cos(_ELEVATION) * z])


def _facing(mesh: MeshTet) -> NDArray[np.int64]:
    """The triangles on the visible sides of the plate: top, front and right."""
    facets = np.asarray(mesh.facets)
    x, y, z = mesh.p[:, facets]
    sides = (np.isclose(z, THICKNESS), np.isclose(y, 0), np.isclose(x, plate.SIDE))
    return facets[:, np.any([side.all(axis=0) for side in sides], axis=0)]


def _edges(triangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each edge of the triangles once."""
    ends = np.concatenate([triangles[[0, 1]], triangles[[1, 2]], triangles[[2, 0]]], axis=1)
    return np.unique(np.sort(ends, axis=0), axis=1)


def draw_sandwich(problem: Problem, design: Params) -> go.Figure:
    """The bent panel, coloured by the foam's density, above the stiffness along density and grading."""
    figure = new_figure(f"{problem.name}: {design_text(design)}", 1500, 760)
    _add_bent(figure, design)
    for number, (name, x) in enumerate((("core_density", (0, 0.47)), ("grading", (0.53, 1))), start=3):
        _add_curves(figure, problem, design, name, Panel(number, x, (0, 0.55)))
    for style in fidelity_styles(problem.ladder):
        add_key(figure, style.label, mode="lines", line=_line(style))
    add_key(figure, "this design", mode="lines", line=_HERE)
    return figure


def _add_bent(figure: go.Figure, design: Params) -> None:
    """Both halves of the panel with exaggerated bending, and the supports below its ends."""
    bent = bend(SandwichPanel(**design), LAYOUT)
    nodes = bent.mesh.refined()  # its vertices are the nodes of the quadratic elements
    triangles = np.concatenate([nodes.t[[0, 1, 2]], nodes.t[[0, 2, 3]]], axis=1)
    density = np.sqrt(SandwichPanel(**design).core_modulus(nodes.p[0]) / FOAM_MODULUS)
    scale = ColourScale.of_round_steps(float(density.min()), float(density.max()))
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
    for rung, style in zip(problem.ladder, fidelity_styles(problem.ladder), strict=True):
        stiffness = [problem.value({**design, name: value}, rung.name) for value in values]
        drawn: dict[str, Any] = {"mode": "lines", "line": _line(style), "name": style.label, "showlegend": False}
        figure.add_scatter(x=values, y=stiffness, **drawn, **panel.axes)
    here = {"x": [design[name]] * 2, "y": _STIFFNESSES, "mode": "lines", "line": _HERE, "name": "this design"}
    figure.add_scatter(**here, showlegend=False, **panel.axes)
    x_axis: dict[str, Any] = {"title": {"text": name}} | ({"type": "log"} if parameter.log else {})
    y_axis = {"title": {"text": "stiffness, kPa/mm"}, "type": "log", "range": np.log10(_STIFFNESSES).tolist()}
    panel.place(figure, x=x_axis, y=y_axis)


def _line(style: FidelityStyle) -> dict[str, Any]:
    return {"color": style.colour, "width": 2.5}
