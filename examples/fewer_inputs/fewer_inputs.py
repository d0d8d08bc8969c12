"""A 2-D panel code below a 3-D one: the lower fidelity ignores two of four parameters.

python fewer_inputs.py                         # one study
python fewer_inputs.py --compare 0,1,2         # regret with the inputs declared, and not, for these seeds
"""

import argparse
import math
import random
import statistics

import fidelium as fd

SPACE = {"span": fd.Real(0, 1), "chord": fd.Real(0, 1), "thickness": fd.Real(0, 1), "twist": fd.Real(0, 1)}


def drag(params: dict[str, float], fidelity: fd.Fidelity) -> float:
    """A valley in span and chord; the 3-D code adds what thickness and twist do."""
    span, chord = 4 * params["span"] - 2, 2 * params["chord"] - 1
    panel = ((4 - 2.1 * span**2 + span**4 / 3) * span**2 + span * chord + (4 * chord**2 - 4) * chord**2) / 2
    if fidelity.name == "panel":
        return 0.9 * panel + 0.3 * params["span"]
    return panel + 2 * (params["thickness"] - 0.3 - 0.3 * params["span"]) ** 2 + math.sin(3 * params["twist"] + 2.5)


OPTIMUM = -1.5158142267449384  # at 0.5225, 0.1437, 0.4567, 0.7375 and 0.4775, 0.8563, 0.4433, 0.7375


def ladder(declared: bool) -> list[fd.Fidelity]:
    return [
        fd.Fidelity("panel", cost=1, inputs=["span", "chord"] if declared else None),
        fd.Fidelity("solid", cost=10),
    ]


def run(seed: int, budget: float, declared: bool, strategy: str) -> fd.Study:
    study = fd.create_study(
        SPACE,
        ladder(declared),
        direction="minimize",
        strategy=strategy,
        seed=seed,
        initial={"panel": 12, "solid": 4},
    )
    study.optimize(drag, budget, progress=False)
    return study


def regret(study: fd.Study) -> float:
    """How far the value of the best design run at the target is from the optimum."""
    return study.best.value - OPTIMUM


def error(seed: int, declared: bool, strategy: str) -> float:
    """Root mean square error of predictions at the target, as a share of the values' spread."""
    draw = random.Random(seed)

    def designs(count: int) -> list[dict[str, float]]:
        return [{name: draw.random() for name in SPACE} for _ in range(count)]

    study = fd.create_study(SPACE, ladder(declared), direction="minimize", strategy=strategy)
    for rung, count in zip(study.ladder, (30, 10), strict=True):
        for params in designs(count):
            study.add_observation(params, rung.name, drag(params, rung))
    asked = designs(300)
    exact = [drag(params, study.ladder.target) for params in asked]
    misses = [(a - b) ** 2 for a, b in zip(study.predict(asked)[0], exact, strict=True)]
    return math.sqrt(statistics.fmean(misses)) / statistics.pstdev(exact)


def predict(seeds: list[int]) -> None:
    for strategy in ("dnn-mfbo", "mf-mes", "mf-sko", "nargp-mes"):
        means = [statistics.fmean(error(seed, declared, strategy) for seed in seeds) for declared in (True, False)]
        print(f"{strategy}: error {means[0]:.3f} with the inputs declared, {means[1]:.3f} without", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare")
    parser.add_argument("--predict")
    parser.add_argument("--budget", type=float, default=150)
    parser.add_argument("--strategy", default="dnn-mfbo")
    arguments = parser.parse_args()
    if arguments.predict is not None:
        predict([int(seed) for seed in arguments.predict.split(",")])
        return
    if arguments.compare is None:
        study = run(0, arguments.budget, declared=True, strategy=arguments.strategy)
        print(study.best.params, f"regret {regret(study):.3g}", sep="\n")
        return
    found = {True: [], False: []}
    for seed in map(int, arguments.compare.split(",")):
        for declared, regrets in found.items():
            regrets.append(regret(run(seed, arguments.budget, declared, arguments.strategy)))
        print(f"seed {seed}: declared {found[True][-1]:.3g}, not {found[False][-1]:.3g}", flush=True)
    for declared, regrets in found.items():
        name, quartiles = "declared" if declared else "not declared", statistics.quantiles(regrets, n=4)
        print(f"{name}: median {quartiles[1]:.3g}, quartiles {quartiles[0]:.3g} to {quartiles[2]:.3g}")
    better = sum(a < b for a, b in zip(found[True], found[False], strict=True))
    print(f"better with the inputs declared: {better} of {len(found[True])} seeds")


if __name__ == "__main__":
    main()
