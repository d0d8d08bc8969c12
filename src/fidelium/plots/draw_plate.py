"""The plate: the mesh of each fidelity, and the fourth mode (the paper's figure of the plate, and what it computes)."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from skfem import MeshTet

from fidelium.plots.fields import Field, Scale, add_colours, add_edges, add_field, place_drawing
from fidelium.plots.style import Panel, add_heading, design_text, new_drawing
from fidelium.problems import Problem
from fidelium.problems.fem.plate import COARSE, FINE, fourth_mode
from fidelium.problems.fem.vibration import SIDE, THICKNESS, discretise
from fidelium.space import Params

_AZIMUTH, _ELEVATION = np.radians(30), np.radians(28)
"""From where the plate is seen: from the front, a little from the right, from above."""

_EXAGGERATION = 1.5
"""Height of the mode's crest, in units of the plate's thickness."""


def draw(problem: Problem, design: Params) -> go.Figure:
    """The two meshes, and the mode at the target, coloured by how far it moves up."""
    figure = new_drawing(f"{problem.name}: {design_text(design)}", 1500, 400)
    for m, (rung, grid) in enumerate(zip(problem.ladder, (COARSE, FINE), strict=True)):
        mesh, panel = discretise(grid).mesh, Panel(m + 1, (0.325 * m, 0.325 * m + 0.3), (0, 1))
        add_edges(figure, panel, _seen(mesh.p), _edges(_facing(mesh)))
        place_drawing(figure, panel, _seen(mesh.p))
        value = problem.evaluate(design, rung.name)
        add_heading(figure, f"{rung.name}: {mesh.t.shape[1]} tetrahedra, {value:.5g} Hz", x=panel.x[0])
    _add_mode(figure, design, Panel(3, (0.65, 0.95), (0, 1)))
    return figure


def _add_mode(figure: go.Figure, design: Params, panel: Panel) -> None:
    mode = fourth_mode(FINE, **design)
    nodes = mode.mesh.refined()
    points = _seen(nodes.p + _EXAGGERATION * THICKNESS * mode.displacement)
    height = np.clip(mode.displacement[2], 0, 1)
    scale = Scale.of_round_steps(0.0, 1.0)
    add_field(figure, panel, Field(points, _facing(nodes), height), scale)
    add_edges(figure, panel, points, _edges(_facing(mode.mesh)), colour="white", width=0.5)
    place_drawing(figure, panel, points)
    add_heading(figure, f"fourth mode, {mode.frequency:.5g} Hz", x=panel.x[0])
    add_colours(figure, Panel(panel.number + 1, (0.965, 0.977), (0.1, 0.9)), scale, "upward motion")


def _seen(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of space as they are seen on paper, without perspective."""
    x, y, z = points
    right = np.cos(_AZIMUTH) * x + np.sin(_AZIMUTH) * y
    away = np.cos(_AZIMUTH) * y - np.sin(_AZIMUTH) * x
    return np.stack([right, np.sin(_ELEVATION) * away + np.cos(_ELEVATION) * z])


def _facing(mesh: MeshTet) -> NDArray[np.int64]:
    """The triangles on the sides of the plate that can be seen: top, front and right."""
    facets = np.asarray(mesh.facets)
    x, y, z = mesh.p[:, facets]
    sides = (np.isclose(z, THICKNESS), np.isclose(y, 0), np.isclose(x, SIDE))
    return facets[:, np.any([side.all(axis=0) for side in sides], axis=0)]


def _edges(triangles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each edge of the triangles once."""
    ends = np.concatenate([triangles[[0, 1]], triangles[[1, 2]], triangles[[2, 0]]], axis=1)
    return np.unique(np.sort(ends, axis=0), axis=1)
