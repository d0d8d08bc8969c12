"""`export` and `import`: an exact round trip, and nothing imported from an invalid file."""

from __future__ import annotations

import csv
import json
import math
from contextlib import closing

import pytest

from fidelium import Categorical, Fidelity, Integer, Real, SearchSpace, create_study, load_study
from fidelium.config.load import load_study_file
from fidelium.storage import open_storage
from fidelium.study import start_study

CHOICES = ('a "quoted", choice', "; rm -rf ~\n", "äöü 漢字", None, True, 7)


def make(storage: str, name: str):
    space = {"x": Real(-1, 1), "count": Integer(1, 9), "kind": Categorical(CHOICES), "value of": Real(0, 1)}
    ladder = [Fidelity("low", 1), Fidelity("high", 4)]
    return create_study(space, ladder, direction="maximize", strategy="random", storage=storage, name=name, seed=3)


@pytest.fixture
def storage(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def study(storage):
    """Eight done, one failed, one running."""
    made = make(storage, "source")
    for number in range(10):
        trial = made.ask()
        if number < 8:
            made.tell(trial, math.sin(number) / 3, measured_cost=number / 7)
    made.tell(8, failed="first line\nsecond, with a comma")
    return made


def test_csv_has_a_row_per_trial_with_exact_numbers(call, study, storage, tmp_path) -> None:
    file = tmp_path / "out.csv"
    assert call("export", storage, file).out == f"10 trials written to {file}\n"
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 10
    for row, trial in zip(rows, study.trials, strict=True):
        assert row["value"] == ("" if trial.value is None else repr(trial.value))
        assert float(row["x"]) == trial.params["x"]
        assert row["kind"] == str(trial.params["kind"])
        assert row["state"] == str(trial.state)
        assert row["measured_cost"] == ("" if trial.measured_cost is None else repr(trial.measured_cost))
    assert rows[8]["reason"] == "first line\nsecond, with a comma"


def test_json_and_parquet_hold_the_same(call, study, storage, tmp_path) -> None:
    import pyarrow.parquet

    assert call("export", storage, tmp_path / "out.json").code == 0
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["name"] == "source"
    assert [trial["params"] for trial in content["trials"]] == [trial.params for trial in study.trials]
    assert call("export", storage, tmp_path / "out.parquet").code == 0
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["value"].to_pylist() == [trial.value for trial in study.trials]
    assert table["count"].to_pylist() == [trial.params["count"] for trial in study.trials]
    assert [row["number"] for row in content["trials"]] == table["number"].to_pylist()


def test_a_name_that_is_too_long_is_one_line(call, storage, study, tmp_path) -> None:
    name = "a" * 300
    answer = call("export", storage, tmp_path / f"{name}.csv")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith("File name too long\n")
    answer = call("status", f"sqlite:///{tmp_path}/{name}.db")
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1


def test_an_exported_study_can_be_imported_once(call, study, storage, tmp_path) -> None:
    file = tmp_path / "out.csv"
    call("export", storage, file)
    copy = make(storage, "copy")
    assert call("import", storage, file, "--name", "copy").out == f"8 observations imported from {file}\n"
    expected = [(t.params, t.fidelity, t.value) for t in study.trials[:8]]
    assert [(t.params, t.fidelity, t.value) for t in copy.trials] == expected
    assert all(trial.given for trial in copy.trials)
    assert copy.spent == 0
    again = json.loads(call("import", storage, file, "--name", "copy", "--json").out)
    assert again == {"rows": 8, "imported": 0, "known": 8, "skipped": []}
    assert len(load_study(storage, "copy").trials) == 8


def test_other_headers_and_one_fidelity_for_all(call, study_file, tmp_path) -> None:
    file = tmp_path / "old.csv"
    file.write_text("\ufefflength,count,kind,mass,remark\n0.25,2, steel ,1.5,from 2019\n")
    answer = call("import", study_file(), file, "--fidelity", "fine", "--column", "x=length", "--column", "value=mass")
    assert answer.out == f"1 observation imported from {file}\n"
    (trial,) = load_study(f"sqlite:///{tmp_path}/parabola.db").trials
    assert (trial.params, trial.fidelity.name, trial.value) == ({"x": 0.25, "count": 2, "kind": "steel"}, "fine", 1.5)


def test_all_errors_are_listed_and_nothing_is_imported(call, study_file, tmp_path) -> None:
    file = tmp_path / "old.csv"
    file.write_text(
        "x,count,kind,fidelity,value\n"
        "0.5,2,steel,fine,1\n"  # good
        "2,2.5,tin,fine,1\n"
        '0.5,2,steel,"very\nfine",nan\n'
        "0.5,2,steel\n"
        "half,2,steel,coarse,\n"
    )
    answer = call("import", study_file(), file)
    assert answer.code == 2
    lines = answer.err.splitlines()
    assert lines[0] == f"error: '{file}' has errors; nothing was read:"
    expected = [
        "line 3, column 'x': expected a number in [0, 1], got 2.0",
        "line 3, column 'count': expected a whole number in [1, 3], got 2.5",
        "line 3, column 'kind': expected one of 'steel', 'no; rm -rf $HOME', got 'tin'",
        "line 5, column 'fidelity': unknown fidelity 'very\\nfine'; this ladder has 'coarse', 'fine'",
        "line 5, column 'value': expected a finite number, got 'nan'",
        "line 6: expected 5 cells, got 3",
        "line 7, column 'x': expected a number, got 'half'",
        "line 7, column 'value': expected a finite number, got ''",
    ]
    assert [line.strip() for line in lines[1:]] == expected
    assert not (tmp_path / "parabola.db").exists()


ROWS = (
    "x,count,kind,fidelity,value\n"
    "0.5,2,steel,fine,1\n"  # good
    "2,2.5,steel,fine,1\n"
    "0.5,2,steel\n"
    "0.25,1,steel,coarse,2\n"  # good
    "0.5,2,steel,fine,nan\n"
)


def test_bad_rows_are_skipped_counted_and_listed_if_wished(call, study_file, tmp_path) -> None:
    file, path = tmp_path / "old.csv", study_file()
    file.write_text(ROWS)
    assert call("import", path, file).code == 2
    assert not (tmp_path / "parabola.db").exists()
    answer = call("import", path, file, "--skip-bad")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        f"2 observations imported from {file}; 3 bad rows skipped:",
        "  line 3, column 'x': expected a number in [0, 1], got 2.0",
        "  line 3, column 'count': expected a whole number in [1, 3], got 2.5",
        "  line 4: expected 5 cells, got 3",
        "  line 6, column 'value': expected a finite number, got 'nan'",
    ]
    trials = load_study(f"sqlite:///{tmp_path}/parabola.db").trials
    assert [(trial.params["x"], trial.value) for trial in trials] == [(0.5, 1.0), (0.25, 2.0)]
    again = json.loads(call("import", path, file, "--skip-bad", "--json").out)
    assert again == {
        "rows": 2,
        "imported": 0,
        "known": 2,
        "skipped": [
            {
                "line": 3,
                "errors": [
                    "column 'x': expected a number in [0, 1], got 2.0",
                    "column 'count': expected a whole number in [1, 3], got 2.5",
                ],
            },
            {"line": 4, "errors": ["expected 5 cells, got 3"]},
            {"line": 6, "errors": ["column 'value': expected a finite number, got 'nan'"]},
        ],
    }


