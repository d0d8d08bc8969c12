"""The contract with the default strategy: a real model behind ask, recommend and predict."""

from __future__ import annotations

import numpy as np
import pytest

import fidelium as fd

LADDER = [fd.Fidelity("coarse", cost=1), fd.Fidelity("fine", cost=10)]


def make(direction: str, seed: int = 0) -> fd.Study:
    return fd.create_study(
        {"x": fd.Real(-2, 2)}, LADDER, direction=direction, seed=seed, initial={"coarse": 6, "fine": 2}
    )


def parabola(params: dict[str, float], fidelity: fd.Fidelity) -> float:
    return 7.0 - (params["x"] - 1.0) ** 2 + (0.3 * params["x"] if fidelity.name == "coarse" else 0.0)


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
def test_it_finds_the_top_of_a_parabola_whichever_way_is_up(direction, sign):
    study = make(direction)
    best = study.optimize(lambda params, fidelity: sign * parabola(params, fidelity), 80)
    assert best is not None
    assert best.value == pytest.approx(sign * 7.0, abs=0.05)
    recommended = study.recommend()
    assert recommended.params["x"] == pytest.approx(1.0, abs=0.2)
    assert recommended.mean == pytest.approx(sign * 7.0, abs=0.2)
    mean, std = study.predict([recommended.params, {"x": 0.0}], fidelity="fine")
    assert mean[0] == pytest.approx(recommended.mean, abs=0.05)
    if recommended.trial is None:
        assert std[0] == pytest.approx(recommended.std, rel=1e-6)
    else:  # what was observed
        assert (recommended.mean, recommended.std) == (study.trials[recommended.trial].value, 0.0)
    assert abs(mean[1] - sign * 6.0) < 4 * std[1] + 0.1


def test_the_mirrored_objective_is_asked_at_the_same_designs():
    up, down = make("maximize"), make("minimize")
    up.optimize(parabola, 40)
    down.optimize(lambda params, fidelity: -parabola(params, fidelity), 40)
    assert [(t.params, t.fidelity) for t in up.trials] == [(t.params, t.fidelity) for t in down.trials]
    np.testing.assert_array_equal([t.value for t in up.trials], [-(t.value or 0.0) for t in down.trials])


def test_asks_before_a_tell_give_different_designs():
    study = make("maximize")
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, parabola(trial.params, trial.fidelity))
    asked = {(trial.params["x"], trial.fidelity.name) for trial in (study.ask() for _ in range(4))}
    assert len(asked) == 4


def test_it_starts_from_nothing_but_what_was_added():
    study = fd.create_study({"x": fd.Real(-2, 2)}, LADDER, direction="maximize", initial={})
    study.add_observation({"x": 0.0}, "coarse", 6.0)
    trial = study.ask()
    assert -2 <= trial.params["x"] <= 2
    assert trial.params["x"] != 0.0 or trial.fidelity.name != "coarse"
