"""Pictures of the problems: what is drawn is what was computed, in HTML and PNG alike."""

from __future__ import annotations

from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from fidelium import plots, problems
from fidelium.errors import SettingError, SpaceError
from fidelium.plots.picture import ColourScale, Field, add_field, place_drawing
from fidelium.plots.style import Panel, new_drawing
from fidelium.problems.fem.conductor import FINE, SIDE, Ellipse, o_grid

OBLIQUE = {"x_radius": 1.2, "y_radius": 0.6, "angle": 0.5}


def named(figure: Any, name: str, xaxis: str) -> list[Any]:
    return [trace for trace in figure.data if trace.name == name and trace.xaxis == xaxis and trace.x[0] is not None]


def headings(figure: Any) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def polygons(trace: Any) -> list[np.ndarray]:
    """The polygons of a filled trace, one point per row."""
    points = np.array([trace.x, trace.y], dtype=float).T
    ends = np.flatnonzero(np.isnan(points[:, 0]))
    return [part[~np.isnan(part[:, 0])] for part in np.split(points, ends)[:-1]]


def area(trace: Any) -> float:
    """What a filled trace covers: holes turn the other way and count as less."""
    parts = [
        0.5 * (np.roll(x, -1) @ y - x @ np.roll(y, -1)) for x, y in (part.T for part in polygons(trace) if len(part))
    ]
    return abs(sum(parts))


# --- fields and scales


def test_the_bands_of_a_field_cover_it_once() -> None:
    mesh = o_grid(FINE, Ellipse(**OBLIQUE), SIDE)
    figure = new_drawing("", 800, 800)
    field = Field(mesh.p, mesh.t, mesh.p[0] + 0.5 * mesh.p[1] ** 2)
    scale = ColourScale.of_round_steps(-2, 4)
    add_field(figure, Panel(1, (0, 1), (0, 1)), field, scale)
    assert len(figure.data) == len(scale.colours) == len(scale.levels) - 1
    whole = SIDE**2 - pi * 1.2 * 0.6
    assert sum(area(trace) for trace in figure.data) == pytest.approx(whole, rel=2e-3)  # the hole is a polygon


def test_the_area_of_a_band_is_that_between_its_levels() -> None:
    # f = x on the unit square: every band is as wide as its step
    x, y = np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 21))
    corner = (np.arange(20)[:, None] * 21 + np.arange(20)).ravel()
    triangles = np.concatenate([[corner, corner + 1, corner + 22], [corner, corner + 22, corner + 21]], axis=1)
    figure = new_drawing("", 800, 800)
    scale = ColourScale((0.0, 0.1, 0.4, 1.0))
    add_field(figure, Panel(1, (0, 1), (0, 1)), Field(np.stack([x.ravel(), y.ravel()]), triangles, x.ravel()), scale)
    assert [area(trace) for trace in figure.data] == pytest.approx([0.1, 0.3, 0.6], abs=1e-3)


def test_round_steps_are_round_and_cover_the_range() -> None:
    levels = ColourScale.of_round_steps(0.0, 1.0).levels
    assert levels == pytest.approx(np.linspace(0, 1, 11))
    wide = ColourScale.of_round_steps(0.0405, 0.1111).levels
    assert wide[0] <= 0.0405
    assert wide[-1] >= 0.1111
    assert 8 <= len(wide) <= 18


def test_equal_areas_have_equally_many_values() -> None:
    values = np.random.default_rng(0).normal(size=16000) ** 3
    counts, _ = np.histogram(values, ColourScale.of_equal_areas(values).levels)
    assert counts == pytest.approx(np.full(16, 1000), abs=1)


def test_a_drawing_is_equally_long_both_ways() -> None:
    figure: Any = new_drawing("", 1000, 500)
    panel = Panel(1, (0.1, 0.6), (0, 1))
    place_drawing(figure, panel, np.array([[0, 30], [0, 2]]))
    layout = figure.layout
    pixels = np.array([0.5 * (1000 - layout.margin.l - layout.margin.r), 500 - layout.margin.t - layout.margin.b])
    lengths = np.array([np.ptp(layout.xaxis.range), np.ptp(layout.yaxis.range)])
    assert lengths[0] / pixels[0] == pytest.approx(lengths[1] / pixels[1])
    assert lengths[0] == pytest.approx(1.02 * 30)


# --- functions of two parameters


@pytest.mark.parametrize("name", ["branin", "levy"])
def test_contours_show_the_values_of_every_fidelity_and_the_optimisers(name: str) -> None:
    problem = problems.get(name)
    figure: Any = plots.picture(problem)
    assert headings(figure) == [f"{rung.name} (cost {rung.cost:g})" for rung in problem.ladder]
    for m, rung in enumerate(problem.ladder):
        xaxis = "x" if m == 0 else f"x{2 * m + 1}"
        (contour,) = [trace for trace in named(figure, "field", xaxis) if trace.type == "contour"]
        (marks,) = named(figure, "optimum", xaxis)
        assert list(zip(marks.x, marks.y, strict=True)) == [tuple(each.values()) for each in problem.optimisers]
        z = np.array(contour.z)
        i, j = 17, 200
        here = problem.value({"x1": contour.x[j], "x2": contour.y[i]}, rung.name)
        values = [problem.value({"x1": contour.x[k], "x2": contour.y[i]}, rung.name) for k in (3, 90, 160)]
        assert [z[i, j] < z[i, k] for k in (3, 90, 160)] == [here < value for value in values]
        assert (z.min(), z.max()) == (0, 16)
        assert [np.mean((z >= band) & (z < band + 1)) for band in range(15)] == pytest.approx([1 / 16] * 15, abs=2e-3)


