"""A study resumed with another definition: what may change is taken up, said and recorded, and the data are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fidelium as fd
from fidelium.errors import SettingError
from fidelium.history import Query, TrialState
from fidelium.storage import open_storage
from fidelium.strategies import registry

SPACE = {
    "width": fd.Real(0.01, 0.2),
    "layers": fd.Integer(1, 8),
    "core": fd.Categorical(["foam", "balsa", "steel"]),
}
LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 10)]
SPACE_POINT = {"width": 0.1, "layers": 2, "core": "foam"}
SETTINGS = {
    "direction": "minimize",
    "strategy": "random",
    "seed": 3,
    "name": "plate",
    "initial": {"coarse": 6, "fine": 3},
}


def value(params, fidelity) -> float:
    return (params["width"] - 0.05) ** 2 + params["layers"] / 100 + (fidelity.name == "coarse") / 10


@pytest.fixture(params=["sqlite", "memory"])
def storage(request, tmp_path):
    opened = open_storage(f"sqlite:///{tmp_path}/plate.db" if request.param == "sqlite" else None)
    yield opened
    opened.close()


def make(storage, space=SPACE, ladder=LADDER, **changes) -> fd.Study:
    return fd.create_study(space, ladder, storage=storage, load_if_exists=True, **(SETTINGS | changes))


@pytest.fixture
def run(storage):
    """A study that has spent 36 on nine trials of its design."""
    study = make(storage)
    study.optimize(value, 36, progress=False)
    return study


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"space": SPACE | {"width": fd.Real(0.01, 0.3)}}, "bounds of width: 0.01..0.2 -> 0.01..0.3"),
        ({"space": SPACE | {"layers": fd.Integer(1, 12)}}, "bounds of layers: 1..8 -> 1..12"),
        ({"space": SPACE | {"width": fd.Real(0.01, 0.2, log=True)}}, "scale of width: linear -> logarithmic"),
        (
            {"space": SPACE | {"core": fd.Categorical(["foam", "balsa", "steel", None])}},
            "choices of core: added None",
        ),
        ({"ladder": [LADDER[0], fd.Fidelity("fine", 25)]}, "cost of fine: 10 -> 25 for new trials"),
        ({"strategy": "sf-ei"}, "strategy: random -> sf-ei"),
        (
            {"strategy": "dnn-mfbo-paper", "strategy_options": {"architecture": "quick"}},
            "strategy: random -> dnn-mfbo-paper with {'architecture': 'quick'}",
        ),
        ({"seed": 4}, "seed: 3 -> 4"),
        ({"initial": {"coarse": 9}}, "initial design: 6 coarse, 3 fine -> 9 coarse, 0 fine"),
    ],
)
def test_what_may_change_is_taken_up_said_and_recorded(storage, run, caplog, changes, line):
    before, spent = run.trials, run.spent
    study = make(storage, **changes)
    assert caplog.messages == [f"{line}; {len(before)} trials kept"]
    assert [(trial.params, trial.value, trial.cost) for trial in study.trials] == [
        (trial.params, trial.value, trial.cost) for trial in before
    ]
    assert study.spent == spent
    (change,) = study.changes()
    assert (change.action, change.trial, change.reason) == ("redefine", None, line)
    assert "@" in change.who
    assert storage.open("plate").definition == study.definition  # it is what is stored now
    caplog.clear()
    make(storage, **changes)
    assert caplog.messages == []  # only once
    assert len(study.changes()) == 1
    if "strategy" not in changes:  # a quick one
        assert study.space.contains(study.ask().params)


def test_several_changes_are_one_record_and_a_line_each(storage, run, caplog):
    make(storage, SPACE | {"width": fd.Real(0.01, 0.3)}, seed=9, strategy="sf-ei")
    assert len(caplog.messages) == 3
    (change,) = run.changes()
    assert change.reason == "bounds of width: 0.01..0.2 -> 0.01..0.3; strategy: random -> sf-ei; seed: 3 -> 9"


def test_what_is_left_out_stays_as_it_is_stored(storage, run, caplog):
    study = make(storage, initial=None, seed=None)
    assert (study.seed, study.initial) == (3, {"coarse": 6, "fine": 3})
    assert caplog.messages == []
    assert study.changes() == ()


def test_an_order_that_means_nothing_is_not_a_change(storage, run, caplog):
    turned = {name: SPACE[name] for name in reversed(SPACE)} | {"core": fd.Categorical(["steel", "foam", "balsa"])}
    study = make(storage, turned | {"width": fd.Real(np.float64(0.01), 0.2)})
    assert study.space == run.space
    assert study.space.names == run.space.names
    assert caplog.messages == []


def test_an_objects_address_is_not_a_change(storage, caplog):
    class Plain:
        def propose(self, history, pending, key):
            return Query(SPACE_POINT, 0)

    make(storage, strategy=Plain(), initial={})
    study = make(storage, strategy=Plain(), initial={})
    assert caplog.messages == []
    assert study.ask().params == SPACE_POINT


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"direction": "maximize"}, "the direction was minimize and is maximize"),
        ({"space": SPACE | {"angle": fd.Real(0, 1)}}, "parameter 'angle' was added"),
        ({"space": {"width": SPACE["width"], "core": SPACE["core"]}}, "parameter 'layers' was removed"),
        ({"space": SPACE | {"layers": fd.Real(1, 8)}}, "parameter 'layers' is now Real instead of Integer"),
        ({"ladder": LADDER[:1], "initial": {}}, "the fidelities were coarse, fine and are coarse"),
        (
            {"ladder": [fd.Fidelity("fine", 1), fd.Fidelity("coarse", 10)]},
            "the fidelities were coarse, fine and are fine, coarse",
        ),
    ],
)
def test_what_would_change_the_meaning_of_values_is_refused_with_what_to_do(storage, run, changes, why):
    with pytest.raises(SettingError) as caught:
        make(storage, **changes)
    assert str(caught.value) == (
        f"the stored study 'plate' is about another problem: {why}; give the new one another name, and take over the "
        "data that fit with: fidelium run NEW.yaml --from OLD.yaml"
    )
    assert run.changes() == ()
    assert make(storage).definition == run.definition


def test_a_new_cost_holds_for_new_trials_and_the_budget_counts_what_was_charged(storage, run):
    study = make(storage, ladder=[fd.Fidelity("coarse", 2), fd.Fidelity("fine", 30)])
    assert [trial.cost for trial in study.trials] == [trial.cost for trial in run.trials]
    assert study.spent == 36
    study.optimize(value, 36 + 2 + 30, progress=False)
    assert [trial.cost for trial in study.trials[9:]] == [30, 2]
    assert study.spent == 68
    with fd.load_study(storage, "plate") as loaded:
        assert loaded.spent == 68
        assert loaded.ladder.costs == (2, 30)


NARROW = SPACE | {"width": fd.Real(0.08, 0.2), "core": fd.Categorical(["foam", "steel"])}


def test_after_narrowing_the_best_and_the_recommendation_are_inside_and_the_record_is_whole(storage, caplog):
    study = make(storage, initial={})
    designs = [(0.05, "foam"), (0.03, "foam"), (0.01, "foam"), (0.09, "foam"), (0.15, "steel"), (0.18, "balsa")]
    for width, core in designs:
        for rung in LADDER:
            params = {"width": width, "layers": 1, "core": core}
            study.add_observation(params, rung.name, value(params, rung))
    assert study.best is not None
    assert study.best.params["width"] == 0.05
    study = make(storage, NARROW, initial={}, strategy="sf-ei")
    assert caplog.messages[-1] == (
        "8 of 12 trials are outside of the present bounds: they stay in the record and are never suggested again or "
        "the best; 4 of them are near enough to stay in the model"
    )
    assert study.best is not None
    assert study.best.params == {"width": 0.09, "layers": 1, "core": "foam"}
    assert study.space.contains(study.recommend().params)
    assert len(study.trials) == len(study.to_dataframe()) == 12
    # 0.05 and 0.03 are within half of the new width; 0.01 is too far, and balsa has no column
    widths = [0.05, 0.03, 0.09, 0.15]
    seen = study.history().observations[1]
    np.testing.assert_allclose(seen.unit_x[:, 0], [(width - 0.08) / 0.12 for width in widths], atol=1e-9)
    assert len(study.history().inside[1]) == 2
    assert len(study.history().asked(1)) == 4
    wide = make(storage, initial={})
    assert wide.best is not None
    assert wide.best.params["width"] == 0.05
    assert len(wide.history().observations[1]) == 6


def test_numbers_without_a_place_on_a_new_log_scale_leave_the_model(storage):
    study = make(storage, {"x": fd.Real(-1, 1), "n": fd.Integer(0, 9)}, initial={})
    for x, n in [(-0.5, 0), (0.0, 5), (0.5, 0), (0.5, 5)]:
        study.add_observation({"x": x, "n": n}, "fine", x)
    study = make(storage, {"x": fd.Real(0.1, 1, log=True), "n": fd.Integer(1, 9, log=True)}, initial={})
    assert len(study.history().observations[1]) == 1
    assert study.best is not None
    assert study.best.params == {"x": 0.5, "n": 5}
    study.ask()


def test_what_is_queued_outside_of_narrowed_bounds_is_not_run(storage, caplog):
    study = make(storage, initial={})
    trials = [study.ask() for _ in range(12)]
    for trial in trials:
        study.give_back(trial)
    study = make(storage, NARROW, initial={})
    inside = [trial.number for trial in trials if study.space.contains(trial.params)]
    assert 0 < len(inside) < 12
    assert [study.ask().number for _ in range(len(inside) + 1)] == [*inside, 12]
    dropped = [trial for trial in study.trials if trial.state is TrialState.FAILED]
    assert sorted([*inside, *(trial.number for trial in dropped)]) == list(range(12))
    assert {trial.reason for trial in dropped} == {"not run: the design is outside of the study's present bounds"}


@pytest.mark.parametrize("strategy", registry.strategy_names())
def test_every_strategy_asks_inside_whatever_is_outside(strategy):
    # the best values are all outside, a failure and a running trial too, and some have no place in the model at all
    storage = open_storage(None)
    study = make(storage, initial={}, strategy="random")
    for number in range(8):
        params = study.space.decode(study.space.sample(np.random.default_rng(number), 1)[0])
        for rung in LADDER:
            study.add_observation(params, rung.name, -1 / params["width"])
    study.tell(study.ask(), failed="no mesh")
    study.ask()
    study = make(storage, NARROW | {"layers": fd.Integer(3, 6)}, initial={}, strategy=strategy)
    for _ in range(2):
        trial = study.ask()
        assert study.space.contains(trial.params)
        study.tell(trial, 1.0)
    recommended = study.recommend()
    assert study.space.contains(recommended.params)
    assert math.isfinite(recommended.mean)


def test_every_observation_outside_is_survived():
    storage = open_storage(None)
    study = make(storage, initial={})
    for number in range(5):
        study.add_observation({"width": 0.01 + number / 1000, "layers": 1, "core": "foam"}, "fine", float(number))
    study = make(storage, SPACE | {"width": fd.Real(0.018, 0.05)}, initial={}, strategy="mf-sko")
    assert study.best is None
    assert study.space.contains(study.ask().params)
    assert study.space.contains(study.recommend().params)


def test_the_initial_design_is_not_paid_for_again_when_its_points_move(tmp_path):
    url, ladder = f"sqlite:///{tmp_path}/s.db", [fd.Fidelity("low", cost=1), fd.Fidelity("high", cost=5)]

    def resumed(low: float, high: float, seed: int = 0) -> fd.Study:
        return fd.create_study(
            {"x": fd.Real(low, high)},
            ladder,
            direction="minimize",
            strategy="random",
            initial={"low": 4, "high": 2},
            seed=seed,
            storage=url,
            load_if_exists=True,
        )

    with resumed(0, 1) as study:
        study.optimize(lambda params, _: params["x"], budget=14, progress=False)
    for bounds, seed in (((0, 2), 0), ((0, 2), 1)):
        with resumed(*bounds, seed=seed) as study:
            assert study.ask().fidelity.name == "high"  # as random search asks: at the target

    with resumed(0, 0.3) as study:  # but where few runs are left within the bounds, the design fills up
        left = sum(trial.fidelity.name == "low" and trial.params["x"] <= 0.3 for trial in study.trials)
        asked = [study.ask().fidelity.name for _ in range(8)]
        assert asked.count("low") == 4 - left
