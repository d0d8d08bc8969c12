"""Cases that are hard on time: many fidelities, many dimensions, many categories (`fidelium bench speed --hard`).

Each is a smooth function with waves; the lower a fidelity, the more it differs. A measurement runs in a process of its
own, `python -m fidelium.experiments.hard_cases JSON`, which prints one JSON line. Times are processor time: they depend
little on other load.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from fidelium.catalogue import Catalogue
from fidelium.experiments.machine import pin_to_one_core
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.space import Categorical, Integer, Parameter, Real, SearchSpace

MOST_SECONDS = 5.0
"""What a suggestion or a recommendation may take at most, once compiled."""


@dataclass(frozen=True)
class HardCase:
    """A space, and how many observations of each fidelity there are.

    Args:
        parameters: of the space.
        sizes: observations per fidelity, low to high.
    """

    parameters: Mapping[str, Parameter]
    sizes: tuple[int, ...]

    @property
    def ladder(self) -> FidelityLadder:
        """Each fidelity costs three times as much as the one below."""
        return FidelityLadder(tuple(Fidelity(f"f{m}", cost=3.0**m) for m in range(len(self.sizes))))

    def value(self, unit_x: Any, fidelity: int) -> float:
        """Minus the squared distance from 0.4 in every column, plus waves, plus what this fidelity adds."""
        waves = math.sin(3 * sum(unit_x)) + (len(self.sizes) - 1 - fidelity) * 0.2 * math.cos(2 * sum(unit_x[::2]))
        return -2 * sum((u - 0.4) ** 2 for u in unit_x) + 0.5 * waves


def _reals(count: int) -> dict[str, Parameter]:
    return {f"x{i}": Real(0, 1) for i in range(count)}


def _items(count: int, descriptors: int) -> Catalogue:
    """A catalogue of random items."""
    generator = random.Random(0)  # NumPy is not needed to list the cases
    names = [f"d{k}" for k in range(descriptors)]
    return Catalogue({f"i{i}": {name: generator.gauss(0, 1) for name in names} for i in range(count)})


_CATEGORIES = {f"c{i}": Categorical(("a", "b", "c", "d")) for i in range(5)}

CASES: dict[str, HardCase] = {
    "6 fidelities, 2 dimensions": HardCase(_reals(2), (40, 30, 20, 15, 10, 5)),
    "6 fidelities, 15 dimensions": HardCase(_reals(15), (40, 30, 20, 15, 10, 5)),
    "6 fidelities, 15 dimensions, 420 observations": HardCase(_reals(15), (120, 100, 80, 60, 40, 20)),
    "22 columns, 2 fidelities": HardCase(_CATEGORIES | {"n": Integer(0, 9), "k": Integer(1, 100)}, (150, 20)),
    "15 dimensions, 2 fidelities": HardCase(_reals(15), (150, 20)),
    "14 dimensions, 2 fidelities": HardCase(_reals(14), (150, 20)),
    "10,000 items in 14 columns, 2 fidelities": HardCase({"item": _items(10_000, 14)}, (150, 20)),
}


@dataclass(frozen=True)
class HardTimes:
    """Processor seconds of one strategy in one case.

    Args:
        case: its name.
        strategy: its name.
        first: of the first suggestion, compilation included.
        steady: of a later suggestion, the median.
        recommend: of a recommendation after one more observation, compiled before.
    """

    case: str
    strategy: str
    first: float
    steady: float
    recommend: float


def measure_case(case: str, strategy: str, steady: int) -> HardTimes | str:
    """Measure one strategy in one case, in a new process; what went wrong, if something did."""
    task = json.dumps({"case": case, "strategy": strategy, "steady": steady})
    process = subprocess.run(
        [sys.executable, "-m", "fidelium.experiments.hard_cases", task], capture_output=True, text=True, check=False
    )
    if process.returncode:
        return (process.stderr.strip() or f"exit code {process.returncode}").splitlines()[-1]
    return HardTimes(**json.loads(process.stdout.splitlines()[-1]))


def measure_here(case: str, strategy: str, steady: int) -> dict[str, Any]:
    """What the measured process runs."""
    import numpy as np

    from fidelium import create_study

    chosen, generator = CASES[case], np.random.default_rng(0)
    space = SearchSpace(chosen.parameters)
    study = create_study(space, chosen.ladder, direction="maximize", strategy=strategy, seed=0, initial={})

    def observe(fidelity: int) -> None:
        params = space.decode(space.sample(generator, 1)[0])
        study.add_observation(params, f"f{fidelity}", chosen.value(space.encode(params).tolist(), fidelity))

    for fidelity, size in enumerate(chosen.sizes):
        for _ in range(size):
            observe(fidelity)
    suggestions: list[float] = []
    for _ in range(1 + steady):
        start = time.process_time()
        trial = study.ask()
        suggestions.append(time.process_time() - start)
        at = space.encode(trial.params).tolist()
        study.tell(trial, chosen.value(at, study.ladder.names.index(trial.fidelity.name)))
    recommendations: list[float] = []
    for _ in range(2):
        observe(0)
        start = time.process_time()
        study.recommend()
        recommendations.append(time.process_time() - start)
    return {
        "case": case,
        "strategy": strategy,
        "first": suggestions[0],
        "steady": median(suggestions[1:]),
        "recommend": recommendations[-1],
    }


if __name__ == "__main__":
    pin_to_one_core()
    sys.stdout.write(json.dumps(measure_here(**json.loads(sys.argv[1]))) + "\n")