def test_a_file_that_lacks_a_column_is_refused_even_if_bad_rows_are_skipped(call, study_file, tmp_path) -> None:
    (tmp_path / "old.csv").write_text("x,count\n1,2\n")
    answer = call("import", study_file(), tmp_path / "old.csv", "--skip-bad")
    assert answer.code == 2
    assert "has no column 'kind', 'fidelity', 'value'" in answer.err


def test_an_observation_made_twice_is_imported_twice_and_once_only(call, study_file, tmp_path) -> None:
    file, path = tmp_path / "old.csv", study_file()
    file.write_text("x,count,kind,fidelity,value\n" + "0.5,2,steel,fine,1\n" * 2)
    with closing(open_storage(f"sqlite:///{tmp_path}/parabola.db")) as storage:  # killed after the first row
        start_study(load_study_file(path).definition, storage).add_observation(
            {"x": 0.5, "count": 2, "kind": "steel"}, "fine", 1.0
        )
    assert call("import", path, file).out.startswith("1 observation imported")
    assert call("import", path, file).out.startswith("0 observations imported")


def test_of_many_errors_the_first_twenty_are_listed(call, study_file, tmp_path) -> None:
    file = tmp_path / "old.csv"
    file.write_text("x,count,kind,fidelity,value\n" + "0.5,2,steel,fine,much\n" * 30)
    lines = call("import", study_file(), file).err.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  ... and 10 more"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "STUDY", "x.txt"], "suffix must be one of .csv, .json, .parquet, got 'x.txt'"),
        (["export", "STUDY", "/dev/null/x.csv"], "cannot write '/dev/null/x.csv'"),
        (["export", "STUDY", "HERE"], "already exists; choose another name, or add --overwrite"),
        (["import", "STUDY", "/nope.csv"], "cannot read '/nope.csv'"),
        (
            ["import", "STUDY", "HERE"],
            "has no column 'count', 'kind', 'fidelity', 'value'; its columns are 'x'; use --column name=header",
        ),
        (["import", "STUDY", "HERE", "--column", "y=z"], "--column must look like name=header"),
        (["import", "STUDY", "HERE", "--fidelity", "no"], "unknown fidelity 'no'"),
    ],
)
def test_bad_input_is_one_line(call, study_file, tmp_path, arguments, message) -> None:
    (tmp_path / "here.csv").write_text("x\n1\n")
    places = {"STUDY": study_file(), "HERE": tmp_path / "here.csv"}
    assert call("ask", places["STUDY"]).code == 0
    answer = call(*(places.get(each, each) for each in arguments))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert (tmp_path / "here.csv").read_text() == "x\n1\n"


