"""What is written down comes back exactly, is refused, or is trimmed in the open."""

from __future__ import annotations

import enum
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelium.constraints import outcome_constraints
from fidelium.errors import StorageError
from fidelium.space import Categorical, Integer, Real, SearchSpace
from fidelium.storage.serialise import (
    LONGEST_REASON,
    bounded_reason,
    checked_name,
    definition_of,
    definition_text,
    params_of,
    params_text,
)
from fidelium.testing.storage_cases import make_definition

anything = st.text(st.characters(exclude_categories=()), max_size=40)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | anything


def joins(text: str) -> bool:
    """Whether a text holds two halves of a surrogate pair side by side."""
    return any("\ud800" <= high <= "\udbff" and "\udc00" <= low <= "\udfff" for high, low in pairwise(text))


@given(st.dictionaries(anything.filter(lambda text: not joins(text)), values))
def test_params_come_back_as_the_same_bits_and_types(params):
    if any(isinstance(value, str) and joins(value) for value in params.values()):
        with pytest.raises(StorageError, match="surrogate pair"):
            params_text(params)
        return
    text = params_text(params)
    assert text.isascii()
    assert "\0" not in text
    found = params_of(text)
    assert list(found) == list(params)
    for name, value in params.items():
        assert type(found[name]) is type(value)
        assert found[name] == value
        if isinstance(value, float):
            assert math.copysign(1.0, found[name]) == math.copysign(1.0, value)


def test_joined_surrogates_are_refused():
    with pytest.raises(StorageError, match="two surrogates that would come back joined"):
        params_text({"x": "\ud83d\ude00"})


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize("value", [(1, 2), b"x", 1j, object, np.float64(1.0), np.bool_(True), Colour.RED, frozenset()])
def test_other_choices_are_refused(value):
    with pytest.raises(StorageError, match=r"parameter 'c': a database stores strings, numbers, booleans and None"):
        params_text({"c": value})
    record = replace(make_definition("s"), space=SearchSpace({"c": Categorical((value, "other"))}))
    with pytest.raises(StorageError, match=r"parameter 'c': a database stores"):
        definition_text(record)


def test_numbers_too_long_for_python_are_refused():
    with pytest.raises(StorageError, match="too large to be stored"):
        params_text({"c": 10**5000})


def test_a_record_comes_back_and_equal_texts_mean_equal_studies():
    record = make_definition("s")
    text = definition_text(record)
    assert definition_of("s", text) == record
    assert definition_text(definition_of("s", text)) == text
    for kind, other in ((Real(0, 1), Real(0, 1.5)), (Integer(0, 3), Real(0, 3)), (Real(1, 2), Real(1, 2, log=True))):
        texts = {definition_text(replace(record, space=SearchSpace({"x": each}))) for each in (kind, other)}
        assert len(texts) == 2
    whole, truth = (replace(record, space=SearchSpace({"x": Categorical((each, 0.5))})) for each in (1, True))
    assert definition_text(whole) != definition_text(truth)


def test_parameter_constraints_come_back_and_without_any_the_text_is_as_before():
    record = make_definition("s")
    plain = replace(record, space=SearchSpace({"x": Real(0, 1), "y": Real(0, 1)}))
    assert "constraints" not in definition_text(plain)
    texts = ("x < y", "`x` + 2*y <= 1.5")
    bound = replace(record, space=SearchSpace(plain.space.parameters, list(texts)))
    again = definition_of("s", definition_text(bound))
    assert again == bound
    assert again.space.constraints == texts
    assert definition_text(again) == definition_text(bound) != definition_text(plain)


def test_constraints_on_parameters_and_on_outcomes_are_kept_apart():
    space = SearchSpace({"x": Real(0, 1), "y": Real(0, 1)}, constraints=["x + y <= 1"])
    limits = outcome_constraints(["stress <= 2", "1 <= force <= 3"])
    for parameters, outcomes in ((space, limits), (space, ()), (SearchSpace(space.parameters), limits)):
        record = replace(make_definition("s"), space=parameters, constraints=outcomes)
        assert definition_of("s", definition_text(record)) == record


def test_bounds_of_numpy_are_numbers():
    record = replace(make_definition("s"), space=SearchSpace({"x": Real(np.float64(0.1), np.float64(2))}))
    assert definition_of("s", definition_text(record)).space == SearchSpace({"x": Real(0.1, 2)})


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_reasons_are_text_that_any_database_takes(reason):
    kept = bounded_reason(reason)
    assert kept is not None
    kept.encode("utf-8")
    assert "\0" not in kept
    if "\0" not in reason and not any("\ud800" <= letter <= "\udfff" for letter in reason):
        assert kept == reason


def test_long_reasons_keep_head_and_tail_and_say_what_was_cut():
    kept = bounded_reason("h" * 50_000 + "t" * 50_000)
    assert kept is not None
    assert f"[... {100_000 - LONGEST_REASON} characters cut ...]" in kept
    assert (kept.count("h"), kept.count("t")) == (
        2500 + "characters cut".count("h"),
        7500 + "characters cut".count("t"),
    )
    whole = "x" * LONGEST_REASON
    assert bounded_reason(whole) == whole
    assert bounded_reason(None) is None


@pytest.mark.parametrize("name", ["", " \n", "a\0", "\udfff", "x" * 256])
def test_bad_names_are_refused(name):
    with pytest.raises(StorageError, match="a study's name"):
        checked_name(name)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=255))
def test_any_other_name_is_a_name(name):
    if name.strip():
        assert checked_name(name) == name
