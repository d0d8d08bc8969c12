"""A Monte Carlo simulator that says its own standard error, which differs tenfold between runs.

python monte_carlo.py                          # one study
python monte_carlo.py --compare 0,1,2          # regret with the errors told, and not told, for these seeds
"""

import argparse
import math
import statistics

import fidelium as fd

BRANIN = fd.problems.get("branin")
SPACE, OPTIMUM = BRANIN.space, BRANIN.optimum
LADDER = [fd.Fidelity("few samples", cost=1), fd.Fidelity("many samples", cost=8)]
SAMPLE_STD = 25.0  # of one sample; the values of branin have a spread of 50


def simulate(params: dict[str, float], fidelity: fd.Fidelity, draw) -> dict[str, float]:
    """The mean of some samples, and its standard error: how many there are depends on what the machine had time for."""
    exact = BRANIN.value(params, BRANIN.ladder.target.name)
    samples = 10 ** draw.uniform(0, 2) * (1 if fidelity.name == "few samples" else 8)
    std = SAMPLE_STD / math.sqrt(samples)
    return {"value": exact + draw.normal() * std, "std": std}


def run(seed: int, budget: float, told: bool, strategy: str) -> fd.Study:
    import numpy as np

    study = fd.create_study(
        SPACE,
        LADDER,
        direction=str(BRANIN.direction),
        strategy=strategy,
        seed=seed,
        initial={"few samples": 12, "many samples": 4},
    )
    while study.spent + LADDER[0].cost <= budget:
        trial = study.ask(budget)
        # the noise of trial t is the same in both studies of a seed
        result = simulate(trial.params, trial.fidelity, np.random.default_rng([seed, trial.number]))
        study.tell(trial, result["value"], std=result["std"] if told else None)
    return study


def judged(study: fd.Study) -> tuple[float, float]:
    """How far the exact value of the recommended design is from the optimum, and from what the study says it is."""
    choice = study.recommend()
    exact = BRANIN.value(choice.params, BRANIN.ladder.target.name)
    return abs(exact - OPTIMUM), abs(exact - choice.mean)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare")
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--strategy", default="dnn-mfbo")
    arguments = parser.parse_args()
    if arguments.compare is None:
        study = run(0, arguments.budget, told=True, strategy=arguments.strategy)
        print(study.recommend(), f"regret {judged(study)[0]:.3g}", sep="\n")
        return
    found = {"told": [], "not told": []}
    for seed in map(int, arguments.compare.split(",")):
        for how, results in found.items():
            results.append(judged(run(seed, arguments.budget, how == "told", arguments.strategy)))
            print(f"seed {seed}, {how}: regret {results[-1][0]:.3g}, misjudged by {results[-1][1]:.3g}", flush=True)
    for how, results in found.items():
        for what, numbers in zip(("regret", "misjudged by"), zip(*results, strict=True), strict=True):
            low, middle, high = statistics.quantiles(numbers, n=4)
            print(f"{how}, {what}: median {middle:.3g}, quartiles {low:.3g} to {high:.3g}")
    better = sum(told < other for (told, _), (other, _) in zip(*found.values(), strict=True))
    print(f"smaller regret with the errors told: {better} of {len(found['told'])} seeds")


if __name__ == "__main__":
    main()
