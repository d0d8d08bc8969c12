"""Algorithm 1: pure, aware of pending and failed queries and of the budget, and unmoved by degenerate data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.acquisition.base import Designs
from fidelium.acquisition.entropy import EntropySearch, joint_gain, paper_gain
from fidelium.errors import BudgetError, NoDataError
from fidelium.history import History, Query
from fidelium.numerics.padding import SMALLEST_BUCKET
from fidelium.randomness import Key, trial_key
from fidelium.space import Categorical, Integer, Params, Real, SearchSpace
from fidelium.strategies.dnn_mfbo import DnnMfbo
from fidelium.strategies.registry import resolve
from fidelium.surrogates.stacked_dnn.architecture import Architecture
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.stacked_dnn.variational import VariationalStack

# every space here has three columns, so that all tests share what is compiled
BOX = SearchSpace({"a": Real(-5, 10), "b": Real(0, 15), "n": Integer(0, 9)})

OURS = DnnMfbo(
    ClosedFormStack(CosineFamily(16, 8, 8, 4), members=2, steps=12),
    EntropySearch(joint_gain, draws=2, draw_starts=2, designs=Designs(pool=48, local=12, starts=3), together=True),
    reserve_last=True,
    steady=Key((0, 0)),
)
PAPER = DnnMfbo(
    VariationalStack(Architecture((8, 6)), epochs=50),
    EntropySearch(
        paper_gain, draws=4, draw_starts=4, designs=Designs(pool=12, local=0, starts=4), raise_to_incumbent=False
    ),
)
BOTH = pytest.mark.parametrize("strategy", [OURS, PAPER], ids=["ours", "paper"])


def hill(params: Params, fidelity: int) -> float:
    value = -((params["a"] - 3) ** 2) / 20 - (params["b"] - 6) ** 2 / 30 + params["n"] / 10
    return value + (0.0 if fidelity else 0.2 * math.sin(params["a"]))


def told(space: SearchSpace = BOX, counts: Sequence[int] = (7, 3), function=hill) -> list[tuple[Params, int, float]]:
    generator = np.random.default_rng(0)
    designs = [(space.decode(row), m) for m, count in enumerate(counts) for row in space.sample(generator, count)]
    return [(params, m, function(params, m)) for params, m in designs]


@pytest.fixture(scope="module")
def history(history_of) -> History:
    return history_of(BOX, told())


@BOTH
def test_the_same_key_is_the_same_query_and_the_next_trial_another(history, strategy):
    first, again, other = (strategy.propose(history, (), trial_key(5, number)) for number in (2, 2, 3))
    assert first == again
    assert first != other
    assert BOX.validate(first.params) == first.params
    assert first.fidelity in (0, 1)


def test_the_same_history_told_anew_is_the_same_query(history, history_of):
    assert OURS.propose(history_of(BOX, told()), (), Key((1,))) == OURS.propose(history, (), Key((1,)))


@BOTH
def test_pending_queries_are_not_asked_again_and_all_in_a_row_differ(history, strategy):
    pending: list[Query] = []
    for _ in range(4):
        query = strategy.propose(history, pending, Key((4,)))  # one key: only the pending queries make a difference
        assert query not in pending
        pending.append(query)
    unit_x = history.encode(pending)
    apart = np.max(np.abs(unit_x[:, None] - unit_x[None]), axis=-1) + 10 * (
        np.array([q.fidelity for q in pending])[:, None] != np.array([q.fidelity for q in pending])
    )
    assert np.min(apart[np.triu_indices(4, 1)]) > 1e-6


@BOTH
def test_a_failed_query_is_not_asked_again(history, history_of, strategy):
    failed: list[Query] = []
    for _ in range(3):
        query = strategy.propose(history_of(BOX, told(), failed), (), Key((4,)))
        assert query not in failed
        failed.append(query)


@BOTH
@pytest.mark.parametrize("remaining", [1.0, 5.0, 9.99])
def test_a_fidelity_that_cannot_be_paid_is_never_asked(history_of, strategy, remaining):
    assert strategy.propose(history_of(BOX, told(), remaining=remaining), (), Key((0,))).fidelity == 0


@pytest.mark.parametrize(("remaining", "fidelity"), [(10.0, 1), (10.9, 1), (11.0, 0), (19.9, 0)])
def test_the_last_query_that_can_be_paid_at_the_target_is_kept_for_it(history_of, remaining, fidelity):
    assert OURS.propose(history_of(BOX, told(), remaining=remaining), (), Key((0,))).fidelity == fidelity


def test_the_last_query_at_the_target_is_new_and_has_the_highest_mean(history_of):
    history = history_of(BOX, told(), remaining=10.0)
    model = OURS.model(history, Key((9,)))  # steady: the same posterior whatever the key
    others, _ = model.predict(BOX.sample(np.random.default_rng(1), 1000), 1)
    for number in range(4):
        query = OURS.propose(history, (), Key((number,)))
        assert query.params not in [params for params, m, _ in told() if m == 1]
        (mean,), _ = model.predict(BOX.encode(query.params)[None], 1)
        assert mean >= np.max(others)


def test_it_climbs_a_hill(history_of):
    told_so_far = told(counts=(6, 2))
    first = max(value for _, m, value in told_so_far if m)
    for number in range(6):
        query = OURS.propose(history_of(BOX, told_so_far), (), trial_key(0, number))
        told_so_far.append((query.params, query.fidelity, hill(query.params, query.fidelity)))
    recommended = OURS.model(history_of(BOX, told_so_far), Key((0,))).recommend()
    assert hill(BOX.decode(recommended.unit_x), 1) > max(first, -0.5)


SMALL = SearchSpace({"n": Integer(0, 2), "c": Categorical(("u", "v"))})


def rough(params: Params, fidelity: int) -> float:
    return params["n"] * (1.0 if params["c"] == "u" else -1.0) + 0.1 * fidelity


@BOTH
def test_a_finite_space_is_asked_without_repeats_until_it_is_exhausted(history_of, strategy):
    so_far = told(SMALL, (1, 0), rough)
    pending: list[Query] = []
    for number in range(11):
        query = strategy.propose(history_of(SMALL, so_far), pending, trial_key(2, number))
        if number % 3 == 2:
            pending.append(query)
        else:
            so_far.append((query.params, query.fidelity, rough(query.params, query.fidelity)))
    asked = [(str(query.params), query.fidelity) for query in pending] + [(str(params), m) for params, m, _ in so_far]
    assert len(asked) == 12
    assert len(set(asked)) == 12  # six designs at two fidelities, each once
    exhausted = strategy.propose(history_of(SMALL, so_far), pending, Key((0,)))
    assert SMALL.validate(exhausted.params) == exhausted.params


MIXED = SearchSpace({"x": Real(1e-6, 1e6, log=True), "c": Categorical(("u", "v"))})


@BOTH
def test_proposals_in_a_mixed_space_are_valid_and_encoded_exactly(history_of, strategy):
    history = history_of(MIXED, told(MIXED, (5, 2), lambda params, m: math.log(params["x"]) * (params["c"] == "u")))
    for number in range(2):
        query = strategy.propose(history, (), trial_key(0, number))
        assert MIXED.validate(query.params) == query.params
        encoded = MIXED.encode(query.params)
        assert MIXED.snap(encoded[None])[0].tobytes() == encoded.tobytes()


HERE, THERE = {"a": 1.0, "b": 2.0, "n": 3}, {"a": 7.0, "b": 11.0, "n": 8}
DEGENERATE: dict[str, list[tuple[Params, int, float]]] = {
    "one low": [(HERE, 0, 3.0)],
    "one target": [(HERE, 1, -3.0)],
    "all zero": [(HERE, 0, 0.0), (THERE, 0, 0.0), (HERE, 1, 0.0)],
    "constant": [(params, m, 1e12) for params, m, _ in told()],
    "tiny": [(params, m, 1e-12 * value) for params, m, value in told()],
    "huge": [(params, m, 1e12 * value) for params, m, value in told()],
    "shifted": [(params, m, 1e9 + value) for params, m, value in told()],
    "repeated": [(HERE, 0, 1.0)] * 5 + [(HERE, 1, 1.0)] * 3,
    "contradicting": [(HERE, 0, value) for value in (1.0, -1.0, 5.0)] + [(HERE, 1, 1.0), (HERE, 1, 100.0)],
    "outlier": [*told(), (HERE, 0, -1e15), (THERE, 1, -1e15)],
    "opposed": [(params, m, value if m else -value) for params, m, value in told()],
}


@BOTH
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_give_a_valid_query_without_a_warning(history_of, strategy, name):
    history = history_of(BOX, DEGENERATE[name])
    query = strategy.propose(history, (Query(THERE, 0), Query(THERE, 1)), Key((3,)))
    assert BOX.validate(query.params) == query.params
    assert query not in (Query(THERE, 0), Query(THERE, 1))


@BOTH
@pytest.mark.parametrize("name", ["one low", "constant", "contradicting", "huge"])
def test_degenerate_data_give_finite_predictions_and_a_recommendation(history_of, strategy, name):
    model = strategy.model(history_of(BOX, DEGENERATE[name]), Key((3,)))
    for fidelity in range(2):
        mean, std = model.predict(BOX.sample(np.random.default_rng(0), 5), fidelity)
        assert np.all(np.isfinite(mean))
        assert np.all(std >= 0)
    recommended = model.recommend()
    assert math.isfinite(recommended.mean)
    assert math.isfinite(recommended.std)


@BOTH
def test_without_data_the_cheapest_fidelity_is_asked_at_random_and_nothing_twice(history_of, strategy):
    failed, pending = [Query(HERE, 0)], [Query(THERE, 0)]
    for number in range(4):
        query = strategy.propose(history_of(BOX, failed=failed), pending, trial_key(0, number))
        assert query.fidelity == 0
        assert BOX.validate(query.params) == query.params
        assert query not in [*failed, *pending]
        pending.append(query)


@BOTH
def test_without_data_there_is_no_model(history_of, strategy):
    with pytest.raises(NoDataError, match="nothing to fit a model to"):
        strategy.model(history_of(BOX), Key((0,)))
    with pytest.raises(NoDataError, match="nothing to fit a model to"):
        strategy.model(history_of(BOX, failed=[Query(HERE, 0)]), Key((0,)))


def test_a_strategy_of_the_target_alone_asks_nothing_else_and_says_when_it_cannot_be_paid(history_of):
    alone = replace(OURS, target_only=True)
    assert alone.propose(history_of(BOX, told(), remaining=20.0), (), Key((0,))).fidelity == 1
    assert alone.propose(history_of(BOX), (), Key((0,))).fidelity == 1
    with pytest.raises(BudgetError, match=r"costs 10; the remaining budget is 9\.5"):
        alone.propose(history_of(BOX, told(), remaining=9.5), (), Key((0,)))


def test_a_steady_strategy_predicts_the_same_with_every_key_and_another_does_not(history):
    points = BOX.sample(np.random.default_rng(0), 5)
    for strategy, is_same in ((OURS, True), (replace(OURS, steady=None), False)):
        first, second = (strategy.model(history, Key((word,))).predict(points, 1)[0] for word in (1, 2))
        assert np.array_equal(first, second) == is_same


@BOTH
def test_the_model_is_the_surrogates_posterior_in_the_objectives_units(history, strategy):
    key, points = Key((5,)), BOX.sample(np.random.default_rng(0), 5)
    posterior = strategy.surrogate.fit(history.observations, strategy.steady or key.split(2)[0])
    model = strategy.model(history, key)
    means, variances = map(np.asarray, jax.vmap(posterior.marginals)(jnp.asarray(points)))
    for m, scale in enumerate(posterior.scales()):
        expected = scale.outward_moments(means[:, m], variances[:, m])
        np.testing.assert_allclose(model.predict(points, m), expected, rtol=1e-9)


def test_the_papers_strategy_has_the_papers_numbers():
    strategy = resolve("dnn-mfbo-paper")
    assert isinstance(strategy, DnnMfbo)
    assert strategy.surrogate == VariationalStack(Architecture((128, 128, 32)), epochs=5000, learning_rate=1e-3)
    assert strategy.acquisition == EntropySearch(
        paper_gain,
        draws=10,
        draw_starts=10,
        designs=Designs(pool=10, local=0, starts=10),
        raise_to_incumbent=False,
    )


@BOTH
def test_nothing_is_traced_while_the_data_grow_inside_a_bucket(history_of, traces, strategy):
    strategy.propose(history_of(BOX, told(counts=(9, 2))), (), Key((0,)))
    traces.on = True
    for counts in ((10, 2), (12, 5), (SMALLEST_BUCKET, 8)):
        strategy.propose(history_of(BOX, told(counts=counts)), (), Key(counts))
    assert traces.seen == []
    strategy.propose(history_of(BOX, told(counts=(SMALLEST_BUCKET + 1, 8))), (), Key((0,)))
    assert traces.seen != []  # the next bucket is traced, and seen to be
