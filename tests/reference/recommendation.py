"""How often a new design that the model finds better than the best observed one is better: for `recommendation.SURE`.

    python tests/reference/recommendation.py --problem branin --strategy dnn-mfbo --seeds 0,1,2,3 >> records.jsonl
    python tests/reference/recommendation.py --summary records.jsonl

A record is written after every third query: the surest design that has not been run, what the model says of it, and its
true value. The summary has, for several thresholds of the lead in standard deviations, how many designs pass, the share
of them that are better, and the mean change of log10 regret against always taking the best observed design. A lead is
measured from the best value, or from the model's own mean at that design if that is higher ("level", as the rule does).
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import fidelium as fd
from fidelium.numerics.backend import jax_session
from fidelium.problems import value_and_outcomes
from fidelium.randomness import Key
from fidelium.strategies.base import Modelled
from fidelium.strategies.model import REPEATS, PosteriorModel, _sure_value
from fidelium.strategies.recommendation import surest
from fidelium.strategies.registry import resolve

QUERIES = 24
THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


def records(problem_name: str, strategy: str, seed: int) -> None:
    """Print the records of one study."""
    problem = fd.problems.get(problem_name)
    sign, first = problem.direction.sign, sum(problem.initial.values())
    study = fd.create_study(
        problem.space, problem.ladder, direction=str(problem.direction), strategy=strategy, seed=seed,
        initial=problem.initial,
    )  # fmt: skip

    def true_value(unit_x: Any) -> float:
        return sign * problem.value(problem.space.decode(unit_x), problem.ladder.target.name)

    for number in range(first + QUERIES):
        trial = study.ask()
        study.tell(trial, value_and_outcomes(problem.observe(trial.params, trial.fidelity.name))[0])
        seen = study.history().observations[-1]
        if number < first - 1 or (number - first + 1) % 3 or not len(seen):
            continue
        modelled = resolve(strategy)
        assert isinstance(modelled, Modelled)
        model = modelled.model(study.history(), Key((seed, number)))
        assert isinstance(model, PosteriorModel)
        with jax_session():
            designs, _ = model._maximise(_sure_value)
            taken = {x.tobytes() for x in seen.unit_x}
            new = np.array([x for x in designs if x.tobytes() not in taken]).reshape(-1, designs.shape[1])
            if not len(new):
                continue
            expected, noise = model._expected(new)
            best = surest(expected)
            row = int(np.flatnonzero(np.all(new == best.unit_x[0], axis=1))[0])
            incumbent = seen.unit_x[[np.argmax(seen.y)]]
            believed = float(model._expected(incumbent)[0].mean[0])
        ripple = min(float(noise[row]), REPEATS / model.scales[-1].scale)
        value, std = float(np.max(model.scales[-1].inward(seen.y))), float(np.hypot(best.std[0], ripple))
        found = {
            "problem": problem_name,
            "strategy": strategy,
            "seed": seed,
            "value": (best.mean[0] - value) / std,
            "level": (best.mean[0] - max(value, believed)) / std,
            "regret": sign * problem.optimum - true_value(best.unit_x[0]),
            "regret_of_best": sign * problem.optimum - true_value(incumbent[0]),
        }
        print(json.dumps(found), flush=True)


def summary(path: Path) -> None:
    """Print the table of a file of records, for all problems and for each."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for name in ["all", *sorted({each["problem"] for each in found})]:
        chosen = [each for each in found if name in ("all", each["problem"])]
        new, best = (np.maximum([each[key] for each in chosen], 1e-12) for key in ("regret", "regret_of_best"))
        for origin, threshold in product(("value", "level"), THRESHOLDS):
            passed = np.array([each[origin] for each in chosen]) >= threshold
            share = float(np.mean(new[passed] < best[passed])) if passed.any() else float("nan")
            change = float(np.mean(np.log10(np.where(passed, new, best) / best)))
            print(f"{name:15s} {origin} + {threshold:3.1f}: {passed.sum():4d} of {len(passed)}, better {share:.2f}, "
                  f"log10 regret {change:+.3f}")  # fmt: skip


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", action="append", default=[])
    parser.add_argument("--strategy", action="append", default=[])
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    if arguments.summary is not None:
        summary(arguments.summary)
        sys.exit()
    for problem in arguments.problem:
        for strategy in arguments.strategy:
            for seed in map(int, arguments.seeds.split(",")):
                records(problem, strategy, seed)


if __name__ == "__main__":
    main()
