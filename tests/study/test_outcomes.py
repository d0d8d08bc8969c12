"""Outcomes of a run and the constraints on them: recorded everywhere, judged everywhere, and refused where wrong."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import ObservationError, SettingError
from fidelium.history import TrialState
from fidelium.storage import open_storage
from fidelium.study import view_study
from fidelium.study.transfer import fitting

SPACE = {"width": fd.Real(0, 1), "height": fd.Real(0, 1)}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]
LIMITS = ["stress <= 1.0", "0.2 <= frequency <= 0.9"]


@pytest.fixture(params=["sqlite", "memory"])
def storage(request, tmp_path):
    opened = open_storage(f"sqlite:///{tmp_path}/beam.db" if request.param == "sqlite" else None)
    yield opened
    opened.close()


def make(storage=None, **changes) -> fd.Study:
    settings = {"direction": "minimize", "strategy": "random", "seed": 1, "name": "beam", "constraints": LIMITS}
    return fd.create_study(SPACE, LADDER, storage=storage, load_if_exists=True, **(settings | changes))


def beam(params, fidelity) -> dict[str, float]:
    return {
        "value": params["width"] + params["height"],
        "stress": 2 * (1 - params["height"]),
        "frequency": params["width"],
        "mass": params["width"] * params["height"],
        "cost": 1.5,
    }


def test_what_a_run_gives_is_recorded_and_judged(storage):
    study = make(storage)
    best = study.optimize(beam, 400, progress=False)
    again = fd.load_study(storage, "beam")
    assert [trial.outcomes for trial in again.trials] == [trial.outcomes for trial in study.trials]
    for trial in again.trials:
        given = beam(trial.params, trial.fidelity)
        assert {"value": trial.value, "cost": trial.measured_cost, **trial.outcomes} == given
        assert trial.feasible == (given["stress"] <= 1 and 0.2 <= given["frequency"] <= 0.9)
        assert bool(trial.violations) != trial.feasible
    at_target = [trial for trial in again.trials if trial.fidelity.name == "fine"]
    assert {trial.feasible for trial in at_target} == {True, False}
    expected = min((trial for trial in at_target if trial.feasible), key=lambda trial: trial.value or 0.0)
    assert best == study.best == again.best == expected
    assert min(trial.value or 0.0 for trial in at_target) < (expected.value or 0.0)  # the best of all is infeasible


def test_workers_in_processes_give_outcomes_too():
    study = make()
    study.optimize(beam, 4, workers=2, progress=False)
    assert all(dict(trial.outcomes).keys() == {"stress", "frequency", "mass"} for trial in study.trials)


def test_the_one_liner_takes_constraints():
    study = fd.optimize(
        beam, SPACE, LADDER, direction="minimize", budget=30, strategy="random", constraints=LIMITS, progress=False
    )
    assert [str(each) for each in study.definition.constraints] == LIMITS
    assert study.best is None or study.best.feasible


def test_there_is_no_best_while_nothing_is_feasible():
    study = make(constraints=["stress <= -1"])
    assert study.optimize(beam, 40, progress=False) is None
    assert study.best is None
    assert {trial.feasible for trial in study.trials} == {False}
    assert "no feasible value at the target yet" in repr(study)


def test_told_outcomes_are_those_of_the_live_trial():
    study = make()
    trial = study.ask()
    assert (trial.outcomes, trial.feasible) == ({}, None)
    half: dict[str, Any] = {"stress": np.float32(0.5), "frequency": np.array([0.9])}
    record = study.tell(trial, 1.5, outcomes=half, measured_cost=2.0)
    assert trial.outcomes == record.outcomes == {"stress": 0.5, "frequency": 0.9}
    assert trial.feasible is record.feasible is True
    assert record.measured_cost == 2.0
    assert {type(each) for each in record.outcomes.values()} == {float}


@pytest.mark.parametrize(
    ("outcomes", "reason"),
    [
        (None, "the run gave no outcome 'stress', which a constraint names; it gave none"),
        (
            {"mass": 1.0, "stress": 1.0},
            "the run gave no outcome 'frequency', which a constraint names; it gave mass, stress",
        ),
        (
            {"stress": math.nan, "frequency": 0.5},
            "the outcome 'stress', which a constraint names, is nan, not a finite number",
        ),
        (
            {"stress": 1.0, "frequency": -math.inf},
            "the outcome 'frequency', which a constraint names, is -inf, not a finite number",
        ),
    ],
)
def test_a_run_without_a_constrained_outcome_fails_with_that_reason(caplog, outcomes, reason):
    study = make()
    told = study.tell(study.ask(), 1.5, outcomes=outcomes)
    assert (told.state, told.reason, told.value, told.outcomes) == (TrialState.FAILED, reason, None, {})
    assert caplog.messages == [f"trial 0 at {told.fidelity.name!r} failed: {reason}"]
    study.optimize(lambda params, fidelity: {"value": 1.0, **(outcomes or {})}, 2, progress=False)
    assert [trial.reason for trial in study.trials] == [reason, reason]
    with pytest.raises(ObservationError, match=reason[:30]):
        study.add_observation({"width": 0, "height": 0}, "fine", 1.0, outcomes=outcomes)
    with pytest.raises(ObservationError, match=reason[:30]):
        study.correct(0, 1.5, outcomes=outcomes)
    assert len(study.trials) == 2


def test_a_plain_number_is_not_enough_with_constraints():
    study = make()
    study.optimize(lambda params, fidelity: 1.0, 1, progress=False)
    assert study.trials[0].reason == "the run gave no outcome 'stress', which a constraint names; it gave none"


def test_what_nobody_declared_is_recorded_unless_it_is_not_finite(caplog):
    study = make(constraints=())
    told = study.tell(study.ask(), 1.0, outcomes={"mass": 2.0, "drag": math.nan, "lift": math.inf})
    assert (told.state, told.outcomes, told.feasible) == (TrialState.DONE, {"mass": 2.0}, True)
    assert caplog.messages == [
        "the outcome 'drag' is nan, not a finite number: it is not recorded",
        "the outcome 'lift' is inf, not a finite number: it is not recorded",
    ]
    added = study.add_observation({"width": 0, "height": 0}, "fine", 1.0, {"mass": 3})
    assert added.outcomes == {"mass": 3.0}


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ({"value": 1.0}, "'value' is reserved, so an outcome cannot have this name; rename it"),
        ({"width": 1.0}, "'width' is a parameter, so an outcome cannot have this name; rename it"),
        ({"2nd": 1.0}, "the name of an outcome is a word of letters"),
        ({1: 1.0}, "the name of an outcome is a word of letters"),
        ({"stress": "high"}, "the outcome 'stress' must be a number, got 'high'"),
        ({"stress": None}, "the outcome 'stress' must be a number, got None"),
        ({"stress": True}, "the outcome 'stress' must be a number, got True"),
        ([1.0], r"outcomes must be a dict such as \{'stress': 1.2e8\}, got \[1.0\]"),
    ],
)
def test_outcomes_that_are_none_are_refused_and_nothing_changes(outcomes, message):
    study = make()
    trial = study.ask()
    for call in (
        lambda: study.tell(trial, 1.0, outcomes=outcomes),
        lambda: study.add_observation({"width": 0, "height": 0}, "fine", 1.0, outcomes=outcomes),
        lambda: study.correct(trial, 1.0, outcomes=outcomes),
    ):
        with pytest.raises(ObservationError, match=message):
            call()
    assert [each.state for each in study.trials] == [TrialState.RUNNING]


def test_a_failure_has_no_outcomes():
    study = make()
    with pytest.raises(ObservationError, match="a failed trial has no outcomes"):
        study.tell(study.ask(), failed="no mesh", outcomes={"stress": 1.0})


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"value": 1.0, "note": 1.0}, "'note' is reserved, so an outcome cannot have this name; rename it"),
        ({"value": 1.0, "width": 1.0}, "'width' is a parameter, so an outcome cannot have this name; rename it"),
        ({"value": 1.0, "stress": "high"}, "the outcome 'stress' is 'high', not a number"),
        ({"value": 1.0, "stress": None}, "the outcome 'stress' is None, not a number"),
        ({"value": 1.0, "stress": 10**400}, "the outcome 'stress' is 1000"),
        ({"value": 1.0, 7: 1.0}, "the name of an outcome is a word of letters"),
        ({"value": math.inf, "stress": 0.1, "frequency": 0.5}, "value is inf, not a finite number"),
        ({"stress": 0.1, "frequency": 0.5}, "the objective must return a number or"),
        ({"value": 1.0, "stress": 0.1, "frequency": 0.5, "failed": "no mesh"}, "no mesh"),
    ],
)
def test_a_function_that_returns_other_things_makes_a_failed_trial(result, reason):
    study = make()
    study.optimize(lambda params, fidelity: result, 1, progress=False)
    assert study.trials[0].state is TrialState.FAILED
    assert reason in (study.trials[0].reason or "")


def test_a_retried_trial_forgets_its_outcomes_and_a_corrected_one_gets_them(storage):
    study = make(storage)
    study.tell(study.ask(), 1.0, outcomes={"stress": 0.5, "frequency": 0.5})
    study.exclude(0)
    assert study.retry(0).outcomes == {}
    assert study.trials[0].feasible is None
    corrected = study.correct(0, 2.0, outcomes={"stress": 1.5, "frequency": 0.5}, reason="read by hand")
    assert (corrected.feasible, corrected.violations) == (False, {"stress": 0.5})
    assert "stress 0.5" in study.changes()[1].reason


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["width <= 1"], "'width' in 'width <= 1' is a parameter; constraints on parameters go to SearchSpace"),
        (["value <= 1"], "'value' is reserved"),
        (["stress <= inf"], "a limit must be a finite number"),
        (["stress <= 1", "stress >= 2"], "the limits of 'stress' contradict each other"),
        (["stress =="], "expected 'NAME <= number'"),
        (["stress == 2"], "expected 'NAME <= number'"),
        (["stress < 2"], "expected 'NAME <= number'"),
        (["stress <= other"], "expected 'NAME <= number'"),
        ([3], "expected 'NAME <= number'"),
        ("stress <= 1", r"constraints must be a list of texts such as \['stress <= 150e6'\]"),
    ],
)
def test_constraints_that_are_none_are_refused_at_creation(constraints, message):
    with pytest.raises(SettingError, match=message) as caught:
        make(constraints=constraints)
    assert caught.value.setting == "constraints"


def test_failure_model_is_a_switch():
    assert make().definition.failures_teach
    assert not make(failure_model=False).definition.failures_teach
    assert not make(failure_model=False).history().failures_teach
    with pytest.raises(SettingError, match="failure_model must be True or False, got 'off'"):
        make(failure_model="off")


# --- constraints that change, and data from elsewhere ---


def test_changed_constraints_are_taken_up_when_the_outcomes_are_there(storage, caplog):
    study = make(storage)
    study.optimize(beam, 30, progress=False)
    judged = [trial.feasible for trial in study.trials]
    study = make(storage, constraints=["stress <= 0.5", "mass >= 0.125"], failure_model=False)
    kept = f"; {len(judged)} trials kept"
    assert caplog.messages == [
        f"constraints: stress <= 1.0, 0.2 <= frequency <= 0.9 -> stress <= 0.5, mass >= 0.125{kept}",
        f"model of failures: on -> off{kept}",
    ]
    for trial in (*study.trials, *fd.load_study(storage, "beam").trials):
        assert trial.feasible == (trial.outcomes["stress"] <= 0.5 and trial.outcomes["mass"] >= 0.125)
    assert [trial.feasible for trial in study.trials] != judged
    assert study.ask().record().constraints == study.definition.constraints
    caplog.clear()
    make(storage, constraints=["stress <= 0.5", "mass >= 0.125"], failure_model=False)
    assert caplog.messages == []


def test_constraints_on_what_was_not_recorded_are_refused(storage):
    study = make(storage, constraints=())
    for number, outcomes in enumerate(({"stress": 1.0}, {"stress": 2.0}, {}, {"mass": 1.0})):
        study.add_observation({"width": 0, "height": number / 4}, "fine", 1.0, outcomes)
    study.tell(study.ask(), failed="no mesh")
    with pytest.raises(SettingError) as caught:
        make(storage, constraints=["stress <= 1.5"])
    assert str(caught.value) == (
        "trial 2 has no outcome 'stress', which the constraint 'stress <= 1.5' names; it has none: exclude such trials "
        "(fidelium exclude), or give the new study another name"
    )
    assert make(storage, constraints=()).changes() == ()
    for number in (2, 3):
        study.exclude(number)
    changed = make(storage, constraints=["stress <= 1.5"])
    assert [trial.feasible for trial in changed.trials] == [True, False, None, None, None]
    assert changed.best is not None
    assert changed.best.number == 0


def test_a_study_viewed_with_other_constraints_is_judged_by_these(storage):
    study = make(storage)
    study.add_observation({"width": 0, "height": 0}, "fine", 1.0, {"stress": 2.0, "frequency": 0.5})
    assert study.trials[0].feasible is False
    viewed = view_study(make(constraints=["stress <= 3"]).definition, storage)
    assert viewed.trials[0].feasible is True
    assert viewed.best is not None
    assert storage.open("beam").definition == study.definition


def test_outcomes_are_taken_along_to_another_study():
    old = make(constraints=())
    for number, outcomes in enumerate(({"stress": 1.0, "depth": 2.0}, {"mass": 1.0})):
        old.add_observation({"width": 0, "height": number / 4}, "fine", 1.0, outcomes)
    new = fd.create_study(
        SPACE | {"depth": fd.Real(0, 1)}, LADDER, direction="minimize", strategy="random", constraints=["stress <= 2"]
    )
    transfer = fitting(old.definition, old.trials, new.definition, {"depth": 0.5})
    assert [row.outcomes for row in transfer.observations] == [{"stress": 1.0}]  # depth is a parameter now
    assert transfer.left_out == {"without the outcome 'stress', which a constraint of the new study names": 1}


# --- tables ---


def test_the_table_has_a_column_per_outcome_and_one_for_feasibility():
    study = make(constraints=["stress <= 1"])
    study.add_observation({"width": 0, "height": 0}, "fine", 1.0, {"mass": 2.0, "stress": 0.5})
    study.add_observation({"width": 0, "height": 1}, "fine", 1.0, {"stress": 1.5, "drag": 3.0})
    study.tell(study.ask(), failed="no mesh")
    table = study.to_dataframe()
    names = list(table.columns)
    assert names[5:12] == ["width", "height", "mass", "stress", "drag", "feasible", "measured_cost"]
    assert table["stress"].tolist()[:2] == [0.5, 1.5]
    assert math.isnan(table["drag"].tolist()[0])
    assert table["feasible"].tolist() == [True, False, None]
    empty = make(constraints=["stress <= 1"]).to_dataframe()
    assert list(empty.columns)[7:9] == ["stress", "feasible"]


def test_names_of_parameters_and_outcomes_never_share_a_column():
    space = {"feasible": fd.Real(0, 1), "cost": fd.Real(0, 1)}
    study = fd.create_study(space, LADDER, direction="minimize", strategy="random", constraints=["s <= 1"])
    study.add_observation({"feasible": 0.5, "cost": 0.25}, "fine", 1.0, {"s": 0.5, "params_cost": 7.0})
    row = study.to_dataframe().to_dict("records")[0]
    assert (row["params_feasible"], row["feasible"], row["params_cost"]) == (0.5, True, 0.25)
    assert row["outcomes_params_cost"] == 7.0


def test_the_log_says_why_a_run_failed(caplog):
    caplog.set_level(logging.INFO)
    make().optimize(lambda params, fidelity: {"value": 1.0, "mass": 2.0}, 1, progress=True)
    assert any("the run gave no outcome 'stress'" in message for message in caplog.messages)
