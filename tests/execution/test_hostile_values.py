"""Values that look like code, paths or several arguments are passed unchanged and interpreted nowhere."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fidelium.errors import EvaluationError
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.execution.run_folder import safe_name
from fidelium.execution.substitution import fill
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

ECHO = "import json, sys; json.dump({'value': len(sys.argv) - 1, 'argv': sys.argv[1:]}, open('result.json', 'w'))"
HOSTILE = [
    "'; rm -rf / #",
    "$(touch /tmp/evil) `id` ${HOME} $PATH",
    '"a" \\" \\',
    "two words\nand a line\r\n\tmore",
    "{x} {{y}} {folder} {{ 7 * 7 }} {% raw %} %s",
    "-rf --help * ? ~ & | > <",
    "größe 板 🚀 \u202e\u0007\x1b[31m",
    "",
    "x" * 50_000,
]
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_exactly_one_argument_and_is_unchanged_in_the_query(lab, value):
    script = lab.folder / "echo.py"
    script.write_text(ECHO)
    argv = ("{python}", "-S", str(script), "{x}", "a={x}", "{fidelity}")
    measured = lab.run(argv, params={"x": value}, fidelity=value[:200] or "-", environment={"X": "{x}"})
    assert measured.value == 3
    received = json.loads((lab.trial / "result.json").read_text())["argv"]
    assert received == [value, f"a={value}", value[:200] or "-"]
    query = json.loads((lab.trial / "query.json").read_text(encoding="utf-8"))
    assert (query["params"]["x"], query["fidelity"]) == (value, value[:200] or "-")
    assert not Path("/tmp/evil").exists()


@settings(max_examples=15)
@given(st.lists(TEXTS, min_size=1, max_size=40))
def test_any_text_is_passed_unchanged(values):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "echo.py"
        script.write_text(ECHO)
        params = {f"p{i}": value for i, value in enumerate(values)}
        command = Command(("{python}", "-S", str(script), *(f"{{{name}}}" for name in params)))
        program = ExternalProgram({"f": command}, Path(folder) / "runs", Path(folder))
        assert program.run(Trial(0, params, Fidelity("f", cost=1))).value == len(values)
        trial = Path(folder) / "runs" / "00000-f"
        assert json.loads((trial / "result.json").read_text())["argv"] == values
        assert json.loads((trial / "query.json").read_bytes())["params"] == params


@given(TEXTS, TEXTS)
@example("{y}", "{x}")
def test_a_value_is_never_expanded_again(x, y):
    assert fill("{x}|{{x}}|{y}", {"x": x, "y": y}) == f"{x}|{{x}}|{y}"


@given(st.text())
@example("../../etc/passwd")
@example("/etc/passwd")
@example("..")
@example("\0")
@example("板" * 300)
def test_a_folder_named_after_a_fidelity_is_one_step_below_the_runs(name):
    path = Path("/runs") / f"00007-{safe_name(name)}"
    assert path.parent == Path("/runs").joinpath(path.name).resolve().parent
    assert len(path.name.encode(errors="surrogatepass")) < 200
    assert "\0" not in path.name


@pytest.mark.parametrize("fidelity", ["../x", "a/b", "/abs", "..", ". .", "板" * 300])
def test_no_fidelity_leads_out_of_the_runs(lab, fidelity):
    lab.shell("echo '{\"value\": 1}' > result.json", fidelity=fidelity)
    assert lab.trial.parent == lab.runs
    assert {path.name for path in lab.folder.iterdir()} == {"runs"}


@pytest.mark.parametrize(("argument", "reason"), [("{x}", "contains a NUL character"), ("fixed", "wrote no result")])
def test_a_nul_is_rejected_in_arguments_only(lab, argument, reason):
    with pytest.raises(EvaluationError, match=reason):
        lab.run(("true", argument), params={"x": "a\0b"})
    assert json.loads((lab.trial / "query.json").read_text())["params"] == {"x": "a\0b"}


def test_a_lone_surrogate_is_rejected(lab):
    with pytest.raises(EvaluationError, match=r"cannot be written as JSON: .*surrogates not allowed"):
        lab.run(("true",), params={"x": "\ud800"})


def test_a_shell_sees_values_in_variables_only(lab):
    lab.shell(
        'echo "[$X]"; echo 1 > out; echo \'{"value": 1}\' > result.json',
        params={"x": HOSTILE[1]},
        environment={"X": "{x}"},
    )
    assert (lab.trial / "stdout.txt").read_text() == f"[{HOSTILE[1]}]\n"
