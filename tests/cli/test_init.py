"""`init` and `schema`."""

from __future__ import annotations

import json

from fidelium.config.load import load_study_file
from fidelium.config.schema import study_schema
from fidelium.storage import open_storage


def test_init_writes_a_study_that_loads_and_overwrites_nothing(call, tmp_path) -> None:
    folder = tmp_path / "new" / "beam"
    answer = call("init", folder)
    assert answer.code == 0
    assert f"run it with: fidelium run {folder}/study.yaml" in answer.out
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["simulator.py", "study.schema.json", "study.yaml"]
    assert load_study_file(folder / "study.yaml").definition.name == "beam"
    (folder / "simulator.py").write_text("mine")
    (folder / "study.yaml").unlink()
    again = call("init", folder)
    assert again.code == 2
    assert "simulator.py" in again.err
    assert again.err.count("\n") == 1
    assert (folder / "simulator.py").read_text() == "mine"
    assert not (folder / "study.yaml").exists()


def test_the_starter_has_its_deflection_as_an_outcome_with_a_limit(call, tmp_path) -> None:
    assert call("init", tmp_path / "beam").code == 0
    path = tmp_path / "beam" / "study.yaml"
    definition = load_study_file(path).definition
    assert [str(each) for each in definition.constraints] == ["deflection <= 0.005"]
    answer = call("run", path, "--strategy", "random", "--budget", "60")
    assert answer.code == 0, answer
    storage = open_storage(f"sqlite:///{tmp_path}/beam/beam.db")
    trials = storage.open("beam").trials()
    storage.close()
    assert all(trial.feasible == (trial.outcomes["deflection"] <= 0.005) for trial in trials)
    assert {trial.feasible for trial in trials} == {True, False}
    assert all((trial.value or 0) < 40 for trial in trials)  # the mass, without a penalty
    assert "infeasible: deflection" in answer.err


def test_the_schema_is_json(call) -> None:
    assert json.loads(call("schema").out) == json.loads(json.dumps(study_schema()))