def test_only_decimal_numbers_are_numbers(call, study_file, tmp_path) -> None:
    file = tmp_path / "old.csv"
    file.write_text("x,count,kind,fidelity,value\n0.5,2,steel,fine,1_000\n0_1,２,steel,fine,1.5D+01\n")
    assert call("import", study_file(), file).err.splitlines()[1:] == [
        "  line 2, column 'value': expected a finite number, got '1_000'",
        "  line 3, column 'x': expected a number, got '0_1'",
        "  line 3, column 'count': expected a whole number, got '２'",
    ]


def make_constrained(storage: str, name: str):
    ladder = [Fidelity("low", 1), Fidelity("high", 4)]
    return create_study(
        {"x": Real(-1, 1)},
        ladder,
        direction="minimize",
        strategy="random",
        storage=storage,
        name=name,
        constraints=["stress <= 1.5e8"],
    )


@pytest.fixture
def constrained(storage):
    """Two observations with outcomes, one of them infeasible, and a failed trial."""
    made = make_constrained(storage, "constrained")
    made.add_observation({"x": 0.5}, "high", 1 / 3, {"stress": 0.1 + 0.2, "mass": 7.0})
    made.add_observation({"x": 0.25}, "low", 2.0, {"stress": 2e8})
    made.tell(made.ask(), failed="no mesh")
    return made


