"""The examples of docs/costs.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import fidelium as fd

PAGE = Path(__file__).parents[2] / "docs" / "costs.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_example_of_measured_costs_runs(capsys):
    names: dict = {}
    exec(compile(blocks("python")[0].replace("budget=100", "budget=40"), str(PAGE), "exec"), names)
    study = names["study"]
    assert float(capsys.readouterr().out.split()[0]) == study.spent
    for trial in study.trials:
        assert (
            trial.cost
            == trial.measured_cost
            == {"coarse": 1, "fine": 10}[trial.fidelity.name] * 4 ** (trial.params["refinement"])
        )
    assert study.spent <= 40 + max(trial.cost for trial in study.trials)


def test_the_example_of_declared_functions_runs(capsys):
    names: dict = {}
    exec(compile(blocks("python")[1], str(PAGE), "exec"), names)
    shown, cost = map(float, capsys.readouterr().out.split())
    assert shown == cost
    assert names["study"].ladder.costs[1] > 2


def test_the_study_file_of_the_page_loads(tmp_path):
    from fidelium.config.load import load_study_file

    text = "name: s\ndirection: minimize\ncommand: [run]\nparameters: {x: {type: real, low: 0, high: 1}}\n"
    (tmp_path / "study.yaml").write_text(text + blocks("yaml")[0])
    file = load_study_file(tmp_path / "study.yaml")
    assert file.definition.cost == "measured"
    assert file.definition.ladder.costs == (60.0, 900.0)
    assert isinstance(fd.Fidelity("x", cost=1).cost, int)
