"""Costs in study files: measured ones, and expressions of the parameters."""

from __future__ import annotations

import pytest

from fidelium.config.load import load_study_file
from fidelium.config.schema import study_schema
from fidelium.errors import ConfigError

TEXT = """\
name: plate
direction: minimize
budget: 500
parameters:
  cells: {type: integer, low: 10, high: 1000}
  core: {type: categorical, choices: [foam, balsa]}
fidelities:
  - {name: coarse, cost: 1}
  - name: fine
    cost: "2 + 0.01 * cells"
command: [./solve]
"""


def loaded(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return load_study_file(path).definition


def test_an_expression_is_a_cost(tmp_path):
    definition = loaded(tmp_path, TEXT)
    assert definition.cost == "declared"
    assert definition.ladder[1].cost == "2 + 0.01 * cells"
    assert definition.ladder[1].cost_of({"cells": 100, "core": "foam"}) == 3.0


def test_costs_may_be_measured(tmp_path):
    assert loaded(tmp_path, TEXT.replace("budget", "cost: measured\nbudget")).measures_costs


BAD = [
    ('"2 + 0.01 * cells"', '"2 - 0.01 * cells"', 9, "fidelities[1]", "must be finite and above 0 for every design"),
    ('"2 + 0.01 * cells"', '"2 + core"', 9, "fidelities[1]", "'core' is categorical and its choices are not numbers"),
    ('"2 + 0.01 * cells"', '"2 + cell"', 9, "fidelities[1]", "unknown parameter 'cell'; did you mean 'cells'?"),
    ('"2 + 0.01 * cells"', '"20"', 10, "fidelities[1].cost", "expected a number, got '20'; remove the quotes"),
    ('"2 + 0.01 * cells"', "[1]", 10, "fidelities[1].cost", "expected a number, or an expression of the parameters"),
    ('"2 + 0.01 * cells"', "0", 10, "fidelities[1].cost", "must be above 0, got 0"),
    ('"2 + 0.01 * cells"', "true", 10, "fidelities[1].cost", "expected a number, or an expression"),
    ("budget: 500", "cost: wall\nbudget: 500", 3, "cost", "expected 'declared' or 'measured', got 'wall'"),
    ("cost: 1}", "cost: 1000}", 9, "fidelities[1]", "'coarse' costs typically 1000 and the next, 'fine', "),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_cost_is_one_sentence_with_its_line(tmp_path, old, new, line, key, message):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, TEXT.replace(old, new))
    text = str(caught.value)
    assert f"study.yaml:{line}: {key}: " in text
    assert message in text
    assert "\n" not in text


def test_the_schema_knows_both():
    schema = study_schema()
    assert schema["properties"]["cost"]["enum"] == ["declared", "measured"]
    cost = schema["$defs"]["FidelitySection"]["properties"]["cost"]
    assert {option["type"] for option in cost["anyOf"]} == {"number", "string"}
