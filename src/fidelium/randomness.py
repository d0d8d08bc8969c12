"""Keys of randomness: all random choices of a study come from (seed, trial number); a resumed one repeats exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fidelium.errors import SettingError


@dataclass(frozen=True)
class Key:
    """An immutable source of randomness, split by naming what it is for.

    A key never changes: the same key gives the same numbers, in NumPy (`generator`) and in JAX (from `entropy`).

    Args:
        entropy: the words the key is made of, non-negative integers.
    """

    entropy: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.entropy or any(not isinstance(word, int) or word < 0 for word in self.entropy):
            raise SettingError(f"a random key is made of integers >= 0, got {self.entropy!r}")

    def fold(self, *words: int) -> Key:
        """A new key derived from this one and `words`."""
        return Key((*self.entropy, *words))

    def split(self, count: int) -> tuple[Key, ...]:
        """`count` different keys derived from this one."""
        return tuple(self.fold(index) for index in range(count))

    def generator(self) -> np.random.Generator:
        """A NumPy generator at the start of this key's stream."""
        return np.random.default_rng(self._sequence())

    def word(self) -> int:
        """32 well mixed bits of this key: the seed of a JAX key or of another library's generator."""
        return int(self._sequence().generate_state(1, np.uint32)[0])

    def _sequence(self) -> np.random.SeedSequence:
        # the length goes in too: SeedSequence drops trailing zeros, so that (7,) and (7, 0) would be one key
        if max(self.entropy) < 2**32:
            return np.random.SeedSequence([len(self.entropy), *self.entropy])
        # and it cuts a larger word into pieces of 32 bits, so that (2^32, 5) and (0, 1 + 5 * 2^32) would be one: each
        # word's own length tells where it ends, and the zero, which is no length, that this is such a key
        sized = [part for word in self.entropy for part in (word.bit_length(), word)]
        return np.random.SeedSequence([0, len(self.entropy), *sized])


_DESIGN, _MODEL = 2**32 - 1, 2**32 - 2
"""Words in the place of a trial's number, larger than any: the keys below are never the key of a trial."""


def trial_key(seed: int, number: int) -> Key:
    """The key of trial `number` of a study with this `seed`."""
    return Key((seed, number))


def design_key(seed: int) -> Key:
    """The key of the initial design of a study with this `seed`."""
    return Key((seed, _DESIGN))


def model_key(seed: int, finished: int) -> Key:
    """The key of the model that a study with this `seed` shows after `finished` trials."""
    return Key((seed, _MODEL, finished))