@pytest.mark.parametrize(("name", "share"), [("gramacy", 0.457), ("fails-half-space", 0.595), ("g06", 1.0)])
def test_infeasible_and_failing_designs_are_blank_unless_nearly_all_are(name: str, share: float) -> None:
    figure: Any = plots.picture(problems.get(name))
    target = [trace for trace in figure.data if trace.type == "contour" and trace.name == "field"][-1]
    assert np.mean(np.isfinite(np.asarray(target.z, dtype=float))) == pytest.approx(share, abs=0.01)


def test_a_design_that_is_no_optimiser_is_marked_too() -> None:
    figure = plots.picture(problems.get("branin"), {"x1": 1.0, "x2": 2.0})
    (mark,) = named(figure, "design", "x")
    assert (mark.x[0], mark.y[0], mark.marker.symbol) == (1.0, 2.0, "circle")


def test_there_is_no_picture_of_four_parameters() -> None:
    with pytest.raises(SettingError, match=r"no picture of 'park1'.*x1, x2, x3, x4"):
        plots.picture(problems.get("park1"))


def test_a_design_outside_the_space_has_no_picture() -> None:
    with pytest.raises(SpaceError, match="'x2'"):
        plots.picture(problems.get("branin"), {"x1": 1.0, "x2": 20.0})


# --- simulations


def test_the_plate_shows_its_meshes_and_its_fourth_mode() -> None:
    plate = problems.get("plate")
    figure: Any = plots.picture(plate, {"youngs_modulus": 2e11, "poissons_ratio": 0.3, "density": 8e3})
    assert headings(figure) == [
        "coarse: 486 tetrahedra, 44.934 Hz",
        "fine: 3468 tetrahedra, 44.281 Hz",
        "fourth mode, 44.281 Hz",
    ]
    for xaxis, cells, layers in (("x", 9, 1), ("x2", 17, 2)):
        (mesh,) = named(figure, "mesh", xaxis)
        # a sheet of m x n squares cut in two has m (n + 1) + n (m + 1) + m n edges; three sheets share three borders
        sheets = [(cells, cells), (cells, layers), (cells, layers)]
        edges = sum(m * (n + 1) + n * (m + 1) + m * n for m, n in sheets) - 2 * cells - layers
        assert list(mesh.x).count(None) == edges
    bands = named(figure, "field", "x3")
    assert len(bands) == 10
    peak = np.concatenate(polygons(bands[-1]))  # of the highest band, seen from above the middle of the plate
    assert np.ptp(peak[:, 0]) < 0.25 * np.ptp(np.concatenate(polygons(bands[0]))[:, 0])


def test_the_conductor_shows_temperatures_and_the_response_of_its_right_edge() -> None:
    conductor = problems.get("conductor")
    figure: Any = plots.picture(conductor, OBLIQUE)
    times = [conductor.value(OBLIQUE, name) for name in conductor.ladder.names]
    assert headings(figure)[:2] == [
        f"coarse: 320 triangles, {times[0]:.5g} s",
        f"fine: 4480 triangles, {times[1]:.5g} s",
    ]
    for name, time in zip(("coarse (cost 1)", "fine (cost 10, target)"), times, strict=True):
        (curve,) = named(figure, name, "x4")
        assert np.interp(time, curve.x, curve.y) == pytest.approx(70, abs=0.05)
        assert np.all(np.diff(curve.y[5:]) > 0)
    whole = SIDE**2 - pi * 1.2 * 0.6
    assert sum(area(band) for band in named(figure, "field", "x2")) == pytest.approx(whole, rel=2e-3)
    (level,) = named(figure, "level", "x4")
    assert list(level.y) == [70, 70]


def test_the_sandwich_shows_where_the_beam_is_wrong() -> None:
    sandwich = problems.get("sandwich")
    figure: Any = plots.picture(sandwich)
    (beam,), (solid,) = (named(figure, look, "x3") for look in ("beam (cost 1)", "solid (cost 10, target)"))
    assert np.all(np.diff(beam.y) < 0)
    assert 5 < np.argmax(solid.y) < 19  # the truth has its best inside
    best = sandwich.optimisers[0]
    assert solid.y[0] == sandwich.evaluate({**best, "core_density": 0.03}, "solid")
    (here,) = named(figure, "this design", "x3")
    assert list(here.x) == [best["core_density"]] * 2
    x = np.concatenate([np.concatenate(polygons(band))[:, 0] for band in named(figure, "field", "x")])
    assert (x.min(), x.max()) == pytest.approx((0, 3), abs=0.01)


def test_a_png_has_the_colours_of_the_field_and_a_white_hole(tmp_path: Path) -> None:
    mesh = o_grid(FINE, Ellipse(1.2, 1.2, 0.0), SIDE)
    figure: Any = new_drawing("", 500, 500)
    panel = Panel(1, (0, 1), (0, 1))
    add_field(figure, panel, Field(mesh.p, mesh.t, mesh.p[0]), ColourScale((-2.0, 0.0, 2.0)))
    place_drawing(figure, panel, mesh.p)
    plots.write(figure, tmp_path / "field.html", tmp_path / "field.png")
    image = imread(tmp_path / "field.png")[:, :, :3]
    margin = figure.layout.margin
    row = 2 * (margin.t + (500 - margin.t - margin.b) // 2)
    middle, side = 2 * (margin.l + (500 - margin.l - margin.r) // 2), 2 * 150
    dark, light = (
        [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in ColourScale((-2.0, 0.0, 2.0)).colours
    )
    assert image[row, middle] == pytest.approx(np.ones(3))
    assert image[row, middle - side] == pytest.approx(np.array(dark), abs=0.01)
    assert image[row, middle + side] == pytest.approx(np.array(light), abs=0.01)
    assert 'src="http' not in (tmp_path / "field.html").read_text()
