import math

import fidelium as fd


def height(params: dict[str, float], fidelity: fd.Fidelity) -> float:
    hill = math.exp(-((params["x"] - 2) ** 2) - (params["y"] + 1) ** 2)
    return hill if fidelity.name == "survey" else 0.8 * hill + 0.1 * math.sin(params["x"])


space = {"x": fd.Real(-5, 5), "y": fd.Real(-5, 5)}
ladder = [fd.Fidelity("map", cost=1), fd.Fidelity("survey", cost=10)]
study = fd.create_study(
    space, ladder, direction="maximize", storage="sqlite:///hill.db", name="hill", load_if_exists=True
)
best = study.optimize(height, budget=100)
print(best, study.recommend(), sep="\n")
