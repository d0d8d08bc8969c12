"""The public contract of DESIGN.md, in memory, and what ask, tell and add_observation promise."""

from __future__ import annotations

import logging
import math
import threading

import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import BudgetError, NoDataError
from fidelium.randomness import trial_key
from fidelium.study import Study


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_script_of_the_design_runs_as_written(space, ladder, objective, direction):
    study = fd.create_study(
        space,
        ladder,
        direction=direction,
        strategy="random",
        seed=0,
        storage=None,
        name="plate",
        initial={"coarse": 5, "medium": 5, "fine": 2},
    )
    trial = study.ask()
    assert trial.number == 0
    assert trial.fidelity == fd.Fidelity("coarse", cost=1)
    assert trial.value is None
    assert trial.state == "running"
    assert study.spent == 1
    study.tell(trial, 3.14)
    assert trial.value == 3.14
    assert trial.state == "done"
    params = {"x1": 1.0, "x2": 2.0}
    study.add_observation(params, "coarse", 2.7)
    assert study.spent == 1
    best = study.optimize(objective, budget=1500, workers=1)
    assert best == study.best
    assert best is not None
    at_target = [t.value or 0.0 for t in study.trials if t.fidelity.name == "fine"]
    assert best.value == (max(at_target) if direction == "maximize" else min(at_target))
    assert study.spent == 1500  # 5 x 1 + 5 x 10 + 14 x 100 + 4 x 10 + 5 x 1
    table = study.to_dataframe()
    assert list(table.columns)[:7] == ["number", "state", "fidelity", "cost", "value", "x1", "x2"]
    assert list(table.columns)[-1] == "reason"
    assert sum(table["cost"].tolist()) == study.spent
    assert len(table) == len(study.trials)


def test_the_one_liner_does_the_same_as_the_long_way(space, ladder, objective):
    short = fd.optimize(objective, space, ladder, direction="maximize", budget=500, strategy="random", seed=3)
    long = fd.create_study(space, ladder, direction="maximize", strategy="random", seed=3)
    long.optimize(objective, 500)
    assert isinstance(short, Study)
    assert short.trials == long.trials


def test_a_dict_is_a_space_and_a_ladder_is_a_ladder(ladder):
    study = fd.create_study({"x": fd.Integer(1, 3)}, fd.FidelityLadder.of(ladder), direction="minimize")
    assert study.space == fd.SearchSpace({"x": fd.Integer(1, 3)})
    assert study.ladder.names == ("coarse", "medium", "fine")


def test_the_initial_design_comes_first_low_fidelities_first(space, ladder, fake):
    study = fd.create_study(space, ladder, direction="maximize", strategy=fake, initial={"coarse": 2, "fine": 1})
    names = [study.ask().fidelity.name for _ in range(3)]
    assert names == ["coarse", "coarse", "fine"]
    assert fake.seen_pending == []


def test_same_seed_same_queries_another_seed_others(space, ladder, objective):
    def queries(seed: int) -> list[dict[str, float]]:
        study = fd.create_study(space, ladder, direction="maximize", strategy="random", seed=seed)
        study.optimize(objective, 1000)
        return [trial.params for trial in study.trials]

    assert queries(5) == queries(5)
    first, second = queries(5), queries(6)
    assert all(a != b for a, b in zip(first, second, strict=True))


def test_a_seed_of_none_is_drawn_and_kept(space, ladder):
    seeds = {fd.create_study(space, ladder, direction="maximize", seed=None).seed for _ in range(3)}
    assert len(seeds) == 3


def test_several_asks_know_each_other(space, ladder, fake):
    study = fd.create_study(space, ladder, direction="maximize", strategy=fake, initial={})
    study.add_observation({"x1": 0, "x2": 0}, "coarse", 1.0)
    trials = [study.ask() for _ in range(3)]
    assert [len(pending) for pending in fake.seen_pending] == [0, 1, 2]
    assert [query.params for query in fake.seen_pending[2]] == [trials[0].params, trials[1].params]
    study.tell(trials[0], 2.0)
    study.tell(trials[1], failed="crashed")
    study.ask()
    assert [query.params for query in fake.seen_pending[3]] == [trials[2].params]


def test_a_strategy_gets_the_key_of_the_trials_number(space, ladder, fake):
    study = fd.create_study(space, ladder, direction="maximize", strategy=fake, seed=9, initial={})
    study.add_observation({"x1": 0, "x2": 0}, "coarse", 1.0)
    expected = space.decode(space.sample(trial_key(9, 1).generator(), 1)[0])
    assert study.ask().params == expected


def test_without_any_data_the_default_asks_the_cheapest_fidelity_at_random(space, ladder):
    study = fd.create_study(space, ladder, direction="maximize", initial={})
    trials = [study.ask() for _ in range(4)]
    assert {trial.fidelity.name for trial in trials} == {"coarse"}
    assert len({tuple(trial.params.values()) for trial in trials}) == 4


def test_ask_with_a_budget_proposes_only_what_fits(space, ladder, fake):
    study = fd.create_study(space, ladder, direction="maximize", strategy="random", initial={})
    assert study.ask(budget=111).fidelity.name == "fine"
    assert study.ask(budget=111).fidelity.name == "medium"
    assert study.ask(budget=111).fidelity.name == "coarse"
    before = study.trials
    with pytest.raises(BudgetError, match="0 of 111, is below the cheapest run"):
        study.ask(budget=111)
    assert study.trials == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_a_value_that_is_not_finite_is_a_failed_trial_and_said_so(space, ladder, caplog, value):
    study = fd.create_study(space, ladder, direction="maximize")
    trial = study.ask()
    with caplog.at_level(logging.WARNING, "fidelium.study"):
        finished = study.tell(trial, value)
    assert finished.state == trial.state == "failed"
    assert finished.value is None
    assert "not a finite number" in (trial.reason or "")
    assert "not a finite number" in caplog.text
    assert study.history().failed[0].params == trial.params


