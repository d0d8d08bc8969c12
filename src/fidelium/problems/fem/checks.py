"""What physical quantities must be, in one sentence each."""

from __future__ import annotations

import math

from fidelium.errors import SettingError


def check_positive(what: str, value: float) -> None:
    """Refuse what is not a finite number above 0.

    Raises:
        SettingError: if it is not.
    """
    if not 0 < value < math.inf:
        raise SettingError(f"{what} must be a finite number above 0, got {value!r}")


def check_between(what: str, value: float, low: float, high: float) -> None:
    """Refuse what is not strictly between two numbers.

    Raises:
        SettingError: if it is not.
    """
    if not low < value < high:
        raise SettingError(f"{what} must be above {low:g} and below {high:g}, got {value!r}")
