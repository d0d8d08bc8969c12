"""The initial design and the budget: by default at most a third of it, and the same again after a resume."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fidelium as fd
from fidelium.errors import BudgetError

COUNT = {"initial": {"coarse": 19, "fine": 6}}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]
SPACE = {"height": fd.Real(0.02, 0.2), "layers": fd.Integer(1, 6), "core": fd.Categorical(["foam", "balsa", "steel"])}


class Spy:
    """A strategy that proposes nothing, so that what is asked is the initial design."""

    def propose(self, history, pending, key):
        raise BudgetError("the initial design is over")


def asked(study: fd.Study, budget: float) -> list[tuple[str, float]]:
    """The fidelity and the height of every query of the initial design."""
    found = []
    while True:
        try:
            trial = study.ask(budget)
        except BudgetError:
            return found
        study.tell(trial, 1.0)
        found.append((trial.fidelity.name, trial.params["height"]))


def make(**settings: object) -> fd.Study:
    return fd.create_study(SPACE, LADDER, direction="minimize", strategy=Spy(), **settings)  # pyright: ignore[reportArgumentType]


def test_the_default_design_took_79_of_120_and_takes_39_now():
    study = make()
    assert study.initial == {"coarse": 19, "fine": 6}
    assert sum(rung == "coarse" for rung, _ in asked(study, 120)) == 19
    assert study.spent == 39


@settings(max_examples=30)
@given(st.floats(1, 400))
def test_it_never_takes_more_than_a_third_of_a_budget(budget):
    study = make()
    asked(study, budget)
    assert study.spent <= budget / 3


def test_without_a_budget_or_with_sizes_of_the_users_own_it_is_whole():
    assert len(asked(make(), float("inf"))) == 25
    own = make(**COUNT)
    assert len(asked(own, 120)) == 25
    assert own.spent == 79


def test_a_larger_budget_catches_up_on_the_rest():
    step, whole = make(), make()
    parts = asked(step, 60) + asked(step, 120) + asked(step, 1000)
    assert sorted(parts) == sorted(asked(whole, 1000))
    assert asked(step, 2000) == []


@pytest.mark.parametrize("settings", [{}, COUNT])
def test_a_resumed_study_continues_the_same_design(tmp_path, settings):
    url = f"sqlite:///{tmp_path}/s.db"
    whole = make(**settings)
    expected = asked(whole, 120)
    study = make(storage=url, name="s", **settings)
    first = [study.ask(120) for _ in range(7)]
    study.close()
    with fd.load_study(url, strategy=Spy()) as again:
        assert again.definition.default_initial == (not settings)
        assert [(trial.fidelity.name, trial.params["height"]) for trial in first] + asked(again, 120) == expected


def test_a_study_stored_by_an_older_version_keeps_its_design(tmp_path):
    # an older version stored the sizes only: they count as the user's own
    url = f"sqlite:///{tmp_path}/s.db"
    make(storage=url, name="s", **COUNT).close()
    with make(storage=url, name="s", load_if_exists=True) as study:
        assert len(asked(study, 120)) == 25
