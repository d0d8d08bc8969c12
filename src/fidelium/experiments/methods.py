"""Everything an experiment can run, by name: our strategies, peers from other libraries, ablations of the default."""

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
    "botorch-clogei": ("fidelium.experiments.peers.botorch_constrained", "ConstrainedLogImprovement", "botorch"),
    "egobox": ("fidelium.experiments.peers.egobox", "EfficientOptimisation", "egobox"),
    "optuna-tpe": ("fidelium.experiments.peers.optuna", "ParzenEstimators", "optuna"),
    "smac": ("fidelium.experiments.peers.smac", "BlackBox", "smac"),
}
"""Name -> module, class, and the package that must be installed."""

_ABLATIONS = (
    "without-warp",
    "without-cheap-queries",
    "without-versions",
    "without-doubt",
    "without-alone",
    "without-residual",
    "without-slope-variance",
    "without-detail",
    "without-ripples",
    "without-smooth-features",
    "without-steady-features",
    "without-milestones",
    "without-last-query",
    "without-least-rise",
    "without-noise-in-gain",
)

NO_FAILURE_MODEL = "-no-failure-model"
"""Ends the name of a strategy of ours that learns nothing from failed trials, as in `dnn-mfbo-no-failure-model`."""


MEASURED_COSTS = "-measured-costs"
"""Ends the name of a strategy of ours whose study counts what runs really cost, as in `dnn-mfbo-measured-costs`."""


def peer_names() -> tuple[str, ...]:
    """The names of all peers."""
    return tuple(_PEERS)


def ablations() -> tuple[str, ...]:
    """The names of the default without each of its parts."""
    return _ABLATIONS


def learns_failures(name: str) -> bool:
    """Whether studies with this method have a model of success."""
    return not name.endswith(NO_FAILURE_MODEL)


def measures_costs(name: str) -> bool:
    """Whether studies with this method count what runs really cost."""
    return name.endswith(MEASURED_COSTS)


def without_suffix(name: str) -> str:
    """The method's name without what is a setting of the study."""
    return name.removesuffix(NO_FAILURE_MODEL).removesuffix(MEASURED_COSTS)


def check_method(name: str) -> None:
    """Check that a method exists and can run here.

    Raises:
        UnknownNameError: if there is no such strategy, peer or ablation.
        SettingError: if it is a peer whose library is missing.
    """
    if name in _ABLATIONS:
        return
    if name not in _PEERS:
        registry.check(without_suffix(name))
        return
    _, _, package = _PEERS[name]
    if find_spec(package) is None:
        raise SettingError(
            f"{name!r} needs the package {package!r}, which is not installed; install it with "
            "pip install 'fidelium[peers]'"
        )


def resolve_method(name: str) -> str | Strategy:
    """The peer or ablation of that name; the name of one of our strategies is returned unchanged.

    Raises:
        UnknownNameError: if there is no such strategy, peer or ablation.
        SettingError: if it is a peer whose library is missing.
    """
    check_method(name)
    if name in _ABLATIONS:
        return getattr(import_module("fidelium.experiments.ablations"), name.replace("-", "_"))()
    if name in _PEERS:
        module, factory, _ = _PEERS[name]
        return getattr(import_module(module), factory)()
    return name
