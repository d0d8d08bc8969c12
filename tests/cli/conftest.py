"""A small study on disk whose simulator is a shell script, and ways to call the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from fidelium.cli import main

STUDY = """\
name: parabola
direction: minimize
budget: {budget}
strategy: random
initial: {{coarse: 2, fine: 2}}
parameters:
  x: {{type: real, low: 0, high: 1}}
  count: {{type: integer, low: 1, high: 3}}
  kind: {{type: categorical, choices: [steel, "no; rm -rf $HOME"]}}
fidelities:
  - {{name: coarse, cost: 1}}
  - {{name: fine, cost: 5}}
command: [sh, simulate.sh, "{{here}}", "{{x}}", "{{fidelity}}", "{{result}}"]
"""

SIMULATOR = """\
echo "$3" >> "$1/started"
while [ -e "$1/wait-$3" ]; do sleep 0.05; done
if [ -e "$1/fail-$3" ]; then echo "the mesh is bad" >&2; exit 3; fi
awk -v x="$2" -v fine="$3" 'BEGIN { printf "{\\"value\\": %.17g}", (x - 0.3) ^ 2 + (fine == "fine" ? 0 : 0.1) }' > "$4"
"""


class Answer(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def study_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes the study to a new folder."""

    def write(budget: float = 12, **changes: str) -> Path:
        text = STUDY.format(budget=budget)
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "simulate.sh").write_text(SIMULATOR)
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Calls the command line in this process."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        assert isinstance(end.value.code, int)
        captured = capsys.readouterr()
        return Answer(end.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def spawn(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts the real command in a process group of its own."""

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from fidelium.cli import main; main()", *map(str, arguments)]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "120"},
        )

    return start
