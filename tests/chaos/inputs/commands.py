"""Command lines: every command and option that the program declares, with right and hostile values."""

from __future__ import annotations

import io
import logging
import os
import random
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import typer.main

import fidelium as fd
from fidelium.cli import app as application
from tests.chaos.inputs.base import Refused, demand
from tests.chaos.inputs.hostile import TEXTS, encoded, mutated, number, text

_STUDY = """\
name: plate
direction: minimize
budget: 6
storage: sqlite:///{name}.db
strategy: random
initial: {{coarse: 2, fine: 0}}
stop: {{trials: 1}}
parameters:
  x: {{type: real, low: 0, high: 1}}
  kind: {{type: categorical, choices: [foam, balsa]}}
fidelities: [{{name: coarse, cost: 1}}, {{name: fine, cost: 4}}]
command: ["true"]
"""
_TABLE = "x,kind,fidelity,value\n0.5,foam,fine,2\n0.25,balsa,coarse,3\n"

_WHERE = (
    "full.yaml",
    "full.yaml",
    "sqlite:///full.db",
    "empty.yaml",
    "new.yaml",
    "sqlite:///none.db",
    "broken.yaml",
    "no.yaml",
)
_MODELS = ("recommend", "predict", "plot study", "diagnose", "explain")
"""Commands that would fit a model for seconds if the study had data: they get one without."""
_LONG = ("demo", "tune", "bench", "plot problem", "dashboard")
"""Commands that would run for minutes: they get a word that does not exist."""
_NEVER = ("--watch", "--dask", "--install-completion", "--show-completion", "--port")
"""Options that wait for ever, or change the user's own files."""


@dataclass(frozen=True)
class CommandLine:
    """The arguments, and what stands on stdin."""

    arguments: tuple[str, ...]
    stdin: bytes


_TOLD = ('{"number": 2, "value": 1.5}', '{"number": 2, "value": 1.5, "outcomes": {"stress": 1.5e8, "u": 0.5}}')


class Commands:
    """Every command line ends with a documented exit code, and what is wrong is said without a traceback."""

    def __init__(self, folder: Path) -> None:
        os.chdir(folder)
        (folder / "old.csv").write_text(_TABLE)
        (folder / "broken.yaml").write_text(_STUDY.format(name="broken").replace("cost: 4", "cost: four"))
        for name in ("full", "empty", "new"):
            (folder / f"{name}.yaml").write_text(_STUDY.format(name=name))
        for name in ("full", "empty"):
            study = self._study(folder / f"{name}.yaml")
            if name == "full":
                study.tell(study.ask(), 1.5)
                study.add_observation({"x": 0.5, "kind": "foam"}, "fine", 2.5)
                study.tell(study.ask(), failed="no mesh\x1b[31m")
            study.ask()
        self.folder = folder
        self.kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.group = typer.main.get_command(application.app)
        self.commands = dict(_walk(self.group, ()))

    @staticmethod
    def _study(path: Path) -> fd.Study:
        from fidelium.config.load import load_study_file

        file = load_study_file(path)
        return fd.create_study(
            file.definition.space,
            file.definition.ladder,
            direction="minimize",
            strategy="random",
            storage=file.storage,
            name=file.definition.stored_name,
            initial=file.definition.initial,
        )

    def draw(self, chance: random.Random) -> CommandLine:
        name = chance.choice(sorted(self.commands))
        words = [*name.split(), *self._arguments(chance, name)]
        if chance.random() < 0.1:
            words.insert(chance.randint(0, len(words)), chance.choice(TEXTS))
        if name.startswith(_LONG):
            words.append("--no-such-option")
        words = [_as_argument(word) for word in words if not word.startswith(_NEVER)]
        return CommandLine(tuple(words), encoded(chance, mutated(chance, chance.choice(_TOLD))))

    def try_out(self, given: CommandLine) -> None:
        self._tidy_up()
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
        stdin = io.TextIOWrapper(io.BytesIO(given.stdin), encoding="utf-8")
        with (
            mock.patch.object(application, "app", self.group),  # as built once: building takes longer than all else
            mock.patch.object(sys, "stdin", stdin),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                application.main(list(given.arguments))
            except SystemExit as end:
                code = end.code
            else:
                raise AssertionError("main() came back without an exit code")
        _check(given.arguments, code, _written(out), _written(err))

    def _tidy_up(self) -> None:
        """The files as they were; the last command may have changed, made or deleted any."""
        os.chdir(self.folder)
        logging.getLogger("fidelium").handlers.clear()
        for path in self.folder.iterdir():
            if path.is_file() and path.name not in self.kept:
                path.unlink()
        for name, content in self.kept.items():
            if not name.endswith("-wal") and not name.endswith("-shm"):
                (self.folder / name).write_bytes(content)

    def _arguments(self, chance: random.Random, name: str) -> list[str]:
        words: list[str] = []
        for parameter in self.commands[name]:
            is_argument = parameter.param_type_name == "argument"
            if chance.random() > (0.95 if is_argument else 0.2):
                continue
            if not is_argument:
                words.append(chance.choice([*parameter.opts, *parameter.secondary_opts]))
            if is_argument or not parameter.is_flag:
                words.append(_value(chance, name, parameter.name))
        return words


def _as_argument(word: str) -> str:
    """A word as a program gets it: without NUL, and with bytes that are not UTF-8 as Python writes them."""
    return word.replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.detach()
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def _check(arguments: tuple[str, ...], code: Any, out: str, err: str) -> None:
    """The exit code is a documented one, and says what the output says."""
    asked = err.rstrip().endswith("interrupted")  # a question on stdin was not answered
    demand(code in (0, 1, 2) or (code == 130 and asked), f"exit code {code!r}: {err}")
    demand("Traceback" not in out + err, f"a traceback: {err[-2000:]}")
    if code == 2 and "check" in arguments:  # its output is the list of problems
        demand("error: " in err or "problem" in out, f"exit code 2 with {out!r} and {err!r}")
    elif code == 2:
        demand("error: " in err and not out.strip(), f"exit code 2 with {out!r} and {err!r}")
    if code == 1:
        demand(bool(err.strip() or out.strip()), "exit code 1 without a word")
    if code:
        raise Refused


def _value(chance: random.Random, command: str, parameter: str) -> str:
    if parameter in ("where", "study"):
        return "empty.yaml" if command in _MODELS else chance.choice((*_WHERE, text(chance)))
    if chance.random() < 0.3:
        good = (
            "old.csv",
            "1",
            "2",
            "0",
            "1.5",
            "x=0.5",
            "kind=foam",
            "value=value",
            "fine",
            "plate",
            "out.csv",
            "out.json",
            "-",
        )
        return chance.choice(good)
    if chance.random() < 0.3:
        value = number(chance)
        return "9" * 4000 if isinstance(value, int) and abs(value) > 10**300 else str(value)
    return text(chance)


def _walk(command: Any, path: tuple[str, ...]) -> list[tuple[str, list[Any]]]:
    """Every command with its parameters, groups opened."""
    if children := getattr(command, "commands", None):
        return [found for name, child in children.items() for found in _walk(child, (*path, name))]
    return [(" ".join(path), command.params)]
