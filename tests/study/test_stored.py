"""Studies in a storage: going on, loading, sharing between processes."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

import fidelium as fd
from fidelium.errors import BudgetError, SettingError, StorageError, StudyExistsError, TrialError, UnknownNameError
from fidelium.history import Trial, TrialState
from fidelium.storage import open_storage

SPACE = {
    "x": fd.Real(0, 1),
    "n": fd.Integer(1, 9, log=True),
    "glue": fd.Categorical(["epoxy", None, True, 1, "'; rm -rf /\n\0é"]),
}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]


def make(url, **changes):
    settings = {"direction": "maximize", "strategy": "random", "storage": url, "name": "plate"} | changes
    return fd.create_study(SPACE, LADDER, **settings)


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/plate.db"


def objective(params, fidelity):
    return params["x"] * params["n"] + fidelity.cost


def test_a_study_is_loaded_as_it_was_left(url):
    study = make(url, seed=7, initial={"coarse": 3, "fine": 1})
    study.optimize(objective, 60)
    study.add_observation({"x": 0.5, "n": 3, "glue": None}, "fine", 2.5)
    study.tell(study.ask(), failed="mesher crashed")
    asked = study.ask()
    loaded = fd.load_study(url, "plate")
    assert loaded.trials == study.trials
    assert (loaded.space, loaded.ladder, loaded.direction) == (study.space, study.ladder, study.direction)
    assert (loaded.seed, loaded.strategy, loaded.initial) == (7, "random", {"coarse": 3, "fine": 1})
    assert (loaded.best, loaded.spent) == (study.best, study.spent)
    loaded.tell(asked.number, 3.0)
    assert asked.value == 3.0


def test_the_next_query_is_the_one_the_undisturbed_study_would_ask(url):
    whole = make(None, seed=3, initial={"coarse": 7, "fine": 2})
    whole.optimize(objective, 127)
    make(url, seed=3, initial={"coarse": 7, "fine": 2})
    for budget in (3, 27, 57, 127):
        fd.load_study(url).optimize(objective, budget)
    assert fd.load_study(url).trials == whole.trials


def test_a_model_based_study_interrupted_and_loaded_asks_what_the_undisturbed_one_does(url):
    calls = itertools.count()

    def interrupted(params, fidelity):
        if next(calls) in (4, 7):
            raise KeyboardInterrupt
        return objective(params, fidelity)

    whole = make(None, strategy="sf-ei", initial={"fine": 4})
    whole.optimize(objective, 80)
    make(url, strategy="sf-ei", initial={"fine": 4})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fd.load_study(url).optimize(interrupted, 80)
    study = fd.load_study(url)
    study.optimize(interrupted, 80)
    assert tuple(replace(trial, attempt=1) for trial in study.trials) == whole.trials


def test_a_name_is_taken_once(url):
    make(url)
    with pytest.raises(StudyExistsError, match=r"'plate'.*load_if_exists"):
        make(url)
    assert make(url, name="beam").name == "beam"
    with pytest.raises(UnknownNameError, match="'plate', 'beam'"):
        fd.load_study(url)
    with pytest.raises(UnknownNameError, match="'shell'"):
        fd.load_study(url, "shell")


def test_a_study_goes_on_if_it_is_the_same(url):
    make(url).optimize(objective, 30)
    again = make(url, load_if_exists=True, strategy="sf-ei")
    assert again.spent == 30
    assert again.strategy == "sf-ei"


def test_a_strategy_object_must_be_brought_again(url, fake):
    make(url, strategy=fake)
    with pytest.raises(SettingError, match="pass it"):
        fd.load_study(url)
    assert fd.load_study(url, strategy=fake).strategy is fake


def test_who_was_taken_for_dead_is_refused(url):
    study = make(url, initial={})
    late = study.start(10, "elsewhere/1/abc")
    (taken,) = study.store.recover(60.0, {"elsewhere/1/abc"}, 3)
    assert taken.state is TrialState.QUEUED
    again = study.ask()
    assert (again.number, again.attempt) == (late.number, 2)
    with pytest.raises(TrialError):
        study.tell(late, 1.0)
    study.tell(again, 2.0)
    assert study.trials[0].value == 2.0


def _work(url: str, count: int) -> None:
    study = fd.load_study(url)
    for _ in range(count):
        trial = study.ask()
        study.tell(trial, float(trial.number))


@pytest.mark.parametrize("server", [False, True], ids=["sqlite", "postgresql"])
def test_four_processes_ask_and_tell_one_study(url, new_database, server):
    where = new_database() if server else url
    name = "shared"
    fd.create_study(SPACE, LADDER, direction="maximize", strategy="random", storage=where, name=name)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_work, args=(where, 25)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    trials = fd.load_study(where, name).trials
    assert [trial.number for trial in trials] == list(range(100))
    assert [trial.value for trial in trials] == [float(number) for number in range(100)]
    assert len({(tuple(t.params.items()), t.fidelity.name) for t in trials}) == 100


def test_options_of_the_strategy_are_stored_and_loaded(url):
    study = make(url, strategy="dnn-mfbo-paper", strategy_options={"architecture": "quick"})
    loaded = fd.load_study(url).definition
    assert (loaded.strategy, loaded.strategy_options) == ("dnn-mfbo-paper", {"architecture": "quick"})
    assert loaded == study.definition
    other = fd.load_study(url, strategy="sf-ei").definition
    assert (other.strategy, other.strategy_options) == ("sf-ei", {})


def test_an_option_of_another_version_can_be_looked_at_but_not_run(url):
    make(url)
    storage = open_storage(url)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
        (text,) = file.execute("select record from fidelium_studies").fetchone()
        newer = json.dumps(json.loads(text) | {"strategy_options": {"power": 9}})
        file.execute("update fidelium_studies set record = ?", (newer,))
    file.close()
    assert storage.open("plate").definition.strategy_name == "random with {'power': 9}"
    storage.close()
    with pytest.raises(SettingError, match="pass it: load_study"):
        fd.load_study(url)
    assert fd.load_study(url, strategy="random").trials == ()


def test_a_process_suspended_between_reading_and_adding_does_not_overspend(url, monkeypatch):
    study, other = make(url, initial={}), fd.load_study(url)
    real = study.store.trials

    def read_then_sleep():
        """What a process does that is suspended after its read, while another one spends the budget."""
        seen = real()
        if len(seen) < 2:
            other.store.add(Trial(len(seen), {"x": 0.1, "n": 1, "glue": 1}, LADDER[1]), budget=20)
        return seen

    monkeypatch.setattr(study.store, "trials", read_then_sleep)
    with pytest.raises(BudgetError):
        study.ask(20)
    assert study.spent == 20
    with pytest.raises(BudgetError, match="of the budget of 20 is left"):
        study.store.add(Trial(2, {"x": 0.1, "n": 1, "glue": 1}, LADDER[1]), budget=20)
    assert [trial.number for trial in other.trials] == [0, 1]


def test_a_closed_study_holds_no_file_and_refuses_to_go_on(url):
    with make(url) as study:
        study.ask()
        assert open_files(url)
    assert not open_files(url)
    with pytest.raises(StorageError, match="was closed"):
        study.ask()
    with pytest.raises(StudyExistsError):
        make(url)
    with pytest.raises(UnknownNameError):
        fd.load_study(url, "no such study")
    assert not open_files(url)  # what was opened in vain is closed


def test_several_studies_share_an_open_storage(url):
    storage = open_storage(url)
    first = fd.create_study(SPACE, LADDER, direction="maximize", strategy="random", storage=storage, name="a")
    second = fd.create_study(SPACE, LADDER, direction="maximize", strategy="random", storage=storage, name="b")
    first.ask()
    assert (len(first.trials), len(second.trials)) == (1, 0)
    assert len(fd.load_study(storage, "a").trials) == 1
    storage.close()


def open_files(url: str) -> list[str]:
    """The files of a database that this process has open."""
    name = url.removeprefix("sqlite:///")
    paths = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return [path for path in paths if path.startswith(name)]
