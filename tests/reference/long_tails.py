"""Studies of m, exp(3m) and -exp(-3m): regret on m, with long tails bent (dnn-mfbo) or not (without-warp).

    python tests/reference/long_tails.py --problem camel --method dnn-mfbo --seeds 10,11,12 >> records.jsonl
    python tests/reference/long_tails.py --summary records.jsonl

m is the target to be maximised, in units of its standard deviation over the space, from its median. `m` is the plain
objective, `up` is exp(3m), `down` is -exp(-3m). Regrets are those of the best design run at the target, in standard
deviations of m, and at least 1e-7. The summary has medians over seeds, and over problems their ratios to those of `m`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import fidelium as fd
from fidelium.experiments.methods import resolve_method
from fidelium.fidelity import FidelityLadder

TWO = FidelityLadder((fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=10)))
BUDGETS = {"branin": 1100, "levy": 1100, "park1": 100, "peaks": 160}
FLOOR = 1e-7


@dataclass(frozen=True)
class Case:
    """A function per fidelity, low to high, with the target's best value."""

    space: fd.SearchSpace
    functions: tuple[Callable[..., Any], ...]
    optimum: float
    initial: Mapping[str, int]
    ladder: FidelityLadder = TWO
    sign: float = -1.0
    budget: float = 160


