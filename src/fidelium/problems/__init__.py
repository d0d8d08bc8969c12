"""Problems with known optima: what strategies are compared on, and the demo's subject.

A problem's module is imported when the problem is asked for, so a heavy one costs nothing until then.
"""

from importlib import import_module

from fidelium.errors import UnknownNameError
from fidelium.problems.base import Problem
from fidelium.problems.regret import inference_regret, recommendation_regret, simple_regret

__all__ = ["Problem", "get", "inference_regret", "names", "recommendation_regret", "simple_regret"]

# name -> module; the module has a function of the problem's name that makes it
_HOMES = {
    "branin": "fidelium.problems.synthetic",
    "conductor": "fidelium.problems.fem.conductor",
    "levy": "fidelium.problems.synthetic",
    "park1": "fidelium.problems.synthetic",
    "plate": "fidelium.problems.fem.plate",
    "sandwich": "fidelium.problems.fem.sandwich",
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
    return getattr(import_module(_HOMES[name]), name)()
