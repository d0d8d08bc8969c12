"""Which networks the paper's stack is made of: a depth and a width for every fidelity, and the learning rate (Sec. 6).

And what a search for them is; `quick_choice` and `smac_search` are two.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.features import Architecture

FEATURES = 32
"""Width of the feature layer, the last below the Bayesian one, in every network: that of the authors' program."""

FEWEST = 4
"""Observations of a fidelity that make two in each half. Of two in all, the one learned from would have no spread, and
so no units to predict the other in: networks that learn nothing would score best."""


@dataclass(frozen=True)
class StackArchitecture:
    """The dense ReLU networks of all fidelities, and how fast they learn.

    A network of depth D and width W has D layers below the Bayesian one: D - 1 hidden layers of W units, and the
    `FEATURES` features.

    Args:
        depths: of each fidelity's network, low to high, 2 to 12.
        widths: of each fidelity's hidden layers, 1 to 512.
        learning_rate: Adam's, the same for all networks, for they are learned together.

    Raises:
        SettingError: if there is not one depth and one width per fidelity, or a number is out of its range.
    """

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if len(self.depths) != len(self.widths) or not self.depths:
            raise SettingError(
                f"an architecture has a depth and a width for each fidelity, got {self.depths!r} and {self.widths!r}"
            )
        if any(not isinstance(depth, int) for depth in self.depths):
            raise SettingError(f"the depths of an architecture are whole numbers, got {self.depths!r}")
        if not 0 < self.learning_rate < math.inf:
            raise SettingError(f"learning_rate must be a finite number above 0, got {self.learning_rate!r}")
        _ = self.networks  # which checks every depth and width

    @staticmethod
    def default(fidelities: int) -> StackArchitecture:
        """That of the authors' program: 128-128-32 at every fidelity, learning rate 1e-3."""
        return StackArchitecture((3,) * fidelities, (128,) * fidelities)

    @cached_property
    def networks(self) -> tuple[Architecture, ...]:
        """The network of each fidelity, low to high."""
        return tuple(
            Architecture((width,) * (depth - 1) + (FEATURES,))
            for depth, width in zip(self.depths, self.widths, strict=True)
        )


def comparable_fidelities(observations: Sequence[Observations]) -> tuple[int, ...]:
    """The fidelities with observations enough to be tested on half of them."""
    return tuple(m for m, seen in enumerate(observations) if len(seen) >= FEWEST)


def require_comparable(observations: Sequence[Observations]) -> tuple[int, ...]:
    """The same, at least one.

    Raises:
        NoDataError: if no fidelity has `FEWEST` observations.
    """
    tested = comparable_fidelities(observations)
    if not tested:
        counts = "/".join(str(len(seen)) for seen in observations)
        raise NoDataError(f"architectures are compared on at least {FEWEST} observations of a fidelity, got {counts}")
    return tested


@dataclass(frozen=True)
class Scored:
    """An architecture and its score on given data; higher is better."""

    architecture: StackArchitecture
    score: float


def best(scored: Sequence[Scored]) -> Scored:
    """The one of the highest score; of equals, the first."""
    return max(scored, key=lambda each: each.score)


Watch = Callable[[float, float], None]
"""Told now and then which share of a search is done, and the best score so far (-inf before the first)."""


@runtime_checkable
class ArchitectureSearch(Protocol):
    """A way to find an architecture: a frozen record, whose `repr` says all that decides what it finds."""

    @abstractmethod
    def run(self, observations: Sequence[Observations], key: Key, watch: Watch) -> tuple[Scored, ...]:
        """Every architecture that was scored, the default one first.

        Raises:
            NoDataError: if no fidelity has `FEWEST` observations.
        """
        ...
