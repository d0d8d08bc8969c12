"""The networks of the paper's stack: a depth and a width for every fidelity, and the learning rate (Sec. 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fidelium.errors import SettingError
from fidelium.surrogates.stacked_dnn.features import Architecture

FEATURES = 32
"""Width of the feature layer, the last below the Bayesian one, in every network: that of the authors' program."""


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

    @staticmethod
    def from_mapping(fields: Mapping[str, Any]) -> StackArchitecture:
        """The architecture of a mapping such as a study file holds: depths, widths, and perhaps learning_rate.

        Raises:
            SettingError: if it has other keys, or a value is not valid.
        """
        try:
            shapes = {name: tuple(value) for name, value in fields.items() if name != "learning_rate"}
            rate = {name: value for name, value in fields.items() if name == "learning_rate"}
            return StackArchitecture(**shapes, **rate)
        except TypeError:
            raise SettingError(
                f"an architecture has depths, widths and perhaps learning_rate, got {fields!r}"
            ) from None

    @cached_property
    def networks(self) -> tuple[Architecture, ...]:
        """The network of each fidelity, low to high."""
        return tuple(
            Architecture((width,) * (depth - 1) + (FEATURES,))
            for depth, width in zip(self.depths, self.widths, strict=True)
        )