def camel(x: float, y: float) -> float:
    """The six-hump camel."""
    return (4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (4 * y**2 - 4) * y**2


def goldstein(x: float, y: float) -> float:
    """Goldstein and Price."""
    first = 1 + (x + y + 1) ** 2 * (19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2)
    return first * (30 + (2 * x - 3 * y) ** 2 * (18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2))


def currin(x: float, y: float) -> float:
    """Currin's exponential function, negative."""
    damping = 1 - math.exp(-1 / (2 * y)) if y > 0 else 1.0
    return -damping * (2300 * x**3 + 1900 * x**2 + 2092 * x + 60) / (100 * x**3 + 500 * x**2 + 4 * x + 20)


def currin_low(x: float, y: float) -> float:
    """The mean of four neighbours."""
    around = product((x + 0.05, x - 0.05), (y + 0.05, y - 0.05))
    return 0.25 * sum(currin(min(a, 1.0), max(b, 0.0)) for a, b in around)


def hartmann3(x: float, y: float, z: float) -> float:
    """Hartmann in three dimensions."""
    steepness = ((3, 10, 30), (0.1, 10, 35)) * 2
    centres = ((0.3689, 0.117, 0.2673), (0.4699, 0.4387, 0.747), (0.1091, 0.8732, 0.5547), (0.0381, 0.5743, 0.8828))
    rows = zip((1, 1.2, 3, 3.2), steepness, centres, strict=True)
    return -sum(
        w * math.exp(-sum(s * (v - c) ** 2 for s, v, c in zip(a, (x, y, z), p, strict=True))) for w, a, p in rows
    )


def forrester(x: float) -> float:
    """Forrester's function."""
    return (6 * x - 2) ** 2 * math.sin(12 * x - 4)


def box(**bounds: tuple[float, float]) -> fd.SearchSpace:
    """A space of reals."""
    return fd.SearchSpace({name: fd.Real(*ends) for name, ends in bounds.items()})


def starter() -> Case:
    """The penalised beam that `fidelium init` used to make."""
    file = Path(fd.__file__).parent / "config" / "shipped" / "simulator.py"
    spec = importlib.util.spec_from_file_location("simulator", file)
    assert spec is not None
    assert spec.loader is not None
    simulator: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(simulator)

    def mass(cells: int) -> Callable[..., float]:
        return lambda height, layers, core: simulator.penalised_mass(height, layers, core, cells)

    cores = ("foam", "balsa", "honeycomb")
    grid = product(np.linspace(0.02, 0.2, 3601).tolist(), range(1, 7), cores)
    best = min(mass(400)(*design) for design in grid)
    space = {"height": fd.Real(0.02, 0.2), "layers": fd.Integer(1, 6), "core": fd.Categorical(cores)}
    return Case(fd.SearchSpace(space), (mass(2), mass(400)), best, {"low": 12, "high": 3}, budget=120)


def case(name: str) -> Case:
    """A problem by its name; those that are not here are the built-in ones."""
    some, plane = {"low": 10, "high": 3}, box(x=(-2, 2), y=(-2, 2))
    if name == "camel":
        low = lambda x, y: 0.8 * camel(0.95 * x, 0.95 * y + 0.02) + 0.3 * x  # noqa: E731
        return Case(box(x=(-2, 2), y=(-1, 1)), (low, camel), -1.0316284534898774, some)
    if name == "goldstein":
        low = lambda x, y: 0.8 * goldstein(0.95 * x, 0.95 * y) + 50 * (x + 2)  # noqa: E731
        return Case(plane, (low, goldstein), 3.0, some)
    if name == "currin":
        return Case(box(x=(0, 1), y=(0, 1)), (currin_low, currin), -13.798722044728434, some)
    if name == "hart3":
        low = lambda x, y, z: 0.9 * hartmann3(0.97 * x, 0.97 * y, z) + 0.1 * x  # noqa: E731
        cube = box(x=(0, 1), y=(0, 1), z=(0, 1))
        return Case(cube, (low, hartmann3), -3.86278214782076, {"low": 15, "high": 4})
    if name == "forrester":
        low = lambda x: 0.5 * forrester(x) + 10 * (x - 0.5) - 5  # noqa: E731
        return Case(box(x=(0, 1)), (low, forrester), -6.020740055767083, {"low": 6, "high": 2})
    if name == "beam":
        return starter()
    p = fd.problems.get(name)
    return Case(p.space, p.functions, p.optimum, p.initial, p.ladder, p.direction.sign, BUDGETS.get(name, 160))


def record(name: str, kind: str, method: str, seed: int) -> dict[str, Any]:
    """Run one study."""
    problem = case(name)
    sample = problem.space.sample(np.random.default_rng(0), 2000)
    m = [problem.sign * problem.functions[-1](**problem.space.decode(x)) for x in sample]
    centre, spread = float(np.median(m)), float(np.std(m))
    best = -math.inf

    def objective(params: Mapping[str, Any], fidelity: fd.Fidelity) -> float:
        nonlocal best
        position = problem.ladder.index(fidelity.name)
        value = problem.sign * problem.functions[position](**params)
        if position == len(problem.ladder) - 1:
            best = max(best, value)
        power = 3 * (value - centre) / spread
        return {"m": value, "up": math.exp(power), "down": -math.exp(-power)}[kind]

    study = fd.create_study(
        problem.space, list(problem.ladder), direction="maximize", strategy=resolve_method(method), seed=seed,
        initial=problem.initial,
    )  # fmt: skip
    study.optimize(objective, budget=problem.budget, progress=False)
    regret = max((problem.sign * problem.optimum - best) / spread, FLOOR)
    return {"problem": name, "kind": kind, "method": method, "seed": seed, "regret": regret}


def summary(file: Path) -> None:
    """Print medians over seeds, and the median ratio to m over problems."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for method in dict.fromkeys(row["method"] for row in rows):
        medians: dict[tuple[str, str], float] = {}
        names = list(dict.fromkeys(row["problem"] for row in rows if row["method"] == method))
        for name, kind in product(names, ("m", "up", "down")):
            found = [r["regret"] for r in rows if (r["problem"], r["kind"], r["method"]) == (name, kind, method)]
            if found:
                medians[name, kind] = float(np.median(found))
                print(
                    f"{method:14} {name:10} {kind:5} {medians[name, kind]:9.2g}   {' '.join(f'{v:.2g}' for v in found)}"
                )
        for kind in ("up", "down"):
            both = [name for name in names if (name, kind) in medians and (name, "m") in medians]
            ratios = [medians[name, kind] / medians[name, "m"] for name in both]
            if ratios:
                print(f"{method:14} {kind} / m: median {np.median(ratios):.2g} over {len(ratios)} problems")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--problem", action="append", default=[])
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    if arguments.summary:
        summary(arguments.summary)
    else:
        kinds, methods = arguments.kind or ["m", "up", "down"], arguments.method or ["dnn-mfbo"]
        for seed in arguments.seeds.split(","):
            for each in product(arguments.problem, kinds, methods):
                print(json.dumps(record(*each, int(seed))), flush=True)
