"""Peers from outside, with their libraries: those that need PyTorch are skipped where it is not installed."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fidelium import problems
from fidelium.constraints import outcome_constraints
from fidelium.experiments import methods
from fidelium.experiments.runner import initial_observations
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.problems import Problem
from fidelium.randomness import trial_key
from fidelium.space import Categorical, Integer, Real, SearchSpace
from fidelium.strategies.base import Modelled, Strategy
from fidelium.timing import record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the libraries' warnings are not ours to fix
]

TARGET_ONLY = ("botorch-clogei", "botorch-logei", "egobox", "optuna-tpe", "smac")
CONSTRAINED = ("botorch-clogei", "egobox")
ALL_FIDELITIES = tuple(name for name in methods.peer_names() if name not in TARGET_ONLY)
LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("high", 10)))


def the_peer(name: str, monkeypatch: pytest.MonkeyPatch) -> Strategy:
    if name.startswith("botorch"):
        pytest.importorskip("botorch")
    if name == "egobox":
        pytest.importorskip("egobox")
    peer = methods.resolve_method(name)
    assert isinstance(peer, Strategy)
    if name == "botorch-mfkg":  # in seconds, not minutes
        from fidelium.experiments.peers import botorch
        from fidelium.experiments.peers.botorch import Search

        monkeypatch.setattr(botorch, "FANTASIES", 8)
        monkeypatch.setattr(botorch, "QUICK", Search(restarts=2, raw_samples=16, steps=50))
    return peer


def start(problem: Problem, remaining: float) -> History:
    trials = [
        Trial(number, params, problem.ladder[problem.ladder.index(name)], TrialState.DONE, value, given=True)
        for number, (params, name, value) in enumerate(initial_observations(problem, 0))
    ]
    return History(problem.space, problem.ladder, problem.direction, tuple(trials), remaining)


def seen(space: SearchSpace, value: Any, count: int, remaining: float = math.inf) -> History:
    """The same random designs observed at both fidelities, to be minimised."""
    designs = [space.decode(unit_x) for unit_x in space.sample(np.random.default_rng(1), count)]
    trials = [Trial(0, params, level, TrialState.DONE, value(params)) for level in LADDER for params in designs]
    return History(space, LADDER, Direction.MINIMIZE, tuple(trials), remaining)


@pytest.mark.parametrize("name", methods.peer_names())
def test_the_same_key_is_the_same_query_whatever_the_parameters(name, monkeypatch):
    peer = the_peer(name, monkeypatch)
    space = SearchSpace(
        {"size": Real(0.1, 10, log=True), "ribs": Integer(1, 6), "steel": Categorical(["mild", "hard", None])}
    )
    history = seen(space, lambda params: math.log(params["size"]) ** 2 + params["ribs"], 5)
    with record() as seconds:
        first, again = (peer.propose(history, (), trial_key(3, 1)) for _ in range(2))
    assert first == again
    assert space.validate(first.params) == first.params
    assert first.fidelity in history.affordable
    assert seconds["search"] > 0


@pytest.mark.parametrize("name", methods.peer_names())
def test_what_is_left_of_a_budget_is_spent_below_the_target(name, monkeypatch):
    peer = the_peer(name, monkeypatch)
    assert peer.propose(start(problems.get("park1"), remaining=9.0), (), trial_key(0, 1)).fidelity == 0


@pytest.mark.parametrize("name", methods.peer_names())
def test_without_an_observation_it_asks_a_valid_design(name, monkeypatch):
    peer, space = the_peer(name, monkeypatch), SearchSpace({"x": Real(0, 1), "n": Integer(0, 3)})
    query = peer.propose(History(space, LADDER, Direction.MINIMIZE), (), trial_key(0, 0))
    assert space.validate(query.params) == query.params


@pytest.mark.parametrize("name", methods.peer_names())
def test_it_looks_for_the_optimum_in_the_right_direction(name, monkeypatch):
    peer = the_peer(name, monkeypatch)
    history = seen(SearchSpace({"x": Real(0, 1)}), lambda params: (params["x"] - 0.3) ** 2, 14)
    asked = [peer.propose(history, (), trial_key(0, number)).params["x"] for number in range(3)]
    assert abs(np.median(asked) - 0.3) < 0.15  # of random designs one in four, and the worst are near 1


@pytest.mark.parametrize("name", ALL_FIDELITIES)
def test_a_cheap_fidelity_that_tells_as_much_is_asked_first(name, monkeypatch):
    history = seen(SearchSpace({"x": Real(0, 1)}), lambda params: math.sin(9 * params["x"]), 4)
    assert the_peer(name, monkeypatch).propose(history, (), trial_key(0, 1)).fidelity == 0


@pytest.mark.parametrize("name", ["botorch-logei", "botorch-mfmes", "botorch-stmf-mes", "botorch-mfkg"])
def test_the_model_predicts_what_it_saw_and_recommends_its_best(name, monkeypatch):
    peer, history = the_peer(name, monkeypatch), start(problems.get("park1"), remaining=300.0)
    assert isinstance(peer, Modelled)
    model, target = peer.model(history, trial_key(0, 1)), history.observations[-1]
    mean, std = model.predict(target.unit_x, 1)
    assert np.all(np.abs(mean - target.y) < 0.5 * np.ptp(target.y) + 3 * std)
    best = model.recommend()
    assert best.mean >= np.max(mean) - 1e-6 * np.ptp(target.y)


def limited(limit: str, count: int) -> History:
    """The target is x, to be minimised; an outcome is twice x."""
    space, constraints = SearchSpace({"x": Real(0, 1)}), outcome_constraints([limit])
    designs = [space.decode(unit_x) for unit_x in space.sample(np.random.default_rng(1), count)]
    trials = [
        Trial(0, params, LADDER[1], TrialState.DONE, params["x"], outcomes={"twice": 2 * params["x"]})
        for params in designs
    ]
    return History(space, LADDER, Direction.MINIMIZE, tuple(trials), constraints=constraints)


@pytest.mark.parametrize("name", CONSTRAINED)
@pytest.mark.parametrize(("limit", "best"), [("twice >= 0.8", 0.4), ("1.2 <= twice <= 1.4", 0.6)])
def test_it_looks_for_the_best_feasible_design(name, limit, best, monkeypatch):
    peer = the_peer(name, monkeypatch)
    asked = [peer.propose(limited(limit, 9), (), trial_key(0, number)).params["x"] for number in range(3)]
    assert abs(np.median(asked) - best) < 0.05


@pytest.mark.parametrize("name", CONSTRAINED)
def test_its_first_designs_are_spread_and_belong_to_the_seed(name, monkeypatch):
    peer, space = the_peer(name, monkeypatch), SearchSpace({"x": Real(0, 1), "y": Real(0, 1)})

    def first(seed: int, count: int) -> list[float]:
        trials: list[Trial] = []
        for number in range(count):
            history = History(space, LADDER, Direction.MINIMIZE, tuple(trials))
            query = peer.propose(history, (), trial_key(seed, number))
            assert query.fidelity == 1
            trials.append(Trial(number, query.params, LADDER[1], TrialState.DONE, 1.0))
        return [trial.params["x"] for trial in trials]

    found = first(0, 5)
    assert found == first(0, 5)
    assert found != first(1, 5)
    assert np.ptp(found) > 0.5


ONE_QUERY = """
import sys
import fidelium as fd
from fidelium.experiments import methods

