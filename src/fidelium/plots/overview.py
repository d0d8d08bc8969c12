"""The whole study in one picture: how it went on the left, what the model believes on the right."""

from __future__ import annotations

import plotly.graph_objects as go

from fidelium.plots.convergence import add_convergence, add_convergence_keys
from fidelium.plots.slices import add_slice_keys, add_slices, compute_slices
from fidelium.plots.style import Panel, add_fidelity_keys, new_figure, title_of
from fidelium.problems import Problem
from fidelium.study import Study


def overview(
    study: Study, optimum: float | None = None, problem: Problem | None = None, width: int = 1400, height: int = 700
) -> go.Figure:
    """Best value or simple regret against cost, and slices of the model along the first two parameters.

    Args:
        study: the study, with at least one observation.
        optimum: the best possible value at the target, if known; the problem's if there is one.
        problem: the problem behind the study, to draw its true values too.
        width: in pixels.
        height: in pixels.

    Raises:
        NoDataError: if nothing was observed yet.
    """
    best = problem.optimum if optimum is None and problem is not None else optimum
    figure = new_figure(title_of(study, problem), width, height)
    add_convergence(figure, study, best, Panel(1, (0, 0.43), (0.27, 1)), Panel(2, (0, 0.43), (0, 0.2)))
    rows = compute_slices(study, study.space.names[:2], problem)
    add_slices(figure, study, rows, first=3, x=(0.51, 1), y=(0, 1))
    add_fidelity_keys(figure, study.ladder)
    add_convergence_keys(figure)
    add_slice_keys(figure, truth=problem is not None)
    return figure
