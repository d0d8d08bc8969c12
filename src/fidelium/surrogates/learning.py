"""What surrogates with learned parameters share: named parameters, their priors, and which data to learn from.

The parameters theta of a model are a pytree of named parts. `ravel` and `unravel` turn them into the vector that L-BFGS
needs and back; nothing else knows the order of the entries.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from fidelium.errors import NoDataError
from fidelium.history import Observations
from fidelium.numbers import milestone as milestone  # which data to learn from, here with the rest
from fidelium.randomness import Key

T = TypeVar("T")

Entry = Float[Array | np.ndarray, "*rows"]
"""A parameter that is one number; rows of parameters side by side have leading axes."""

Entries = Float[Array | np.ndarray, "*rows _"]
"""A parameter that is a vector."""

NOISE_STD = 2e-2
"""Prior median of the noise's standard deviation, as a share of the values' spread. Simulators have little noise, but
ripples that the observations are too few to follow are noise to the model until there are more. 5e-4 was compared on
branin and levy: the entropy searches are worse on levy with it (docs/experiments-log.md, third round)."""

NOISE_LOG_STD = 2.0
"""Prior standard deviation of its logarithm: weak, so that a few values of a smooth function bring the noise down."""

LENGTH = 0.35
"""Prior median of the length over which an objective varies, in units of the cube's side, in two dimensions: about a
third of the range. Chosen when the first surrogate was written, not tuned further."""

LENGTH_LOG_STD = 0.8
"""Prior standard deviation of a log length: a factor of about 2 either way. Chosen with `LENGTH`, not tuned further."""

LOWEST, HIGHEST = -9.0, 5.0
"""Bounds of the search for logarithms of scales: 1e-4 to 150, beyond which nothing changes for values of order one."""


def widening(dimension: int) -> float:
    """Logarithm of how much longer lengths are than in two dimensions: they grow as the diagonal of the cube does."""
    return 0.5 * math.log(max(dimension, 2) / 2)


class ProcessParameters(eqx.Module):
    """Amplitude and lengths of a process of x."""

    log_amplitude: Entry
    log_lengths: Entries


def ravel(parameters: Any) -> NDArray[np.float64]:
    """All entries of the parameters as one vector, in the order of their fields; not to be traced."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(parameters)])


def unravel(like: T, vector: Any) -> T:
    """Parameters of the same structure as `like`, with the entries of the vector (NumPy or JAX)."""
    parts, structure = jax.tree.flatten(like, is_leaf=lambda part: part is not like)
    split = np.split if isinstance(vector, np.ndarray) else jnp.split
    vectors = split(vector, np.cumsum([_size(part) for part in parts])[:-1])
    return jax.tree.unflatten(structure, [_sliced(part, v) for part, v in zip(parts, vectors, strict=True)])


def _size(part: Any) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(part))


def _sliced(part: Any, vector: Any) -> Any:
    leaves, structure = jax.tree.flatten(part)
    ends = np.cumsum([np.size(leaf) for leaf in leaves]).tolist()
    entries = [
        vector[end - np.size(leaf) : end].reshape(np.shape(leaf)) if np.ndim(leaf) else vector[..., end - 1]
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    return jax.tree.unflatten(structure, entries)


def normal_like(like: T, generator: np.random.Generator) -> T:
    """Parameters of the same structure as `like`, every entry standard normal."""
    return unravel(like, generator.normal(size=len(ravel(like))))


class Prior(eqx.Module, Generic[T]):
    """Independent normal priors of all parameters: log p = -1/2 sum ((theta - mean) / std)^2, and search bounds.

    Each field has the structure of the parameters, with NumPy arrays.

    Args:
        mean: of each entry.
        std: of each entry.
        lower: bounds of the search.
        upper: bounds of the search.
        doubt: standard deviation of the mean itself between members of an ensemble; None: all have the same mean.
    """

    mean: T
    std: T
    lower: T
    upper: T
    doubt: T | None = None

    @staticmethod
    def of(mean: T, std: T, lower: float = LOWEST, upper: float = HIGHEST) -> Prior[T]:
        """The prior with the same bounds for all entries."""

        def everywhere(bound: float) -> T:
            return jax.tree.map(lambda leaf: np.full(np.shape(leaf), bound), mean)

        return Prior(mean, std, everywhere(lower), everywhere(upper))

    def moved(self, by: T) -> Prior[T]:
        """The prior with its mean moved by `by` times its doubt, within the bounds."""
        if self.doubt is None:
            return self
        mean = jax.tree.map(_clipped_sum, self.mean, self.doubt, by, self.lower, self.upper)
        return Prior(mean, self.std, self.lower, self.upper, self.doubt)

    def starts(self, count: int, key: Key) -> list[T]:
        """Starting points of a search: the mean, and random points half a standard deviation around it."""
        generator, half = key.generator(), jax.tree.map(lambda std: 0.5 * std, self.std)
        steps = [jax.tree.map(np.zeros_like, half), *(normal_like(half, generator) for _ in range(count - 1))]
        return [jax.tree.map(_clipped_sum, self.mean, half, step, self.lower, self.upper) for step in steps]


def _clipped_sum(mean: Any, scale: Any, step: Any, lower: Any, upper: Any) -> NDArray[np.float64]:
    return np.asarray(np.clip(mean + scale * step, lower, upper))


def require_data(observations: Sequence[Observations]) -> None:
    """Check that there is something to learn from.

    Raises:
        NoDataError: if there is no observation at any fidelity.
    """
    if not any(len(seen) for seen in observations):
        raise NoDataError("a surrogate needs at least one observation, got none")


class Memory(Generic[T]):
    """A cache of the last answers of a pure function, by a digest of the question.

    Args:
        most: answers kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, question: str, answer: Callable[[], T]) -> T:
        """The answer, computed if it is not cached."""
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
