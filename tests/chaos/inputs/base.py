"""What is fuzzed: each target draws an input from random numbers, and tries it out."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import Any, Protocol


class Refused(Exception):
    """The input was refused in a way that is documented: an error of fidelium, or exit code 2."""


class Target(Protocol):
    """A place where input enters. One lives in each process, in a folder of its own."""

    @abstractmethod
    def draw(self, chance: random.Random) -> Any:
        """The next input; it follows from the random numbers alone."""
        ...

    @abstractmethod
    def try_out(self, given: Any) -> None:
        """Use the input.

        Raises:
            FideliumError: if the input was refused, as it may be.
            Refused: the same from a command line.
            Exception: anything else is a finding.
        """
        ...


def demand(condition: bool, message: str) -> None:
    """Assert a law, also where Python leaves out assertions.

    Raises:
        AssertionError: with the message.
    """
    if not condition:
        raise AssertionError(message)
