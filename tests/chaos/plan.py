"""Which studies are put under fire: storage, way to run, strategy and sizes follow from the seed and a number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

_SIMULATOR = Path(__file__).with_name("simulator.py")

_CELLS = (
    ("sqlite", "run", "random"),
    ("postgresql", "worker", "random"),
    ("sqlite", "worker", "random"),
    ("postgresql", "run", "random"),
    ("sqlite", "dask", "random"),
    ("postgresql", "worker", "sf-ei"),
    ("sqlite", "worker", "random"),
    ("postgresql", "dask", "random"),
    ("sqlite", "run", "random"),
    ("postgresql", "worker", "random"),
    ("sqlite", "worker", "dnn-mfbo"),
    ("postgresql", "run", "random"),
)
"""Storage, way and strategy, in turn."""

_RULES = (
    "{file: result.json}",
    "{file: out.json, json: value}",
    "{file: out.csv, column: mass}",
    '{regex: "^mass = (.*)$"}',
)

COSTS = {"coarse": 1.0, "fine": 4.0}
"""The fidelities of every study."""


@dataclass(frozen=True)
class Plan:
    """One study under fire.

    Args:
        seed: the seed of the whole command.
        number: which study of this seed.
        storage: "sqlite" or "postgresql".
        way: "run" (`fidelium run` alone), "worker" (with `fidelium worker` beside it) or "dask".
        strategy: how it chooses.
        budget: what it may spend.
        slots: evaluations at the same time in each process.
        helpers: workers beside the runner: `fidelium worker`, or Dask's.
        retries: of failed trials.
        rule: how the value is read.
        kills: how many processes are killed, at most.
    """

    seed: int
    number: int
    storage: str
    way: str
    strategy: str
    budget: float
    slots: int
    helpers: int
    retries: int
    rule: str
    kills: int

    @property
    def name(self) -> str:
        """The study's name."""
        return f"chaos-{self.seed}-{self.number}"

    @property
    def is_modelled(self) -> bool:
        """Whether choosing takes a model, and seconds."""
        return self.strategy != "random"

    @property
    def cheapest(self) -> float:
        """The cost of its cheapest run: a strategy of a single fidelity runs the target alone."""
        return COSTS["fine"] if self.strategy.startswith("sf-") else COSTS["coarse"]

    def random(self) -> random.Random:
        """The random numbers of its kills."""
        return random.Random(f"{self.seed}/{self.number}/kills")

    def study_file(self, url: str) -> str:
        """The content of its study.yaml."""
        return STUDY.format(plan=self, url=url, simulator=_SIMULATOR)


STUDY = """\
name: {plan.name}
direction: minimize
budget: {plan.budget:g}
storage: "{url}"
strategy: {plan.strategy}
seed: {plan.number}
workers: {plan.slots}
initial: {{coarse: 4, fine: 3}}
failures: {{retries: {plan.retries}}}
parameters:
  x: {{type: real, low: 0, high: 1}}
  tiles: {{type: integer, low: 1, high: 9}}
  kind: {{type: categorical, choices: [foam, balsa]}}
fidelities:
  - {{name: coarse, cost: 1}}
  - {{name: fine, cost: 4, timeout: 60 s}}
grace: 0.5 s
command: ["{{python}}", -S, -E, "{simulator}", "{{number}}", "{{attempt}}", "{{x}}", "{{tiles}}", "{{kind}}",
          "{{fidelity}}", "{{result}}"]
result: {plan.rule}
"""


def plan_study(seed: int, number: int) -> Plan:
    """The plan of a study: the same for the same seed and number."""
    chance = random.Random(f"{seed}/{number}/plan")
    storage, way, strategy = _CELLS[number % len(_CELLS)]
    modelled = strategy != "random"
    return Plan(
        seed,
        number,
        storage,
        way,
        strategy,
        budget=chance.randint(30, 40) if modelled else chance.randint(90, 200),
        slots=chance.randint(1, 3),
        helpers=chance.randint(1, 2),
        retries=chance.choice((0, 0, 2)),
        rule=chance.choice(_RULES),
        kills=chance.randint(6, 10) if modelled else chance.randint(20, 40),
    )