space, ladder = fd.SearchSpace({"x": fd.Real(0, 1), "n": fd.Integer(0, 9)}), [fd.Fidelity("high", cost=1)]
peer = methods.resolve_method(sys.argv[1])
study = fd.create_study(space, ladder, direction="maximize", strategy=peer, seed=0, initial={})
for n, x in enumerate((0.1, 0.9, 0.3, 0.6)):
    study.add_observation({"x": x, "n": n}, "high", x * n)
print(study.ask().params)
"""


@pytest.mark.parametrize("name", ["optuna-tpe", "smac"])
def test_every_process_makes_the_same_query(name):
    asked = set()
    for salt in "12":  # of the hashes of texts, and so of the order of sets
        command, environment = [sys.executable, "-c", ONE_QUERY, name], os.environ | {"PYTHONHASHSEED": salt}
        asked.add(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    assert len(asked) == 1


def test_smac_leaves_no_file_and_no_word_behind(tmp_path, monkeypatch, caplog, capfd):
    peer = the_peer("smac", monkeypatch)
    monkeypatch.chdir(tmp_path)
    peer.propose(start(problems.get("park1"), remaining=300.0), (), trial_key(0, 1))
    assert list(tmp_path.iterdir()) == []
    assert caplog.messages == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["optuna-tpe", "smac"])
def test_a_finite_space_may_be_exhausted(name, monkeypatch):
    space = SearchSpace({"steel": Categorical(["mild", "hard"]), "ribs": Integer(1, 2)})
    query = the_peer(name, monkeypatch).propose(seen(space, lambda params: params["ribs"], 40), (), trial_key(0, 1))
    assert space.validate(query.params) == query.params


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "peers.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "sklearn_ucb"}
    exec(compile(example, "docs/peers.md", "exec", dont_inherit=True), names)
    history = seen(SearchSpace({"x": Real(0, 1)}), lambda params: (params["x"] - 0.3) ** 2, 14)
    query = names["UpperBound"]().propose(history, (), trial_key(0, 1))
    assert abs(query.params["x"] - 0.3) < 0.15
    assert query.fidelity == 1
