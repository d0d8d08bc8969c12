"""One evaluation by an external program: its input, its files and its result."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from fidelium.errors import FidelityError, SettingError, SetupError
from fidelium.execution.base import Measurement
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.execution.result_rules import Pattern
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

ANSWER = "import json, sys; json.dump({'value': float(sys.argv[1]), 'cost': 2.5}, open('result.json', 'w'))"


def test_a_value_goes_in_as_an_argument_and_comes_back_with_all_its_digits(lab):
    assert lab.python(ANSWER, "{x}", params={"x": 0.1 + 0.2}) == Measurement(0.30000000000000004, 2.5)


def test_the_query_is_strict_json_with_letters_of_all_scripts(lab):
    params = {"größe": 0.1, "n": 3, "glue": 'none "at" all', "open": True}
    lab.shell("echo '{\"value\": 1}' > result.json", params=params)
    text = (lab.trial / "query.json").read_text(encoding="utf-8")
    assert "größe" in text
    assert json.loads(text) == {
        "number": 7,
        "attempt": 1,
        "params": params,
        "fidelity": "fine",
        "position": 0,
        "cost": 10,
    }


def test_every_attempt_has_a_folder_of_its_own(lab):
    for attempt in (1, 2, 2):
        lab.shell("test ! -e mine; touch mine; echo '{\"value\": 1}' > result.json", attempt=attempt)
    assert sorted(path.name for path in lab.runs.iterdir()) == ["00007-fine", "00007-fine-2", "00007-fine-2.1"]


def test_names_and_paths_are_given_as_arguments_and_as_variables(lab):
    names = ("number", "attempt", "position", "cost", "params", "folder", "query", "here")
    line = 'printf "%s\\n" "$@" "$FIDELIUM_NUMBER" "$FIDELIUM_FIDELITY" "$DECK" "$PWD"; echo 1 > out'
    lab.run(
        ("sh", "-c", line, "sh", "{{x}}", "a{x}b", *(f"{{{name}}}" for name in names)),
        params={"x": 2},
        environment={"DECK": "deck-{x}.inp"},
        result=Pattern("(.+)", "out"),
        attempt=3,
    )
    here, folder = str(lab.folder), str(lab.trial)
    expected = ["{x}", "a2b", "7", "3", "0", "10", '{"x": 2}', folder, f"{folder}/query.json", here, "7", "fine"]
    assert (lab.trial / "stdout.txt").read_text().splitlines() == [*expected, "deck-2.inp", folder]


def test_input_files_are_made_from_templates(lab):
    (lab.folder / "deck.j2").write_text(
        "E = {{ '%.3e' % young }} <{{ glue }}> {{ open }}\n{{ fidelity }} {{ number }}\n"
    )
    lab.shell(
        "cat in/deck.inp; echo '{\"value\": 1}' > result.json",
        params={"young": 2e11, "glue": "<b>&", "open": True},
        templates={"in/deck.inp": lab.folder / "deck.j2"},
    )
    assert (lab.trial / "stdout.txt").read_text() == "E = 2.000e+11 <<b>&> true\nfine 7\n"


def test_the_outcome_is_noted(lab):
    lab.python(ANSWER, "4.5")
    outcome = json.loads((lab.trial / "outcome.json").read_text())
    assert 0 < outcome.pop("seconds") < 10
    assert outcome == {"exit_code": 0, "signal": None, "stopped": None, "value": 4.5, "cost": 2.5}


def test_a_program_has_nothing_to_read(lab):
    measured = lab.python("import sys; print('v=' + str(len(sys.stdin.read())))", result=Pattern("v=(.*)"))
    assert measured.value == 0


def test_a_program_is_the_same_in_threads_and_in_other_processes(lab):
    script = lab.folder / "program.py"
    script.write_text(ANSWER)
    program = ExternalProgram(
        {"low": Command(("false",)), "fine": Command(("{python}", "-S", str(script), "{x}"))}, lab.runs, lab.folder
    )
    assert pickle.loads(pickle.dumps(program)) == program
    trials = [Trial(number, {"x": number / 8}, Fidelity("fine", cost=1)) for number in range(6)]
    expected = [Measurement(number / 8, 2.5) for number in range(6)]
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(program.run, trials)) == expected
    with get_context("spawn").Pool(1) as processes:
        assert processes.map(program.run, trials[:2]) == expected[:2]
    assert json.loads((lab.runs / "00003-fine" / "query.json").read_text())["position"] == 1
    with pytest.raises(FidelityError, match="no command for fidelity 'medium'; there are commands for 'low', 'fine'"):
        program.run(Trial(0, {}, Fidelity("medium", cost=1)))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_program_in_c_with_a_deck_and_a_text_result(lab):
    (lab.folder / "mass.c").write_text("""
        #include <stdio.h>
        int main(void) {
            double a, b;
            FILE *in = fopen("deck.inp", "r"), *out = fopen("mass.out", "w");
            if (!in || fscanf(in, "%lf %lf", &a, &b) != 2) return 4;
            fprintf(out, "MASS = %.17g\\nMASS = %.17g\\n", a, a * b);
            return fclose(out);
        }""")
    subprocess.run(["cc", "mass.c", "-o", "mass"], cwd=lab.folder, check=True)
    (lab.folder / "deck.j2").write_text("{{ a }} {{ b }}\n")
    measured = lab.run(
        (str(lab.folder / "mass"),),
        params={"a": 1 / 3, "b": 3e-5},
        templates={"deck.inp": lab.folder / "deck.j2"},
        result=Pattern("^MASS = (.*)$", "mass.out"),
    )
    assert measured == Measurement(1 / 3 * 3e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"argv": ()}, "needs a program"),
        ({"argv": ("a", "b"), "shell": True}, "one line of text"),
        ({"argv": ("a",), "timeout": 0.0}, "above 0, got 0.0"),
        ({"argv": ("a", "b\0")}, "an argument cannot contain a NUL character"),
        ({"argv": ("a",), "environment": {"A=B": "1"}}, "must not be empty or contain = or NUL, got 'A=B'"),
        ({"argv": ("a",), "limit": -1}, "must be finite and not negative"),
        ({"argv": ("a",), "templates": {"../deck": Path("deck")}}, r"inside the trial's folder, got '\.\./deck'"),
        ({"argv": ("a",), "result": Pattern("(.)", "/etc/passwd")}, "inside the trial's folder, got '/etc/passwd'"),
    ],
)
def test_an_invalid_command_is_rejected_at_construction(settings, message):
    with pytest.raises(SettingError, match=message):
        Command(**settings)


def test_runs_must_be_a_folder(lab):
    lab.runs.write_text("no folder")
    with pytest.raises(SetupError, match=r"cannot create the folder .*runs is not a folder|Not a directory"):
        lab.run((sys.executable,))
