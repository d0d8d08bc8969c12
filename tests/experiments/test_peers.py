"""Peers from outside: refused in one sentence where they cannot run; where they can, strategies like any other."""

from __future__ import annotations

import numpy as np
import pytest

from fidelium import problems
from fidelium.cli import main
from fidelium.errors import SettingError, UnknownNameError
from fidelium.experiments import peers
from fidelium.experiments.cell import initial_observations
from fidelium.history import Direction, History, Trial, TrialState
from fidelium.randomness import trial_key
from fidelium.strategies.base import Modelled


@pytest.fixture
def no_extra(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)


@pytest.mark.parametrize("name", ["botorch-logei", "botorch-mfmes"])
def test_without_the_extra_a_peer_is_refused_with_what_to_install(no_extra, name):
    with pytest.raises(SettingError, match=rf"'{name}' needs BoTorch, .* pip install 'fidelium\[peers\]'"):
        peers.resolve(name)


def test_without_the_extra_the_command_line_says_so_in_one_line_and_runs_nothing(no_extra, capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["bench", "regret", "--strategy", "random", "--strategy", "botorch-mfmes", "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: 'botorch-mfmes' needs BoTorch")
    assert not (tmp_path / "out").exists()


def test_an_unknown_name_is_refused_as_everywhere(no_extra):
    with pytest.raises(UnknownNameError, match="unknown strategy 'botorch-nope'"):
        peers.check("botorch-nope")


def test_our_own_strategies_need_no_extra(no_extra):
    assert peers.resolve("dnn-mfbo") == "dnn-mfbo"


def test_gains_are_per_cost_and_a_sampled_gain_below_zero_is_no_reason_to_pay_more():
    assert peers._per_cost(0.5, 10.0) == 0.05
    assert peers._per_cost(-0.01, 1.0) > peers._per_cost(-0.01, 100.0)


def test_each_fidelity_is_standardised_even_when_there_is_no_spread():
    y = np.array([3.0, 5.0, 10.0])
    shift, scale = peers._units(y)
    assert np.mean((y - shift) / scale) == pytest.approx(0.0)
    assert np.var((y - shift) / scale, ddof=1) == pytest.approx(1.0)
    assert peers._units(np.array([4.0])) == (4.0, 1.0)
    assert peers._units(np.array([4.0, 4.0])) == (4.0, 1.0)


# --- where the extra is installed


@pytest.fixture
def history() -> History:
    """The start of a study of park1."""
    pytest.importorskip("botorch")
    problem = problems.get("park1")
    seen = enumerate(initial_observations(problem, 0))
    trials = [
        Trial(i, params, problem.ladder[problem.ladder.index(name)], TrialState.DONE, value, given=True)
        for i, (params, name, value) in seen
    ]
    assert problem.direction is Direction.MAXIMIZE
    return History(problem.space, problem.ladder, problem.direction, tuple(trials), remaining=300.0)


@pytest.mark.filterwarnings("ignore")  # PyTorch's and BoTorch's are not ours to mend
@pytest.mark.parametrize("name", ["botorch-logei", "botorch-mfmes"])
def test_a_peer_proposes_the_same_for_the_same_key_and_predicts_what_it_saw(history, name):
    peer = peers.resolve(name)
    assert isinstance(peer, Modelled)
    first, again = (peer.propose(history, (), trial_key(0, 1)) for _ in range(2))  # pyright: ignore[reportAttributeAccessIssue]
    assert first == again
    assert first.fidelity in history.affordable
    model, target = peer.model(history, trial_key(0, 1)), history.observations[-1]
    mean, std = model.predict(target.unit_x, len(history.ladder) - 1)
    assert np.all(np.abs(mean - target.y) < 0.5 * np.ptp(target.y) + 3 * std)
    best = model.recommend()
    assert best.mean >= np.max(mean) - 1e-6 * np.ptp(target.y)
