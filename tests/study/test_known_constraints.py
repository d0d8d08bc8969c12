"""Known constraints in a study: every strategy keeps them, the optimum on their edge is found, changes are taken up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fidelium as fd
from fidelium.definition import StudyDefinition
from fidelium.errors import SpaceError
from fidelium.history import TrialState
from fidelium.randomness import Key
from fidelium.strategies import registry
from fidelium.strategies.initial_design import initial_design
from fidelium.study.transfer import fitting

LADDER = [fd.Fidelity("coarse", cost=1), fd.Fidelity("fine", cost=5)]
PARAMETERS = {
    "x": fd.Real(0, 1),
    "y": fd.Real(0.1, 10, log=True),
    "n": fd.Integer(1, 6),
    "core": fd.Categorical(["foam", "balsa", "oak"]),
}
CONSTRAINTS = ["x + n / 10 <= 0.9", "0.99 <= x * y <= 1.01", 'core != "oak"']
SPACE = fd.SearchSpace(PARAMETERS, CONSTRAINTS)


def weight(params: dict[str, Any], fidelity: fd.Fidelity) -> float:
    away = (params["x"] - 0.5) ** 2 + math.log(params["y"]) ** 2
    return away + params["n"] / 10 + (params["core"] == "foam") + 0.05 / fidelity.cost


def python_agrees(params: dict[str, Any]) -> bool:
    product = params["x"] * params["y"]
    return params["x"] + params["n"] / 10 <= 0.9 and 0.99 <= product <= 1.01 and params["core"] != "oak"


@pytest.mark.parametrize("strategy", registry.strategy_names())
def test_no_strategy_ever_violates_one(strategy):
    study = fd.create_study(
        SPACE, LADDER, direction="minimize", strategy=strategy, seed=3, initial={"coarse": 5, "fine": 3}
    )
    for _ in range(9):
        trial = study.ask()
        assert python_agrees(trial.params)
        study.tell(trial, weight(trial.params, trial.fidelity))
    first, second = study.ask(), study.ask()  # the first still runs
    study.tell(first, failed="mesher crashed")
    assert all(python_agrees(trial.params) for trial in (first, second, study.ask()))
    assert python_agrees(study.recommend().params)


def test_the_optimum_on_an_edge_is_found():
    # the smallest weight of a strut whose stiffness w h is at least 0.2: w + 2 h is least at w = sqrt(0.4), h = w / 2
    space = fd.SearchSpace({"w": fd.Real(0.05, 1), "h": fd.Real(0.05, 1)}, ["w * h >= 0.2"])
    study = fd.create_study(space, LADDER, direction="minimize", seed=1, initial={"coarse": 6, "fine": 2})
    study.optimize(lambda p, f: p["w"] + 2 * p["h"] + 0.1 / f.cost * math.sin(5 * p["w"]), budget=70, progress=False)
    best = study.best
    assert best is not None
    assert all(space.contains(trial.params) for trial in study.trials)
    assert best.params["w"] * best.params["h"] == pytest.approx(0.2, abs=1e-6)  # on the edge
    assert best.value == pytest.approx(2 * math.sqrt(0.4), abs=0.05)


def test_a_random_search_of_a_thin_set_keeps_to_it():
    space = fd.SearchSpace(
        {f"x{i}": fd.Real(0, 1) for i in range(6)}, ["0.999 <= x0 + x1 + x2 + x3 + x4 + x5 <= 1.001"]
    )
    study = fd.create_study(
        space, LADDER, direction="minimize", strategy="random", seed=0, initial={"coarse": 30, "fine": 10}
    )
    asked = [study.ask().params for _ in range(80)]
    assert all(0.999 <= sum(params.values()) <= 1.001 for params in asked)
    assert len({tuple(params.values()) for params in asked}) == 80


@pytest.mark.parametrize("constraint", ["a < b", "abs(a - b) <= 0.05", "0.999 <= a + b <= 1.001"])
def test_the_initial_design_is_spread_over_the_set(constraint):
    space = fd.SearchSpace({"a": fd.Real(0, 1), "b": fd.Real(0, 1)}, [constraint])
    queries = initial_design(space, fd.FidelityLadder(tuple(LADDER)), {"coarse": 32, "fine": 7}, Key((5,)))
    assert [query.fidelity for query in queries] == [0] * 32 + [1] * 7
    assert all(space.contains(query.params) for query in queries)
    designs = np.array([[query.params["a"], query.params["b"]] for query in queries[:32]])
    assert len(np.unique(designs, axis=0)) == 32
    # every design of the set is near one of them
    others = space.sample(np.random.default_rng(1), 500)
    farthest = np.max(np.min(np.linalg.norm(others[:, None] - designs[None], axis=2), axis=1))
    assert farthest < 0.3


def test_a_tiny_set_of_designs_is_exhausted_without_a_violation():
    space = fd.SearchSpace({"n": fd.Integer(0, 9), "m": fd.Integer(0, 9)}, ["n + m == 3"])
    study = fd.create_study(space, LADDER[1:], direction="minimize", strategy="random", initial={})
    asked = [tuple(study.ask().params.values()) for _ in range(8)]
    assert set(asked) == {(0, 3), (1, 2), (2, 1), (3, 0)}


def test_observations_that_violate_one_are_refused():
    study = fd.create_study(SPACE, LADDER, direction="minimize", strategy="random")
    with pytest.raises(SpaceError, match=r"violates 'x \+ n / 10 <= 0.9': 1.1 <= 0.9"):
        study.add_observation({"x": 1.0, "y": 1.0, "n": 1, "core": "foam"}, "coarse", 1.0)
    assert study.trials == ()


def test_the_model_predicts_where_a_constraint_is_violated():
    space = fd.SearchSpace({"x": fd.Real(0, 1)}, ["x <= 0.5"])
    study = fd.create_study(space, LADDER, direction="minimize", strategy="sf-ei", initial={})
    for x in (0.1, 0.2, 0.4):
        study.add_observation({"x": x}, "fine", x)
    mean, _ = study.predict([{"x": 0.45}, {"x": 0.55}])
    assert mean[1] > mean[0]
    with pytest.raises(SpaceError, match=r"expected a number in \[0, 1\]"):
        study.predict([{"x": 1.5}])


# --- changed constraints ---


def changed(storage: str, constraints: list[str]) -> fd.Study:
    space = fd.SearchSpace({"x": fd.Real(0, 1), "y": fd.Real(0, 1)}, constraints)
    return fd.create_study(
        space,
        LADDER,
        direction="minimize",
        strategy="random",
        storage=storage,
        name="it",
        load_if_exists=True,
        initial={},
    )


def test_changed_constraints_are_taken_up_and_said(tmp_path, caplog):
    storage = f"sqlite:///{tmp_path / 'it.db'}"
    with changed(storage, []) as study:
        for x in (0.1, 0.3, 0.9):
            study.add_observation({"x": x, "y": 0.5}, "fine", 1 - x)
        assert study.best is not None
        assert study.best.params["x"] == 0.9
    with caplog.at_level("INFO"), changed(storage, ["x <= y"]) as study:
        assert "parameter constraints: none -> x <= y; 3 trials kept" in caplog.text
        assert "1 of 3 trials are outside of the present bounds or violate parameter constraints" in caplog.text
        assert study.best is not None
        assert study.best.params["x"] == 0.3
        history = study.history()
        assert [len(seen) for seen in history.observations] == [0, 3]  # the model learns from all
        assert [len(seen) for seen in history.inside] == [0, 2]
        assert tuple(study.space.constraints) == ("x <= y",)
    with fd.load_study(storage, "it") as study:
        assert tuple(study.space.constraints) == ("x <= y",)
        assert study.changes()[-1].reason.startswith("parameter constraints: none -> x <= y")
    caplog.clear()
    with caplog.at_level("INFO"), changed(storage, ["x <= y"]):
        assert "changed" not in caplog.text


def test_a_queued_trial_that_violates_a_new_constraint_is_not_run(tmp_path):
    storage = f"sqlite:///{tmp_path / 'it.db'}"
    with changed(storage, ["y < x"]) as study:
        trial = study.ask()
        study.give_back(trial)
    with changed(storage, ["x < y"]) as study:
        asked = study.ask()
        assert asked.params["x"] < asked.params["y"]
        assert study.trials[0].state is TrialState.FAILED
        assert (
            study.trials[0].reason
            == "not run: the design is outside of the study's present bounds or parameter constraints"
        )


def test_data_of_another_study_that_violate_one_are_left_out():
    plain, tight = (
        StudyDefinition.of(fd.SearchSpace({"x": fd.Real(0, 1), "y": fd.Real(0, 1)}, constraints), LADDER, "minimize")
        for constraints in ((), ("x < y",))
    )
    study = fd.create_study(plain.space, LADDER, direction="minimize", strategy="random")
    study.add_observation({"x": 0.1, "y": 0.5}, "fine", 1.0)
    study.add_observation({"x": 0.6, "y": 0.5}, "fine", 2.0)
    found = fitting(plain, study.trials, tight)
    assert [row.value for row in found.observations] == [1.0]
    assert dict(found.left_out) == {"violating a parameter constraint of the new study": 1}
