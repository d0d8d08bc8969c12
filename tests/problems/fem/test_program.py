"""The engineering problems as external programs, and without their extra."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fidelium import problems
from fidelium.problems.fem.program import run_program

PLATE = problems.get("plate")
STEEL = {"youngs_modulus": 2e11, "poissons_ratio": 0.3, "density": 8e3}


def query(folder: Path, content: object) -> tuple[Path, Path]:
    path = folder / "query.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path, folder / "result.json"


@pytest.mark.parametrize(("name", "fidelity"), [("plate", "coarse"), ("conductor", "coarse"), ("sandwich", "solid")])
def test_a_query_file_becomes_a_result_file(tmp_path: Path, name: str, fidelity: str) -> None:
    problem = problems.get(name)
    params = problem.optimisers[0]
    files = query(tmp_path, {"params": params, "fidelity": fidelity})
    command = [sys.executable, "-m", f"fidelium.problems.fem.{name}", *map(str, files)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    result = json.loads(files[1].read_text())
    assert result["value"] == pytest.approx(problem.evaluate(params, fidelity), rel=1e-12)
    assert result["cost"] == problem.ladder[problem.ladder.index(fidelity)].cost
    assert sorted(each.name for each in tmp_path.iterdir()) == ["query.json", "result.json"]


def test_a_bad_query_fails_with_its_sentence_in_a_process_too(tmp_path: Path) -> None:
    files = query(tmp_path, {"params": STEEL | {"poissons_ratio": 0.6}, "fidelity": "coarse"})
    command = [sys.executable, "-m", "fidelium.problems.fem.plate", *map(str, files)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 1
    failed = json.loads(files[1].read_text())["failed"]
    assert process.stderr == failed + "\n"
    assert "'poissons_ratio'" in failed
    assert "[0.2, 0.49], got 0.6" in failed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ([], 'a query must be {"params": {"name": value, ...}, "fidelity": "name"}, got []'),
        ({"params": STEEL}, "a query must be"),
        ({"params": 3, "fidelity": "coarse"}, "a query must be"),
        ({"params": STEEL, "fidelity": "coarser"}, "unknown fidelity 'coarser'; this ladder has 'coarse', 'fine'"),
        ({"params": STEEL, "fidelity": ["fine"]}, "unknown fidelity ['fine']"),
        ({"params": {"density": 8e3}, "fidelity": "coarse"}, "'youngs_modulus'"),
        ({"params": STEEL | {"density": "heavy"}, "fidelity": "coarse"}, "got 'heavy'"),
        ('{"params": {"youngs_modulus": NaN, "poissons_ratio": 0.3, "density": 8e3}, "fidelity": "fine"}', "got nan"),
    ],
)
def test_every_bad_query_is_one_sentence_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, message: str
) -> None:
    files = query(tmp_path, content)
    assert run_program(PLATE, [str(file) for file in files]) == 1
    sentence = capsys.readouterr().err
    assert message in sentence
    assert sentence.count("\n") == 1
    assert json.loads(files[1].read_text()) == {"failed": sentence.rstrip("\n")}


def test_a_query_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(PLATE, [str(tmp_path / "nope.json"), str(tmp_path / "result.json")]) == 1
    assert "cannot read the query" in capsys.readouterr().err
    assert "No such file" in json.loads((tmp_path / "result.json").read_text())["failed"]


def test_a_result_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, _ = query(tmp_path, {"params": STEEL, "fidelity": "coarse"})
    assert run_program(PLATE, [str(source), str(tmp_path / "nowhere" / "result.json")]) == 1
    assert capsys.readouterr().err.startswith("cannot write the result to ")


@pytest.mark.parametrize("arguments", [[], ["query.json"], ["a", "b", "c"]])
def test_files_that_are_not_named(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run_program(PLATE, arguments) == 2
    assert capsys.readouterr().err == "usage: python -m fidelium.problems.fem.plate query.json result.json\n"


def test_an_old_result_is_replaced(tmp_path: Path) -> None:
    files = query(tmp_path, {"params": STEEL, "fidelity": "coarse"})
    files[1].write_text("old")
    assert run_program(PLATE, [str(file) for file in files]) == 0
    assert json.loads(files[1].read_text()) == {"value": PLATE.evaluate(STEEL, "coarse"), "cost": 1}


def test_without_the_extra_the_sentence_says_what_to_install() -> None:
    script = """
import sys
sys.modules["skfem"] = None
from fidelium import problems
from fidelium.errors import SettingError
assert "plate" in problems.names()
assert problems.get("branin").name == "branin"
for name in ("plate", "conductor", "sandwich"):
    try:
        problems.get(name)
    except SettingError as error:
        print(error)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    sentence = "the finite-element problems need scikit-fem, which is not installed: pip install 'fidelium[fem]'\n"
    assert process.stdout == 3 * sentence


def test_the_problems_import_no_jax() -> None:
    script = """
import sys
from fidelium import problems
for name in ("plate", "conductor", "sandwich"):
    problems.get(name)
assert not {"jax", "matplotlib", "plotly"} & set(sys.modules)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
