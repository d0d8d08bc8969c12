"""Shell completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def complete(line: str, folder: Path) -> list[str]:
    """The completions that bash offers at the end of a line."""
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
    assert complete("fidelium plot problem pl", tmp_path) == ["plate", "plate-mass"]
