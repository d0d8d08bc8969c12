"""A snapshot: sums that are exact, and parts that agree with each other whatever the trials are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fidelium as fd
from fidelium.definition import StudyDefinition
from fidelium.fidelity import Fidelity
from fidelium.history import Trial, TrialState
from fidelium.snapshot import Snapshot
from fidelium.study import start_study

DEFINITION = StudyDefinition.of({"x": fd.Real(0, 1)}, [Fidelity("coarse", 0.1), Fidelity("fine", 2)], "minimize")

STATES = st.sampled_from(list(TrialState))


@st.composite
def trials(draw: Any) -> tuple[Trial, ...]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        state = draw(STATES)
        done = state is TrialState.DONE
        value = draw(st.floats(-1e6, 1e6)) if done else None
        rung = DEFINITION.ladder[draw(st.integers(0, 1))]
        found.append(Trial(number, {"x": 0.5}, rung, state, value, given=done and draw(st.booleans())))
    return tuple(found)


@given(trials=trials(), budget=st.floats(1, 100))
def test_the_parts_agree(trials, budget):
    now = Snapshot(DEFINITION, trials, budget)
    assert len(now.pending) + len(now.finished) == len(trials)
    assert len(now.queued) + len(now.running) == len(now.pending)
    assert sum(now.states.values()) == len(trials)
    assert sum(used.trials + used.given for used in now.usage) == len(trials)
    assert now.spent == pytest.approx(sum(used.cost for used in now.usage))
    assert now.remaining <= budget - now.spent + 1e-12 * budget
    assert now.has_work == (bool(now.queued) or now.remaining >= 0.1)
    at_target = [t.value for t in trials if t.state is TrialState.DONE and t.fidelity.name == "fine"]
    assert (now.best.value if now.best else None) == (min(at_target) if at_target else None)


def test_ten_tenths_are_one_and_given_data_is_free():
    coarse = DEFINITION.ladder[0]
    ten = tuple(Trial(number, {"x": 0.5}, coarse, TrialState.FAILED) for number in range(10))
    given_one = Trial(10, {"x": 0.5}, coarse, TrialState.DONE, 1.0, given=True)
    now = Snapshot(DEFINITION, (*ten, given_one), 1.1)
    assert (now.spent, now.remaining) == (1.0, 0.1)
    assert now.has_work
    assert not Snapshot(DEFINITION, ten, 1.0).has_work


def test_a_study_reads_its_storage_once_for_all(tmp_path, monkeypatch):
    with start_study(replace(DEFINITION, strategy="random"), f"sqlite:///{tmp_path}/s.db") as study:
        reads: list[int] = []
        real = study.store.trials
        monkeypatch.setattr(study.store, "trials", lambda: reads.append(1) or real())
        study.ask()
        assert len(reads) == 2  # whether a trial is queued, and what to choose once it is our turn
        for look in (repr, lambda study: study.best, lambda study: study.spent, lambda study: study.snapshot().pending):
            reads.clear()
            look(study)
            assert len(reads) == 1
