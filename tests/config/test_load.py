"""Loading study files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.cli import main
from fidelium.config.load import Failures, load_study_file
from fidelium.config.schema import parse_duration, study_schema
from fidelium.config.yaml_document import parse_scalar
from fidelium.constraints import OutcomeConstraint
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import CsvCell, JsonPath, Pattern, ResultFile
from fidelium.fidelity import Fidelity
from fidelium.history import Direction, Trial
from fidelium.space import Categorical, Integer, Real
from fidelium.strategies import registry
from fidelium.strategies.dnn_mfbo import dnn_mfbo_paper
from fidelium.study import Stop
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture

FULL = """
name: plate
direction: maximize
storage: sqlite:///data/plate.db
strategy: random
seed: 3
budget: 2e2
workers: 2
initial: {coarse: 20, fine: 5}
parameters:
  young: {type: real, low: 1e11, high: 5E+11, log: true}
  layers: {type: integer, low: 1, high: 8e0}
  glue: {type: categorical, choices: [epoxy, "none", no, 2]}
fidelities:
  - {name: coarse, cost: 1, command: [./solve, mesh.msh, "{query}", 3], timeout: 60}
  - name: fine
    cost: 10
    command: [python, "{here}/solve.py"]
    timeout: 10 min
    grace: 1 min
    output_limit: 2e3
    templates: {extra.inp: deck.inp.j2}
    environment: {MODE: "{fidelity}", THREADS: "4"}
    result: {file: out.csv, column: mass, row: 0}
templates: {deck.inp: deck.inp.j2}
environment: {THREADS: 1}
result: {file: out.txt, regex: "mass = (.*)"}
failures: {retries: 1, then: stop}
stop: {wall_time: 8 h, trials: 100, no_improvement: 300, gain_per_cost: 1e-6}
runs: night/runs
"""
SMALL = """
name: small
direction: minimize
budget: 5
parameters: {x: {type: real, low: 0, high: 1}}
fidelities: [{name: only, cost: 1}]
command: [solve]
"""


CONSTRAINED = """
name: frame
direction: minimize
budget: 50
parameters: {x: {type: real, low: 0, high: 1}}
constraints:
  - stress <= 150e6
  - 10 <= frequency <= 20
  - frequency >= 12
failures: {model: false, timeouts: ignore}
outcomes:
  stress: {file: out.txt, regex: "stress = (.*)"}
  u: {file: nodes.csv, column: u}
fidelities:
  - {name: coarse, cost: 1}
  - {name: fine, cost: 5, outcomes: {u: {file: out.json, json: u}, f2: {python: "post.py:mass"}}}
