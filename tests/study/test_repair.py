"""Repairing a study: excluded, restored, retried and corrected trials, and the record of who did it."""

from __future__ import annotations

import getpass
import socket

import pytest

import fidelium as fd
from fidelium.errors import BudgetError, NoDataError, ObservationError, TrialError
from fidelium.history import Trial, TrialState
from fidelium.study.repair import user_name

SPACE = {"x": fd.Real(0, 1)}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]


@pytest.fixture(params=["memory", "sqlite"])
def study(request, tmp_path, fake):
    """Values 0, 1, 2 at the target, then a failure."""
    url = None if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"
    with fd.create_study(SPACE, LADDER, direction="maximize", strategy=fake, storage=url, initial={"fine": 4}) as made:
        for value in range(3):
            made.tell(made.ask(), value)
        made.tell(made.ask(), failed="no licence")
        yield made


def test_an_excluded_trial_is_neither_observed_nor_best_but_paid_for(study):
    assert study.best.number == 2
    excluded = study.exclude(2, "wrong mesh")
    assert (excluded.excluded, excluded.value, excluded.state) == (True, 2.0, TrialState.DONE)
    assert study.best.number == 1
    assert len(study.history().observations[1]) == 2
    assert study.spent == 40
    assert study.trials[2] == excluded
    assert [trial.number for trial in study.snapshot().excluded] == [2]
    study.exclude(study.trials[3])
    assert study.history().failed == ()
    assert study.restore(excluded).excluded is False
    assert study.best.number == 2


def test_the_model_follows_every_repair(study, fake):
    def best() -> float:
        return study.recommend().mean

    assert best() == 2.0
    assert (best(), len(fake.fits)) == (2.0, 1)  # nothing changed: the same model
    study.exclude(2)
    assert best() == 1.0
    study.restore(2)
    assert best() == 2.0
    study.exclude(2)
    study.retry(2)
    assert best() == 1.0
    study.correct(3, 7.0)
    assert best() == 7.0
    for number in (0, 1, 3):
        study.exclude(number)
    with pytest.raises(NoDataError):
        study.recommend()


def test_a_retried_trial_is_asked_next_and_charged_once_even_without_a_budget(study):
    before = study.trials[3]
    study.retry(3, "the licence is back")
    assert (study.spent, study.snapshot().reserved) == (30, 10)
    with pytest.raises(BudgetError):
        study.store.add(before.__class__(4, before.params, before.fidelity), budget=40)
    again = study.ask(40)
    assert (again.number, again.attempt, again.params) == (3, 2, before.params)
    study.tell(again, 5.0)
    assert (study.best.number, study.spent) == (3, 40)
    with pytest.raises(TrialError, match=r"cannot retry trial 3: it is done, with value 5\.0; exclude it first"):
        study.retry(3)


def test_a_corrected_trial_is_done_and_its_value_is_checked(study):
    for bad in (float("nan"), float("inf"), "x", None):
        with pytest.raises(ObservationError):
            study.correct(3, bad)
    assert study.trials[3].state is TrialState.FAILED
    fixed = study.correct(3, 4.5, measured_cost=2.0, reason="read by hand")
    assert (fixed.state, fixed.value, fixed.measured_cost, fixed.reason) == (TrialState.DONE, 4.5, 2.0, None)
    assert study.best.number == 3


def test_what_was_changed_is_recorded_with_who_and_why(study):
    study.exclude(1, "wrong mesh")
    study.retry(1, who="ada")
    assert [(c.who, c.action, c.trial, c.reason) for c in study.changes()] == [
        (f"{getpass.getuser()}@{socket.gethostname()}", "exclude", 1, "wrong mesh"),
        ("ada", "retry", 1, "[before: done with value 1.0]"),
    ]


def test_trials_of_other_studies_and_odd_numbers_are_refused(study):
    other = fd.create_study(SPACE, LADDER, direction="maximize", strategy="random", seed=9)
    stranger = other.ask()
    for trial in (stranger, stranger.record(), 17, -1, True, 1.0, "1"):
        with pytest.raises(TrialError):
            study.exclude(trial)
    assert study.changes() == ()


def test_a_trial_lost_without_a_reason_is_named_when_its_result_comes(study):
    store, params = study.store, study.trials[0].params
    store.add(Trial(4, params, LADDER[1], TrialState.LOST))
    with pytest.raises(TrialError, match=r"trial 4 is already finished \(lost\)"):
        study.tell(4, 1.0)


def test_a_login_that_cannot_be_stored_is_escaped(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "\ud800" + "x" * 300)
    assert len(user_name()) == 255
    user_name().encode()

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert user_name().endswith(f"@{socket.gethostname()}")


def test_a_model_without_a_trial_says_what_it_expects_there():
    study = fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("f", cost=1)], direction="minimize", initial={})
    for i in range(9):
        x = i / 8
        study.add_observation({"x": x}, "f", 7.0 if i == 3 else (x - 0.3) ** 2)
    before = study.trials
    (wrong, right) = study.expectations([3, 5])
    assert study.trials == before  # it only looks
    assert (wrong.trial, wrong.value) == (3, 7.0)
    assert wrong.mean == pytest.approx((3 / 8 - 0.3) ** 2, abs=0.05)
    assert right.mean == pytest.approx(right.value, abs=0.05)
    assert wrong.mean is not None
    assert wrong.std is not None
    assert (7.0 - wrong.mean) / wrong.std > 5
    assert str(wrong).startswith("trial 3: observed 7; the model without it expects 0.0")
    with pytest.raises(TrialError, match="is running: there is nothing to compare yet"):
        study.expectations([study.ask()])
    alone = fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("f", cost=1)], direction="minimize", initial={})
    alone.add_observation({"x": 0.5}, "f", 1.0)
    assert str(alone.expectations([0])[0]) == "trial 0: observed 1; nothing else is known of its surroundings"
