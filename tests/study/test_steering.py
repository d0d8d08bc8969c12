"""Designs that people queue, priorities, notes and tags."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fidelium as fd
from fidelium.errors import BudgetError, FidelityError, SettingError, SpaceError, TrialError

SPACE = {"x": fd.Real(0, 1), "n": fd.Integer(1, 4), "kind": fd.Categorical(["a", "b"])}
LADDER = [fd.Fidelity("coarse", cost=1), fd.Fidelity("fine", cost=10)]
BEST = {"x": 0.5, "n": 2, "kind": "b"}


def objective(params, fidelity):
    return -((params["x"] - 0.5) ** 2) - (params["n"] - 2) ** 2 - (params["kind"] == "a") - 0.1 / fidelity.cost


def make(**options):
    settings = {"direction": "maximize", "strategy": "random", "seed": 1, "initial": {"coarse": 3, "fine": 1}}
    return fd.create_study(SPACE, LADDER, **(settings | options))


def test_a_queued_design_is_asked_next_and_belongs_to_the_initial_design():
    study = make()
    queued = study.enqueue(BEST, note="from the workshop", who="ada")
    assert (queued.number, queued.fidelity.name, str(queued.state), queued.attempt) == (0, "fine", "queued", 0)
    assert (study.spent, study.snapshot(20).reserved, study.snapshot(20).remaining) == (0, 10, 10)
    study.enqueue(BEST | {"x": 0.1}, "coarse", priority=1, who="bob")
    study.optimize(objective, budget=23, progress=False)
    # the two that were queued, two of the three of the design, and the strategy's own
    assert [trial.fidelity.name for trial in study.trials] == ["fine", "coarse", "coarse", "coarse", "fine"]
    assert study.best is not None
    assert study.best.params == BEST
    assert [(c.who, c.action, c.trial, c.reason) for c in study.changes()] == [
        ("ada", "enqueue", 0, "at fine: from the workshop"),
        ("bob", "enqueue", 1, "at coarse, priority 1"),
    ]


def test_a_queued_design_is_the_first_choice_whatever_the_strategy_thinks():
    study = make(initial={})
    for x in (0.1, 0.2, 0.3):
        study.enqueue(BEST | {"x": x}, "coarse")
    study.prioritise(1, 5)
    asked = [study.ask() for _ in range(4)]
    assert [trial.number for trial in asked] == [1, 0, 2, 3]
    assert asked[3].params not in [trial.params for trial in asked[:3]]
    with pytest.raises(TrialError, match="cannot prioritise trial 0: it is running"):
        study.prioritise(0, 1)


def test_what_the_budget_does_not_pay_for_waits_and_the_others_go_on(caplog):
    study = make()
    study.enqueue(BEST, "fine")
    study.optimize(objective, budget=5, progress=False)
    assert "1 queued trial waits for a larger budget (0): it costs 10" in caplog.text
    assert (study.spent, study.trials[0].state) == (5, "queued")
    with pytest.raises(BudgetError, match="only 4 of the budget of 9 is left; nothing was queued"):
        study.enqueue(BEST, "fine", budget=9)
    study.optimize(objective, budget=15, progress=False)
    assert (study.spent, study.trials[0].state) == (15, "done")


def test_designs_that_are_not_valid_are_refused():
    study = make()
    for wrong, kind in (
        (lambda: study.enqueue({"x": 0.5}), SpaceError),
        (lambda: study.enqueue(BEST | {"x": 2}), SpaceError),
        (lambda: study.enqueue(BEST, "finest"), FidelityError),
        (lambda: study.enqueue(BEST, priority=1.5), SettingError),  # pyright: ignore[reportArgumentType]
        (lambda: study.enqueue(BEST, note=3), SettingError),  # pyright: ignore[reportArgumentType]
        (lambda: study.enqueue(BEST, tags=["a b"]), SettingError),
        (lambda: study.enqueue(BEST, budget="much"), SettingError),  # pyright: ignore[reportArgumentType]
        (lambda: study.note(0, "no such trial"), TrialError),
    ):
        with pytest.raises(kind):
            wrong()
    assert (study.trials, study.changes()) == ((), ())
    limited = fd.create_study(fd.SearchSpace(SPACE, ["x * n <= 1"]), LADDER, direction="maximize")
    with pytest.raises(SpaceError, match="violates 'x"):
        limited.enqueue(BEST | {"n": 4})


def test_notes_and_tags_stay_through_the_life_of_a_trial_and_are_in_the_table():
    study = make()
    trial = study.ask()
    study.note(trial, " look again ")
    assert study.tag(trial, "suspicious").tags == ("suspicious",)
    study.tag(trial, "mesh-3")
    study.tell(trial, failed="no licence")
    study.retry(trial)
    assert (study.trials[0].note, study.trials[0].tags) == ("look again", ("suspicious", "mesh-3"))
    study.untag(0, "mesh-3")
    row = study.to_dataframe().iloc[0]
    assert (row["priority"], row["note"], row["tags"]) == (0, "look again", "suspicious")
    assert study.note(0, "").note is None
    with pytest.raises(TrialError, match="has no tag 'mesh-3'; it has 'suspicious'"):
        study.untag(0, "mesh-3")
    with pytest.raises(SettingError, match="one word"):
        study.tag(0, "two words")
    with pytest.raises(SettingError, match="a text"):
        study.note(0, 5)  # pyright: ignore[reportArgumentType]
    assert [c.action for c in study.changes()] == ["note", "tag", "tag", "retry", "untag", "note"]


def test_what_is_queued_survives_a_kill_and_gives_the_same_queries(tmp_path):
    """A process that queues designs, runs some and dies; resumed, the study does what one without the kill does."""
    program = f"""
