"""Every strategy by its name: both directions, all kinds of parameters, any ladder, running and failed trials."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest

import fidelium as fd
from fidelium.strategies import registry

EVERYTHING = bool(os.environ.get("FIDELIUM_TEST_EVERYTHING"))
"""All ladders with all strategies: a few minutes more, nearly all of them compiling."""

SPACE = fd.SearchSpace(
    {"size": fd.Real(0.1, 10, log=True), "ribs": fd.Integer(1, 6), "steel": fd.Categorical(["mild", "hard"])}
)
STEEL = {"mild": 0.0, "hard": 0.4}


def weight(params: dict[str, Any], fidelity: fd.Fidelity) -> float:
    bias = 0.1 / fidelity.cost
    return math.log(params["size"]) ** 2 + (params["ribs"] - 4 + bias) ** 2 / 5 + STEEL[params["steel"]] + bias


def ladder(height: int) -> list[fd.Fidelity]:
    return [fd.Fidelity(f"level {m}", cost=4.0**m) for m in range(height)]


HEIGHTS = {"dnn-mfbo": (1, 3, 5)} | dict.fromkeys(("mf-gp-ucb", "sf-ei", "random"), (1, 2, 3, 5))
LADDERS = [
    (strategy, height)
    for strategy in registry.strategy_names()
    for height in ((1, 2, 3, 5) if EVERYTHING else HEIGHTS.get(strategy, (1, 3)))
]


@pytest.mark.parametrize(("strategy", "height"), LADDERS)
def test_it_asks_valid_new_designs_whatever_the_ladder(strategy, height):
    sign = -1.0 if height % 2 else 1.0
    direction = "maximize" if height % 2 else "minimize"
    levels = ladder(height)
    study = fd.create_study(SPACE, levels, direction=direction, strategy=strategy, seed=height, initial={})
    for size, ribs, steel in [(0.5, 1, "mild"), (1.1, 3, "hard"), (4.0, 5, "mild"), (8.0, 2, "hard")]:
        for level in levels:
            params = {"size": size, "ribs": ribs, "steel": steel}
            study.add_observation(params, level.name, sign * weight(params, level))
    first, second = study.ask(), study.ask()  # the first still runs
    study.tell(first, failed="mesher crashed")
    third = study.ask()
    asked = [(trial.fidelity.name, *trial.params.values()) for trial in (first, second, third)]
    assert len(set(asked)) == 3
    for trial in (first, second, third):
        assert SPACE.validate(trial.params) == trial.params
        assert trial.fidelity in levels
    study.tell(second, sign * weight(second.params, second.fidelity))
    study.tell(third, sign * weight(third.params, third.fidelity))


# the paper's learning, to the letter, may end in a constant (spread counts as noise); random has no model
@pytest.mark.parametrize(
    "strategy", [name for name in registry.strategy_names() if name not in ("dnn-mfbo-paper", "random")]
)
def test_it_predicts_and_recommends_in_the_users_sign(strategy):
    levels = ladder(2)
    study = fd.create_study(SPACE, levels, direction="minimize", strategy=strategy, seed=1, initial={})
    for number in range(12):
        params = SPACE.decode(SPACE.sample(np.random.default_rng(number), 1)[0])
        for level in levels:
            study.add_observation(params, level.name, 1000 + weight(params, level))
    designs = [trial.params for trial in study.trials if trial.fidelity == levels[-1]]
    mean, std = study.predict(designs, fidelity=levels[-1].name)
    truth = np.array([weight(params, levels[-1]) for params in designs])
    assert np.corrcoef(mean, truth)[0, 1] > 0.9
    np.testing.assert_allclose(mean, 1000 + truth, atol=3)
    assert np.all(std > 0)
    recommended = study.recommend()
    assert SPACE.validate(recommended.params) == recommended.params
    assert recommended.mean < 1000 + np.median(truth)  # the low end is the good one
