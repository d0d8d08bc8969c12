"""Keys: the same words give the same stream, other words another one, in NumPy and in JAX."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fidelium.errors import SettingError
from fidelium.randomness import Key, design_key, model_key, trial_key

pieces = st.integers(0, 2**32 - 1) | st.integers(0, 3)
words = st.lists(pieces, min_size=1, max_size=5).map(tuple)
big_words = st.lists(pieces | st.integers(2**32 - 1, 2**32 + 3) | st.integers(0, 2**200), min_size=1, max_size=5)


def stream(key: Key) -> tuple[float, ...]:
    return tuple(key.generator().random(4))


@given(words)
def test_the_same_words_are_the_same_stream_every_time(entropy):
    key = Key(entropy)
    assert stream(key) == stream(key) == stream(Key(entropy))
    assert key.word() == Key(entropy).word()


@given(words, words)
def test_different_words_are_different_streams(first, second):
    assume(first != second)
    assert stream(Key(first)) != stream(Key(second))


@given(big_words.map(tuple), big_words.map(tuple))
def test_different_words_of_any_size_are_different_keys(first, second):
    assume(first != second)
    assert stream(Key(first)) != stream(Key(second))
    assert Key(first).word() != Key(second).word()


def joined(parts: list[int], ends: list[bool]) -> tuple[int, ...]:
    """The integers whose 32-bit pieces, lowest first, are these parts; an integer ends where it is told to."""
    entropy, shift = [0], 0
    for part, is_end in zip(parts, [*ends, False], strict=True):
        entropy[-1] += part << shift
        shift += 32
        if is_end:
            entropy, shift = [*entropy, 0], 0
    return tuple(entropy)


@st.composite
def cut_twice(draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same pieces of 32 bits put together in two ways, to as many words."""
    parts = draw(st.lists(pieces, min_size=2, max_size=7))
    ends = draw(st.lists(st.booleans(), min_size=len(parts) - 1, max_size=len(parts) - 1))
    return joined(parts, ends), joined(parts, draw(st.permutations(ends)))


@given(cut_twice())
def test_where_a_word_ends_counts(ways):
    first, second = ways
    assume(first != second)
    assert stream(Key(first)) != stream(Key(second))
    assert Key(first).word() != Key(second).word()


BIG = 2**32


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((BIG, 5), (0, 1 + 5 * BIG)),  # pieces 0 1 5
        ((BIG, 0), (0, 1)),  # pieces 0 1 0 and 0 1
        ((BIG,), (0, 1)),
        ((BIG,), (33, 0, 1)),  # with the bits counted
        ((BIG, 3), (33, BIG, 2, 3)),
    ],
)
def test_a_large_word_differs_from_its_32_bit_pieces(first, second):
    assert stream(Key(first)) != stream(Key(second))
    assert Key(first).word() != Key(second).word()


@given(words)
def test_words_of_32_bits_are_numpys_own_seeds_after_their_number(entropy):
    # the streams of finished studies: a resumed one must get them again
    seeds = np.random.SeedSequence([len(entropy), *entropy])
    assert Key(entropy).word() == seeds.generate_state(1)[0]
    assert stream(Key(entropy)) == tuple(np.random.default_rng(seeds).random(4))


@pytest.mark.parametrize(("first", "second"), [((7,), (7, 0)), ((7, 0), (7, 0, 0)), ((0,), (0, 0)), ((1, 2), (2, 1))])
def test_trailing_zeros_and_the_order_of_words_count(first, second):
    assert stream(Key(first)) != stream(Key(second))
    assert Key(first).word() != Key(second).word()


def test_folding_is_appending_and_splitting_is_folding_numbers():
    key = Key((3,))
    assert key.fold(1, 2) == key.fold(1).fold(2) == Key((3, 1, 2))
    assert key.split(3) == (key.fold(0), key.fold(1), key.fold(2))
    assert key == Key((3,))


def test_keys_of_a_study_never_meet():
    seeds, numbers = (0, 1, 2**31), range(30)
    keys = [trial_key(seed, number) for seed in seeds for number in numbers]
    keys += [design_key(seed) for seed in seeds]
    keys += [model_key(seed, finished) for seed in seeds for finished in numbers]
    assert len({stream(key) for key in keys}) == len(keys)
    assert len({key.word() for key in keys}) == len(keys)


def test_children_are_uncorrelated():
    draws = np.array([key.generator().normal(size=2000) for key in Key((0,)).split(6)])
    correlation = np.asarray(np.corrcoef(draws))[np.triu_indices(6, 1)]
    assert np.max(np.abs(correlation)) < 4.5 / np.sqrt(2000)


@pytest.mark.parametrize("entropy", [(), (-1,), (1, -2), (0.5,), ("7",), (None,)])
def test_anything_but_whole_numbers_from_zero_is_rejected(entropy):
    with pytest.raises(SettingError, match="integers >= 0"):
        Key(entropy)
