"""Best value, or simple regret, against cost, above a strip that shows the fidelity of each query; and the overview."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from fidelium.feasibility import judged
from fidelium.history import Trial, TrialState
from fidelium.plots.slices import add_slice_keys, add_slices, compute_slices
from fidelium.plots.style import (
    INK,
    Panel,
    add_feasibility_keys,
    add_fidelity_keys,
    add_heading,
    add_key,
    feasibility_colours,
    fidelity_styles,
    new_figure,
    title_of,
)
from fidelium.problems import Problem
from fidelium.study import Study

_SMALLEST_REGRET = 1e-9
"""Smaller regrets are drawn at this value on a logarithmic axis."""

_STAIRS = {"shape": "hv", "color": INK, "width": 2}


def convergence(study: Study, optimum: float | None = None, width: int = 800, height: int = 600) -> go.Figure:
    """The best value at the target against cost, or the simple regret if the optimum is known.

    Args:
        study: the study.
        optimum: the best possible value at the target.
        width: in pixels.
        height: in pixels.
    """
    figure = new_figure(title_of(study), width, height)
    add_convergence(figure, study, optimum, Panel(1, (0, 1), (0.3, 1)), Panel(2, (0, 1), (0, 0.2)))
    add_fidelity_keys(figure, study.ladder)
    add_convergence_keys(figure)
    add_feasibility_keys(figure, study)
    return figure


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
        NoDataError: if there are no observations yet.
    """
    best = problem.optimum if optimum is None and problem is not None else optimum
    figure = new_figure(title_of(study, problem), width, height)
    add_convergence(figure, study, best, Panel(1, (0, 0.43), (0.27, 1)), Panel(2, (0, 0.43), (0, 0.2)))
    rows = compute_slices(study, study.space.names[:2], problem)
    add_slices(figure, study, rows, first=3, x=(0.51, 1), y=(0, 1))
    add_fidelity_keys(figure, study.ladder)
    add_convergence_keys(figure)
    add_slice_keys(figure, truth=problem is not None)
    add_feasibility_keys(figure, study)
    return figure


@dataclass(frozen=True)
class Curve:
    """The progress of a study.

    Args:
        spent: total cost spent when each trial was handed out, in the order of the trials.
        steps: (cost, best value so far), at the start and whenever a feasible target query ended.
        targets: the done trials at the target, feasible or not, with the cost spent by then.
    """

    spent: tuple[float, ...]
    steps: tuple[tuple[float, float], ...]
    targets: tuple[tuple[float, Trial], ...]


def curve(study: Study) -> Curve:
    """The progress of a study: a target query counts when its cost is spent; given data counts at cost 0."""
    trials, sign = study.trials, study.direction.sign
    spent = tuple(accumulate(0.0 if trial.state is TrialState.QUEUED else trial.cost for trial in trials))
    done = tuple(
        (cost, trial)
        for cost, trial in zip(spent, trials, strict=True)
        if trial.is_observation
        and trial.fidelity.name == study.ladder.target.name
        and study.space.contains(trial.params)
    )
    feasible = [(cost, trial) for cost, trial in done if trial.feasible]
    best = accumulate((sign * (trial.value or 0.0) for _, trial in feasible), max)
    return Curve(spent, tuple((cost, sign * value) for (cost, _), value in zip(feasible, best, strict=True)), done)


def add_convergence(figure: go.Figure, study: Study, optimum: float | None, top: Panel, strip: Panel) -> None:
    """Draw the staircase with every target query into one panel, and all queries into the strip below it."""
    course = curve(study)
    _add_staircase(figure, study, course, optimum, top)
    _add_strip(figure, study, course, strip)
    best = "Best feasible value" if study.definition.constraints else "Best value"
    add_heading(figure, f"{best if optimum is None else 'Simple regret'} against cost", x=top.x[0])
    total = study.spent or 1.0
    cost_axis = {"range": [-0.02 * total, 1.02 * total]}
    top.place(figure, x=cost_axis | {"showticklabels": False}, y=_value_axis(study, course, optimum))
    rows = {"tickvals": list(range(len(study.ladder))), "ticktext": list(study.ladder.names), "showgrid": False}
    strip.place(
        figure,
        x=cost_axis | {"title": {"text": "cost spent"}},
        y=rows | {"range": [-0.6, len(study.ladder) - 0.4]},
    )


