"""Built-in problems with known optima, for the demo and for comparing strategies.

A problem's module is imported on first use, so the finite-element ones cost nothing until then.
"""

from importlib import import_module

from fidelium.errors import UnknownNameError
from fidelium.problems.base import (
    Problem,
    Returned,
    inference_regret,
    recommendation_regret,
    simple_regret,
    value_and_outcomes,
)

__all__ = [
    "Problem",
    "Returned",
    "get",
    "inference_regret",
    "names",
    "recommendation_regret",
    "simple_regret",
    "value_and_outcomes",
]

# name -> module, which has a function of that name (with _ for -) that makes the problem
_HOMES = {
    "branin": "fidelium.problems.synthetic",
    "branin-product": "fidelium.problems.constrained",
    "candidates": "fidelium.problems.candidates",
    "conductor": "fidelium.problems.fem.conductor",
    "costs-branin": "fidelium.problems.costly",
    "costs-equal": "fidelium.problems.costly",
    "costs-equal-hartmann6": "fidelium.problems.costly",
    "costs-hartmann6": "fidelium.problems.costly",
    "costs-hartmann6-cheap": "fidelium.problems.costly",
    "costs-peaks": "fidelium.problems.costly",
    "costs-peaks-cheap": "fidelium.problems.costly",
    "costs-rosenbrock4": "fidelium.problems.costly",
    "fails-ball": "fidelium.problems.failing",
    "fails-band": "fidelium.problems.failing",
    "fails-corner": "fidelium.problems.failing",
    "fails-half-space": "fidelium.problems.failing",
    "fails-randomly": "fidelium.problems.failing",
    "g04": "fidelium.problems.constrained",
    "g06": "fidelium.problems.constrained",
    "g07": "fidelium.problems.constrained",
    "g08": "fidelium.problems.constrained",
    "g09": "fidelium.problems.constrained",
    "g24": "fidelium.problems.constrained",
    "gardner1": "fidelium.problems.constrained",
    "gardner2": "fidelium.problems.constrained",
    "gramacy": "fidelium.problems.constrained",
    "hartmann6": "fidelium.problems.robustness",
    "levy": "fidelium.problems.synthetic",
    "mixed": "fidelium.problems.robustness",
    "park1": "fidelium.problems.synthetic",
    "peaks": "fidelium.problems.robustness",
    "peaks-blind": "fidelium.problems.robustness",
    "peaks-cheap": "fidelium.problems.robustness",
    "peaks-constant": "fidelium.problems.robustness",
    "peaks-dear": "fidelium.problems.robustness",
    "peaks-exact": "fidelium.problems.robustness",
    "peaks-jumping": "fidelium.problems.robustness",
    "peaks-noisy": "fidelium.problems.robustness",
    "peaks-opposed": "fidelium.problems.robustness",
    "peaks-rough": "fidelium.problems.robustness",
    "peaks-shifted": "fidelium.problems.robustness",
    "plate": "fidelium.problems.fem.plate",
    "plate-mass": "fidelium.problems.fem.plate_mass",
    "pressure-vessel": "fidelium.problems.machines",
    "rosenbrock10": "fidelium.problems.robustness",
    "rosenbrock4": "fidelium.problems.robustness",
    "sandwich": "fidelium.problems.fem.sandwich",
    "sine": "fidelium.problems.robustness",
    "speed-reducer": "fidelium.problems.machines",
    "spring": "fidelium.problems.machines",
    "spring-three": "fidelium.problems.machines",
    "ten-bar-truss": "fidelium.problems.machines",
    "welded-beam": "fidelium.problems.machines",
}


def names() -> tuple[str, ...]:
    """The names of all built-in problems, sorted."""
    return tuple(sorted(_HOMES))


def get(name: str) -> Problem:
    """The built-in problem called `name`.

    Raises:
        UnknownNameError: if there is no such problem.
        SettingError: if it is solved by finite elements and the extra `fem` is not installed.
    """
    if name not in _HOMES:
        raise UnknownNameError(f"unknown problem {name!r}; the known ones are {', '.join(map(repr, names()))}")
    return getattr(import_module(_HOMES[name]), name.replace("-", "_"))()
