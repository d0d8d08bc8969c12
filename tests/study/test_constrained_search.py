"""Searching with constraints and failures: every strategy that takes them, and problems with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

import fidelium as fd
from fidelium.history import TrialState

LADDER = [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 5)]
SPACE = {"a": fd.Real(0, 1), "b": fd.Real(0, 1)}
TAKE_CONSTRAINTS = ("dnn-mfbo", "mf-mes", "sf-mes", "nargp-mes", "mtnn-bo", "sf-ei", "random")


ARC = np.linspace(0, np.pi / 2, 10**4)


def disk(params, fidelity) -> dict[str, float]:
    """Minimise a + 1.02 b outside of a disk about the origin: the best design is at an end of the arc, (0.7, 0)."""
    a, b = params["a"], params["b"]
    off = 0.03 * np.sin(6 * a) if fidelity.name == "coarse" else 0.0
    return {"value": a + 1.02 * b + off, "radius": float(np.hypot(a, b)) + off, "unused": a}


OPTIMUM = float(np.min(0.7 * (np.cos(ARC) + 1.02 * np.sin(ARC))))


@pytest.mark.parametrize("strategy", TAKE_CONSTRAINTS)
def test_every_strategy_that_takes_constraints_asks_and_recommends(strategy):
    study = fd.create_study(
        SPACE,
        LADDER,
        direction="minimize",
        strategy=strategy,
        initial={"coarse": 8, "fine": 4},
        constraints=["radius >= 0.7"],
    )
    study.optimize(disk, 8 + 4 * 5 + 10, progress=False)
    asked = study.trials[12:]
    assert asked
    assert all(trial.state is TrialState.DONE and trial.feasible is not None for trial in asked)
    best = study.best
    assert best is not None
    assert best.outcomes["radius"] >= 0.7
    assert best.value == min(
        t.value for t in study.trials if t.fidelity.name == "fine" and t.feasible and t.value is not None
    )
    choice = study.recommend()
    assert choice.feasible_probability is not None
    assert 0 <= choice.feasible_probability <= 1
    assert choice.trial is not None or choice.feasible_probability >= 0.9


def test_the_default_finds_the_constrained_optimum():
    study = fd.create_study(SPACE, LADDER, direction="minimize", seed=3, constraints=["radius >= 0.7"])
    study.optimize(disk, 80, progress=False)
    best = study.best
    assert best is not None
    assert best.value is not None
    assert best.value >= OPTIMUM - 1e-6
    assert best.value <= OPTIMUM + 0.01


def fails_beyond(params, fidelity) -> float:
    """The best value is where runs fail; of those that succeed, it is on the edge."""
    if params["a"] + params["b"] > 1.1:
        raise RuntimeError("the mesher died")
    return -((params["a"] - 0.8) ** 2) - (params["b"] - 0.5) ** 2


@pytest.mark.parametrize("strategy", ["dnn-mfbo", "sf-ei", "mf-sko"])
def test_failures_are_learned(strategy):
    def failed(failure_model: bool) -> int:
        study = fd.create_study(
            SPACE,
            LADDER,
            direction="maximize",
            strategy=strategy,
            seed=1,
            initial={"coarse": 8, "fine": 4},
            failure_model=failure_model,
        )
        study.optimize(fails_beyond, 8 + 20 + 35, progress=False, max_failures=1000)
        return sum(trial.state is TrialState.FAILED for trial in study.trials)

    assert failed(True) <= max(5, 0.7 * failed(False))


def test_with_nothing_constrained_and_nothing_failed_queries_are_those_of_before():
    def queries(**more) -> list[dict]:
        study = fd.create_study(SPACE, LADDER, direction="minimize", seed=5, initial={"coarse": 6, "fine": 2}, **more)
        study.optimize(lambda params, fidelity: disk(params, fidelity)["value"], 22, progress=False)
        return [trial.params for trial in study.trials]

    assert queries() == queries(failure_model=False)
