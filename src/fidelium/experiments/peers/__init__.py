"""Peers from outside: other libraries' methods as strategies, to measure ours against from the same starts.

Each peer is a class in a file of its own; the other files hold what several of them share. A peer's module is imported
when the peer is resolved, and its library with it: to name or to check one costs nothing. All need the extra `peers`.
They are for experiments: running and failed queries are not looked at. How each is set up, and how to add one, is in
`docs/peers.md`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from fidelium.errors import SettingError
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy

_PEERS = {
    "botorch-logei": ("fidelium.experiments.peers.botorch", "LogImprovement", "botorch"),
    "botorch-mfmes": ("fidelium.experiments.peers.botorch", "MaxValueEntropy", "botorch"),
    "botorch-stmf-mes": ("fidelium.experiments.peers.botorch", "ContinuousMaxValueEntropy", "botorch"),
    "botorch-mfkg": ("fidelium.experiments.peers.botorch", "KnowledgeGradient", "botorch"),
    "optuna-tpe": ("fidelium.experiments.peers.optuna_tpe", "ParzenEstimators", "optuna"),
    "smac": ("fidelium.experiments.peers.smac_blackbox", "BlackBox", "smac"),
}
"""Name -> module, class, and the package that must be installed."""


def names() -> tuple[str, ...]:
    """The names of all peers."""
    return tuple(_PEERS)


def check(name: str) -> None:
    """Refuse what is neither the name of a strategy nor that of a peer that can run here.

    Raises:
        UnknownNameError: if there is no such strategy.
        SettingError: if it is a peer, and its library is missing.
    """
    if name not in _PEERS:
        registry.check(name)
        return
    _, _, package = _PEERS[name]
    if find_spec(package) is None:
        raise SettingError(
            f"{name!r} needs the package {package!r}, which is not installed; pip install 'fidelium[peers]' brings it"
        )


def resolve(name: str) -> str | Strategy:
    """The peer of that name; the name of a strategy of ours as it is.

    Raises:
        UnknownNameError: if there is no such strategy.
        SettingError: if it is a peer, and its library is missing.
    """
    check(name)
    if name not in _PEERS:
        return name
    module, factory, _ = _PEERS[name]
    return getattr(import_module(module), factory)()
