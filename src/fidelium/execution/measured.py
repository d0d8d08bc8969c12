"""What an evaluation gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """What came out of an evaluation.

    Args:
        value: the objective's value, finite, in the user's units.
        cost: what it really cost, if that was measured.
    """

    value: float
    cost: float | None = None
