"""What surrogates that learn a vector theta share: beliefs about it, starting points, and which data to learn from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fidelium.errors import NoDataError
from fidelium.history import Observations
from fidelium.randomness import Key

T = TypeVar("T")

NOISE_STD = 2e-2
"""What is believed to look like noise, as a share of the values' spread; the data may say otherwise. Simulators have
little noise, but ripples that the observations are too few to follow are noise to the model until there are more."""

NOISE_LOG_STD = 2.0
"""How little that belief weighs, in powers of e: where a function is smooth, a few values bring the noise down."""

LENGTH = 0.35
"""Length over which an objective is believed to vary, in units of the cube's side, in two dimensions."""

LOWEST, HIGHEST = -9.0, 5.0
"""Where logarithms of scales are looked for."""


@dataclass(frozen=True)
class Prior:
    """Independent normal beliefs about theta: log p = -1/2 sum ((theta - mean) / std)^2, and where to look for it.

    Args:
        mean: of each entry.
        std: of each entry.
        lower: bounds of the search.
        upper: bounds of the search.
        doubt: how far the mean itself may be off, for members of an ensemble that believe different things; None: not.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    doubt: NDArray[np.float64] | None = None

    def moved(self, by: NDArray[np.float64]) -> Prior:
        """Another belief, as far away as this one is doubted, for standard normal `by`."""
        if self.doubt is None:
            return self
        return replace(self, mean=np.clip(self.mean + self.doubt * by, self.lower, self.upper))

    def starts(self, count: int, key: Key) -> NDArray[np.float64]:
        """The mean, and random points half a deviation around it, `(count, p)`."""
        noise = key.generator().normal(size=(count - 1, len(self.mean)))
        around = self.mean + 0.5 * self.std * noise
        return np.clip(np.concatenate([self.mean[None], around]), self.lower, self.upper)


def require_data(observations: Sequence[Observations]) -> None:
    """Refuse to learn from nothing.

    Raises:
        NoDataError: if there is no observation at any fidelity.
    """
    if not any(len(seen) for seen in observations):
        raise NoDataError("a surrogate needs at least one observation, got none")


def milestone(count: int) -> int:
    """The last number of observations, up to `count`, at which theta is learned again: every one up to 16, then every
    other, from 32 on every fourth and so on, which is 6 to 12 % more each time.
    """
    step = 1 << max(0, count.bit_length() - 4)
    return count // step * step


class Memory(Generic[T]):
    """The last answers of a pure function, by a digest of what was asked: saves time, decides nothing.

    Args:
        most: answers kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, question: str, answer: Callable[[], T]) -> T:
        """The answer, computed if it is not among the last ones."""
        with self._lock:
            if question in self._answers:
                self._answers.move_to_end(question)
                return self._answers[question]
        found = answer()
        with self._lock:
            self._answers[question] = found
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return found


def subset(count: int, most: int, key: Key) -> NDArray[np.int64]:
    """Positions of at most `most` of `count` observations: the newest half, and a random half of the rest."""
    if count <= most:
        return np.arange(count)
    newest = np.arange(count - most // 2, count)
    older = key.generator().choice(count - most // 2, size=most - most // 2, replace=False)
    return np.sort(np.concatenate([older, newest]))
