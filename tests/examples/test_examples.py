"""The examples run as their pages say, with smaller budgets; what they find is checked against what is known."""

from __future__ import annotations

import csv
import json
import math
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fidelium import problems
from fidelium.cli import main
from fidelium.config.load import load_study_file
from fidelium.history import TrialState
from fidelium.storage import open_storage

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def example(tmp_path: Path) -> Callable[..., Path]:
    """Copies an example; its strategy is random search, which is quick."""

    def copy(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder)
        file = folder / "study.yaml"
        if file.exists():
            file.write_text(file.read_text() + "\nstrategy: random\n")
        return folder

    return copy


@pytest.fixture
def fidelium(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Calls the command line in this process, and returns what it prints."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(folder: Path, *arguments: str) -> str:
        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        captured = capsys.readouterr()
        assert end.value.code == 0, captured.err
        return captured.out

    return call


def run(folder: Path, *command: str) -> str:
    """What a command of an example's page prints."""
    bin_ = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == 0, process.stderr
    return process.stdout


def done(folder: Path, name: str):
    trials = open_storage(f"sqlite:///{folder}/{name}.db").open(name).trials()
    assert all(trial.state is TrialState.DONE for trial in trials)
    return trials


@pytest.mark.parametrize("name", ["plate", "fin", "ask_tell", "old_runs", "cantilever"])
def test_every_shipped_file_is_valid_and_as_a_user_wants_it(name: str) -> None:
    file = load_study_file(EXAMPLES / name / "study.yaml")
    assert file.definition.strategy == "dnn-mfbo"
    assert file.budget >= 60


def test_every_example_is_in_the_table() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    page = (EXAMPLES / "README.md").read_text()
    programs = {"plate", "fin", "ask_tell", "old_runs", "cantilever"}
    assert folders == programs | {"python", "monte_carlo", "fewer_inputs"}
    assert all(f"]({name})" in page and (EXAMPLES / name / "README.md").exists() for name in folders)


def test_the_plate_as_a_program_computes_what_the_problem_does(example, fidelium) -> None:
    folder = example("plate")
    text = (folder / "study.yaml").read_text().replace("{coarse: 20, fine: 4}", "{coarse: 1, fine: 1}")
    (folder / "study.yaml").write_text(text)
    fidelium(folder, "run", "study.yaml", "--budget", "11", "--workers", "2")
    plate = problems.get("plate")
    trials = done(folder, "plate")
    assert {trial.fidelity.name for trial in trials} == {"coarse", "fine"}
    for trial in trials:
        assert trial.value == pytest.approx(plate.value(trial.params, trial.fidelity.name), rel=1e-9)
        assert trial.measured_cost == trial.fidelity.cost  # the program says so
    assert plate.ladder.costs == load_study_file(folder / "study.yaml").definition.ladder.costs


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_fin_reads_its_deck_and_agrees_with_the_formula(example, fidelium) -> None:
    folder = example("fin")
    run(folder, "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "fin", "fin.c", "-lm")
    out = fidelium(folder, "run", "study.yaml", "--budget", "45")
    best = max((trial for trial in done(folder, "fin") if trial.fidelity.name == "fine"), key=lambda t: t.value or 0.0)
    assert f"best observed: {best.value:.6g} in trial {best.number}" in out
    deck = (folder / f"runs/{best.number:05d}-fine/fin.inp").read_text().split()
    assert deck[:2] == ["LENGTH", f"{best.params['length']:.6E}"]
    assert deck[-3:] == ["CELLS", "2000", "END"]

    # a straight fin gives off √(h P k A) T tanh(m L), m² = h P / (k A)
    (folder / "straight.inp").write_text("LENGTH 0.06\nTHICKNESS 2E-3\nTAPER 0\nCELLS 2000\nEND\n")
    report = run(folder, "./fin", "straight.inp")
    flow = float(report.partition("HEAT FLOW       (W) =")[2].split()[0])
    root = math.sqrt(50 * 0.2 / (200 * 0.1 * 2e-3))
    assert flow == pytest.approx(math.sqrt(50 * 0.2 * 200 * 0.1 * 2e-3) * 60 * math.tanh(root * 0.06), rel=1e-5)


@pytest.fixture(scope="session")
def ccx(pytestconfig: pytest.Config) -> None:
    """CalculiX, installed if it is not there and that is possible: by root, on Debian or Ubuntu."""
    if shutil.which("ccx") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        install = ["apt-get", "install", "-y", "--no-install-recommends", "calculix-ccx"]
        subprocess.run(install, capture_output=True, timeout=600, check=False)
    if shutil.which("ccx") is None:
        reason = "NOT RUN: the cantilever needs CalculiX, and it could not be installed: apt install calculix-ccx"
        reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"\n{reason}", red=True, bold=True)
        pytest.skip(reason)


@pytest.mark.usefixtures("ccx")
def test_the_cantilever_is_computed_by_calculix_and_agrees_with_beam_theory(example, fidelium) -> None:
    folder = example("cantilever")
    straight = {"width": 0.02, "height": 0.03, "width_taper": 1.0, "height_taper": 1.0}
    at = [word for name, value in straight.items() for word in ("--at", f"{name}={value}")]
    runs = json.loads(fidelium(folder, "check", "study.yaml", "--trial", *at, "--json"))["trials"]
    assert [each["fidelity"] for each in runs] == ["coarse", "fine"]
    length, inertia = 0.3, 0.02 * 0.03**3 / 12
    bending, shear = 1000 * length**3 / (3 * 2.1e11 * inertia), 1.2 * 1000 * length / (2.1e11 / 2.6 * 0.02 * 0.03)
    for each, tolerance in zip(runs, (0.05, 0.01), strict=True):
        assert each["value"] == pytest.approx(7850 * 0.3 * 0.02 * 0.03, rel=1e-5)
        assert each["outcomes"]["deflection"] == pytest.approx(bending + shear, rel=tolerance)
    # at x, under the forces 1000 N upwards and 300 N sideways: M_y z / I_y + M_z y / I_z at a point of the last brick
    inside = (1 - 1 / 3**0.5) / 2  # of a brick, from its corner to its first integration point
    x, y, z = 0.3 * 20.5 / 40, 0.02 * (0.5 - inside / 4), 0.03 * (0.5 - inside / 8)
    expected = (length - x) * (1000 * z / inertia + 300 * y / (0.03 * 0.02**3 / 12))
    assert runs[1]["outcomes"]["stress_middle"] == pytest.approx(expected, rel=0.01)
    assert runs[1]["outcomes"]["stress_wall"] > runs[1]["outcomes"]["stress_middle"]


@pytest.mark.usefixtures("ccx")
def test_the_cantilever_tells_feasible_from_infeasible_trials(example, fidelium) -> None:
    folder = example("cantilever")
    fidelium(folder, "run", "study.yaml", "--budget", "44")
    trials = done(folder, "cantilever")
    assert {trial.fidelity.name for trial in trials} == {"coarse", "fine"}
    for trial in trials:
        limits = {"deflection": 1e-3, "stress_wall": 150e6, "stress_middle": 150e6}
        assert trial.feasible is all(trial.outcomes[name] <= limit for name, limit in limits.items())


def test_plain_python_is_short_and_finds_the_hill(example, monkeypatch, capsys) -> None:
    folder = example("python")
    text = (folder / "optimize.py").read_text()
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 15
    (folder / "optimize.py").write_text(text.replace('direction="maximize"', 'direction="maximize", strategy="random"'))
    monkeypatch.chdir(folder)
    monkeypatch.setattr("fidelium.Study.recommend", lambda study: "the model is tested elsewhere")
    runpy.run_path(str(folder / "optimize.py"))
    trials = done(folder, "hill")
    assert sum(trial.cost for trial in trials) <= 100
    top = max(trial.value or 0.0 for trial in trials if trial.fidelity.name == "survey")
    assert f"value={top}" in capsys.readouterr().out
    runpy.run_path(str(folder / "optimize.py"))  # the budget is spent: nothing more is run
    assert done(folder, "hill") == trials


def test_the_shell_script_asks_and_tells_until_the_budget_is_spent(example) -> None:
    folder = example("ask_tell")
    file = folder / "study.yaml"
    file.write_text(file.read_text().replace("budget: 60", "budget: 6").replace("blasius: 8", "blasius: 1"))
    file.write_text(file.read_text().replace("colebrook: 2", "colebrook: 1"))
    out = run(folder, "sh", "drive.sh", "study.yaml")
    trials = done(folder, "pipe")
    assert [trial.fidelity.name for trial in trials] == ["blasius", "colebrook"]
    assert out.startswith(f"{trials[-1].value:.6g} at colebrook in trial 1\n")
    assert all(trial.worker is None for trial in trials)
    for trial in trials:  # the same program gives the same through `fidelium run`: once more by hand
        arguments = [f"{name}={trial.params[name]}" for name in ("diameter", "pipes")]
        fidelity = f"fidelity={trial.fidelity.name}"
        again = run(folder, "awk", "-v", arguments[0], "-v", arguments[1], "-v", fidelity, "-f", "pipe.awk")
        assert float(again) == trial.value
    velocity = 0.05 / (math.pi / 4 * 0.2**2)
    root = -1.8 * math.log10(6.9 / (velocity * 0.2 / 1e-6) + (5e-5 / 0.2 / 3.7) ** 1.11)  # Haaland's formula
    pressure = root**-2 * 1000 / 0.2 * 500 * velocity**2
    price = 60000 * 0.2**1.3 + 0.15 * 10 * 8.76 * 0.05 * pressure / 0.7
    fine = run(folder, "awk", "-v", "diameter=0.2", "-v", "pipes=1", "-v", "fidelity=colebrook", "-f", "pipe.awk")
    assert float(fine) == pytest.approx(price, rel=0.02)  # that formula is good to 2 %


def test_old_runs_are_free_and_the_study_goes_on_from_them(example, fidelium) -> None:
    folder = example("old_runs")
    columns = ["--column", "coil=D", "--column", "wire=d", "--column", "value=mass_kg"]
    for imported, known in ((24, 0), (0, 24)):
        out = fidelium(folder, "import", "study.yaml", "old_runs.csv", *columns, "--json")
        assert json.loads(out) == {"rows": 24, "imported": imported, "known": known, "skipped": []}
    fidelium(folder, "run", "study.yaml", "--budget", "10")
    trials = done(folder, "spring")
    assert [trial.given for trial in trials[:24]] == [True] * 24
    assert sum(trial.cost for trial in trials) == 10
    spring = runpy.run_path(str(folder / "spring.py"))["spring"]
    for trial in trials:
        assert trial.value == pytest.approx(spring(fidelity=trial.fidelity.name, **trial.params), rel=1e-5)
    with (folder / "old_runs.csv").open(newline="") as stream:
        assert [float(row["d"]) for row in csv.DictReader(stream)] == [t.params["wire"] for t in trials[:24]]
