"""Slices of the posterior through the recommended design, one row of panels per fidelity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fidelium.catalogue import Catalogue
from fidelium.errors import SettingError
from fidelium.history import Trial
from fidelium.plots.style import (
    FAILED,
    FAINT,
    INK,
    FidelityStyle,
    Panel,
    add_feasibility_keys,
    add_fidelity_keys,
    add_heading,
    add_key,
    feasibility_colours,
    fidelity_styles,
    new_figure,
    title_of,
    translucent,
)
from fidelium.problems import Problem
from fidelium.space import Categorical, Integer, Parameter, Params, Real
from fidelium.study import Study

_NEAR = 0.2
"""Observations up to this distance from a slice, in the unit cube, are drawn; farther ones are fainter."""

_TICKS = 4
"""Items of a catalogue whose names are on the axis."""

_TRUTH = {"color": INK, "width": 1.5, "dash": "dot"}
_RECOMMENDED = {"color": FAINT, "width": 1.5, "dash": "dash"}


@dataclass(frozen=True)
class Slice:
    """One parameter varied through the recommended design, at one fidelity.

    Args:
        name: the parameter's name.
        x: where the values are on the axis; the choices of a categorical parameter are at 0, 1, ...,
            the items of a catalogue in the order of their first column.
        mean: posterior mean there.
        std: posterior standard deviation there.
        truth: the true values there, empty if unknown.
        seen_x: where observations near the slice are on the axis.
        seen_y: their values.
        seen_distance: how far they are from the slice, in the unit cube.
        seen_trials: the trials that observed them.
        failed_x: where failed runs near the slice are on the axis.
    """

    name: str
    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    truth: NDArray[np.float64]
    seen_x: NDArray[np.float64]
    seen_y: NDArray[np.float64]
    seen_distance: NDArray[np.float64]
    seen_trials: tuple[Trial, ...] = ()
    failed_x: tuple[float, ...] = ()


def slices(
    study: Study,
    parameters: Sequence[str] | None = None,
    problem: Problem | None = None,
    points: int = 101,
    width: int = 1200,
    height: int | None = None,
) -> go.Figure:
    """Posterior mean and two standard deviations along parameters, through the recommended design, at every fidelity.

    Args:
        study: the study, with at least one observation.
        parameters: names of the parameters, the first three if None.
        problem: the problem behind the study, to draw its true values too.
        points: on each slice.
        width: in pixels.
        height: in pixels; by the number of fidelities if None.

    Raises:
        SettingError: if a parameter is unknown.
        NoDataError: if there are no observations yet.
    """
    names = study.space.names[:3] if parameters is None else tuple(parameters)
    figure = new_figure(title_of(study, problem), width, height or 180 + 200 * len(study.ladder))
    add_slices(figure, study, compute_slices(study, names, problem, points), first=1, x=(0, 1), y=(0, 1))
    add_fidelity_keys(figure, study.ladder)
    add_slice_keys(figure, truth=problem is not None)
    add_feasibility_keys(figure, study)
    return figure


def compute_slices(
    study: Study, names: Sequence[str], problem: Problem | None = None, points: int = 101
) -> list[list[Slice]]:
    """The slices along these parameters, one list per fidelity, low to high.

    Raises:
        SettingError: if a parameter is unknown.
        NoDataError: if there are no observations yet.
    """
    if unknown := [name for name in names if name not in study.space.names]:
        raise SettingError(f"unknown parameter {unknown[0]!r}; this study has {list(study.space.names)}")
    centre = study.recommend().params
    return [[_slice(study, centre, name, rung.name, problem, points) for name in names] for rung in study.ladder]


def add_slices(
    figure: go.Figure,
    study: Study,
    rows: Sequence[Sequence[Slice]],
    *,
    first: int,
    x: tuple[float, float],
    y: tuple[float, float],
) -> None:
    """Draw slices into a part of the figure: one row of panels per fidelity, the target on top.

    Args:
        figure: to draw into.
        study: the study.
        rows: its slices, as `compute_slices` gives them.
        first: number of the first panel.
        x: the part of the figure's width.
        y: the part of the figure's height.
    """
    add_heading(figure, "The model, sliced through the recommended design", x=x[0])
    centre = study.recommend().params
    heights, widths = _shares(y, len(rows), 0.07), _shares(x, len(rows[0]), 0.035)
    for m, row in enumerate(rows):
        low, high = _limits(row)
        for column, each in enumerate(row):
            panel = Panel(first + m * len(row) + column, widths[column], heights[m])
            parameter = study.space.parameters[each.name]
            style = fidelity_styles(study.ladder)[m]
            _draw_model(figure, panel, each, style, feasibility_colours(study, style, each.seen_trials))
            _draw_failures(figure, panel, each, low)
            _draw_line_at(figure, panel, _position(parameter, centre[each.name]), (low, high))
            y_axis = {"range": [low, high], "nticks": 5, "showticklabels": column == 0}
            title = {"text": f"value at {study.ladder[m].name}" if column == 0 else ""}
            panel.place(figure, x=_x_axis(parameter, each.name, titled=m == 0), y=y_axis | {"title": title})


def add_slice_keys(figure: go.Figure, *, truth: bool) -> None:
    """Add the lines of the slices to the legend."""
    add_key(figure, "model mean, ± 2 std", mode="lines", line={"color": FAINT, "width": 3})
    if truth:
        add_key(figure, "truth", mode="lines", line=_TRUTH)
    add_key(figure, "recommended", mode="lines", line=_RECOMMENDED)


def _slice(study: Study, centre: Params, name: str, fidelity: str, problem: Problem | None, points: int) -> Slice:
    parameter = study.space.parameters[name]
    values = _grid(parameter, points)
    designs = [centre | {name: value} for value in values]
    mean, std = study.predict(designs, fidelity)
    truth = [] if problem is None else [problem.value(design, fidelity) for design in designs]
    x = np.array([_position(parameter, value) for value in values])
    curves = (mean, std, np.array(truth))
    if isinstance(parameter, Categorical):  # choices have no order to draw a line through: each gets its own step
        x = np.stack([x - 0.5, x + 0.5], axis=1).ravel()
        mean, std, true = (np.repeat(each, 2) for each in curves)
        curves = (mean, std, true)
    near = _near(study, centre, name, fidelity)
    seen = [(distance, trial) for distance, trial in near if trial.is_observation]
    return Slice(
        name,
        x,
        *curves,
        seen_x=np.array([_position(parameter, trial.params[name]) for _, trial in seen], dtype=float),
        seen_y=np.array([trial.value for _, trial in seen], dtype=float),
        seen_distance=np.array([distance for distance, _ in seen], dtype=float),
        seen_trials=tuple(trial for _, trial in seen),
        failed_x=tuple(_position(parameter, trial.params[name]) for _, trial in near if trial.design_failed),
    )


def _near(study: Study, centre: Params, name: str, fidelity: str) -> list[tuple[float, Trial]]:
    """The trials near the slice with their distances, the nearest last so that it is drawn on top.

    Those outside of the present bounds are not shown.
    """
    found: list[tuple[float, Trial]] = []
    for trial in study.trials:
        if trial.fidelity.name == fidelity and study.space.contains(trial.params):
            on_slice = study.space.encode(centre | {name: trial.params[name]})
            distance = float(np.max(np.abs(study.space.encode(trial.params) - on_slice)))
            if distance <= _NEAR:
                found.append((distance, trial))
    return sorted(found, key=lambda pair: pair[0], reverse=True)


def _draw_failures(figure: go.Figure, panel: Panel, each: Slice, y: float) -> None:
    """Mark failed runs on the axis: they have no value."""
    if each.failed_x:
        marker = {"color": FAINT, "symbol": "x", "size": 8}
        x, on_axis = list(each.failed_x), [y] * len(each.failed_x)
        drawn: dict[str, Any] = {"mode": "markers", "marker": marker, "cliponaxis": False}
        figure.add_scatter(x=x, y=on_axis, name=FAILED, showlegend=False, **drawn, **panel.axes)


def _draw_model(figure: go.Figure, panel: Panel, each: Slice, style: FidelityStyle, colours: str | list[str]) -> None:
    edge: dict[str, Any] = {"x": each.x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure.add_scatter(y=each.mean + 2 * each.std, showlegend=False, **edge, **panel.axes)
    filled = {"fill": "tonexty", "fillcolor": translucent(style.colour, 0.18)}
    figure.add_scatter(y=each.mean - 2 * each.std, showlegend=False, **edge, **filled, **panel.axes)
    line = {"color": style.colour, "width": 2.5}
    figure.add_scatter(x=each.x, y=each.mean, mode="lines", line=line, name="model", showlegend=False, **panel.axes)
    if len(each.truth):
        figure.add_scatter(
            x=each.x, y=each.truth, mode="lines", line=_TRUTH, name="truth", showlegend=False, **panel.axes
        )
    marker = {
        "color": colours,
        "symbol": style.symbol,
        "size": 8,
        "opacity": 1.0 - 0.85 * each.seen_distance / _NEAR,
        "line": {"color": "white", "width": 1},
    }
    figure.add_scatter(
        x=each.seen_x, y=each.seen_y, mode="markers", marker=marker, name=style.label, showlegend=False, **panel.axes
    )


def _draw_line_at(figure: go.Figure, panel: Panel, x: float, limits: tuple[float, float]) -> None:
    figure.add_scatter(
        x=[x, x], y=list(limits), mode="lines", line=_RECOMMENDED, name="recommended", showlegend=False, **panel.axes
    )


def _limits(row: Sequence[Slice]) -> tuple[float, float]:
    """The range of values that all panels of a fidelity show."""
    parts = [part for s in row for part in (s.mean - 2 * s.std, s.mean + 2 * s.std, s.truth, s.seen_y)]
    shown = np.concatenate(parts)
    margin = 0.05 * float(np.ptp(shown)) or 0.5
    return float(shown.min()) - margin, float(shown.max()) + margin


def _grid(parameter: Parameter, points: int) -> list[Any]:
    if isinstance(parameter, Catalogue):
        shown = np.unique(np.linspace(0, len(parameter.choices) - 1, points).round().astype(int))
        return [_ordered(parameter)[position] for position in shown.tolist()]
    if isinstance(parameter, Categorical):
        return list(parameter.choices)
    assert isinstance(parameter, (Real, Integer))
    spread = np.geomspace if parameter.log else np.linspace
    values = np.clip(spread(parameter.low, parameter.high, points), parameter.low, parameter.high)
    return sorted({round(value) for value in values.tolist()}) if isinstance(parameter, Integer) else values.tolist()


def _ordered(catalogue: Catalogue) -> list[str]:
    """The items by their first column, along which they differ most: similar items are mostly near each other."""
    return [catalogue.choices[i] for i in np.argsort(catalogue.rows[:, 0], kind="stable").tolist()]


def _position(parameter: Parameter, value: Any) -> float:
    if isinstance(parameter, Catalogue):
        before = parameter.rows[:, 0] < parameter.encode(value)[0]
        alike = parameter.rows[: parameter.position(value), 0] == parameter.encode(value)[0]
        return float(np.sum(before) + np.sum(alike))
    return float(np.argmax(parameter.encode(value))) if isinstance(parameter, Categorical) else float(value)


def _x_axis(parameter: Parameter, name: str, *, titled: bool) -> dict[str, Any]:
    axis: dict[str, Any] = {"showticklabels": titled, "title": {"text": name if titled else ""}, "nticks": 6}
    if isinstance(parameter, Categorical):
        return axis | {"tickvals": list(range(parameter.width)), "ticktext": [str(each) for each in parameter.choices]}
    if isinstance(parameter, Catalogue):
        few = np.unique(np.linspace(0, len(parameter.choices) - 1, _TICKS).round().astype(int)).tolist()
        return axis | {"tickvals": few, "ticktext": [_ordered(parameter)[position] for position in few]}
    return axis | {"type": "log"} if isinstance(parameter, (Real, Integer)) and parameter.log else axis


def _shares(whole: tuple[float, float], count: int, gap: float) -> list[tuple[float, float]]:
    """`count` equal parts with gaps between them."""
    start, end = whole
    size = (end - start - gap * (count - 1)) / count
    return [(start + i * (size + gap), start + i * (size + gap) + size) for i in range(count)]
