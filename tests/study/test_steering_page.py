"""The examples of docs/steering.md run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fidelium.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "steering.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    every = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for kind, text in every if kind == language]


def test_the_python_of_the_page_runs():
    found = blocks("python")
    assert len(found) == 6
    exec(compile("\n".join(found), "docs/steering.md", "exec"), {"__name__": "page"})


def test_the_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("") for line in block.splitlines() if line.startswith("fidelium ")]
    assert len(lines) == 12
    said: dict[str, str] = {}
    for line in lines:
        with pytest.raises(SystemExit) as end:
            main(shlex.split(line)[1:])
        captured = capsys.readouterr()
        assert end.value.code == 0, f"{line}: {captured.err}"
        said[line] = captured.out + captured.err
    assert "checked by hand" in said["fidelium status beam/study.yaml"]
    assert "untag" in said["fidelium changes beam/study.yaml"]
    with_goal, without = (text for line, text in said.items() if "--budget 40" in line)
    assert "reaches the goal of 1000" in with_goal
    assert "stopped before by: goal" in without
