"""How much risk a query takes: the least probability of success, and what it does to a worth."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.randomness import Key
from fidelium.space import Real, SearchSpace
from fidelium.surrogates.runs import CAUTION, LEAST_AFTER, LEAST_CHANCE, MOST_CHANCE, RECENT, Cautious
from fidelium.surrogates.success import SuccessModel, SuccessPosterior

SPACE = SearchSpace({"a": Real(0, 1), "b": Real(0, 1)})
LADDER = FidelityLadder((Fidelity("low", 1), Fidelity("high", 10)))
GRID = jnp.asarray(np.stack(np.meshgrid(np.linspace(0, 1, 15), np.linspace(0, 1, 15)), axis=-1).reshape(-1, 2))


def history(failed: list[bool]) -> History:
    states = [TrialState.FAILED if each else TrialState.DONE for each in failed]
    trials = tuple(
        Trial(n, {"a": 0.5, "b": n / 100}, LADDER[0], state, None if state is TrialState.FAILED else 0.0)
        for n, state in enumerate(states)
    )
    return History(SPACE, LADDER, Direction.MAXIMIZE, trials)


@pytest.fixture(scope="module")
def posterior() -> SuccessPosterior:
    """Low runs all succeed, those of the target where a < 0.5."""
    low, high = np.random.default_rng(0).random((2, 25, 2))
    below = high[:, 0] < 0.5
    return SuccessModel().fit([low, high[below]], [np.zeros((0, 2)), high[~below]], Key((0,)))


def cautions(posterior: SuccessPosterior, fidelity: int, least: float) -> tuple[np.ndarray, ...]:
    """The caution of every point of a grid, and its probabilities."""
    of = Cautious(posterior, jnp.asarray(least))
    caution = jax.vmap(lambda x: of.log_caution(x, fidelity))(GRID)
    here, then, _ = jax.vmap(lambda x: posterior.pair(x, fidelity))(GRID)
    return tuple(np.asarray(each) for each in (caution, here, then))


def test_no_probability_is_above_that_of_no_random_failure(posterior):
    assert np.all(jax.vmap(posterior.probabilities)(GRID) <= posterior.usual)
    assert 0.9 <= float(posterior.usual) <= 0.99


def test_the_least_probability_rises_with_recent_failures_up_to_the_most(posterior):
    runs = [[False] * 10, [True] + [False] * 9, [False] * 9 + [True], [False] * 7 + [True] * 3, [True] * 10]
    least = [float(Cautious.of(posterior, history(each)).least / posterior.usual) for each in runs]
    assert least[0] == pytest.approx(LEAST_CHANCE)
    assert least[1] == least[0]  # long ago: before the last RECENT
    assert least[0] < least[2] < least[3] <= least[4] <= MOST_CHANCE + 1e-12
    assert RECENT < 10
    assert MOST_CHANCE < 1


def test_a_design_that_is_sure_to_succeed_is_never_penalised(posterior):
    caution, here, _ = cautions(posterior, 1, MOST_CHANCE * float(posterior.usual))
    sure = here > 0.99 * float(posterior.usual)
    assert sure.any()
    assert np.all(caution[sure] == 0)


@pytest.mark.parametrize("fidelity", [0, 1])
def test_what_is_unlikely_to_succeed_is_penalised_the_more_the_less_likely(posterior, fidelity):
    caution, here, then = cautions(posterior, fidelity, 0.8)
    likely = (here >= 0.8) & (then >= LEAST_AFTER * 0.8)
    assert np.all(caution[likely] == 0)
    assert np.all(caution[~likely] < 0)
    assert np.all(caution <= CAUTION * np.minimum(np.log(here / 0.8), 0.0) + 1e-12)


def test_a_low_run_is_avoided_where_runs_of_the_target_are_known_to_fail(posterior):
    caution, here, then = cautions(posterior, 0, 0.8)
    beyond, within = np.asarray(GRID[:, 0]) > 0.7, np.asarray(GRID[:, 0]) < 0.3
    assert np.mean(here[beyond]) > 0.8  # it would succeed
    assert np.mean(then[beyond]) < 0.5
    assert np.mean(caution[beyond] < -5) > 0.8
    assert np.all(caution[within] == 0)
