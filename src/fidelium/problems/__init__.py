"""Problems with known optima: what strategies are compared on, and the demo's subject.

A problem's module is imported when the problem is asked for, so a heavy one costs nothing until then.
"""

from importlib import import_module

from fidelium.errors import UnknownNameError
from fidelium.problems.base import Problem, inference_regret, recommendation_regret, simple_regret

__all__ = ["Problem", "get", "inference_regret", "names", "recommendation_regret", "simple_regret"]

# name -> module; the module has a function of the problem's name (- is _ there) that makes it
_HOMES = {
    "branin": "fidelium.problems.synthetic",
    "conductor": "fidelium.problems.fem.conductor",
    "hartmann6": "fidelium.problems.varied",
    "levy": "fidelium.problems.synthetic",
    "mixed": "fidelium.problems.varied",
    "park1": "fidelium.problems.synthetic",
    "peaks": "fidelium.problems.peaks",
    "peaks-blind": "fidelium.problems.peaks",
    "peaks-cheap": "fidelium.problems.peaks",
    "peaks-constant": "fidelium.problems.peaks",
    "peaks-dear": "fidelium.problems.peaks",
    "peaks-exact": "fidelium.problems.peaks",
    "peaks-jumping": "fidelium.problems.peaks",
    "peaks-noisy": "fidelium.problems.peaks",
    "peaks-opposed": "fidelium.problems.peaks",
    "peaks-rough": "fidelium.problems.peaks",
    "peaks-shifted": "fidelium.problems.peaks",
    "plate": "fidelium.problems.fem.plate",
    "rosenbrock10": "fidelium.problems.varied",
    "rosenbrock4": "fidelium.problems.varied",
    "sandwich": "fidelium.problems.fem.sandwich",
    "sine": "fidelium.problems.varied",
}


def names() -> tuple[str, ...]:
    """The names of all built-in problems, sorted."""
    return tuple(sorted(_HOMES))


def get(name: str) -> Problem:
    """The built-in problem called `name`.

    Raises:
        UnknownNameError: if there is none of that name.
        SettingError: if it is solved by finite elements and the extra `fem` is not installed.
    """
    if name not in _HOMES:
        raise UnknownNameError(f"unknown problem {name!r}; the known ones are {', '.join(map(repr, names()))}")
    return getattr(import_module(_HOMES[name]), name.replace("-", "_"))()
