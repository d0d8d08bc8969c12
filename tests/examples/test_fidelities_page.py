"""The examples of docs/fidelities.md and of the two folders that it tells of run."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks() -> list[str]:
    page = (ROOT / "docs" / "fidelities.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def test_the_page_has_an_example_of_each():
    assert ["inputs=" in block for block in blocks()] == [True, False]


@pytest.mark.parametrize("block", blocks(), ids=["inputs", "noise"])
def test_the_examples_of_the_page_run(block, capsys):
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(block, "docs/fidelities.md", "exec"), names)
    study = names["study"]
    assert study.best is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "words"),
    [("monte_carlo", ["told, regret", "not told, misjudged by"]), ("fewer_inputs", ["declared", "not declared"])],
)
def test_the_comparisons_run(name, words, monkeypatch, capsys):
    script = ROOT / "examples" / name / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--compare", "0,1", "--budget", "60", "--strategy", "random"])
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out
    for word in words:
        assert re.search(rf"^{word}: median \S+, quartiles \S+ to \S+$", said, re.MULTILINE)
    assert "of 2 seeds" in said
