"""What stopping by `worth` saves: the total of regret times worth plus cost, at the stop and at the end of the budget.

    python tests/reference/stopping.py --seeds 3 --problem park1 --strategy sf-ei     # the table of docs/steering.md
    python tests/reference/stopping.py                                                # more: an hour

Each study is run with the rule, and then on to the whole budget, which overrules it: so both totals are of the same
queries. "Hindsight" is the least total at which the study could have been stopped after its initial design.
"""

from __future__ import annotations

import argparse
import statistics

import fidelium as fd
from fidelium.snapshot import Snapshot

BUDGETS = {"branin": 1500.0, "park1": 700.0}
WORTHS = {"branin": (10.0, 100.0, 1000.0), "park1": (10.0, 100.0, 1000.0)}


def totals(problem: fd.problems.Problem, strategy: str, seed: int, worth: float) -> tuple[float, float, float, float]:
    """Cost at the stop, and the totals at the stop, at the end of the budget, and in hindsight."""
    study = fd.create_study(
        problem.space,
        problem.ladder,
        direction=problem.direction,
        strategy=strategy,
        seed=seed,
        initial=problem.initial,
    )

    def objective(params: dict[str, float], fidelity: fd.Fidelity) -> float:
        return problem.evaluate(params, fidelity.name)

    budget = BUDGETS[problem.name]
    study.optimize(objective, budget * (1 - 1e-9), progress=False, stop=fd.Stop(worth=worth))
    stopped = len(study.trials)
    study.optimize(objective, budget, progress=False)
    first = sum((problem.initial or {}).values())
    at = [_total(study, problem, count, worth) for count in range(first, len(study.trials) + 1)]
    spent = Snapshot(study.definition, study.trials[:stopped]).spent
    return spent, at[stopped - first], at[-1], min(at)


def _total(study: fd.Study, problem: fd.problems.Problem, count: int, worth: float) -> float:
    now = Snapshot(study.definition, study.trials[:count])
    value = problem.optimum if now.best is None or now.best.value is None else now.best.value
    return worth * abs(value - problem.optimum) + now.spent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--problem", nargs="*", default=list(BUDGETS))
    parser.add_argument("--strategy", nargs="*", default=["sf-ei", "dnn-mfbo"])
    chosen = parser.parse_args()
    print("| problem | strategy | worth | cost at the stop | total at the stop | at the end | in hindsight |")
    print("|---|---|---|---|---|---|---|")
    for name in chosen.problem:
        problem = fd.problems.get(name)
        for strategy in chosen.strategy:
            for worth in WORTHS[name]:
                seeds = range(chosen.first, chosen.first + chosen.seeds)
                rows = [totals(problem, strategy, seed, worth) for seed in seeds]
                cells = [f"{statistics.median(column):.0f}" for column in zip(*rows, strict=True)]
                print(f"| {name} | {strategy} | {worth:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
