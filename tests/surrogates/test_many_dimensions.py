"""Many coordinates and many fidelities: the same covariances, for work that grows no faster than the number of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from fidelium.history import Observations
from fidelium.numerics import kernels
from fidelium.randomness import Key
from fidelium.surrogates.gp import covariances
from fidelium.surrogates.gp.covariances import Additive, Convolved, Coregionalised, CovarianceFamily, Independent
from fidelium.surrogates.gp.exact import Rows, process_log_evidence
from fidelium.surrogates.gp.joint import GaussianProcess
from fidelium.surrogates.gp.nonlinear import NonlinearAutoregressive
from fidelium.surrogates.learning import normal_like

FAMILIES: dict[str, CovarianceFamily] = {
    "independent": Independent(),
    "independent, matern52": Independent("matern52"),
    "additive": Additive(),
    "coregionalised": Coregionalised(),
    "convolved": Convolved(),
}
EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def evidence_and_slope(family: CovarianceFamily, dimension: int, fidelities: int, count: int = 24) -> Any:
    """log p(y) of the prior's covariance and its derivative, to be compiled; and the parameters to call it with."""
    generator, prior = np.random.default_rng(0), family.prior(dimension, fidelities, Key((0,)))
    x = generator.random((count, dimension))
    x[1] = x[0]  # a design seen twice
    at = (jnp.asarray(x), jnp.arange(count) % fidelities)
    rows = Rows(at, jnp.asarray(generator.normal(size=count)), jnp.full(count, 1e-2), jnp.ones(count))
    step = normal_like(prior.mean, generator)
    theta = jax.tree.map(lambda mean, std, step: jnp.asarray(mean + 0.5 * std * step), prior.mean, prior.std, step)

    def evidence(theta: Any) -> Array:
        return process_log_evidence(family.covariance(theta, fidelities), rows)

    return jax.jit(jax.value_and_grad(evidence)), theta


@EVERY_FAMILY
@pytest.mark.parametrize(("dimension", "fidelities"), [(12, 2), (2, 5), (12, 5)])
def test_both_ways_to_write_a_covariance_give_the_same_evidence(family, dimension, fidelities, monkeypatch):
    of_many, theta = evidence_and_slope(family, dimension, fidelities)
    value, slope = of_many(theta)
    monkeypatch.setattr(kernels, "FEW_DIMENSIONS", 99)
    monkeypatch.setattr(covariances, "FEW_DIMENSIONS", 99)
    monkeypatch.setattr(covariances, "_FEW_KERNELS", 99)
    written_out, _ = evidence_and_slope(family, dimension, fidelities)
    expected, expected_slope = written_out(theta)
    assert value == pytest.approx(float(expected), rel=1e-10)
    for part, other in zip(jax.tree.leaves(slope), jax.tree.leaves(expected_slope), strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-7, atol=1e-8)


@EVERY_FAMILY
def test_the_slope_of_the_evidence_takes_work_in_proportion_to_the_dimension(family):
    def numbers_moved(dimension: int) -> float:
        compiled, theta = evidence_and_slope(family, dimension, fidelities=2, count=48)
        return compiled.lower(theta).cost_analysis()["bytes accessed"]

    assert numbers_moved(24) < 2 * numbers_moved(12)  # the derivative of a sum written out takes d^2: 3 to 4 times


@pytest.mark.parametrize("family", [Independent(), Additive()], ids=["independent", "additive"])
def test_the_slope_of_the_evidence_takes_work_in_proportion_to_the_fidelities(family):
    def numbers_moved(fidelities: int) -> float:
        compiled, theta = evidence_and_slope(family, 2, fidelities, count=48)
        return compiled.lower(theta).cost_analysis()["bytes accessed"]

    assert numbers_moved(16) < 2.1 * numbers_moved(8)


@pytest.mark.parametrize("fidelities", [2, 3, 4, 6])
def test_parameters_are_learned_from_a_bounded_number_of_observations(fidelities, monkeypatch):
    learned: list[int] = []

    def spy(model: Any, prior: Any, rows: Rows, *_: Any) -> Any:
        learned.append(int(np.sum(np.asarray(rows.mask))))
        return jax.tree.map(jnp.asarray, prior.mean)

    monkeypatch.setattr("fidelium.surrogates.gp.joint.learn", spy)
    generator = np.random.default_rng(0)
    seen = [Observations(generator.random((150, 2)), generator.normal(size=150)) for _ in range(fidelities)]
    GaussianProcess(Coregionalised()).fit(seen, Key((0,)))
    assert learned == [128 * fidelities if fidelities <= 3 else 256 // fidelities * fidelities]


@pytest.mark.parametrize("surrogate", [GaussianProcess(Additive(), steps=3), NonlinearAutoregressive(steps=3)])
def test_a_design_seen_twice_in_many_dimensions_is_known(surrogate):
    generator = np.random.default_rng(0)
    x = generator.random((20, 14))
    seen = Observations(np.concatenate([x, x[:1]]), np.concatenate([x.sum(axis=1), x[:1].sum(axis=1)]))
    posterior = surrogate.fit([seen, seen.first(6)], Key((0,)))
    means, variances = (np.asarray(part) for part in posterior.marginals(jnp.asarray(x[0])))
    assert np.all(np.isfinite(means))
    assert np.all(variances > 0)
    slope = jax.grad(lambda x: posterior.marginals(x)[0][-1])(jnp.asarray(x[0]))
    assert np.all(np.isfinite(slope))
