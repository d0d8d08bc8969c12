"""`init`, `schema`, `storage`, the help of every command, and completion."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fidelium.cli.app import app
from fidelium.config import load_study_file, study_schema
from fidelium.storage import open_storage

COMMANDS = [
    *(command.name or command.callback.__name__ for command in app.registered_commands if command.callback),
    "plot study",
    "plot problem",
    "storage info",
    "storage upgrade",
    "storage delete",
]


def test_init_writes_a_study_that_loads_and_overwrites_nothing(call, tmp_path) -> None:
    folder = tmp_path / "new" / "beam"
    answer = call("init", folder)
    assert answer.code == 0
    assert f"run it with: fidelium run {folder}/study.yaml" in answer.out
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["simulator.py", "study.schema.json", "study.yaml"]
    assert load_study_file(folder / "study.yaml").definition.name == "beam"
    (folder / "simulator.py").write_text("mine")
    (folder / "study.yaml").unlink()
    again = call("init", folder)
    assert again.code == 2
    assert "simulator.py" in again.err
    assert again.err.count("\n") == 1
    assert (folder / "simulator.py").read_text() == "mine"
    assert not (folder / "study.yaml").exists()


def test_the_schema_is_json(call) -> None:
    assert json.loads(call("schema").out) == json.loads(json.dumps(study_schema()))


def test_a_storage_tells_what_it_has_and_forgets_what_it_must(call, study_file, tmp_path) -> None:
    path, url = study_file(), f"sqlite:///{tmp_path}/parabola.db"
    call("ask", path)
    info = json.loads(call("storage", "info", url, "--json").out)
    assert info["studies"] == [{"name": "parabola", "trials": 1}]
    assert f"has schema {info['schema']} already" in call("storage", "upgrade", path).out
    assert "parabola" in call("storage", "info", path).out
    assert call("storage", "delete", url, "--name", "nope", "--yes").code == 2
    assert call("storage", "delete", path, "--yes").out.startswith("deleted study 'parabola' with 1 trial in ")
    assert open_storage(url).names() == ()
    assert "there is no file" in call("storage", "upgrade", f"sqlite:///{tmp_path}/none.db").err
    assert call("storage", "info", "mysql://me:secret@host/x").err.count("secret") == 0


def test_deleting_asks_first(call, study_file, monkeypatch, tmp_path) -> None:
    path = study_file()
    call("ask", path)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    answer = call("storage", "delete", path)
    assert answer.code == 130
    assert "delete study 'parabola' with 1 trial in " in answer.err
    assert open_storage(f"sqlite:///{tmp_path}/parabola.db").names() == ("parabola",)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(call, command: str) -> None:
    answer = call(*command.split(), "--help")
    assert answer.code == 0
    examples = answer.out.partition("Example")[2]
    assert f"fidelium {command}" in examples


def test_lists_for_programs(call) -> None:
    assert json.loads(call("strategies", "--json").out)[0] == "dnn-mfbo"
    problems = {problem["name"]: problem for problem in json.loads(call("problems", "--json").out)}
    assert problems["branin"]["parameters"] == ["x1", "x2"]
    assert problems["plate"]["fidelities"][1] == {"name": "fine", "cost": 10}


def complete(line: str, folder: Path) -> list[str]:
    """What bash would be offered at the end of a line."""
    words = line.split(" ")
    environment = {"_FIDELIUM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'fidelium'; from fidelium.cli import main; main()"]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=os.environ | environment
    )
    assert process.stderr == ""
    return process.stdout.split()


def test_the_shell_completes_files_names_of_studies_and_commands(call, study_file, tmp_path) -> None:
    call("ask", study_file())
    assert complete("fidelium sta", tmp_path) == ["status"]
    assert complete("fidelium status st", tmp_path) == ["study.yaml"]
    assert complete("fidelium status sqlite:///parabola.db --name ", tmp_path) == ["parabola"]
    assert complete("fidelium plot problem pl", tmp_path) == ["plate"]