import os, sys
import fidelium as fd
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_steering import BEST, LADDER, SPACE, make, objective
study = make(storage=sys.argv[1], name="s", load_if_exists=True)
if not study.trials:
    study.enqueue(BEST, "fine", note="mine")
    study.enqueue(BEST | {{"x": 0.25}}, "coarse", priority=3, tags=["a"])
def evaluate(params, fidelity):
    if len(study.trials) >= int(sys.argv[2]):
        os._exit(9)
    return objective(params, fidelity)
study.optimize(evaluate, budget=35, progress=False)
"""

    def run(url, most):
        return subprocess.run([sys.executable, "-c", program, url, str(most)], timeout=100, check=False).returncode

    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("killed", "whole")]
    assert [run(urls[0], 4), run(urls[0], 99), run(urls[1], 99)] == [9, 0, 0]
    killed, whole = (fd.load_study(url, "s").trials for url in urls)
    assert [(t.params, t.fidelity, t.value, t.note, t.tags, t.priority) for t in killed] == [
        (t.params, t.fidelity, t.value, t.note, t.tags, t.priority) for t in whole
    ]
    assert [t.note for t in whole[:2]] == ["mine", None]


def test_a_queued_design_reserves_what_it_is_expected_to_cost():
    ladder = [fd.Fidelity("coarse", cost="1 + x"), fd.Fidelity("fine", cost="10 * n")]
    study = fd.create_study(SPACE, ladder, direction="maximize", strategy="random", initial={})
    assert study.enqueue(BEST, "coarse").cost == 1.5
    assert study.enqueue(BEST, "fine", budget=21.5).cost == 20
    with pytest.raises(BudgetError):
        study.enqueue(BEST, "coarse", budget=22.9)
    assert (study.snapshot(21).waiting[0].number, study.snapshot(21.5).waiting) == (1, ())


def test_a_catalogue_may_be_held():
    profiles = fd.Catalogue({"thin": {"area": 1.0}, "middle": {"area": 2.0}, "thick": {"area": 4.0}})
    space = fd.SearchSpace({"profile": profiles, "x": fd.Real(0, 1)}, ["x * profile.area <= 2"])
    study = fd.create_study(space, LADDER, direction="maximize", strategy="sf-ei", initial={"coarse": 3, "fine": 3})
    for _ in range(8):
        trial = study.ask(fixed={"profile": "thick"})
        assert trial.params["profile"] == "thick"
        assert trial.params["x"] <= 0.5
        study.tell(trial, trial.params["x"])
    assert study.recommend(fixed={"profile": "thin"}).params["profile"] == "thin"
