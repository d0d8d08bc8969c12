"""Bad input gets one clear sentence and changes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import (
    BudgetError,
    FidelityError,
    ObservationError,
    SettingError,
    SpaceError,
    StorageError,
    TrialError,
    UnknownNameError,
)
from fidelium.history import Query

SPACE = {"x": fd.Real(0, 1)}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]


def make(**changes):
    settings = {"space": SPACE, "ladder": LADDER, "direction": "maximize", "strategy": "random"} | changes
    return fd.create_study(settings.pop("space"), settings.pop("ladder"), **settings)


def assert_one_sentence(error: BaseException) -> None:
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"space": {}}, SpaceError, "at least one parameter"),
        ({"space": {"x": 3}}, SpaceError, "Real, Integer, Categorical or Catalogue"),
        ({"space": [1, 2]}, SpaceError, "a dict of name -> parameter"),
        ({"ladder": []}, FidelityError, "at least one fidelity"),
        ({"ladder": [*LADDER, fd.Fidelity("fine", 20)]}, FidelityError, "must differ"),
        ({"ladder": LADDER[::-1]}, FidelityError, "costs must increase"),
        ({"ladder": [fd.Fidelity("a", 1), fd.Fidelity("b", 1)]}, FidelityError, "costs must increase"),
        ({"ladder": 3}, FidelityError, "a list of fidelities"),
        ({"direction": "max"}, UnknownNameError, "'maximize' or 'minimize', got 'max'"),
        ({"direction": None}, UnknownNameError, "'maximize' or 'minimize', got None"),
        ({"strategy": "dnn"}, UnknownNameError, "unknown strategy 'dnn'; known are 'dnn-mfbo'"),
        ({"strategy": object()}, UnknownNameError, "a name or an object with a propose method"),
        ({"seed": -1}, SettingError, "seed must be a whole number >= 0"),
        ({"seed": 1.5}, SettingError, "seed must be a whole number >= 0"),
        ({"seed": True}, SettingError, "seed must be a whole number >= 0"),
        ({"storage": "mysql://host/db"}, StorageError, "sqlite:///"),
        ({"name": ""}, SettingError, "name of a study must be a string that is not blank"),
        ({"initial": {"coarse": -1}}, SettingError, "whole number >= 0, got -1"),
        ({"initial": {"rough": 1}}, FidelityError, "unknown fidelity 'rough'"),
        ({"initial": 5}, SettingError, "initial must be a dict"),
    ],
)
def test_a_study_is_refused(changes, error, match):
    with pytest.raises(error, match=match) as caught:
        make(**changes)
    assert_one_sentence(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda: fd.Real(1, 0),
        lambda: fd.Real(0, math.inf),
        lambda: fd.Real(math.nan, 1),
        lambda: fd.Real(0, 1, log=True),
        lambda: fd.Integer(5, 1),
        lambda: fd.Fidelity("x", 0),
        lambda: fd.Fidelity("x", -1),
        lambda: fd.Fidelity("x", math.inf),
        lambda: fd.Fidelity("", 1),
    ],
)
def test_a_part_is_refused(build):
    with pytest.raises(fd.FideliumError) as caught:
        build()
    assert_one_sentence(caught.value)


def started() -> fd.Study:
    """A study with a done, a failed and a running trial, and an observation."""
    study = make(initial={"coarse": 3})
    study.tell(study.ask(), 1.0)
    study.tell(study.ask(), failed="crashed")
    study.ask()
    study.add_observation({"x": 0.5}, "fine", 2.0)
    return study


OTHER = make(seed=1)
OTHER_TRIAL = OTHER.ask()


@pytest.mark.parametrize(
    ("act", "error", "match"),
    [
        (lambda s: s.tell(0, 2.0), TrialError, "already finished .value 1"),
        (lambda s: s.tell(1, 2.0), TrialError, "already finished .failed: crashed"),
        (lambda s: s.tell(3, 2.0), TrialError, "already finished"),
        (lambda s: s.tell(s.trials[0], 2.0), TrialError, "already finished"),
        (lambda s: s.tell(99, 2.0), TrialError, "no trial 99; it has 4"),
        (lambda s: s.tell(-1, 2.0), TrialError, "no trial -1"),
        (lambda s: s.tell("2", 2.0), TrialError, "no trial '2'"),
        (lambda s: s.tell(None, 2.0), TrialError, "no trial None"),
        (lambda s: s.tell(OTHER_TRIAL, 2.0), TrialError, "another study"),
        (lambda s: s.tell(OTHER.trials[0], 2.0), TrialError, "another study"),
        (lambda s: s.tell(2), ObservationError, "either a value or failed"),
        (lambda s: s.tell(2, 1.0, failed="no"), ObservationError, "either a value or failed"),
        (lambda s: s.tell(2, "3.0"), ObservationError, "must be a number, got '3.0'"),
        (lambda s: s.tell(2, True), ObservationError, "must be a number, got True"),
        (lambda s: s.tell(2, [1.0]), ObservationError, "must be a number"),
        (lambda s: s.tell(2, np.ones(2)), ObservationError, "must be a number"),
        (lambda s: s.tell(2, 1 + 2j), ObservationError, "must be a number"),
        (lambda s: s.tell(2, failed=""), ObservationError, "says why"),
        (lambda s: s.tell(2, failed=3), ObservationError, "says why"),
        (lambda s: s.add_observation({"x": 2.0}, "fine", 1.0), SpaceError, "parameter 'x': expected a number in"),
        (lambda s: s.add_observation({}, "fine", 1.0), SpaceError, "missing parameter 'x'"),
        (lambda s: s.add_observation({"x": 0, "y": 0}, "fine", 1.0), SpaceError, "unknown parameter 'y'"),
        (lambda s: s.add_observation({"x": 0}, "finest", 1.0), FidelityError, "unknown fidelity 'finest'"),
        (lambda s: s.add_observation({"x": 0}, "fine", math.nan), ObservationError, "finite number, got nan"),
        (lambda s: s.add_observation({"x": 0}, "fine", math.inf), ObservationError, "finite number, got inf"),
        (lambda s: s.add_observation({"x": 0}, "fine", None), ObservationError, "finite number, got None"),
        (lambda s: s.predict([{"x": 7}]), SpaceError, "parameter 'x'"),
        (lambda s: s.predict({"x": 0.5}), SpaceError, "a list of designs"),
        (lambda s: s.predict([{"x": 0.5}], fidelity="finest"), FidelityError, "unknown fidelity"),
        (lambda s: s.optimize(lambda p, f: 1.0, 0), BudgetError, "above 0, got 0"),
        (lambda s: s.optimize(lambda p, f: 1.0, -5), BudgetError, "above 0, got -5"),
        (lambda s: s.optimize(lambda p, f: 1.0, math.nan), BudgetError, "above 0, got nan"),
        (lambda s: s.optimize(lambda p, f: 1.0, math.inf), BudgetError, "above 0, got inf"),
        (lambda s: s.optimize(lambda p, f: 1.0, "100"), BudgetError, "above 0, got '100'"),
        (lambda s: s.optimize(lambda p, f: 1.0, 0.5), BudgetError, "below the cheapest run: one at 'coarse' costs 1"),
        (lambda s: s.optimize(None, 100), SettingError, "a function of .params, fidelity., got None"),
        (lambda s: s.optimize(lambda p, f: 1.0, 100, workers=0), SettingError, "workers must be a whole number >= 1"),
        (lambda s: s.optimize(lambda p, f: 1.0, 100, max_failures=0), SettingError, "max_failures must be"),
    ],
)
def test_a_call_is_refused_and_nothing_changes(act, error, match):
    study = started()
    before = study.trials
    with pytest.raises(error, match=match) as caught:
        act(study)
    assert_one_sentence(caught.value)
    assert study.trials == before
    assert study.spent == 3


@pytest.mark.parametrize("query", [Query({"x": 2.0}, 0), Query({"x": 0.5}, 7)])
def test_a_strategy_that_proposes_nonsense_is_refused(query):
    class Nonsense:
        def propose(self, history, pending, key):
            return query

    study = make(strategy=Nonsense(), initial={})
    with pytest.raises(fd.FideliumError):
        study.ask()
    assert study.trials == ()