def test_outcomes_are_exported_and_come_back(call, constrained, storage, tmp_path) -> None:
    import pyarrow.parquet

    for ending in ("csv", "json", "parquet"):
        assert call("export", storage, tmp_path / f"out.{ending}").code == 0
    with (tmp_path / "out.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = ["x", "stress", "mass", "feasible", "measured_cost"]
    assert list(rows[0])[5:10] == columns
    assert [(row["stress"], row["mass"], row["feasible"]) for row in rows] == [
        (repr(0.1 + 0.2), "7.0", "True"),
        ("200000000.0", "", "False"),
        ("", "", ""),
    ]
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names[5:10] == columns
    assert table["feasible"].to_pylist() == [True, False, None]
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["constraints"] == ["stress <= 150000000.0"]
    assert [(trial["outcomes"], trial["feasible"]) for trial in content["trials"]] == [
        ({"stress": 0.1 + 0.2, "mass": 7.0}, True),
        ({"stress": 2e8}, False),
        ({}, None),
    ]
    copy = make_constrained(storage, "copy")
    answer = call("import", storage, tmp_path / "out.csv", "--name", "copy", "--outcome", "mass")
    assert answer.out == f"2 observations imported from {tmp_path / 'out.csv'}\n"
    assert [dict(trial.outcomes) for trial in copy.trials] == [dict(trial.outcomes) for trial in constrained.trials[:2]]
    assert [trial.feasible for trial in copy.trials] == [True, False]
    assert call("import", storage, tmp_path / "out.csv", "--name", "copy").out.endswith("2 were imported before\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,value\n0.5,1\n", "has no column 'stress'; its columns are 'x', 'value'; use --column name=header"),
        (
            "x,value,stress\n0.5,1,1e8\n0.25,1,\n",
            "has errors; nothing was read:\n  line 3, column 'stress': expected a finite number, got ''",
        ),
        ("x,value,stress\n0.5,1,nan\n", "line 2, column 'stress': expected a finite number, got 'nan'"),
        ("x,value,stress\n0.5,1,inf\n", "line 2, column 'stress': expected a finite number, got 'inf'"),
        ("x,value,stress\n0.5,1,1e999\n", "line 2, column 'stress': expected a finite number, got '1e999'"),
    ],
)
def test_rows_without_a_constrained_outcome_are_refused(call, constrained, storage, tmp_path, text, message) -> None:
    file = tmp_path / "in.csv"
    file.write_text(text)
    answer = call("import", storage, file, "--fidelity", "high")
    assert answer.code == 2
    assert message in answer.err
    assert len(constrained.trials) == 3


def test_outcomes_may_have_other_headers_and_empty_cells(call, constrained, storage, tmp_path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("x,value,S max,mass,comment\n0.5,1,1e8,,a\n0.75,2,3e8,5,b\n")
    asked = ("import", storage, file, "--fidelity", "high", "--column", "stress=S max", "--outcome", "mass")
    assert call(*asked).code == 0
    assert [dict(trial.outcomes) for trial in constrained.trials[3:]] == [
        {"stress": 1e8},
        {"stress": 3e8, "mass": 5.0},
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "'x' is a parameter, so an outcome cannot have this name"),
        ("value", "'value' is reserved"),
        ("drag", "has no column 'drag'"),
    ],
)
def test_an_outcome_that_cannot_be_read_is_refused(call, constrained, storage, tmp_path, name, message) -> None:
    file = tmp_path / "in.csv"
    file.write_text("x,value,stress\n0.5,1,1e8\n")
    answer = call("import", storage, file, "--fidelity", "high", "--outcome", name)
    assert answer.code == 2
    assert message in answer.err


def test_rows_that_violate_a_parameter_constraint_are_errors(call, storage, tmp_path) -> None:
    space = SearchSpace({"x": Real(0, 1), "y": Real(0, 1)}, ["x < y"])
    create_study(space, [Fidelity("only", 1)], direction="minimize", strategy="random", storage=storage, name="s")
    file = tmp_path / "data.csv"
    file.write_text("x,y,value\n0.1,0.5,1\n0.6,0.5,2\n")
    answer = call("import", storage, file, "--fidelity", "only")
    assert answer.code == 2
    assert "line 3: the design violates 'x < y': 0.6 < 0.5" in answer.err
    assert call("import", storage, file, "--fidelity", "only", "--skip-bad").code == 0
    with closing(load_study(storage, "s")) as study:
        assert [trial.value for trial in study.trials] == [1.0]
