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
