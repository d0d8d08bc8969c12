"""Random search: uniform, at the highest fidelity that can be paid, no design twice while there are others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from fidelium.history import Query
from fidelium.randomness import Key, trial_key
from fidelium.space import Categorical, Integer, Real, SearchSpace
from fidelium.strategies.initial_design import RandomSearch

LINE = SearchSpace({"x": Real(-5, 10)})
SMALL = SearchSpace({"n": Integer(0, 2), "c": Categorical(("u", "v"))})


def test_designs_are_uniform(history_of):
    history = history_of(LINE)
    x = [RandomSearch().propose(history, (), trial_key(0, number)).params["x"] for number in range(300)]
    assert kstest((np.array(x) + 5) / 15, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("remaining", "fidelity"), [(1.0, 0), (9.99, 0), (10.0, 1), (float("inf"), 1)])
def test_it_asks_at_the_highest_fidelity_that_can_be_paid(history_of, remaining, fidelity):
    assert RandomSearch().propose(history_of(LINE, remaining=remaining), (), Key((0,))).fidelity == fidelity


def test_the_same_key_is_the_same_query_and_the_next_trial_another(history_of):
    history = history_of(LINE)
    first, again, other = (RandomSearch().propose(history, (), trial_key(7, number)) for number in (3, 3, 4))
    assert first == again
    assert first != other


def test_no_design_comes_twice_while_there_are_others(history_of):
    told, pending = [], []
    for number in range(6):
        query = RandomSearch().propose(history_of(SMALL, told), pending, trial_key(1, number))
        if number % 2:
            told.append((query.params, query.fidelity, 0.0))
        else:
            pending.append(query)
    asked = [query.params for query in pending] + [params for params, _, _ in told]
    assert len({str(params) for params in asked}) == 6


def test_failed_designs_do_not_come_back(history_of):
    every = [Query({"n": n, "c": c}, 1) for n in range(3) for c in ("u", "v")]
    query = RandomSearch().propose(history_of(SMALL, failed=every[:-1]), (), Key((0,)))
    assert query == every[-1]
