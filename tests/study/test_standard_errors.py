"""Standard errors of values: recorded, stored, exported, imported, transferred, and refused where wrong."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fidelium as fd
from fidelium.cli import main as cli
from fidelium.config.load import load_study_file
from fidelium.errors import ConfigError, ObservationError
from fidelium.history import TrialState
from fidelium.storage import open_storage
from fidelium.study.transfer import fitting

SPACE = {"x": fd.Real(0, 1)}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]
BAD = [-0.1, math.nan, math.inf, "0.1", True, [0.1, 0.2]]


@pytest.fixture(params=["sqlite", "memory"])
def storage(request, tmp_path):
    opened = open_storage(f"sqlite:///{tmp_path}/noisy.db" if request.param == "sqlite" else None)
    yield opened
    opened.close()


def main(words: list[str]) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        cli(words)
    return int(ended.value.code or 0)


def make(storage=None) -> fd.Study:
    return fd.create_study(
        SPACE, LADDER, direction="minimize", strategy="random", storage=storage, name="noisy", load_if_exists=True
    )


def test_it_is_recorded_with_the_value(storage):
    study = make(storage)
    trial = study.ask()
    assert trial.std is None
    assert study.tell(trial, 1.5, std=0.02).std == 0.02 == trial.std
    single: Any = np.float32(0.25)
    assert study.tell(study.ask(), 2, std=single).std == 0.25
    assert study.tell(study.ask(), 2, std=0).std == 0.0
    assert study.tell(study.ask(), 2).std is None
    assert study.add_observation({"x": 0.5}, "fine", 1.0, std=0.1).std == 0.1
    failed = study.ask()
    study.tell(failed, failed="died")
    assert study.correct(failed, 3.0, std=0.4).std == 0.4
    again = fd.load_study(storage, "noisy") if storage is not None else study
    assert [each.std for each in again.trials] == [0.02, 0.25, 0.0, None, 0.1, 0.4]
    frame = again.to_dataframe()
    assert frame["std"].tolist()[:3] == [0.02, 0.25, 0.0]
    assert math.isnan(frame["std"].tolist()[3])


@pytest.mark.parametrize("std", BAD, ids=str)
def test_what_is_no_standard_error_is_refused_in_one_sentence(std):
    study = make()
    trial = study.ask()
    for call in (
        lambda: study.tell(trial, 1.0, std=std),
        lambda: study.add_observation({"x": 0.5}, "fine", 1.0, std=std),
        lambda: study.correct(trial, 1.0, std=std),
    ):
        with pytest.raises(ObservationError, match=r"^std, the standard error of the value, must be a finite number"):
            call()
    assert trial.state is TrialState.RUNNING
    assert len(study.trials) == 1


def test_a_failed_trial_has_none():
    study = make()
    with pytest.raises(ObservationError, match=r"a failed trial has no standard error, got std=0\.1"):
        study.tell(study.ask(), failed="died", std=0.1)
    assert study.tell(0, math.nan, std=0.1).std is None


def test_an_objective_returns_it():
    study = make()
    study.optimize(lambda params, fidelity: {"value": params["x"], "std": 0.1 / fidelity.cost}, 40, progress=False)
    assert {(trial.fidelity.name, trial.std) for trial in study.trials} == {("coarse", 0.1), ("fine", 0.01)}
    assert all(not trial.outcomes for trial in study.trials)
    with pytest.raises(fd.FideliumError):
        study.optimize(lambda params, fidelity: {"value": 1.0, "std": -1}, 80, progress=False, max_failures=2)
    assert "the standard error (std) is -1.0, not a finite number >= 0" in (study.trials[-1].reason or "")


def test_other_studies_take_it_over():
    old, new = make(), make()
    old.add_observation({"x": 0.5}, "fine", 1.0, std=0.1)
    assert [row.std for row in fitting(old.definition, old.trials, new.definition).observations] == [0.1]


def test_a_model_of_an_outcome_does_not_use_the_errors_of_the_value():
    study = fd.create_study(SPACE, LADDER, direction="minimize", strategy="sf-ei", name="noisy")
    for x in np.linspace(0, 1, 6).tolist():
        study.add_observation({"x": x}, "fine", x, {"mass": x * x}, std=1e6)
    mean, std = study.predict([{"x": 0.35}], outcome="mass")
    assert abs(mean[0] - 0.35**2) < 0.05
    assert std[0] < 0.2


STUDY = """
name: noisy
direction: minimize
budget: 15
strategy: random
parameters: {{x: {{type: real, low: 0, high: 1}}}}
fidelities: [{{name: coarse, cost: 1}}, {{name: fine, cost: 10}}]
command: [{python}, -c, {program}, "{{x}}"]
{rules}
"""


def study_file(folder: Path, program: str, rules: str = "") -> Path:
    path = folder / "study.yaml"
    path.write_text(STUDY.format(python=json.dumps(sys.executable), program=json.dumps(program), rules=rules))
    return path


def test_result_json_holds_it(tmp_path, capsys):
    program = 'import json; json.dump({"value": 1.0, "std": 0.25, "mass": 3}, open("result.json", "w"))'
    path = study_file(tmp_path, program.replace("{", "{{").replace("}", "}}"))
    assert main(["run", str(path), "--quiet"]) == 0
    assert {trial.std for trial in fd.load_study(f"sqlite:///{tmp_path}/noisy.db", "noisy").trials} == {0.25}
    assert main(["check", str(path), "--trial", "--fidelity", "coarse"]) == 0
    assert "value 1.0 ± 0.25" in capsys.readouterr().out


def test_a_rule_of_its_own_reads_it(tmp_path):
    program = 'print("value = 1.5"); print("error = 0.125")'
    rules = 'result: {regex: "value = (.*)"}\noutcomes: {std: {regex: "error = (.*)"}}'
    path = study_file(tmp_path, program, rules)
    assert main(["run", str(path), "--quiet"]) == 0
    trials = fd.load_study(f"sqlite:///{tmp_path}/noisy.db", "noisy").trials
    assert {(trial.value, trial.std) for trial in trials} == {(1.5, 0.125)}
    assert all(not trial.outcomes for trial in trials)


@pytest.mark.parametrize(("printed", "why"), [("-1", ">= 0"), ("none", "not a number"), ("", "nothing in")])
def test_a_run_whose_rule_finds_no_standard_error_has_failed(tmp_path, printed, why):
    program = f'print("value = 1.5"); print({"error = " + printed!r} if {bool(printed)} else "")'
    rules = 'result: {regex: "value = (.*)"}\noutcomes: {std: {regex: "error = (.*)"}}'
    main(["run", str(study_file(tmp_path, program, rules)), "--quiet"])
    reasons = [trial.reason or "" for trial in fd.load_study(f"sqlite:///{tmp_path}/noisy.db", "noisy").trials]
    assert reasons
    assert all("standard error (std)" in reason and why in reason for reason in reasons)


def test_no_constraint_and_no_outcome_is_called_std(tmp_path):
    with pytest.raises(fd.FideliumError, match="'std' is reserved"):
        fd.create_study(SPACE, LADDER, direction="minimize", constraints=["std <= 1"])
    with pytest.raises(ConfigError, match="'std' is reserved"):
        load_study_file(study_file(tmp_path, "pass", 'constraints: ["std <= 1"]'))


def test_the_command_line_tells_exports_and_imports_it(tmp_path, capsys, monkeypatch):
    path = study_file(tmp_path, "pass")
    assert main(["ask", str(path)]) == 0
    assert main(["tell", str(path), "0", "1.5", "--std", "0.02"]) == 0
    assert main(["ask", str(path)]) == 0
    monkeypatch.setattr("sys.stdin", __import__("io").StringIO('{"number": 1, "value": 2, "std": 0}'))
    assert main(["tell", str(path), "-"]) == 0
    for std in ("-1", "much", "nan"):
        main(["ask", str(path)])
        capsys.readouterr()
        assert main(["tell", str(path), "2", "1.5", f"--std={std}"]) == 2
        said = capsys.readouterr().err.strip()
        assert "std" in said
        assert ">= 0" in said
        assert "\n" not in said
    table = tmp_path / "trials.csv"
    assert main(["export", str(path), str(table)]) == 0
    header, first, second, *_ = table.read_text().splitlines()
    assert "measured_cost,std,excluded" in header
    assert ",0.02," in first
    assert ",0.0," in second
    exported = json.loads((main(["export", str(path), str(tmp_path / "t.json")]), (tmp_path / "t.json").read_text())[1])
    assert [trial["std"] for trial in exported["trials"][:2]] == [0.02, 0.0]
    other = study_file(tmp_path / "other" if (tmp_path / "other").mkdir() is None else tmp_path, "pass")
    assert main(["import", str(other), str(table)]) == 0
    given = fd.load_study(f"sqlite:///{tmp_path}/other/noisy.db", "noisy").trials
    assert [trial.std for trial in given] == [0.02, 0.0]


@pytest.mark.parametrize("option", ["", "--column std=error"])
def test_the_column_of_standard_errors_may_have_another_name_and_empty_cells(tmp_path, option, capsys):
    header = "error" if option else "std"
    table = tmp_path / "data.csv"
    path = study_file(tmp_path, "pass")
    table.write_text(f"x,fidelity,value,{header}\n0.1,fine,1,0.5\n0.2,fine,2,\n")
    assert main(["import", str(path), str(table), *shlex.split(option)]) == 0
    assert [trial.std for trial in fd.load_study(f"sqlite:///{tmp_path}/noisy.db", "noisy").trials] == [0.5, None]
    table.write_text(f"x,fidelity,value,{header}\n0.1,fine,1,-0.5\n0.2,fine,2,bad\n")
    capsys.readouterr()
    assert main(["import", str(path), str(table), *shlex.split(option)]) == 2
    said = capsys.readouterr().err
    assert f"line 2, column {header!r}: a standard error is a finite number >= 0, got '-0.5'" in said
    assert "line 3" in said
    table.write_text("x,fidelity,value\n0.3,fine,1\n")
    assert main(["import", str(path), str(table), *shlex.split(option)]) == (2 if option else 0)


def test_a_parameter_may_be_called_std(tmp_path):
    study = fd.create_study({"std": fd.Real(0, 1)}, LADDER, direction="minimize", strategy="random")
    study.tell(study.ask(), 1.0, std=0.5)
    frame = study.to_dataframe()
    assert frame["std"].tolist() == [0.5]
    assert frame["params_std"].tolist()[0] == study.trials[0].params["std"]
