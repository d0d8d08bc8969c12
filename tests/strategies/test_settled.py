"""Once only digits are left to gain within the limits: they are gained, and the rest is looked at, in turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fidelium.acquisition.base import Designs
from fidelium.acquisition.entropy import LEAST_RISE, EntropySearch, joint_gain
from fidelium.acquisition.maxima import SampledMaxima
from fidelium.constraints import outcome_constraints
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.numerics.backend import jax_session
from fidelium.randomness import Key, trial_key
from fidelium.space import Real, SearchSpace
from fidelium.strategies.dnn_mfbo import DnnMfbo
from fidelium.surrogates.runs import RunPosterior, fit_runs
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily

SPACE = SearchSpace({"a": Real(0, 1), "b": Real(0, 1)})
LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("high", 10)))
LIMITS = outcome_constraints(["load <= 1"])


class Settled(EntropySearch):
    """Finds every study settled."""

    def is_settled(self, posterior, f_star, history):
        return True


def strategy(search: type[EntropySearch]) -> DnnMfbo:
    designs = Designs(pool=48, local=12, starts=3)
    return DnnMfbo(
        ClosedFormStack(CosineFamily(16, 8, 8, 4), members=2, steps=12),
        search(joint_gain, draws=2, draw_starts=2, designs=designs, together=True),
        reserve_last=True,
        steady=Key((0, 0)),
    )


def history(extra: int = 0) -> History:
    """Maximise a where a + b <= 1: known at random designs, and near the best one."""
    generator = np.random.default_rng(0)
    designs = [(SPACE.decode(x), int(i > 8)) for i, x in enumerate(SPACE.sample(generator, 15))]
    designs += [({"a": 1 - gap, "b": 0.0}, 1) for gap in (0.05, 0.01)]
    designs += [({"a": 0.3, "b": 0.1 * i}, 0) for i in range(extra)]
    trials = [
        Trial(
            i, params, LADDER[m], TrialState.DONE, params["a"] + 0.05 * params["b"] * (1 - m),
            outcomes={"load": params["a"] + params["b"] + 0.1 * (1 - m)}, constraints=LIMITS,
        )
        for i, (params, m) in enumerate(designs)
    ]  # fmt: skip
    return History(SPACE, LADDER, Direction.MAXIMIZE, tuple(trials), 100.0, LIMITS)


@pytest.mark.parametrize(("above", "settled"), [(0.5 * LEAST_RISE, True), (2 * LEAST_RISE, False)])
def test_a_study_is_settled_when_no_sample_is_far_above_the_best_value(above: float, settled: bool):
    seen, ours = history(), strategy(EntropySearch)
    with jax_session():
        posterior = fit_runs(ours.surrogate, seen, Key((0, 0)))
        assert isinstance(posterior, RunPosterior)
        best = [float(member.scales()[-1].inward(np.array([0.99]))[0]) for member in posterior.members()]
        samples = [SampledMaxima(np.array([each - 1.0, each + above]), np.zeros((2, 2))) for each in best]
        assert ours.acquisition.is_settled(posterior, samples, seen) is settled
        for each, raised in zip(best, ours.acquisition.elsewhere(posterior, samples, seen), strict=True):
            np.testing.assert_allclose(raised.value, [each + LEAST_RISE, each + max(above, LEAST_RISE)], rtol=1e-12)


def test_without_limits_or_a_feasible_design_nothing_is_settled():
    seen, ours = history(), strategy(EntropySearch)
    worst = [replace(trial, outcomes={"load": 2.0}) for trial in seen.trials]
    with jax_session():
        posterior = fit_runs(ours.surrogate, seen, Key((0, 0)))
        assert isinstance(posterior, RunPosterior)
        samples = [SampledMaxima(np.full(2, -10.0), np.zeros((2, 2))) for _ in posterior.members()]
        assert ours.acquisition.is_settled(posterior, samples, seen)
        assert not ours.acquisition.is_settled(posterior, samples, replace(seen, trials=tuple(worst)))
        free = RunPosterior(posterior.value, (), (), None)
        assert not ours.acquisition.is_settled(free, samples, seen)


def test_a_settled_study_is_refined_and_explored_in_turn():
    ours = strategy(Settled)
    odd, even = history(0), history(1)
    assert len(odd.trials) % 2 == 1
    refined = ours.propose(odd, (), trial_key(0, 17))
    assert refined.fidelity == 1
    assert refined.worth is None  # not chosen by its gain
    assert refined.params["a"] == pytest.approx(1.0, abs=0.01)
    assert refined.params["a"] + refined.params["b"] <= 1.01
    explored = ours.propose(even, (), trial_key(0, 18))
    assert explored.worth is not None


def test_what_cannot_be_paid_is_not_refined():
    poor = replace(history(0), remaining=5.0)
    assert strategy(Settled).propose(poor, (), trial_key(0, 17)).fidelity == 0
