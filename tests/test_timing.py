"""Stages: their seconds add up by name inside `record`, and nothing is kept outside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fidelium import timing
from fidelium.timing import record, stage


def test_seconds_of_a_stage_add_up_by_name(monkeypatch):
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 24.0, 30.0, 30.5])
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with record() as seconds:
        for _ in range(3):
            with stage("fit"):
                pass
        with stage("search"):
            pass
    assert seconds == {"fit": 1.0 + 2.0 + 4.0, "search": 0.5}


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
