"""Study files: mutations of complete ones, and YAML that no person would write."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np

from fidelium.config.load import load_study_file
from fidelium.config.peek import peek_study_file
from fidelium.errors import FideliumError
from fidelium.execution.run_folder import RunRequest
from tests.chaos.inputs.base import demand
from tests.chaos.inputs.hostile import encoded, mutated, nested, text

_SMALL = """\
name: plate
direction: minimize
budget: 20
parameters:
  x: {type: real, low: 0, high: 1}
fidelities:
  - {name: fine, cost: 1}
command: [./solve, "{x}", "{result}"]
"""
_LARGE = """\
name: beam  # a comment
direction: maximize
budget: 2e2
storage: sqlite:///beam.db
strategy: {name: dnn-mfbo-paper, architecture: search}
seed: 3
workers: 2
initial: {coarse: 6, fine: 2}
failures: {retries: 1, then: stop}
stop: {wall_time: 8 h, trials: 40, no_improvement: 50, gain_per_cost: 0.001}
runs: runs
parameters:
  young: {type: real, low: 1e9, high: 5e11, log: true}
  layers: {type: integer, low: 1, high: 8}
  glue:
    type: categorical
    choices: [epoxy, none, 3, 2.5, true, null, "quoted"]
fidelities:
  - name: coarse
    cost: 1
    timeout: 60 s
  - {name: fine, cost: 10, timeout: 10 min, result: {file: out.csv, column: mass, row: last}}
command: ["{python}", "{here}/solve.py", "{young}", "--layers={layers}", "{glue}", "{query}", "{{literal}}"]
grace: 2
output_limit: 1000
environment: {OMP_NUM_THREADS: 1, YOUNG: "{young}"}
templates: {deck.inp: deck.j2}
result: {file: out.json, json: "results.mass[0]"}
"""
_LIMITED = """\
name: frame
direction: minimize
budget: 50
parameters: {x: {type: real, low: 0, high: 1}}
constraints:
  - stress <= 150e6
  - 10 <= frequency <= 20
  - drag >= -1.5
failures: {model: false, timeouts: ignore}
outcomes:
  stress: {file: out.txt, regex: "stress = (.*)"}
  drag: {file: nodes.csv, column: drag}
fidelities: [{name: coarse, cost: 1, outcomes: {drag: {file: out.json, json: drag}}}, {name: fine, cost: 5}]
command: [solve]
"""
_SHELL = """\
name: shell
direction: minimize
budget: 5
parameters: {x: &p {type: real, low: -1.5, high: 1.5}, y: *p}
fidelities: [{name: only, cost: 0.5}]
shell: true
command: ./run.sh "$X" > out.txt
environment: {X: "{x}"}
result: {regex: "mass = (.*)"}
"""
_TEMPLATE = (
    "{% if fidelity == 'coarse' %}{% set n = 3 %}{% else %}{% set n = 8 %}{% endif %}{{ n }} {{ young | round(3) }}"
)


class Documents:
    """A file is refused with its line, or is a study whose programs can be prepared for any design."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "study.yaml"
        self.run = folder / "run"
        self.run.mkdir(exist_ok=True)
        (folder / "deck.j2").write_text(_TEMPLATE)

    def draw(self, chance: random.Random) -> bytes:
        kind = chance.random()
        if kind < 0.9:
            return encoded(chance, mutated(chance, chance.choice((_SMALL, _LIMITED, _LARGE, _SHELL))))
        if kind < 0.9998:
            return encoded(chance, _yaml(chance, 3) if kind < 0.97 else nested(chance))
        return _bomb(chance).encode()

    def try_out(self, given: bytes) -> None:
        self.path.write_bytes(given)
        try:
            peek_study_file(self.path)
        except FideliumError as error:
            _check_message(error)
        try:
            file = load_study_file(self.path)
        except FideliumError as error:
            _check_message(error)
            raise
        space, ladder = file.definition.space, file.definition.ladder
        params = space.decode(np.full(space.dimension, 0.25))
        for position, rung in enumerate(ladder):
            request = RunRequest(0, 1, params, rung, position)
            with suppress(OSError, UnicodeError):  # a name that is too long, a lone surrogate: failed trials
                file.program.commands[rung.name].prepare(request, self.run, self.path.parent)


def _check_message(error: FideliumError) -> None:
    message = str(error)
    demand(len(message) < 20_000, f"the message has {len(message)} characters: {message[:200]}")


def _yaml(chance: random.Random, depth: int) -> str:
    """YAML in flow style, of any shape."""
    kind = chance.randrange(4) if depth else 0
    if kind == 1:
        return "[" + ", ".join(_yaml(chance, depth - 1) for _ in range(chance.randint(0, 4))) + "]"
    if kind > 1:
        keys = (
            "name",
            "direction",
            "budget",
            "parameters",
            "fidelities",
            "command",
            "type",
            "low",
            "cost",
            text(chance),
        )
        pairs = (f"{chance.choice(keys)}: {_yaml(chance, depth - 1)}" for _ in range(chance.randint(0, 6)))
        return "{" + ", ".join(pairs) + "}"
    return chance.choice(("1", "x", "[]", "{}", f'"{chance.randint(0, 9)}"', text(chance)))


def _bomb(chance: random.Random) -> str:
    """A few hundred bytes that stand for many gigabytes."""
    width, height = chance.choice(((9, 9), (2, 40), (40, 6)))
    lines = ["a0: &a0 [lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, height)]
    return "\n".join(lines) + "\n" + chance.choice(("", _SMALL))
