"""`plot` and the demo of a simulated problem: the files are written, errors are one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fidelium.cli import main


def finish(*arguments: str) -> object:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return end.value.code


@pytest.mark.parametrize(("name", "at"), [("branin", []), ("conductor", ["--at", "x_radius=1.2", "--at", "angle=0.5"])])
def test_the_figure_of_a_problem_is_two_files(capsys, tmp_path: Path, name: str, at: list[str]) -> None:
    assert finish("plot", "problem", name, *at, "--out", str(tmp_path / "new")) == 0
    html, png = tmp_path / "new" / f"{name}.html", tmp_path / "new" / f"{name}.png"
    assert capsys.readouterr().out == f"picture: {html} and {png}\n"
    assert html.stat().st_size > 1_000_000
    assert not at or "x_radius 1.2, y_radius 0.2, angle 0.5" in html.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 20_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plot"], "Missing command"),
        (["plot", "problem"], "Missing argument"),
        (["plot", "problem", "nope"], "unknown problem 'nope'"),
        (["plot", "problem", "park1"], "there is no picture of 'park1'"),
        (["plot", "problem", "branin", "--at", "x1"], "must look like name=value with a number, got 'x1'"),
        (["plot", "problem", "branin", "--at", "x1=left"], "must look like name=value with a number, got 'x1=left'"),
        (["plot", "problem", "branin", "--at", "x1=11"], "'x1'"),
        (["plot", "problem", "branin", "--at", "x3=1"], "'x3'"),
        (["plot", "problem", "branin", "--out", "/dev/null/x"], "cannot create the folder '/dev/null/x'"),
        (["demo", "nope"], "unknown problem 'nope'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments: list[str], message: str) -> None:
    assert finish(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_the_demo_of_a_simulation_draws_the_study_and_the_best_design(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    code = finish("demo", "sandwich", "--strategy", "random", "--budget", "60", "--out", str(tmp_path))
    out = capsys.readouterr().out
    assert code == 0
    assert "sandwich: maximize at solid over core_share, core_density, grading" in out
    assert "best known" in out
    assert "0.62935" in out
    assert f"picture: {tmp_path / 'sandwich'}.html and {tmp_path / 'sandwich'}.png" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "overview.html",
        "overview.png",
        "sandwich.html",
        "sandwich.png",
    ]
