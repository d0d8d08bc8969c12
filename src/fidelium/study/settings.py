"""What a study is made from, checked at once and before anything is computed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.space import Parameter, SearchSpace
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy
from fidelium.strategies.initial_design import default_sizes, validated_sizes


@dataclass(frozen=True)
class Settings:
    """The settings of a study, valid and complete.

    Args:
        space: the parameters.
        ladder: the fidelities, low to high.
        direction: maximise or minimise.
        strategy: a registered name, or a strategy.
        seed: where all randomness comes from.
        initial: points of the initial design, by fidelity.
        name: what the user calls the study.
    """

    space: SearchSpace
    ladder: FidelityLadder
    direction: Direction
    strategy: str | Strategy
    seed: int
    initial: Mapping[str, int]
    name: str | None


def checked_settings(
    space: SearchSpace | Mapping[str, Parameter],
    ladder: Iterable[Fidelity],
    direction: str,
    strategy: str | Strategy,
    seed: int | None,
    name: str | None,
    initial: Mapping[str, int] | None,
) -> Settings:
    """The settings as a user gives them (see `create_study`), checked and filled in.

    Raises:
        FideliumError: of the kind that fits, for the first setting that is not valid.
    """
    space = space if isinstance(space, SearchSpace) else SearchSpace(space)
    ladder = FidelityLadder.of(ladder)
    registry.check(strategy)
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise SettingError(f"a study's name must be a non-empty string or None, got {name!r}")
    sizes = default_sizes(space, ladder) if initial is None else validated_sizes(initial, ladder)
    return Settings(space, ladder, Direction.of(direction), strategy, _checked_seed(seed), sizes, name)


def _checked_seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(32)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise SettingError(f"seed must be a whole number >= 0, or None for a random one, got {seed!r}")
    return int(seed)
