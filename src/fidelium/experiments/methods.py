"""All that an experiment can run, by name: our strategies, peers from outside, and the default with a part removed."""

from __future__ import annotations

from importlib import import_module

from fidelium.experiments import peers
from fidelium.strategies.base import Strategy

_ABLATIONS = (
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


def ablations() -> tuple[str, ...]:
    """The names of the default without each of its parts."""
    return _ABLATIONS


def check(name: str) -> None:
    """Refuse what is no name, or that of a peer that cannot run here.

    Raises:
        UnknownNameError: if there is no such strategy.
        SettingError: if it is a peer, and its library is missing.
    """
    if name not in _ABLATIONS:
        peers.check(name)


def resolve(name: str) -> str | Strategy:
    """What has that name; the name of a strategy of ours as it is.

    Raises:
        UnknownNameError: if there is no such strategy.
        SettingError: if it is a peer, and its library is missing.
    """
    if name not in _ABLATIONS:
        return peers.resolve(name)
    return getattr(import_module("fidelium.experiments.ablations"), name.replace("-", "_"))()
