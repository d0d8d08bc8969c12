"""Tuning a study or a problem: the same observations as all experiments, and a report that can be pasted."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from fidelium import problems
from fidelium.errors import UnknownNameError
from fidelium.experiments.cell import initial_observations
from fidelium.experiments.tuning import Tuned, report, study_of, tune
from fidelium.strategies.surrogate_strategy import SurrogateStrategy
from fidelium.surrogates.stacked_dnn.architecture import Scored, StackArchitecture
from fidelium.surrogates.stacked_dnn.crossvalidation import CrossValidation
from fidelium.surrogates.stacked_dnn.variational import VariationalStack


@dataclass(frozen=True)
class Narrow(CrossValidation):
    """A score that is known: the narrower and slower the better; the splits are the seed's."""

    def scores(self, observations, architectures, key, tick=lambda share: None):
        tick(1.0)
        assert [len(seen) for seen in observations] == [5, 2]
        luck = key.generator().random()
        return np.array([-each.widths[0] - each.learning_rate + luck for each in architectures])


def test_a_study_of_a_problem_has_its_initial_observations():
    problem = problems.get("park1")
    study = study_of(problem, 3)
    seen = [(trial.params, trial.fidelity.name, trial.value) for trial in study.trials]
    assert seen == list(initial_observations(problem, 3))
    assert study.spent == 0


def test_a_study_and_its_observations_are_tuned_alike_and_another_seed_is_another_key():
    study = study_of(problems.get("park1"), 0)
    by_study = tune(study, "quick", validation=Narrow())
    by_arrays = tune(study.history().observations, "quick", validation=Narrow())
    assert by_study.scored == by_arrays.scored
    assert by_study.default.architecture == StackArchitecture.default(2)
    assert by_study.best.architecture == StackArchitecture((2, 2), (32, 32), 3e-4)
    assert by_study.scored != tune(study, "quick", seed=1, validation=Narrow()).scored


def test_smac_is_asked_for_fifty_evaluations_unless_it_is_limited():
    pytest.importorskip("smac")
    study = study_of(problems.get("park1"), 0)
    assert len(tune(study, "smac", evaluations=3, validation=Narrow()).scored) == 3
    assert len(tune(study, "smac", seconds=1e-6, validation=Narrow()).scored) == 1


def test_an_unknown_method_is_refused():
    with pytest.raises(UnknownNameError, match="unknown method 'grid'; known are 'smac', 'quick'"):
        tune(study_of(problems.get("park1"), 0), "grid")


def test_the_snippet_makes_the_strategy_and_the_report_is_json():
    default, better = StackArchitecture.default(2), StackArchitecture((2, 4), (32, 64), 3e-3)
    tuned = Tuned("quick", (Scored(default, -1.5), Scored(better, -1.0)), 12.5)
    names: dict[str, object] = {}
    exec(tuned.snippet(), names)
    strategy = names["strategy"]
    assert isinstance(strategy, SurrogateStrategy)
    assert strategy.surrogate == VariationalStack.of(better)
    (read,) = json.loads(json.dumps(report([tuned])))
    assert read["seconds"] == 12.5
    assert read["scored"][1] == {"depths": [2, 4], "widths": [32, 64], "learning_rate": 3e-3, "score": -1.0}
