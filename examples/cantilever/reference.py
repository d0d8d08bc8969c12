"""The best fine design by brute force: SLSQP with finite differences from four starts, about a thousand fine runs."""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Template
from scipy.optimize import minimize

HERE = Path(__file__).parent
DECK = Template((HERE / "beam.inp.j2").read_text())
NAMES = ("width", "height", "width_taper", "height_taper")
LOW, HIGH = np.array([0.008, 0.01, 0.3, 0.3]), np.array([0.04, 0.06, 1.0, 1.0])
RULES = {
    "mass": r"total mass for set BEAM .*\n\n\s+(\S+)",
    "deflection": r"for set TIP .*\n\n\s+\d+\s+\S+\s+\S+\s+(\S+)",
    "stress_wall": r"for set WALL .*\n\n\s+\d+\s+1\s+(\S+)",
    "stress_middle": r"for set MIDDLE .*\n\n\s+\d+\s+1\s+(\S+)",
}


def run(unit: np.ndarray) -> dict[str, float]:
    """What CalculiX finds for a design, a point of the unit cube."""
    return _run(tuple(np.round(np.clip(unit, 0, 1), 9)))


@cache
def _run(unit: tuple[float, ...]) -> dict[str, float]:
    design = dict(zip(NAMES, LOW + np.array(unit) * (HIGH - LOW), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "beam.inp").write_text(DECK.render(fidelity="fine", **design))
        subprocess.run(["ccx", "beam"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        text = Path(folder, "beam.dat").read_text()
    return {name: float(re.findall(rule, text)[-1]) for name, rule in RULES.items()}


def margins(unit: np.ndarray) -> np.ndarray:
    """Of the three constraints, as shares of their limits."""
    found = run(unit)
    limits = {"deflection": 1e-3, "stress_wall": 150e6, "stress_middle": 150e6}
    return np.array([1 - found[name] / limit for name, limit in limits.items()])


def main() -> None:
    """Print the best feasible design of every start."""
    for seed in range(4):
        start = np.random.default_rng(seed).uniform(0.3, 0.9, 4)
        found = minimize(
            lambda unit: run(unit)["mass"],
            start,
            method="SLSQP",
            bounds=[(0, 1)] * 4,
            constraints={"type": "ineq", "fun": margins},
            options={"eps": 1e-3, "ftol": 1e-6, "maxiter": 40},
        )
        design = dict(zip(NAMES, LOW + found.x * (HIGH - LOW), strict=True))
        text = ", ".join(f"{name} {value:.5g}" for name, value in design.items())
        print(
            f"{run(found.x)['mass']:.5f} kg: {text}; margins {np.round(margins(found.x), 5)}; {found.message}",
            flush=True,
        )


if __name__ == "__main__":
    main()
