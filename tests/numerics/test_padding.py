"""Padding: the same few sizes for many counts, the data first and untouched, zeros after them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fidelium.numerics.padding import SMALLEST_BUCKET, bucket, pad, pad_rows


@given(st.integers(0, 10**6))
def test_a_bucket_is_the_smallest_that_holds_the_rows(count):
    size = bucket(count)
    powers = [SMALLEST_BUCKET * 2**i for i in range(16)]
    allowed = sorted(powers + [3 * power // 4 for power in powers if power >= 256])
    assert size == next(each for each in allowed if each >= count)


def test_data_up_to_n_meet_few_sizes():
    sizes = sorted({bucket(count) for count in range(4097)})
    assert sizes[0] == SMALLEST_BUCKET
    assert sizes[-1] == 4096
    assert all(large <= 2 * small for small, large in pairwise(sizes))
    assert len(sizes) == 13


@given(st.integers(0, 20), st.integers(1, 3), st.integers(0, 10**6))
def test_padded_data_start_with_the_data_and_end_with_masked_zeros(count, dimension, seed):
    generator = np.random.default_rng(seed)
    x, y = generator.random((count, dimension)), generator.normal(size=count)
    data = pad(x, y)
    padded_x, padded_y, mask = (np.asarray(part) for part in (data.x, data.y, data.mask))
    np.testing.assert_array_equal(padded_x[:count], x)
    np.testing.assert_array_equal(padded_y[:count], y)
    np.testing.assert_array_equal(mask, np.arange(len(mask)) < count)
    assert not np.any(padded_x[count:])
    assert not np.any(padded_y[count:])
    assert len(mask) == len(padded_x) == len(padded_y) == bucket(count)


def test_rows_of_any_rank_are_padded_along_the_first_axis():
    np.testing.assert_array_equal(pad_rows(np.array([1.0, 2.0]), 4), [1.0, 2.0, 0.0, 0.0])
    np.testing.assert_array_equal(pad_rows(np.array([[1.0, 2.0]]), 2), [[1.0, 2.0], [0.0, 0.0]])
