"""The application: fast help, one-line errors, and an example for every command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fidelium import __version__
from fidelium.cli import main
from fidelium.cli.app import app

COMMANDS = [
    *(command.name or command.callback.__name__ for command in app.registered_commands if command.callback),
    "plot study",
    "plot problem",
    "storage info",
    "storage upgrade",
    "storage delete",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fidelium.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_help_imports_nothing_heavy():
    script = """
import sys
from fidelium.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {"jax", "numpy", "scipy", "pandas", "plotly", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    for command in ("demo", "bench", "problems", "strategies"):
        assert command in process.stdout


def test_python_dash_m_is_the_command():
    module = [sys.executable, "-m", "fidelium"]
    version = subprocess.run([*module, "--version"], capture_output=True, text=True, check=False, timeout=120)
    assert (version.returncode, version.stdout) == (0, f"fidelium {__version__}\n")
    mistake = subprocess.run([*module, "run", "/nope.yaml"], capture_output=True, text=True, check=False, timeout=120)
    assert (mistake.returncode, mistake.stdout) == (2, "")
    assert mistake.stderr.startswith("error: cannot read /nope.yaml")
    assert mistake.stderr.count("\n") == 1
    imported = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "fidelium", "--help"], capture_output=True, text=True, check=True
    )
    assert "python -m fidelium" in imported.stdout
    modules = {line.rpartition("|")[2].strip() for line in imported.stderr.splitlines()}
    assert not {"jax", "numpy", "scipy", "pandas", "plotly"} & modules


def test_the_version():
    process = run("--version")
    assert process.stdout == f"fidelium {__version__}\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command"),
        (["bench"], "Missing command"),
        (["demo", "--nope"], "No such option"),
        (["demo", "--problem", "nope"], "unknown problem 'nope'"),
        (["demo", "--strategy", "nope"], "unknown strategy 'nope'"),
        (["demo", "--seed", "-1"], "greater than or equal to 0"),
        (["demo", "--budget", "0"], "above 0, got 0"),
        (["demo", "--budget", "0.5"], "is below the cheapest run"),
        (["demo", "--budget", "much"], "number"),
        (["demo", "--out", "/dev/null/x"], "cannot create the folder '/dev/null/x'"),
        (["bench", "regret", "--seeds", "a-b"], "seeds must look like"),
        (["bench", "regret", "--problem", "nope"], "unknown problem 'nope'"),
        (["bench", "regret", "--budget", "-1"], "greater than 0, got -1"),
        (["bench", "regret", "--budget", "0.5"], "is below the cheapest run"),
        (["bench", "regret", "--out", "/dev/null/x"], "cannot create the folder '/dev/null/x'"),
        (["bench", "run", "/nope.yaml"], "cannot read the spec /nope.yaml"),
        (["bench", "speed", "--sizes", "1/2"], "sizes must look like"),
        (["bench", "speed", "--strategy", "nope"], "unknown strategy 'nope'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_an_error_of_a_process_is_one_line_too():
    process = run("demo", "--problem", "nope")
    assert process.returncode == 2
    assert process.stderr.startswith("error: unknown problem 'nope'; the known ones are 'branin', ")
    assert process.stderr.count("\n") == 1


def test_problems_and_strategies(capsys):
    for command, first in (("problems", "branin: maximize over x1, x2"), ("strategies", "dnn-mfbo")):
        with pytest.raises(SystemExit) as end:
            main([command])
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith(first)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(call, command: str) -> None:
    answer = call(*command.split(), "--help")
    assert answer.code == 0
    examples = answer.out.partition("Example")[2]
    assert f"fidelium {command}" in examples
