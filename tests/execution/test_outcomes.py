"""Outcomes of external programs: from result.json, from rules of their own, from post.py, and what is refused."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from fidelium.constraints import outcome_constraints
from fidelium.errors import EvaluationError, SettingError, UnreadableResultError
from fidelium.execution.base import Measurement
from fidelium.execution.command import Command
from fidelium.execution.program import ExternalProgram
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import CsvCell, JsonPath, Pattern, ResultFile
from fidelium.fidelity import Fidelity
from fidelium.history import Trial

TRIAL = Trial(3, {"width": 0.5, "core": "foam"}, Fidelity("fine", 1))
STRESS = replace(TRIAL, constraints=outcome_constraints(["stress <= 2e8", "u <= 1"]))


def run(lab, line: str, trial: Trial = TRIAL, **settings) -> Measurement:
    """What a shell line gives as the program of a trial."""
    return ExternalProgram({"fine": Command((line,), shell=True, **settings)}, lab.runs, lab.folder).run(trial)


def writes(content: object) -> str:
    return f"cat > result.json <<'END'\n{json.dumps(content)}\nEND\n"


def test_every_number_in_the_result_file_is_an_outcome(lab):
    content = {"value": 1.5, "cost": 2, "stress": 1.5e8, "u": 3, "mass.total": 0.5, "failed": None}
    measured = run(lab, writes(content))
    assert measured == Measurement(1.5, 2.0, {"stress": 1.5e8, "u": 3.0, "mass.total": 0.5})
    outcome = json.loads((lab.trial / "outcome.json").read_text())
    assert outcome["outcomes"] == {"stress": 1.5e8, "u": 3.0, "mass.total": 0.5}


def test_what_else_the_result_file_holds_is_ignored(lab):
    content = {
        "value": 1.5,
        "width": 0.5,  # a parameter, echoed back
        "core": "foam",
        "number": 3,
        "std": 0.1,
        "solver": "2.21",
        "converged": True,
        "eigenvalues": [1.0, 2.0],
        "mesh": {"cells": 12},
        "peak stress": 3.0,
        "2nd": 4.0,
        "none": None,
        "cells": 1200,
    }
    assert run(lab, writes(content)).outcomes == {"cells": 1200.0}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"value": 1}, "the run gave no outcome 'stress', which a constraint names; it gave none"),
        ({"value": 1, "u": 2, "mass": 3}, "no outcome 'stress', which a constraint names; it gave u, mass"),
        ({"value": 1, "stress": 1, "u": "high"}, "the outcome 'u', which a constraint names, is 'high', not a finite"),
        ({"value": 1, "stress": None, "u": 1}, "the outcome 'stress', which a constraint names, is None, not a finite"),
        (
            {"value": 1, "stress": [1], "u": 1},
            r"the outcome 'stress', which a constraint names, is \[1\], not a",
        ),
        ({"value": 1, "stress": float("nan"), "u": 1}, "the outcome 'stress', which a constraint names, is nan, not a"),
        ({"value": 1, "stress": 1, "u": float("-inf")}, "the outcome 'u', which a constraint names, is -inf, not a"),
    ],
)
def test_a_constrained_outcome_that_is_not_a_number_fails_the_run(lab, content, reason):
    with pytest.raises(EvaluationError, match=reason):
        run(lab, f"echo oops >&2\n{writes(content)}", STRESS)
    failed = json.loads((lab.trial / "outcome.json").read_text())["failed"]
    assert "which a constraint names" in failed
    assert failed.endswith("stderr ends with: oops")


RULES = {
    "stress": Pattern(r"max stress = (\S+)", "out.txt"),
    "u": CsvCell("nodes.csv", "u"),
    "first": JsonPath("modes.json", "modes[0]"),
    "second": ResultFile("second.json"),
}
OUTPUT = """\
echo '{"value": 1.5, "u": 9, "mass": 3}' > result.json
printf 'max stress = 1.0\\nmax stress = 1.5D+08\\n' > out.txt
printf 'node,u\\n1,0.25\\n2,0.5\\n' > nodes.csv
echo '{"modes": [10.5, 20]}' > modes.json
echo '{"value": -7}' > second.json
"""


def test_rules_of_every_kind_read_outcomes_beside_the_value(lab):
    measured = run(lab, OUTPUT, STRESS, outcomes=RULES)
    assert measured.value == 1.5
    assert measured.outcomes == {"u": 0.5, "mass": 3.0, "stress": 1.5e8, "first": 10.5, "second": -7.0}


def test_a_rule_that_finds_nothing_fails_the_run_if_a_constraint_names_its_outcome(lab, caplog):
    missing = OUTPUT.replace("max stress", "min stress").replace("modes.json", "other.json")
    with pytest.raises(UnreadableResultError, match=r"the outcome 'stress': nothing in out\.txt matches 'max stress"):
        run(lab, missing, STRESS, outcomes=RULES)
    caplog.set_level(logging.WARNING)
    free = replace(TRIAL, number=4)
    assert run(lab, missing, free, outcomes=RULES).outcomes == {"u": 0.5, "mass": 3.0, "second": -7.0}
    assert caplog.messages[0].startswith("trial 4: the outcome 'stress' is not recorded: nothing in out.txt matches")
    assert caplog.messages[1] == "trial 4: the outcome 'first' is not recorded: the program wrote no modes.json"
    with pytest.raises(EvaluationError, match=r"the outcome 'stress': the match .* is 'high', not a number"):
        run(lab, OUTPUT.replace("1.5D+08", "high"), replace(STRESS, number=5), outcomes=RULES)


def test_a_function_may_return_outcomes(lab):
    post = lab.folder / "post.py"
    post.write_text("def post(folder):\n    return {'value': 2.0, 'stress': 1e8, 'u': 0.5, 'mass': float('nan')}\n")
    measured = run(lab, "true", STRESS, result=PythonFunction(str(post), "post"))
    assert (measured.outcomes["stress"], measured.outcomes["u"]) == (1e8, 0.5)
    assert json.loads((lab.trial / "outcome.json").read_text())["outcomes"]["mass"] == "nan"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"value": 2.0, "width": 1.0}, "'width' is a parameter, so an outcome cannot have this name"),
        ({"value": 2.0, "cells": "many"}, "the outcome 'cells' is 'many', not a number"),
        ({"value": 2.0, "note": 1.0}, "'note' is reserved"),
        ({"value": 2.0, "u": 1.0}, "the run gave no outcome 'stress', which a constraint names; it gave u"),
        (2.0, "the run gave no outcome 'stress', which a constraint names; it gave none"),
    ],
)
def test_a_function_that_returns_other_outcomes_fails_the_run(lab, result, reason):
    post = lab.folder / "post.py"
    post.write_text(f"def post(folder):\n    return {result!r}\n")
    with pytest.raises(EvaluationError, match=reason):
        run(lab, "true", STRESS, result=PythonFunction(str(post), "post"))


def test_outcomes_are_read_again_from_the_folder(lab):
    program = ExternalProgram({"fine": Command((OUTPUT,), shell=True)}, lab.runs, lab.folder)
    with pytest.raises(EvaluationError, match="the run gave no outcome 'stress'"):
        program.run(STRESS)
    corrected = replace(program, commands={"fine": Command((OUTPUT,), shell=True, outcomes=RULES)})
    measured, _ = corrected.reread(STRESS)
    assert measured.outcomes["stress"] == 1.5e8
    with pytest.raises(EvaluationError, match="the run gave no outcome 'stress'"):
        program.reread(STRESS)


def test_a_rules_file_must_be_in_the_trials_folder(lab):
    with pytest.raises(SettingError, match=r"\.\./out\.txt"):
        Command(("true",), outcomes={"stress": Pattern("(.*)", "../out.txt")})
