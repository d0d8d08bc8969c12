"""Stages: their seconds add up by name inside `record`, and nothing is kept outside."""

from __future__ import annotations

import time

import pytest

from fidelium.timing import record, stage


def test_seconds_of_a_stage_add_up_by_name():
    start = time.perf_counter()
    with record() as seconds:
        for _ in range(3):
            with stage("fit"):
                time.sleep(0.01)
        with stage("search"):
            pass
    whole = time.perf_counter() - start
    assert set(seconds) == {"fit", "search"}
    assert 0.03 <= seconds["fit"] <= whole
    assert 0 <= seconds["search"] < seconds["fit"]


def test_a_stage_that_raises_is_counted():
    with record() as seconds, pytest.raises(ValueError, match="broken"), stage("fit"):
        raise ValueError("broken")
    assert list(seconds) == ["fit"]


def test_nothing_is_recorded_outside_and_records_do_not_mix():
    with stage("before"):
        pass
    with record() as outer:
        with record() as inner, stage("inside"):
            pass
        with stage("outside"):
            pass
    with stage("after"):
        pass
    assert list(inner) == ["inside"]
    assert list(outer) == ["outside"]
