"""Beliefs that are moved, and a memory that forgets the oldest."""

from __future__ import annotations

import numpy as np

from fidelium.surrogates.learning import Memory, Prior


def test_a_belief_moves_as_far_as_it_is_doubted_and_stays_in_its_bounds():
    zeros, ones = np.zeros(3), np.ones(3)
    prior = Prior(zeros, ones, -2 * ones, 2 * ones, np.array([0.0, 0.5, 3.0]))
    moved = prior.moved(np.array([1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(moved.mean, [0.0, 0.5, 2.0])
    np.testing.assert_array_equal(moved.std, prior.std)
    sure = Prior(zeros, ones, -2 * ones, 2 * ones)
    np.testing.assert_array_equal(sure.moved(ones).mean, zeros)


def test_a_memory_answers_once_and_forgets_what_was_not_asked_for_longest():
    asked: list[str] = []

    def answer(word: str) -> str:
        asked.append(word)
        return word.upper()

    memory = Memory[str](2)
    for word in ("a", "b", "a", "c", "a", "b"):
        assert memory.get(word, lambda word=word: answer(word)) == word.upper()
    assert asked == ["a", "b", "c", "b"]
