"""Architectures: valid ones only, the default is the one that always was, and a network of its own per fidelity."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from fidelium.errors import NoDataError, SettingError
from fidelium.history import Observations
from fidelium.randomness import Key
from fidelium.surrogates.stacked_dnn.architecture import FEATURES, Architecture, StackArchitecture
from fidelium.surrogates.stacked_dnn.variational import VariationalStack
from fidelium.tuning.cross_validation import comparable_fidelities, require_comparable
from fidelium.tuning.search import Scored, best_scored, few_architectures


def observed(*counts: int) -> list[Observations]:
    generator = np.random.default_rng(0)
    return [Observations(generator.random((count, 1)), generator.normal(size=count)) for count in counts]


def test_a_network_of_depth_d_has_d_minus_1_hidden_layers_and_the_features():
    architecture = StackArchitecture((2, 12), (64, 512))
    assert architecture.networks[0].widths == (64, FEATURES)
    assert architecture.networks[1].widths == (512,) * 11 + (FEATURES,)


def test_the_default_is_the_stack_without_an_architecture():
    plain, named = VariationalStack(), VariationalStack.of(StackArchitecture.default(3))
    assert named.architecture == (plain.architecture,) * 3
    assert (named.learning_rate, named.epochs, named.nodes) == (plain.learning_rate, plain.epochs, plain.nodes)


@pytest.mark.parametrize(
    ("depths", "widths", "rate", "match"),
    [
        ((), (), 1e-3, "a depth and a width for each fidelity"),
        ((3, 3), (128,), 1e-3, "a depth and a width for each fidelity"),
        ((1,), (128,), 1e-3, "2 to 12 layers"),
        ((13,), (128,), 1e-3, "2 to 12 layers"),
        ((3,), (513,), 1e-3, "from 1 to 512"),
        ((3,), (0,), 1e-3, "from 1 to 512"),
        ((3,), (128,), 0.0, "learning_rate must be a finite number above 0, got 0.0"),
        ((3,), (128,), float("nan"), "learning_rate must be a finite number above 0, got nan"),
    ],
)
def test_an_architecture_out_of_range_is_refused(depths, widths, rate, match):
    with pytest.raises(SettingError, match=match):
        StackArchitecture(depths, widths, rate)


def test_every_fidelity_is_learned_with_its_own_network():
    networks = (Architecture((5, 3)), Architecture((4, 7, 2)))
    posterior = VariationalStack(networks, epochs=2).fit(observed(3, 2), Key((0,)))
    shapes = [[leaf.shape for leaf in jax.tree.leaves(layer.features) if leaf.ndim == 2] for layer in posterior.layers]
    assert shapes == [[(1, 5), (5, 3)], [(2, 4), (4, 7), (7, 2)]]


def test_the_same_network_for_all_is_that_network_for_each():
    network = Architecture((5, 3))
    alike, each = (VariationalStack(which, epochs=2) for which in (network, (network, network)))
    fits = [stack.fit(observed(3, 2), Key((0,))) for stack in (alike, each)]
    for one, other in zip(*map(jax.tree.leaves, fits), strict=True):
        np.testing.assert_array_equal(one, other)


def test_networks_for_another_number_of_fidelities_are_refused():
    with pytest.raises(SettingError, match="a network for each of 2 fidelities"):
        VariationalStack.of(StackArchitecture.default(3)).fit(observed(3, 2), Key((0,)))


def test_a_fidelity_is_tested_from_four_observations_on():
    assert comparable_fidelities(observed(4, 3, 20, 0)) == (0, 2)
    assert require_comparable(observed(3, 4)) == (1,)
    with pytest.raises(NoDataError, match="at least 4 observations of a fidelity, got 3/3"):
        require_comparable(observed(3, 3))


def test_the_best_has_the_highest_score_and_is_the_first_of_equals():
    first, second, third = (Scored(StackArchitecture.default(m), score) for m, score in ((1, 0.5), (2, 0.7), (3, 0.7)))
    assert best_scored([first, second, third]) is second


def test_the_quick_choice_is_among_a_few_different_architectures_and_the_default_is_the_first():
    few = few_architectures(3)
    assert few[0] == StackArchitecture.default(3)
    assert len(set(few)) == len(few)
    assert 6 <= len(few) <= 12
