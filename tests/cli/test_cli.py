"""The command line: quick help, one-line errors, and what the commands print and write."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fidelium import __version__
from fidelium.cli import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fidelium.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_help_imports_nothing_heavy():
    script = """
import sys
from fidelium.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {"jax", "numpy", "scipy", "pandas", "plotly", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    for command in ("demo", "bench", "problems", "strategies"):
        assert command in process.stdout


def test_the_version():
    process = run("--version")
    assert process.stdout == f"fidelium {__version__}\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command"),
        (["bench"], "Missing command"),
        (["demo", "--nope"], "No such option"),
        (["demo", "--problem", "nope"], "unknown problem 'nope'"),
        (["demo", "--strategy", "nope"], "unknown strategy 'nope'"),
        (["demo", "--seed", "-1"], "greater than or equal to 0"),
        (["demo", "--budget", "0"], "above 0, got 0"),
        (["demo", "--budget", "0.5"], "is below the cheapest run"),
        (["demo", "--budget", "much"], "number"),
        (["demo", "--out", "/dev/null/x"], "cannot make the folder '/dev/null/x'"),
        (["bench", "regret", "--seeds", "a-b"], "seeds must look like"),
        (["bench", "regret", "--problem", "nope"], "unknown problem 'nope'"),
        (["bench", "regret", "--budget", "-1"], "greater than 0, got -1"),
        (["bench", "regret", "--budget", "0.5"], "is below the cheapest run"),
        (["bench", "regret", "--out", "/dev/null/x"], "cannot make the folder '/dev/null/x'"),
        (["bench", "run", "/nope.yaml"], "cannot read the spec /nope.yaml"),
        (["bench", "speed", "--sizes", "1/2"], "sizes must look like"),
        (["bench", "speed", "--strategy", "nope"], "unknown strategy 'nope'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_an_error_of_a_process_is_one_line_too():
    process = run("demo", "--problem", "nope")
    assert process.returncode == 2
    assert process.stderr.startswith("error: unknown problem 'nope'; the known ones are 'branin', ")
    assert process.stderr.count("\n") == 1


def test_the_lists(capsys):
    for command, first in (("problems", "branin: maximize over x1, x2"), ("strategies", "dnn-mfbo")):
        with pytest.raises(SystemExit) as end:
            main([command])
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith(first)


def test_the_demo_prints_what_was_found_and_writes_the_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        main(["demo", "--problem", "park1", "--strategy", "random", "--budget", "60", "--out", str(tmp_path)])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for part in (
        "recommended",
        "best observed",
        "optimum",
        "25.589",
        "high (target)",
        "share",
        "the model expects",
        "overview.png",
    ):
        assert part in out
    # 16 at 1, then 4 of the initial design at 10, then 4 at 1
    rows = [line.split() for line in out.splitlines()]
    assert ["low", "1", "20", "20", "33%"] in rows
    assert ["high", "(target)", "10", "4", "40", "67%"] in rows
    assert (tmp_path / "overview.html").stat().st_size > 1_000_000
    assert (tmp_path / "overview.png").stat().st_size > 10_000


def test_bench_speed_measures_in_new_processes(capsys, tmp_path):
    file = tmp_path / "speed.json"
    with pytest.raises(SystemExit) as end:
        main(["bench", "speed", "--strategy", "random", "--sizes", "3/2/1", "--steady", "2", "--json", str(file)])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "3/2/1" in printed
    assert "random: 3 suggestions of a new process" in printed
    report = json.loads(file.read_text())
    (result,) = report["results"]
    assert result["sizes"] == [3, 2, 1]
    assert result["steady"]["total"] > 0
    assert 0 < result["first_filled"] < result["all_seconds"]
    assert result["all_processor"] > 0
    assert result["suggestions"] == 3
    assert 10 < result["peak_mb"] < 1000  # of the measured process alone: random search does not import JAX
    assert set(report["versions"]) == {"python", "fidelium", "jax", "jaxlib", "numpy", "scipy"}
    assert report["machine"]["cores"] >= 1


def test_bench_regret_prints_and_writes_its_tables(capsys, tmp_path):
    file = tmp_path / "table.md"
    common = ["bench", "regret", "--problem", "park1", "--strategy", "random", "--seeds", "0,1", "--budget", "20"]
    for announced in ("2 studies, about", "2 studies, 2 of them complete already"):  # the second time from the records
        with pytest.raises(SystemExit) as end:
            main([*common, "--out", str(tmp_path / "out"), "--markdown", str(file)])
        assert end.value.code == 0
        out, err = capsys.readouterr()
        assert "park1: simple regret" in out
        assert announced in err
    assert "| strategy | 20 |" in file.read_text()


def test_bench_run_writes_everything_into_one_folder(capsys, tmp_path):
    spec = tmp_path / "small.yaml"
    spec.write_text("{name: small, problems: {park1: {budget: 60}}, strategies: [random], seeds: 0-3}")
    with pytest.raises(SystemExit) as end:
        main(["bench", "run", str(spec), "--quick", "--out", str(tmp_path / "out")])
    assert end.value.code == 0
    assert "park1: recommended design, median over 2 seeds" in " ".join(capsys.readouterr().out.split())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {f"small-{what}.{kind}" for what in ("regret", "time") for kind in ("html", "png")}
    records = {f"park1_random_20_seed{seed}.jsonl" for seed in (0, 1)}
    assert names == pictures | records | {"report.md", ".lock"}
    assert "fidelium bench run" in (tmp_path / "out/report.md").read_text()