@pytest.mark.parametrize("value", [3, np.float32(3), np.int64(3), np.array(3.0), np.array([3.0])])
def test_any_single_number_is_a_value(space, ladder, value):
    study = fd.create_study(space, ladder, direction="maximize")
    told = study.tell(study.ask(), value)
    assert told.value == 3.0
    assert type(told.value) is float


def test_a_trial_may_be_told_as_handle_record_or_number(space, ladder):
    study = fd.create_study(space, ladder, direction="maximize")
    handles = [study.ask() for _ in range(3)]
    study.tell(handles[0], 1.0)
    study.tell(study.trials[1], 2.0)
    study.tell(2, 3.0)
    assert [handle.value for handle in handles] == [1.0, 2.0, 3.0]


def test_changing_a_trials_params_changes_nothing(space, ladder):
    study = fd.create_study(space, ladder, direction="maximize")
    trial = study.ask()
    before = dict(trial.params)
    trial.params["x1"] = 99.0
    assert trial.params == before == study.trials[0].params


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1), ("minimize", -1)])
def test_the_model_answers_in_the_users_units_and_direction(space, ladder, fake, direction, sign):
    study = fd.create_study(space, ladder, direction=direction, strategy=fake, initial={})
    for x1, value in ((1.0, 4.0), (2.0, 6.0)):
        study.add_observation({"x1": x1, "x2": 0.0}, "fine", value)
    study.add_observation({"x1": 0.0, "x2": 0.0}, "coarse", -7.0)
    np.testing.assert_array_equal(study.history().observations[-1].y, [sign * 4.0, sign * 6.0])
    recommended = study.recommend()
    assert recommended.params == {"x1": pytest.approx(2.0 if sign > 0 else 1.0), "x2": 0.0}
    assert (recommended.mean, recommended.std) == (6.0 if sign > 0 else 4.0, 0.5)
    mean, std = study.predict([{"x1": 3, "x2": 3}, {"x1": 4, "x2": 4}])
    np.testing.assert_array_equal(mean, [5.0, 5.0])
    np.testing.assert_array_equal(std, [1.0, 1.0])
    mean, _ = study.predict([{"x1": 3, "x2": 3}], fidelity="coarse")
    np.testing.assert_array_equal(mean, [-7.0])


def test_the_model_is_fitted_once_per_finished_trial(space, ladder, fake):
    study = fd.create_study(space, ladder, direction="maximize", strategy=fake, initial={})
    study.add_observation({"x1": 0.0, "x2": 0.0}, "fine", 1.0)
    study.recommend()
    study.predict([{"x1": 1, "x2": 1}])
    running = study.ask()
    study.recommend()
    assert fake.fits == [1]
    study.tell(running, 2.0)
    study.recommend()
    assert fake.fits == [1, 2]


def test_without_data_the_model_says_so(space, ladder, fake):
    study = fd.create_study(space, ladder, direction="maximize", strategy=fake)
    study.tell(study.ask(), failed="crashed")
    for question in (study.recommend, lambda: study.predict([{"x1": 0, "x2": 0}])):
        with pytest.raises(NoDataError, match="nothing has been observed yet"):
            question()
    assert study.best is None


def test_a_parameter_named_like_a_column_gets_a_prefix(ladder):
    study = fd.create_study({"value": fd.Real(0, 1)}, ladder, direction="maximize")
    study.tell(study.ask(), 5.0)
    table = study.to_dataframe()
    assert table["value"].tolist() == [5.0]
    assert table["params_value"].tolist() == [study.trials[0].params["value"]]


def test_many_threads_may_ask_and_tell(space, ladder):
    study = fd.create_study(space, ladder, direction="maximize", strategy="random")

    def work() -> None:
        for _ in range(20):
            trial = study.ask()
            study.tell(trial, float(trial.number))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [trial.number for trial in study.trials] == list(range(80))
    assert [trial.value for trial in study.trials] == [float(number) for number in range(80)]


def test_the_representation_says_what_matters(space, ladder):
    study = fd.create_study(space, ladder, direction="minimize", name="plate", initial={"coarse": 1, "fine": 1})
    study.ask()
    study.tell(study.ask(), 2.5)
    text = repr(study)
    for part in ("'plate'", "minimize 'fine'", "1 coarse", "0 medium", "1 running", "spent 101", "best 2.5"):
        assert part in text
    assert math.isinf(study.history().remaining)


def test_integers_and_categories_come_as_plain_python_values(ladder):
    space = {"n": fd.Integer(1, 8), "material": fd.Categorical(["steel", "copper"]), "flag": fd.Categorical([True, 1])}
    study = fd.create_study(space, ladder, direction="maximize", strategy="random", initial={"coarse": 6})
    for _ in range(8):
        params = study.ask().params
        assert type(params["n"]) is int
        assert params["material"] in ("steel", "copper")
        assert type(params["flag"]) in (bool, int)


def test_asking_in_memory_starts_no_thread(monkeypatch):
    study = fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("only", 1)], direction="maximize", strategy="random")

    def refuse(*args, **kwargs):
        raise AssertionError("a thread was started")

    monkeypatch.setattr(threading, "Thread", refuse)
    assert [study.ask().number for _ in range(3)] == [0, 1, 2]
