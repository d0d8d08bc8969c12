"""Parameters named like the other columns of a table: no column is lost, and what is exported can be imported."""

from __future__ import annotations

import csv
import json
import math

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fidelium import Categorical, Fidelity, Integer, Real, Study, create_study
from fidelium.cli.table_io import read_designs, read_observations, write_table
from fidelium.history import TrialState
from fidelium.space import SearchSpace, column_names
from fidelium.trial_table import LEADING, TRAILING, TrialTable

AWKWARD = {
    "cost": Real(0, 1),
    "value": Real(-1, 1),
    "number": Integer(1, 9),
    "fidelity": Categorical(["low", "high", "done"]),
    "state": Categorical(["done", "failed", "running"]),
    "reason": Categorical([None, "done"]),
    "params_cost": Real(2, 3),
    "given": Categorical([True, False]),
    "plain": Real(0, 1),
}
"""All but the last are columns of an exported file, or what such a column would be renamed to."""


@pytest.fixture
def storage(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


def make(storage: str, name: str) -> Study:
    ladder = [Fidelity("low", 1), Fidelity("high", 4)]
    return create_study(AWKWARD, ladder, direction="maximize", strategy="random", storage=storage, name=name, seed=1)


@pytest.fixture
def study(storage) -> Study:
    """Eight done, one failed, one running."""
    made = make(storage, "source")
    for number in range(10):
        trial = made.ask()
        if number < 8:
            made.tell(trial, math.cos(number) / 3)
    made.tell(8, failed="no mesh")
    return made


def told(study: Study) -> list:
    return [(trial.params, trial.fidelity, trial.value) for trial in study.trials if trial.value is not None]


def test_what_is_exported_as_csv_is_imported_bit_by_bit(call, study, storage, tmp_path):
    file = tmp_path / "out.csv"
    assert call("export", storage, file).code == 0
    copy = make(storage, "copy")
    assert call("import", storage, file, "--name", "copy").out == f"8 observations imported from {file}\n"
    assert told(copy) == told(study)
    assert [repr(trial.params) for trial in copy.trials] == [repr(trial.params) for trial in study.trials[:8]]


def test_every_form_has_every_parameter_and_the_trial_beside_it(call, study, storage, tmp_path):
    for ending in ("csv", "json", "parquet"):
        assert call("export", storage, tmp_path / f"out.{ending}").code == 0
    content = json.loads((tmp_path / "out.json").read_text())
    assert [trial["params"] for trial in content["trials"]] == [trial.params for trial in study.trials]
    parquet = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    frame = study.to_dataframe().to_dict("records")
    for rows in (parquet, frame):
        for row, trial in zip(rows, study.trials, strict=True):
            assert (row["number"], row["cost"], row["state"]) == (trial.number, trial.cost, str(trial.state))
            assert (row["params_number"], row["params_state"]) == (trial.params["number"], trial.params["state"])
            assert (row["params_cost"], row["params_params_cost"]) == (
                trial.params["params_cost"],
                trial.params["cost"],
            )
    with (tmp_path / "out.csv").open(newline="") as stream:
        headers = next(csv.reader(stream))
    assert len(set(headers)) == len(headers) == len(LEADING) + len(TRAILING) + len(AWKWARD)
    assert headers == list(parquet[0])


def test_a_study_without_trials_has_the_same_columns(call, study, storage, tmp_path):
    make(storage, "empty")
    for name in ("source", "empty"):
        assert call("export", storage, tmp_path / f"{name}.csv", "--name", name).code == 0
    first, second = ((tmp_path / f"{name}.csv").read_text().splitlines()[0] for name in ("source", "empty"))
    assert first == second


def test_the_designs_of_an_exported_file_are_read_back(call, study, storage, tmp_path):
    call("export", storage, tmp_path / "out.csv")
    assert read_designs(tmp_path / "out.csv", study.space) == [trial.params for trial in study.trials]


@pytest.fixture
def awkward(storage) -> Study:
    space = {"cost": Real(0, 1), "value": Real(0, 1), "state": Real(0, 1)}
    return create_study(space, [Fidelity("only", 1)], direction="minimize", storage=storage, name="own", seed=0)


def test_a_file_of_the_users_own_may_call_a_parameter_by_its_name(call, awkward, storage, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("cost,value,state,mass\n0.25,0.5,0.75,7\n")
    assert call("import", storage, file, "--fidelity", "only", "--column", "value=mass").code == 0
    file.write_text("cost,load,state,value\n0.125,0.5,0.75,8\n")
    assert call("import", storage, file, "--fidelity", "only", "--column", "params_value=load").code == 0
    assert [(trial.params, trial.value) for trial in awkward.trials] == [
        ({"cost": 0.25, "value": 0.5, "state": 0.75}, 7.0),
        ({"cost": 0.125, "value": 0.5, "state": 0.75}, 8.0),
    ]


def test_one_column_is_not_read_as_both_the_value_and_a_parameter(call, awkward, storage, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("cost,value,state\n0.25,0.5,0.75\n")
    answer = call("import", storage, file, "--fidelity", "only")
    assert answer.code == 2
    assert "has no column 'params_value'; its columns are 'cost', 'value', 'state'" in answer.err
    assert awkward.trials == ()


OURS = (*LEADING, *TRAILING, "params", "plain", "x,y", 'quo"te', "new\nline", " space ", "\ud800", "é", "0", "True")
HOSTILE = st.lists(
    st.builds(lambda prefixes, name: "params_" * prefixes + name, st.integers(0, 2), st.sampled_from(OURS)),
    min_size=1,
    max_size=6,
    unique=True,
)
KINDS = st.sampled_from(
    [
        Real(-1, 1),
        Integer(0, 3),
        Categorical(["done", "failed", "high"]),
        Categorical([True, None, "x\ud800", "", 7, "a,b"]),
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTILE, st.data())
def test_any_names_of_parameters_come_back_from_an_exported_file(tmp_path, names, data):
    space = {name: data.draw(KINDS) for name in names}
    study = create_study(space, [Fidelity("low", 1), Fidelity("high", 4)], direction="maximize", strategy="random")
    for number in range(6):
        trial = study.ask()
        if number < 5:
            study.tell(trial, math.cos(number) / 3)
    study.exclude(2, "wrong mesh")
    file = tmp_path / "out.csv"
    write_table(file, study.definition, study.trials)
    observed, bad = read_observations(file, study.space, study.ladder, None, {})
    expected = [t for t in study.trials if t.state is TrialState.DONE and not t.excluded]
    assert bad == []
    assert [repr((row.params, row.fidelity, row.value)) for row in observed] == [
        repr((trial.params, trial.fidelity.name, trial.value)) for trial in expected
    ]
    with file.open(newline="", encoding="utf-8") as stream:
        written = next(csv.reader(stream))
    assert written == [name.encode("utf-8", "backslashreplace").decode() for name in TrialTable(study.space).columns]
    write_table(tmp_path / "out.parquet", study.definition, study.trials)
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").column_names == written
    if not any("\ud800" in str(text) for trial in study.trials for each in trial.params.items() for text in each):
        assert list(study.to_dataframe().columns) == written  # pandas has no lone surrogates


def test_the_columns_of_the_data_frame_are_those_of_every_exported_file(call, study, storage, tmp_path):
    study.exclude(3)
    columns = list(study.to_dataframe().columns)
    assert columns[:5] == list(LEADING)
    assert columns[-len(TRAILING) :] == list(TRAILING)
    for ending in ("csv", "parquet"):
        assert call("export", storage, tmp_path / f"out.{ending}").code == 0
    with (tmp_path / "out.csv").open(newline="") as stream:
        assert next(csv.reader(stream)) == columns
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").column_names == columns
    assert study.to_dataframe()["excluded"].tolist() == [trial.number == 3 for trial in study.trials]
    make(storage, "empty")
    assert call("export", storage, tmp_path / "empty.parquet", "--name", "empty").code == 0
    assert pyarrow.parquet.read_table(tmp_path / "empty.parquet").column_names == columns


def test_an_excluded_trial_is_not_imported(call, study, storage, tmp_path):
    study.exclude(2, "wrong mesh")
    call("export", storage, tmp_path / "out.csv")
    copy = make(storage, "copy")
    assert call("import", storage, tmp_path / "out.csv", "--name", "copy").out.startswith("7 observations imported")
    assert told(copy) == [each for number, each in enumerate(told(study)) if number != 2]


NAMES = st.lists(st.sampled_from(["a", "b", "params_a", "params_b", "params_params_a", "c"]), min_size=1, unique=True)


@given(NAMES, st.sets(st.sampled_from(["a", "b", "params_c"])))
def test_columns_are_different_from_each_other_and_from_the_others_and_end_with_the_name(names, others):
    columns = column_names(SearchSpace({name: Real(0, 1) for name in names}), others)
    assert list(columns) == names
    assert len({*columns.values(), *others}) == len(names) + len(others)
    for name, column in columns.items():
        assert column.removesuffix(name).replace("params_", "") == ""
        assert column == name or name in others
