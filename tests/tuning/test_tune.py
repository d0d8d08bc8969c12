"""Tuning a study or a problem: the same observations as all experiments, and a report that can be pasted."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import yaml

from fidelium import problems
from fidelium.errors import UnknownNameError
from fidelium.experiments.runner import initial_observations
from fidelium.history import Observations
from fidelium.strategies import registry
from fidelium.strategies.dnn_mfbo import DnnMfbo
from fidelium.study import create_study
from fidelium.surrogates.stacked_dnn.architecture import StackArchitecture
from fidelium.surrogates.stacked_dnn.variational import VariationalStack
from fidelium.tuning.cross_validation import CrossValidation
from fidelium.tuning.search import Scored
from fidelium.tuning.tune import Tuned, json_records, tune_architecture


@dataclass(frozen=True)
class Narrow(CrossValidation):
    """A score that is known: the narrower and slower the better; the splits are the seed's."""

    def scores(self, observations, architectures, key, tick=lambda share: None):
        tick(1.0)
        assert [len(seen) for seen in observations] == [5, 2]
        luck = key.generator().random()
        return np.array([-each.widths[0] - each.learning_rate + luck for each in architectures])


def observations(seed: int = 0) -> tuple[Observations, ...]:
    problem = problems.get("park1")
    study = create_study(problem.space, problem.ladder, direction=problem.direction, seed=seed, initial={})
    for params, fidelity, value in initial_observations(problem, seed):
        study.add_observation(params, fidelity, value)
    return study.history().observations


def test_the_best_score_wins_and_another_seed_is_another_key():
    tuned = tune_architecture(observations(), "quick", validation=Narrow())
    assert tuned.default.architecture == StackArchitecture.default(2)
    assert tuned.best.architecture == StackArchitecture((2, 2), (32, 32), 3e-4)
    assert tuned.scored != tune_architecture(observations(), "quick", seed=1, validation=Narrow()).scored


def test_smac_is_asked_for_fifty_evaluations_unless_it_is_limited():
    assert len(tune_architecture(observations(), "smac", evaluations=3, validation=Narrow()).scored) == 3
    assert len(tune_architecture(observations(), "smac", seconds=1e-6, validation=Narrow()).scored) == 1


def test_an_unknown_method_is_refused():
    with pytest.raises(UnknownNameError, match="unknown method 'grid'; known are 'smac', 'quick'"):
        tune_architecture(observations(), "grid")


def test_the_snippet_makes_the_strategy_and_the_report_is_json():
    default, better = StackArchitecture.default(2), StackArchitecture((2, 4), (32, 64), 3e-3)
    tuned = Tuned("quick", (Scored(default, -1.5), Scored(better, -1.0)), 12.5)
    python, yaml_line = tuned.snippet().splitlines()
    options = eval(python.partition("strategy_options=")[2].rstrip(")"))
    strategy = registry.resolve("dnn-mfbo-paper", options)
    assert isinstance(strategy, DnnMfbo)
    assert strategy.surrogate == VariationalStack.of(better)
    section = yaml.safe_load(yaml_line.partition("strategy: ")[2])
    assert section == {"name": "dnn-mfbo-paper", **options}
    (read,) = json.loads(json.dumps(json_records([tuned])))
    assert read["seconds"] == 12.5
    assert read["scored"][1] == {"depths": [2, 4], "widths": [32, 64], "learning_rate": 3e-3, "score": -1.0}
