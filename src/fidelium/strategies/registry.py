"""Strategies by name. The strategy's module (and JAX with it) is imported when it is first used."""

from __future__ import annotations

from importlib import import_module

from fidelium.errors import UnknownNameError
from fidelium.strategies.base import Strategy

DEFAULT = "dnn-mfbo"

_FACTORIES = {
    "dnn-mfbo": ("fidelium.strategies.dnn_mfbo", "dnn_mfbo"),
    "dnn-mfbo-paper": ("fidelium.strategies.dnn_mfbo", "dnn_mfbo_paper"),
    "mf-mes": ("fidelium.strategies.recipes", "mf_mes"),
    "mf-pes": ("fidelium.strategies.recipes", "mf_pes"),
    "mf-gp-ucb": ("fidelium.strategies.recipes", "mf_gp_ucb"),
    "mf-sko": ("fidelium.strategies.recipes", "mf_sko"),
    "mtnn-bo": ("fidelium.strategies.recipes", "mtnn_bo"),
    "sf-mes": ("fidelium.strategies.recipes", "sf_mes"),
    "sf-ei": ("fidelium.strategies.recipes", "sf_ei"),
    "nargp-mes": ("fidelium.strategies.recipes", "nargp_mes"),
    "random": ("fidelium.strategies.initial_design", "RandomSearch"),
}


def names() -> tuple[str, ...]:
    """The names of all strategies, the default first."""
    return tuple(_FACTORIES)


def check(strategy: object) -> None:
    """Refuse what is neither a known name nor a strategy, without importing anything heavy.

    Raises:
        UnknownNameError: if it is neither.
    """
    if isinstance(strategy, str) and strategy not in _FACTORIES:
        raise UnknownNameError(f"unknown strategy {strategy!r}; known are {', '.join(map(repr, names()))}")
    if not isinstance(strategy, (str, Strategy)) or isinstance(strategy, type):
        raise UnknownNameError(f"strategy must be a name or an object with a propose method, got {strategy!r}")


def resolve(strategy: str | Strategy) -> Strategy:
    """The strategy itself, from its name or as it is.

    Raises:
        UnknownNameError: if it is neither a known name nor a strategy.
    """
    check(strategy)
    if not isinstance(strategy, str):
        return strategy
    module, factory = _FACTORIES[strategy]
    return getattr(import_module(module), factory)()
