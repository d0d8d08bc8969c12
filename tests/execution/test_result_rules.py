"""Result rules read the value, or say what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.errors import EvaluationError, SettingError
from fidelium.execution.base import Measurement, parse_number
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import (
    CsvCell,
    JsonPath,
    Pattern,
    ResultFile,
    reported_failure,
)

JSON = '{"results": {"mass": [1.5, {"a.b": "2.5"}], "": 3}, "name": "plate"}'
TABLE = "step, mass ,stress\n0,1.5,10\n1,2.5D+01,11\n\n"


def read(rule, folder, text):
    (folder / rule.file).write_text(text)
    return rule.read(folder)


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        (ResultFile(), '{"value": 2}', Measurement(2.0)),
        (ResultFile(), '\ufeff{"value": "2e3", "cost": 7, "more": []}', Measurement(2000.0, 7.0)),
        (JsonPath("o", "results.mass[0]"), JSON, Measurement(1.5)),
        (JsonPath("o", 'results.mass[-1]["a.b"]'), JSON, Measurement(2.5)),
        (JsonPath("o", '$.results[""]'), JSON, Measurement(3.0)),
        (JsonPath("o", "[1]"), "[1, 2]", Measurement(2.0)),
        (CsvCell("o", "mass"), TABLE, Measurement(25.0)),
        (CsvCell("o", "mass", row=0), TABLE, Measurement(1.5)),
        (CsvCell("o", 2, row=1), TABLE, Measurement(10.0)),
        (CsvCell("o", -1), TABLE, Measurement(11.0)),
        (CsvCell("o", "b", delimiter=";"), 'a;b\n1;"2"\n', Measurement(2.0)),
        (CsvCell("o", "b", delimiter="space"), "  a   b\n 1\t 2\n", Measurement(2.0)),
        (Pattern("mass = (.*)"), "mass = 1\nmass = 2\n", Measurement(2.0)),
        (Pattern(r"^(\S+) kg$", "o"), "1 kg\n2 kg\n3 kg or so", Measurement(2.0)),
    ],
)
def test_the_value_is_found(tmp_path, rule, text, expected):
    assert read(rule, tmp_path, text) == expected


@pytest.mark.parametrize(
    ("rule", "text", "message"),
    [
        (ResultFile(), "", "result.json is not JSON: .*; it starts with ''"),
        (ResultFile(), "[" * 100_000, "result.json is not JSON"),
        (ResultFile(), '{"cost": 1}', "must contain {\"value\": number}, got {'cost': 1}"),
        (JsonPath("o", "results.mas"), JSON, "o has no results.mas: no 'mas' in {'mass'"),
        (JsonPath("o", "results[0]"), JSON, r"o has no results\[0\]: no 0 in"),
        (JsonPath("o", "results.mass.x"), JSON, "no 'x' in"),
        (JsonPath("o", "results.mass[7]"), JSON, "no 7 in"),
        (JsonPath("o", "name"), JSON, "name is 'plate', not a number"),
        (CsvCell("o", "mas"), TABLE, r"o has no column 'mas'; its columns are \['step', 'mass', 'stress'\]"),
        (CsvCell("o", "mass", row=9), TABLE, "no row 9 with column 'mass'"),
        (CsvCell("o", 0), "", "no row -1 with column 0"),
        (CsvCell("o", "mass"), "mass\nheavy", "row -1, column 'mass' is 'heavy', not a number"),
        (Pattern("mass = (.*)"), "no mass", "nothing in stdout.txt matches 'mass = "),
        (Pattern("mass = (.*)"), "mass = inf", "the match of .* in stdout.txt is 'inf', not a number"),
        (Pattern("mass(=.*)?"), "mass", "is None, not a number"),
    ],
)
def test_missing_values_are_named(tmp_path, rule, text, message):
    with pytest.raises(EvaluationError, match=message):
        read(rule, tmp_path, text)


def test_a_file_that_was_not_written_is_named(tmp_path):
    with pytest.raises(EvaluationError, match=r"the program wrote no out\.csv"):
        CsvCell("out.csv", 0).read(tmp_path)


@given(st.binary())
def test_any_bytes_give_a_number_or_a_reason(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "o").write_bytes(content)
    for rule in (ResultFile("o"), JsonPath("o", "a[0]"), CsvCell("o", 0), CsvCell("o", "a"), Pattern("(.)", "o")):
        reported_failure(rule, folder)
        try:
            assert abs(rule.read(folder).value) < float("inf")
        except EvaluationError as error:
            assert len(str(error)) < 400  # noqa: PT017 - a number is valid, too


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_all_digits_with_fortran_exponents_too(number):
    assert parse_number("x", repr(number)) == number
    assert parse_number("x", f" {number:.16E} ".replace("E", "D")) == number


@pytest.mark.parametrize("path", ["", "a..b", "a[x]", "a[", "a]"])
def test_an_invalid_json_path_is_rejected(path):
    with pytest.raises(SettingError, match="a JSON path must look like"):
        JsonPath("o", path)


@pytest.mark.parametrize(("regex", "message"), [("(", "is not a valid regular expression"), ("mass", "needs a group")])
def test_an_invalid_pattern_is_rejected(regex, message):
    with pytest.raises(SettingError, match=message):
        Pattern(regex)


POST = """
import json
def value(folder): return json.loads((folder / "query.json").read_text())["x"]
def both(folder): return 1, 2.5
def broken(folder): return {}["mass"]
def nothing(folder): return None
"""


def test_a_python_function_reads_the_folder(tmp_path):
    (tmp_path / "post.py").write_text(POST)
    (tmp_path / "query.json").write_text('{"x": 4}')
    source = str(tmp_path / "post.py")
    assert PythonFunction(source, "value").read(tmp_path) == Measurement(4.0)
    assert PythonFunction(source, "both").read(tmp_path) == Measurement(1.0, 2.5)
    assert PythonFunction("math", "fsum").read([1, 2]) == Measurement(3.0)  # pyright: ignore[reportArgumentType]
    for function, message in (
        ("broken", r"post\.py:broken failed: KeyError: 'mass' \(post\.py, line 5\)"),
        ("nothing", "the return value of nothing is None, not a number"),
    ):
        with pytest.raises(EvaluationError, match=message):
            PythonFunction(source, function).read(tmp_path)


@pytest.mark.parametrize("text", ["post.py", ":f", "post.py:", "post.py:a b"])
def test_a_function_without_source_or_name_is_rejected(text):
    with pytest.raises(SettingError, match=r"expected file\.py:function or module:function"):
        PythonFunction.of(text)