command: [solve]
"""


@pytest.fixture
def write(tmp_path):
    """Writes a study file with the files it uses."""
    for name in ("solve", "mesh.msh", "solve.py", "post.py", "python"):
        (tmp_path / name).touch()
    (tmp_path / "post.py").write_text("def mass(folder): return 1.0")
    (tmp_path / "deck.inp.j2").write_text("{{ young }} {{ fidelity }}")

    def write_file(text):
        (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
        return tmp_path / "study.yaml"

    return write_file


def test_constraints_outcomes_and_what_failures_teach(write, tmp_path):
    file = load_study_file(write(CONSTRAINED))
    of = file.definition
    assert of.constraints == (OutcomeConstraint("stress", upper=150e6), OutcomeConstraint("frequency", 12, 20))
    assert (of.failures_teach, of.timeouts_teach) == (False, False)
    stress = Pattern("stress = (.*)", "out.txt")
    assert file.program.commands["coarse"].outcomes == {"stress": stress, "u": CsvCell("nodes.csv", "u")}
    assert file.program.commands["fine"].outcomes == {  # merged by name
        "stress": stress,
        "u": JsonPath("out.json", "u"),
        "f2": PythonFunction(str(tmp_path / "post.py"), "mass"),
    }
    plain = load_study_file(write(SMALL)).definition
    assert (plain.constraints, plain.failures_teach, plain.timeouts_teach) == ((), True, True)


def test_all_keys(write, tmp_path):
    file = load_study_file(write(FULL))
    of = file.definition
    assert (of.name, of.direction, of.strategy, of.seed) == ("plate", Direction.MAXIMIZE, "random", 3)
    assert (file.budget, file.workers, file.definition.initial) == (200.0, 2, {"coarse": 20, "fine": 5})
    assert file.definition.space.parameters == {
        "young": Real(1e11, 5e11, log=True),
        "layers": Integer(1, 8),
        "glue": Categorical(("epoxy", "none", "no", 2)),
    }
    assert tuple(file.definition.ladder) == (Fidelity("coarse", cost=1), Fidelity("fine", cost=10))
    assert file.storage == f"sqlite:///{tmp_path}/data/plate.db"
    assert file.failures == Failures(retries=1, stops=True)
    assert file.stop == Stop(wall_time=28800.0, trials=100, no_improvement=300.0, gain_per_cost=1e-6)
    assert (file.path, file.program.runs, file.program.here) == (
        tmp_path / "study.yaml",
        tmp_path / "night/runs",
        tmp_path,
    )


def test_a_fidelity_overrides_the_top_level(write, tmp_path):
    coarse, fine = load_study_file(write(FULL)).program.commands.values()
    assert coarse.argv == (str(tmp_path / "solve"), str(tmp_path / "mesh.msh"), "{query}", "3")
    assert fine.argv == ("python", "{here}/solve.py")  # a program without a slash is looked for on the PATH
    assert (coarse.timeout, fine.timeout) == (60.0, 600.0)
    assert (coarse.grace, fine.grace) == (5.0, 60.0)
    assert (coarse.limit, fine.limit) == (1_000_000, 2000)
    deck = tmp_path / "deck.inp.j2"
    assert (coarse.templates, fine.templates) == ({"deck.inp": deck}, {"deck.inp": deck, "extra.inp": deck})
    assert coarse.environment == {"THREADS": "1"}
    assert fine.environment == {"THREADS": "4", "MODE": "{fidelity}"}
    assert (coarse.result, fine.result) == (Pattern("mass = (.*)", "out.txt"), CsvCell("out.csv", "mass", 0))


def test_options_of_the_strategy(write):
    architecture = "{depths: [2], widths: [32], learning_rate: 1e-3}"
    file = load_study_file(write(SMALL + f"strategy: {{name: dnn-mfbo-paper, architecture: {architecture}}}\n"))
    of = file.definition
    assert of.strategy == "dnn-mfbo-paper"
    assert of.strategy_options == {"architecture": {"depths": [2], "widths": [32], "learning_rate": 1e-3}}
    strategy = registry.resolve(of.strategy, of.strategy_options, of.initial)
    assert strategy == dnn_mfbo_paper(StackArchitecture((2,), (32,), 1e-3))


def test_defaults(write, tmp_path):
    file = load_study_file(write(SMALL))
    assert (file.storage, file.definition.strategy, file.definition.seed) == (
        f"sqlite:///{tmp_path}/small.db",
        "dnn-mfbo",
        0,
    )
    assert (file.workers, file.failures, file.stop) == (1, Failures(), Stop())
    assert file.definition.initial == {"only": 7}
    assert file.program.runs == tmp_path / "runs"
    (command,) = file.program.commands.values()
    assert (command.timeout, command.shell, command.result) == (None, False, ResultFile())


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        ("{file: answer.json}", ResultFile("answer.json")),
        ("{file: out.json, json: 'results.mass[0]'}", JsonPath("out.json", "results.mass[0]")),
        ("{file: t.csv, column: 2, delimiter: space}", CsvCell("t.csv", 2, delimiter="space")),
        ("{file: t.csv, column: mass, row: last}", CsvCell("t.csv", "mass")),
        ("{regex: 'v=(.*)'}", Pattern("v=(.*)", "stdout.txt")),
        ("{python: 'os.path:getsize'}", PythonFunction("os.path", "getsize")),
    ],
)
def test_result_rules(write, result, rule):
    (command,) = load_study_file(write(f"{SMALL}result: {result}")).program.commands.values()
    assert command.result == rule


def test_a_python_function_is_found_beside_the_file(write, tmp_path):
    (command,) = load_study_file(write(f"{SMALL}result: {{python: 'post.py:mass'}}")).program.commands.values()
    assert command.result == PythonFunction(str(tmp_path / "post.py"), "mass")


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("postgresql+psycopg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("sqlite://", "sqlite://"),
    ],
)
def test_a_whole_url_stays_as_it_is(write, storage, expected):
    assert load_study_file(write(f"{SMALL}storage: {storage}")).storage == expected


def test_a_study_named_after_a_path_keeps_its_database_beside_the_file(write, tmp_path):
    assert load_study_file(write(SMALL.replace("small", '"../a/b"'))).storage == f"sqlite:///{tmp_path}/___a_b.db"


def test_a_relative_file_means_the_same_from_everywhere(write, tmp_path, monkeypatch):
    write(FULL)
    monkeypatch.chdir(tmp_path)
    near = load_study_file("study.yaml")
    monkeypatch.chdir("/")
    assert near.program == load_study_file(tmp_path / "study.yaml").program


def test_braces_in_the_folders_name_are_literal(tmp_path):
    folder = tmp_path / "a{b}c"
    folder.mkdir()
    (folder / "solve.sh").write_text("#!/bin/sh\necho v=$1\n")
    (folder / "solve.sh").chmod(0o755)
    (folder / "study.yaml").write_text(SMALL.replace("[solve]", "[./solve.sh, '{x}']") + "result: {regex: v=(.*)}")
    assert (
        load_study_file(folder / "study.yaml").program.run(Trial(0, {"x": 0.25}, Fidelity("only", cost=1))).value
        == 0.25
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_parsed_exactly(number):
    for text in (repr(number), f"{number:e}", f"{number:g}", f"{number:+.3E}"):
        assert parse_scalar(text) == float(text)
        assert isinstance(parse_scalar(text), (int, float))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("010", 10), ("no", "no"), ("on", "on"), ("True", True), ("~", None), ("1:30", "1:30"), ("1_0", "1_0")],
)
def test_scalars_are_those_of_yaml_1_2(text, meaning):
    assert parse_scalar(text) == meaning
    assert type(parse_scalar(text)) is type(meaning)


@given(st.floats(1e-3, 1e6).map(lambda x: round(x, 3)))
def test_durations_in_all_units(number):
    for unit, factor in {"": 1, "s": 1, " min": 60, " minutes": 60, "h": 3600, " hours": 3600, " d": 86400}.items():
        assert parse_duration(f"{number}{unit}") == number * factor


def test_the_schema_knows_every_key_of_the_files():
    known = study_schema()
    assert set(known["properties"]) > {"name", "parameters", "fidelities", "command", "result", "stop", "failures"}
    assert known["required"] == ["name", "direction", "budget", "parameters", "fidelities"]
    assert all("description" in key for key in known["properties"].values())
    assert known["additionalProperties"] is False


def write_starter(folder: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["init", str(folder)])
    assert end.value.code == 0


def test_the_starter_is_a_study_that_runs(tmp_path):
    write_starter(tmp_path)
    assert (tmp_path / "study.yaml").read_text().startswith("# yaml-language-server: $schema=study.schema.json\n")
    assert json.loads((tmp_path / "study.schema.json").read_text()) == study_schema()
    file = load_study_file(tmp_path / "study.yaml")
    params = {"height": 0.05, "layers": 2, "core": "foam"}
    coarse, fine = (file.program.run(Trial(m, params, fidelity)) for m, fidelity in enumerate(file.definition.ladder))
    assert coarse.value == fine.value == pytest.approx(3.6 + 0.05 * 60)
    # q L^4 (5/384) / EI + q L^2 / (8 GA), per metre of width
    bending = 5 / 384 * 4000 * 2**4 / (6e10 * 1e-3 * 0.05**2 / 2) + 4000 * 2**2 / (8 * 2e7 * 0.05)
    assert fine.outcomes == {"deflection": pytest.approx(bending, rel=1e-4)}
    assert 0.005 < abs(coarse.outcomes["deflection"] / fine.outcomes["deflection"] - 1) < 0.2


def test_every_comment_of_the_starter_can_be_switched_on(tmp_path):
    write_starter(tmp_path)
    (tmp_path / "post.py").write_text("def mass(folder): return 1.0")
    (tmp_path / "deck.inp.j2").write_text("{{ height }}")
    lines = (tmp_path / "study.yaml").read_text(encoding="utf-8").splitlines()
    settings = [line.removeprefix("# ") for line in lines if line.startswith("# ") and line[2:].split(":")[0].islower()]
    settings = [line for line in settings if line.split(":")[0].isidentifier()]
    (tmp_path / "all.yaml").write_text("\n".join([*lines, *settings]), encoding="utf-8")
    file = load_study_file(tmp_path / "all.yaml")
    assert [line.split(":")[0] for line in settings] == [
        *("strategy", "seed", "workers", "storage", "initial", "environment", "templates", "result", "outcomes"),
        *("stop", "runs"),
    ]
    assert file.stop == Stop(wall_time=28800.0, trials=100, no_improvement=60.0)


def test_parameter_constraints_are_those_of_the_space(tmp_path):
    path = tmp_path / "study.yaml"
    text = FULL.replace(
        "fidelities:", "parameter_constraints:\n  - layers * 1e11 <= young\n  - glue != 'no'\nfidelities:"
    )
    path.write_text(text)
    (tmp_path / "deck.inp.j2").write_text("{{ young }}")
    space = load_study_file(path).definition.space
    assert space.constraints == ("layers * 1e11 <= young", "glue != 'no'")
    assert space.contains({"young": 4e11, "layers": 4, "glue": 2})
    assert not space.contains({"young": 3e11, "layers": 4, "glue": 2})
    assert study_schema()["properties"]["parameter_constraints"]["items"] == {"type": "string"}
