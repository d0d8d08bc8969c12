"""An ensemble is the mixture of its members, in units of its own; draws take turns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fidelium.history import Observations
from fidelium.numerics.scaling import Scale, scale_rows
from fidelium.randomness import Key
from fidelium.surrogates.ensemble import Ensemble
from fidelium.surrogates.gp.covariances import Coregionalised
from fidelium.surrogates.gp.joint import GaussianProcess, JointPosterior

X = jnp.array([0.37])
UNITS = Scale(centre=1.0, spread=2.0), Scale(centre=-3.0, spread=0.5, shift=0.2, scale=4.0)
SCALES = (Scale(), Scale(centre=2.0, spread=3.0)), (Scale(centre=50.0, spread=10.0), Scale(shift=-1.0, scale=0.3))
"""The units of two members at two fidelities."""


@pytest.fixture(scope="module")
def members() -> list[JointPosterior]:
    """Two processes that learned different things."""

    def seen(steepness: float) -> list[Observations]:
        x = np.linspace(0.1, 0.9, 5)[:, None]
        return [Observations(x, np.sin(steepness * x[:, 0])), Observations(x[::2], np.cos(steepness * x[::2, 0]))]

    surrogate = GaussianProcess(Coregionalised(), starts=1, steps=20)
    return [surrogate.fit(seen(steepness), Key((0,))) for steepness in (5.0, 9.0)]


def in_scales(member: JointPosterior, scales: tuple[Scale, ...]) -> JointPosterior:
    """The member as if its values were in these units."""
    return JointPosterior(member.process, member.noise, jnp.asarray(scale_rows(scales)))


@pytest.fixture(scope="module")
def ensemble(members) -> Ensemble:
    in_units = [in_scales(member, scales) for member, scales in zip(members, SCALES, strict=True)]
    return Ensemble.of(in_units, UNITS)


def outward(scale: Scale, value: float | jax.Array) -> float:
    return scale.centre + scale.spread * (scale.shift + scale.scale * float(value))


def inward(scale: Scale, value: float) -> jax.Array:
    return jnp.asarray(((value - scale.centre) / scale.spread - scale.shift) / scale.scale)


def unit(scale: Scale) -> float:
    return scale.spread * scale.scale


@pytest.mark.parametrize("fidelity", [0, 1])
def test_a_mixture_has_the_mean_of_the_means_and_the_total_variance(members, ensemble, fidelity):
    # Var = E[var] + Var[mean]
    each = [[part[fidelity] for part in member.marginals(X)] for member in members]
    means = [outward(scales[fidelity], mean) for scales, (mean, _) in zip(SCALES, each, strict=True)]
    variances = [unit(scales[fidelity]) ** 2 * float(var) for scales, (_, var) in zip(SCALES, each, strict=True)]
    mean, variance = (part[fidelity] for part in ensemble.marginals(X))
    assert outward(UNITS[fidelity], mean) == pytest.approx(np.mean(means), rel=1e-9)
    assert unit(UNITS[fidelity]) ** 2 * float(variance) == pytest.approx(np.mean(variances) + np.var(means), rel=1e-9)
    assert ensemble.scales() == UNITS


def test_draws_take_turns_and_are_those_of_the_members(ensemble):
    paths = ensemble.draw_paths(jr.key(0), 5)
    values = paths(X)
    assert values.shape == (5,)
    for i, member in enumerate(ensemble.members()):
        drawn = member.draw_paths(jr.split(jr.key(0), 2)[i], 3)(X)
        ours = [outward(UNITS[1], value) for value in values[i::2]]
        np.testing.assert_allclose(ours, [outward(SCALES[i][1], value) for value in drawn[: len(ours)]], rtol=1e-9)
    np.testing.assert_allclose([paths.at(jnp.asarray(i), X) for i in range(5)], values, rtol=1e-9)


def test_given_a_value_that_one_member_cannot_believe_the_other_one_speaks(members, ensemble):
    value = outward(SCALES[1][0], members[1].marginals(X)[0][0])  # about 50; the first one's values are about 0
    mean, variance = ensemble.target_given(X, 0, inward(UNITS[0], value))
    own_mean, own_variance = members[1].target_given(X, 0, inward(SCALES[1][0], value))
    assert outward(UNITS[1], mean) == pytest.approx(outward(SCALES[1][1], own_mean), rel=1e-6)
    assert unit(UNITS[1]) ** 2 * float(variance) == pytest.approx(
        unit(SCALES[1][1]) ** 2 * float(own_variance), rel=1e-6
    )


def test_the_noise_is_the_members_on_average(members, ensemble):
    each = [
        float(member.noise_var(1, inward(scales[1], 2.0))) * unit(scales[1]) ** 2
        for member, scales in zip(members, SCALES, strict=True)
    ]
    ours = float(ensemble.noise_var(1, inward(UNITS[1], 2.0))) * unit(UNITS[1]) ** 2
    assert ours == pytest.approx(np.mean(each), rel=1e-9)


def test_another_posterior_is_its_own_only_member(members):
    assert members[0].members() == (members[0],)


def test_given_conditions_every_member(ensemble):
    x = np.array([[0.37]])
    conditioned = ensemble.given(x, [1])
    for before, after in zip(ensemble.members(), conditioned.members(), strict=True):
        expected = before.given(x, [1]).marginals(X)
        np.testing.assert_array_equal(after.marginals(X), expected)
    assert float(conditioned.marginals(X)[1][1]) < float(ensemble.marginals(X)[1][1])
