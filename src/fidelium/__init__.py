"""fidelium: find the best design of an expensive simulation while paying mostly for cheap ones.

The public names below are imported when first used, so that `import fidelium` is quick and loads no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fidelium import problems
    from fidelium.catalogue import Catalogue
    from fidelium.errors import FideliumError
    from fidelium.fidelity import Fidelity, FidelityLadder
    from fidelium.history import Trial, TrialState
    from fidelium.space import Categorical, Integer, Real, SearchSpace
    from fidelium.study import Stop, Study, create_study, load_study, optimize

__version__ = "0.2.0"

__all__ = [
    "Catalogue",
    "Categorical",
    "Fidelity",
    "FidelityLadder",
    "FideliumError",
    "Integer",
    "Real",
    "SearchSpace",
    "Stop",
    "Study",
    "Trial",
    "TrialState",
    "__version__",
    "create_study",
    "load_study",
    "optimize",
    "problems",
]

_HOMES = {
    "Catalogue": "fidelium.catalogue",
    "Categorical": "fidelium.space",
    "Fidelity": "fidelium.fidelity",
    "FidelityLadder": "fidelium.fidelity",
    "FideliumError": "fidelium.errors",
    "Integer": "fidelium.space",
    "Real": "fidelium.space",
    "SearchSpace": "fidelium.space",
    "Stop": "fidelium.study",
    "Study": "fidelium.study",
    "Trial": "fidelium.history",
    "TrialState": "fidelium.history",
    "create_study": "fidelium.study",
    "load_study": "fidelium.study",
    "optimize": "fidelium.study",
}


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name == "problems":
            return import_module("fidelium.problems")
        if name not in _HOMES:
            raise AttributeError(f"module 'fidelium' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value  # the next access does not come here
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
