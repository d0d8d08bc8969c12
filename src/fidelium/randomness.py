"""Random keys, derived from (seed, trial number): a resumed study repeats exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fidelium.errors import SettingError


@dataclass(frozen=True)
class Key:
    """An immutable random key; new keys are derived from it with `fold` and `split`.

    The same key always gives the same numbers, in NumPy (`generator`) and in JAX (seeded by `word`).

    Args:
        entropy: non-negative integers that define the key.
    """

    entropy: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.entropy or any(not isinstance(word, int) or word < 0 for word in self.entropy):
            raise SettingError(f"a random key needs integers >= 0, got {self.entropy!r}")

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
        """A 32-bit hash of this key, to seed JAX or another library's generator."""
        return int(self._sequence().generate_state(1, np.uint32)[0])

    def _sequence(self) -> np.random.SeedSequence:
        # prepend the length: SeedSequence drops trailing zeros, so (7,) and (7, 0) would be the same key
        if max(self.entropy) < 2**32:
            return np.random.SeedSequence([len(self.entropy), *self.entropy])
        # SeedSequence splits larger words into 32-bit pieces, so (2^32, 5) and (0, 1 + 5 * 2^32) would be the same key:
        # prepend the bit length of each word, and a zero, which is never a length, to mark this form
        sized = [part for word in self.entropy for part in (word.bit_length(), word)]
        return np.random.SeedSequence([0, len(self.entropy), *sized])


_DESIGN, _MODEL = 2**32 - 1, 2**32 - 2
"""Used in place of a trial's number and larger than any, so these keys never equal the key of a trial."""


def trial_key(seed: int, number: int) -> Key:
    """The key of trial `number` of a study with this `seed`."""
    return Key((seed, number))


def design_key(seed: int) -> Key:
    """The key of the initial design of a study with this `seed`."""
    return Key((seed, _DESIGN))


def model_key(seed: int, finished: int) -> Key:
    """The key of the model fitted after `finished` trials of a study with this `seed`."""
    return Key((seed, _MODEL, finished))