def add_convergence_keys(figure: go.Figure) -> None:
    """Add the staircase to the legend."""
    add_key(figure, "best so far", mode="lines", line=_STAIRS)


def _shown(study: Study, optimum: float | None, value: float) -> float:
    """A value at the target as it is drawn: unchanged, or as a regret."""
    return value if optimum is None else max(study.direction.sign * (optimum - value), _SMALLEST_REGRET)


def _value_axis(study: Study, course: Curve, optimum: float | None) -> dict[str, Any]:
    target = study.ladder.target.name
    if optimum is None:
        return {"title": {"text": f"value at {target}"}}
    regrets = [_shown(study, optimum, trial.value or 0.0) for _, trial in course.targets if trial.feasible] or [1.0]
    axis = {"title": {"text": f"simple regret at {target}"}, "type": "log", "exponentformat": "power"}
    return axis | {"dtick": 1} if max(regrets) > 100 * min(regrets) else axis


def _add_staircase(figure: go.Figure, study: Study, course: Curve, optimum: float | None, panel: Panel) -> None:
    ends = [*course.steps, (study.spent, course.steps[-1][1])] if course.steps else []
    figure.add_scatter(
        x=[cost for cost, _ in ends],
        y=[_shown(study, optimum, best) for _, best in ends],
        mode="lines",
        line=_STAIRS,
        showlegend=False,
        name="best so far",
        **panel.axes,
    )
    style = fidelity_styles(study.ladder)[-1]
    # an infeasible trial has no regret: it may be better than the optimum
    targets = [(cost, trial) for cost, trial in course.targets if optimum is None or trial.feasible]
    colour = feasibility_colours(study, style, [trial for _, trial in targets])
    figure.add_scatter(
        x=[cost for cost, _ in targets],
        y=[_shown(study, optimum, trial.value or 0.0) for _, trial in targets],
        mode="markers",
        marker={"color": colour, "symbol": style.symbol, "size": 9, "line": {"color": "white", "width": 1}},
        text=[_hover(trial) for _, trial in targets],
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
        name=style.label,
        **panel.axes,
    )


def _add_strip(figure: go.Figure, study: Study, course: Curve, panel: Panel) -> None:
    for m, (rung, style) in enumerate(zip(study.ladder, fidelity_styles(study.ladder), strict=True)):
        pairs = zip(course.spent, study.trials, strict=True)
        same = [(cost, trial) for cost, trial in pairs if trial.fidelity == rung]
        failed = [trial.state is TrialState.FAILED for _, trial in same]
        figure.add_scatter(
            x=[cost for cost, _ in same],
            y=[m] * len(same),
            mode="markers",
            marker={
                "color": feasibility_colours(study, style, [trial for _, trial in same]),
                "symbol": ["x" if each else style.symbol for each in failed],
                "size": 7,
                "opacity": 0.7,
            },
            text=[_hover(trial) for _, trial in same],
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
            name=style.label,
            **panel.axes,
        )


def _hover(trial: Trial) -> str:
    outcome = str(trial.state) if trial.value is None else f"{trial.value:.6g}"
    params = "<br>".join(f"{name} = {_number(value)}" for name, value in trial.params.items())
    limits = {each.name: each.text for each in judged(trial)}
    outcomes = (limits.get(name) or f"{name} {value:.6g}" for name, value in trial.outcomes.items())
    judged_as = " (infeasible)" if trial.feasible is False else ""
    lines = "<br>".join([params, *map(escape, outcomes)])
    return f"trial {trial.number} at {trial.fidelity.name}: {outcome}{judged_as}<br>{lines}"


def _number(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
