"""How well the stack predicts with standard errors that are told, by how it uses them (docs/fidelities.md).

    python tests/reference/known_noise.py --how floor --seeds 10       # about a minute; also place, added, not

`floor` is what fidelium does: an error takes the place of the noise floor, ripples are learned. `place`: of all noise.
`added`: it is added to all of it. `not`: errors are not told. Problems have no noise (level 0, errors of 0 are told) or
errors between a hundredth and half of the values' spread. Printed are the mean log density of the exact target at 200
random designs, in units of its spread, the root mean square error, and the share within one standard deviation.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import fidelium as fd
from fidelium.history import Observations
from fidelium.numerics.backend import jax_session
from fidelium.problems.base import Problem
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.linearised import Noise

CASES = (("branin", 0.0), ("branin", 1.0), ("park1", 1.0), ("levy", 0.0), ("levy", 1.0))
COUNTS = {2: (24, 12), 3: (24, 16, 12)}
OTHERS = {
    "place": lambda self, value, known: jnp.where(known >= 0, known, self.var(value)),
    "added": lambda self, value, known: jnp.where(known >= 0, known, 0.0) + self.var(value),
}


def scores(problem: Problem, level: float, told: bool, seed: int) -> tuple[float, float, float]:
    """Log density, error and coverage of one fit."""
    generator, space, sign = np.random.default_rng(seed), problem.space, problem.direction.sign

    def values(x: np.ndarray, fidelity: str) -> np.ndarray:
        return sign * np.array([problem.value(space.decode(row), fidelity) for row in x])

    seen: list[Observations] = []
    for rung, count in zip(problem.ladder, COUNTS[len(problem.ladder)], strict=True):
        x = space.sample(generator, count)
        y = values(x, rung.name)
        std = level * np.std(y) * 10 ** generator.uniform(-2, -0.3, count)
        seen.append(Observations(x, y + std * generator.normal(size=count), std if told else None))
    posterior = ClosedFormStack(members=2).fit(seen, Key((seed,)))
    x = space.sample(generator, 200)
    truth = values(x, problem.ladder.target.name)
    moments = (np.asarray(part)[:, -1] for part in _marginals(posterior, jnp.asarray(x)))
    mean, std = posterior.scales()[-1].outward_moments(*moments)
    spread = float(np.std(truth))
    density = np.mean(norm.logpdf(truth, mean, std + 1e-9 * spread)) + np.log(spread)
    error = np.sqrt(np.mean((mean - truth) ** 2)) / spread
    return float(density), float(error), float(np.mean(np.abs(mean - truth) < std))


@jax.jit
def _marginals(posterior: Any, x: jax.Array) -> Any:
    return jax.vmap(posterior.marginals)(x)


@jax_session()
def main() -> None:
    """Print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", choices=("floor", *OTHERS, "not"), default="floor")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.how in OTHERS:
        Noise.var_given = OTHERS[arguments.how]
    for name, level in CASES:
        problem = fd.problems.get(name)
        found = [scores(problem, level, arguments.how != "not", seed) for seed in range(arguments.seeds)]
        density, error, inside = np.mean(found, axis=0)
        print(f"{arguments.how} {name} {level:g}: log density {density:.2f}, error {error:.3f}, within {inside:.2f}")


if __name__ == "__main__":
    main()
