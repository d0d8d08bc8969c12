"""Fidelities that do not use all columns: what is learned there still informs about the target."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.history import Observations, as_seen
from fidelium.randomness import Key
from fidelium.surrogates.gp.covariances import Additive, Convolved, Coregionalised
from fidelium.surrogates.gp.inputs import SeenCovariance, SeenKernel
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.gp.nonlinear import NonlinearAutoregressive
from fidelium.surrogates.inputs import all_used, seen_by
from fidelium.surrogates.learning import LENGTH, LENGTH_LOG_STD, widening
from fidelium.surrogates.multitask_nn import SharedFeatures
from fidelium.surrogates.stacked_dnn.architecture import Architecture
from fidelium.surrogates.stacked_dnn.closed_form import ClosedFormStack
from fidelium.surrogates.stacked_dnn.features import CosineFamily
from fidelium.surrogates.stacked_dnn.priors import ALIKE, Kind, layer_prior, with_new_inputs
from fidelium.surrogates.success import SuccessModel

KEY = Key((2,))
USED = (True, False)
SURROGATES = {
    "stack": ClosedFormStack(CosineFamily(32, 16, 8, 4), members=2, steps=40),
    "additive": GaussianProcess(Additive(), starts=1, steps=40),
    "coregionalised": GaussianProcess(Coregionalised(), starts=1, steps=40),
    "convolved": GaussianProcess(Convolved(), starts=1, steps=40),
    "shared features": GaussianProcess(SharedFeatures(Architecture((16, 16), "tanh")), starts=1, steps=60),
    "non-linear": NonlinearAutoregressive(starts=1, steps=40),
}


def panel(x: np.ndarray) -> np.ndarray:
    return np.sin(7 * x[:, 0])


def solid(x: np.ndarray) -> np.ndarray:
    return panel(x) + 0.6 * x[:, 1]


@pytest.mark.parametrize("name", SURROGATES)
def test_a_fidelity_with_one_input_informs_about_the_target(name):
    generator = np.random.default_rng(0)
    low, high, test = generator.random((16, 2)), generator.random((6, 2)), generator.random((60, 2))
    target = Observations(high, solid(high))

    def error(lowest: Observations) -> float:
        posterior = SURROGATES[name].fit([lowest, target], KEY)
        mean = np.asarray(jax.vmap(posterior.marginals)(jnp.asarray(test))[0])[:, -1]
        return float(np.std(posterior.scales()[-1].outward(mean) - solid(test)) / np.std(solid(test)))

    nothing = Observations(np.empty((0, 2)), np.empty(0), used=USED)
    with_panel = error(Observations(low, panel(low), used=USED))
    alone = error(nothing)
    assert with_panel < 0.7 * alone, (with_panel, alone)


def test_a_column_that_is_not_used_is_in_the_middle():
    x = np.array([[0.1, 0.9], [0.3, 0.2]])
    assert as_seen(USED, x).tolist() == [[0.1, 0.5], [0.3, 0.5]]
    assert as_seen(None, x) is x
    assert seen_by(USED, jnp.asarray(x[0])).tolist() == [0.1, 0.5]
    assert all_used((None, None)) is None
    assert all_used((USED, None)) == (USED, None)


def test_in_an_autoregression_what_a_fidelity_adds_sees_what_it_uses():
    generator = np.random.default_rng(1)
    x = generator.random((8, 2))
    seen = [Observations(x, panel(x), used=USED), Observations(x[:4], solid(x[:4]))]
    additive, other = (
        GaussianProcess(family, starts=1, steps=5).fit(seen, KEY).process.covariance
        for family in (Additive(), Coregionalised())
    )
    assert isinstance(additive.kernels[0], SeenKernel)  # type: ignore[attr-defined]
    assert isinstance(other, SeenCovariance)
    low, high = jnp.asarray(0), jnp.asarray(1)
    here, there = jnp.array([0.4, 0.1]), jnp.array([0.4, 0.9])
    # f_1(x) = f_0(P x) + delta(x): the target is as much related to the panel at any value of what that ignores
    assert float(additive((here, low), (there, high))) == pytest.approx(float(additive((here, low), (here, high))))
    assert float(additive((here, low), (here, low))) == pytest.approx(float(additive((here, low), (there, low))))
    assert float(other((here, low), (here, low))) == pytest.approx(float(other((here, low), (there, low))))
    assert float(other((here, high), (here, high))) > float(other((here, high), (there, high)))


def test_lengths_along_what_the_layer_below_ignores_are_not_taken_from_it():
    below = layer_prior(2, Kind.ALONE, None).mean
    below = jax.tree.map(lambda leaf: np.asarray(leaf - 1.0), below)
    usual = layer_prior(2, Kind.RESIDUAL, below)
    assert with_new_inputs(usual, Kind.RESIDUAL, None) is usual
    alone = layer_prior(2, Kind.ALONE, below)
    assert with_new_inputs(alone, Kind.ALONE, USED) is alone
    prior = with_new_inputs(usual, Kind.RESIDUAL, USED)
    known, new = prior.mean.process.log_lengths
    assert known == below.process.log_lengths[0]
    assert new == math.log(LENGTH) + widening(2)
    assert prior.std.process.log_lengths.tolist() == [ALIKE, LENGTH_LOG_STD]
    assert prior.std.detail.log_lengths.tolist() == [ALIKE, LENGTH_LOG_STD]
    assert prior.doubt is not None
    assert prior.doubt.process.log_lengths.tolist() == [ALIKE, LENGTH_LOG_STD]


def test_runs_do_not_fail_because_of_what_they_ignore():
    generator = np.random.default_rng(3)
    x = generator.random((30, 2))
    bad = x[:, 0] > 0.6
    nothing = np.empty((0, 2))
    model = SuccessModel(used=(USED, None))
    posterior = model.fit([x[~bad], nothing], [x[bad], nothing], KEY)
    chances = np.array([posterior.probabilities(jnp.array([a, b])) for a in (0.2, 0.9) for b in (0.1, 0.9)])
    np.testing.assert_allclose(chances[[0, 2], 0], chances[[1, 3], 0], rtol=1e-12)
    assert chances[0, 0] > 0.8 > 0.5 > chances[2, 0]
    assert chances[0, 1] > chances[2, 1]  # the target fails where the cheap code does, most likely
