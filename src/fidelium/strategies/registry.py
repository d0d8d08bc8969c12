"""Strategies by name. The strategy's module (and JAX with it) is imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fidelium.errors import SettingError, UnknownNameError
from fidelium.strategies.base import Strategy

DEFAULT = "dnn-mfbo"


@dataclass(frozen=True)
class StoredStrategy:
    """A strategy object of which a storage knows only how it printed: it can be shown, but not used.

    Args:
        text: how it printed.
    """

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Entry:
    """A named strategy.

    Args:
        module: where it is made.
        factory: the function that makes it.
        options: its keyword arguments, each with a check that raises a `SettingError`.
        uses_initial: whether the factory also takes the sizes of the initial design, as `initial`.
        constraints: whether it takes constraints on outcomes.
    """

    module: str
    factory: str
    options: Mapping[str, Callable[[object], None]]
    uses_initial: bool = False
    constraints: bool = True


def _check_architecture(value: object) -> None:
    if value in ("search", "quick"):
        return
    if isinstance(value, Mapping) and {"depths", "widths"} <= set(value) <= {"depths", "widths", "learning_rate"}:
        return
    raise SettingError(
        "architecture must be 'search', 'quick', or a mapping with depths, widths (a list each, one number per "
        f"fidelity) and perhaps learning_rate, got {value!r}"
    )


def _recipe(factory: str, *, constraints: bool = True) -> _Entry:
    return _Entry("fidelium.strategies.recipes", factory, {}, constraints=constraints)


_ENTRIES = {
    "dnn-mfbo": _Entry("fidelium.strategies.dnn_mfbo", "dnn_mfbo", {}),
    "dnn-mfbo-paper": _Entry(
        "fidelium.strategies.dnn_mfbo",
        "dnn_mfbo_paper",
        {"architecture": _check_architecture},
        uses_initial=True,
        constraints=False,
    ),
    "mf-mes": _recipe("mf_mes"),
    "mf-pes": _recipe("mf_pes", constraints=False),
    "mf-gp-ucb": _recipe("mf_gp_ucb", constraints=False),
    "mf-sko": _recipe("mf_sko", constraints=False),
    "mtnn-bo": _recipe("mtnn_bo"),
    "sf-mes": _recipe("sf_mes"),
    "sf-ei": _recipe("sf_ei"),
    "nargp-mes": _recipe("nargp_mes"),
    "random": _Entry("fidelium.strategies.initial_design", "RandomSearch", {}),
}


def strategy_names() -> tuple[str, ...]:
    """The names of all strategies, the default first."""
    return tuple(_ENTRIES)


def options(name: str) -> tuple[str, ...]:
    """The names of a strategy's options."""
    return tuple(_ENTRIES[name].options)


def check(strategy: object, options: object = None) -> None:
    """Check a strategy and its options, without importing anything heavy.

    Raises:
        UnknownNameError: if the strategy is neither a known name nor a strategy object.
        SettingError: if an option is unknown or has an invalid value, or options are given with a strategy object.
    """
    if isinstance(strategy, str) and strategy not in _ENTRIES:
        raise UnknownNameError(f"unknown strategy {strategy!r}; known are {', '.join(map(repr, strategy_names()))}")
    if not isinstance(strategy, (str, Strategy, StoredStrategy)) or isinstance(strategy, type):
        raise UnknownNameError(f"strategy must be a name or an object with a propose method, got {strategy!r}")
    if options is not None and not isinstance(options, Mapping):
        raise SettingError(f"strategy_options must be a dict of option name -> value, got {options!r}")
    if not options:
        return
    if not isinstance(strategy, str):
        raise SettingError("strategy_options go with the name of a strategy; set up a strategy object itself")
    known = _ENTRIES[strategy].options
    for name, value in options.items():
        if name not in known:
            has = f"it has {', '.join(map(repr, known))}" if known else "it has none"
            raise SettingError(f"strategy {strategy!r} has no option {name!r}; {has}")
        known[name](value)


def check_constraints(strategy: object) -> None:
    """Check that a named strategy takes constraints on outcomes.

    Raises:
        SettingError: if it does not; the message names those that do.
    """
    if isinstance(strategy, str) and not _ENTRIES[strategy].constraints:
        able = ", ".join(name for name, entry in _ENTRIES.items() if entry.constraints)
        raise SettingError(f"strategy {strategy!r} takes no constraints on outcomes; these do: {able}")


def check_extras(strategy: object, options: Mapping[str, Any]) -> None:
    """Check that what a strategy with these options needs is installed.

    Raises:
        SettingError: if an extra is missing; the message says how to install it.
    """
    if strategy == "dnn-mfbo-paper" and options.get("architecture") == "search" and find_spec("smac") is None:
        raise SettingError("architecture='search' needs SMAC3; install it with: pip install 'fidelium[tune]'")


def resolve(
    strategy: str | Strategy | StoredStrategy,
    options: Mapping[str, Any] | None = None,
    initial: Mapping[str, int] | None = None,
) -> Strategy:
    """The strategy object, made from its name and options, or as it is.

    Args:
        strategy: a name, or a strategy object.
        options: keyword arguments of a named strategy.
        initial: the sizes of the study's initial design, for strategies that use them.

    Raises:
        UnknownNameError: if it is neither a known name nor a strategy.
        SettingError: if an option is not valid, or a storage knows only how the strategy object printed.
    """
    check(strategy, options)
    if isinstance(strategy, StoredStrategy):
        raise SettingError(
            f"the study was made with a strategy object, {strategy!r}; pass it: load_study(..., strategy=...)"
        )
    if not isinstance(strategy, str):
        return strategy
    entry = _ENTRIES[strategy]
    sizes = {"initial": initial} if entry.uses_initial else {}
    return getattr(import_module(entry.module), entry.factory)(**(options or {}), **sizes)
