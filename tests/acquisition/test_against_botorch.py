"""Acquisitions against BoTorch's, from the same moments and the same samples of f* (tests/reference).

The gain of an observation with Gaussian entropies is the lower bound of Moss et al. (2021), BoTorch's
`qLowerBoundMaxValueEntropy`: equal at the target, and below it up to the quadrature of `observation_gain` (33
nodes within four standard deviations: 0.0014 at most here). BoTorch's `qMaxValueEntropy` is the information itself, by
quasi Monte Carlo: never less than the bound, but for its sampling error, which is 0.0025 at most for the stored numbers
(against numerical integration of the same density).
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.typing import NDArray

from fidelium.acquisition.entropy import observation_gain, paper_gain
from fidelium.acquisition.improvement import log_expected_improvement

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "botorch.json").read_text())
X = jnp.zeros(2)
SAMPLING, QUADRATURE = 0.003, 0.002

AT_TARGET = [
    pytest.param(case, group["noise_var"], id=f"noise {group['noise_var']:g}, case {i}")
    for group in REFERENCE["entropy"]
    for i, case in enumerate(group["cases"])
]
BELOW = [pytest.param(case, id=f"case {i}") for i, case in enumerate(REFERENCE["multitask"]["cases"])]


def gains(gain, posterior, f_star: list[float], fidelity: int) -> NDArray[np.float64]:
    """The gain for every sample of f* alone."""
    return np.asarray(_gains(gain, fidelity, posterior, jnp.asarray(f_star)))


@partial(jax.jit, static_argnums=(0, 1))
def _gains(gain, fidelity: int, posterior, f_star: Array) -> Array:
    return jax.vmap(lambda value: gain(posterior, value[None], X, fidelity))(f_star)


def no_link(f: Array) -> tuple[Array, Array]:
    raise AssertionError("the target needs no link to itself")


def single(linked, case: dict[str, Any], noise_var: float):
    return linked([case["mean"]], [case["var"]], [noise_var], no_link)


def normal_link(case: dict[str, Any]):
    """f_M given f_m for the case's joint Gaussian."""
    (mean, target_mean), ((var, cross), (_, target_var)) = case["mean"], case["cov"]
    slope = cross / var
    return lambda f: (target_mean + slope * (f - mean), jnp.full_like(f, target_var - slope * cross))


@pytest.mark.parametrize(("case", "noise_var"), AT_TARGET)
def test_the_gain_of_an_observation_is_botorchs_lower_bound(linked, case, noise_var):
    got = gains(observation_gain, single(linked, case, noise_var), case["f_star"], 0)
    np.testing.assert_allclose(got, case["bound"], rtol=1e-8)


@pytest.mark.parametrize(("case", "noise_var"), AT_TARGET)
def test_the_gain_of_an_observation_is_not_above_botorchs_information(linked, case, noise_var):
    got = gains(observation_gain, single(linked, case, noise_var), case["f_star"], 0)
    assert np.all(got <= np.asarray(case["exact"]) + SAMPLING)
    assert np.all(got >= 0.7 * np.asarray(case["exact"]))  # the loosest case: no noise, f* far above


@pytest.mark.parametrize("case", [case for group in REFERENCE["entropy"][:1] for case in group["cases"]])
def test_the_papers_gain_at_the_target_is_botorchs_information_without_noise(linked, case):
    # BoTorch's model has a noise of 1e-8, too little to be seen
    got = gains(paper_gain, single(linked, case, 1e-8), case["f_star"], 0)
    np.testing.assert_allclose(got, case["exact"], atol=SAMPLING)


@pytest.mark.parametrize("case", BELOW)
def test_the_gain_below_the_target_is_botorchs(linked, case):
    noise_var = REFERENCE["multitask"]["noise_var"]
    variances = [case["cov"][0][0], case["cov"][1][1]]
    posterior = linked(case["mean"], variances, [noise_var, noise_var], normal_link(case))
    got = gains(observation_gain, posterior, case["f_star"], 0)
    np.testing.assert_allclose(got, case["bound"], atol=QUADRATURE)
    # with this much noise and this little correlation a Gaussian entropy is as good as the entropy itself
    np.testing.assert_allclose(got, case["exact"], atol=QUADRATURE + SAMPLING)


def improvements() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ours, and the stored table as columns mean, std, best, ei, log ei."""
    table = np.array(
        [[row[key] for key in ("mean", "std", "best", "ei", "log_ei")] for row in REFERENCE["improvement"]]
    )
    return np.asarray(jax.jit(jax.vmap(log_expected_improvement))(*table.T[:3])), table


def test_log_expected_improvement_is_botorchs_down_to_a_million_standard_deviations():
    got, table = improvements()
    np.testing.assert_allclose(got, table[:, 4], rtol=1e-9, atol=1e-9)


def test_expected_improvement_is_botorchs():
    got, table = improvements()
    near = table[:, 0] - table[:, 2] >= -5 * table[:, 1] * (1 + 1e-9)  # further down BoTorch's plain form cancels
    np.testing.assert_allclose(np.exp(got)[near], table[near, 3], rtol=1e-7)
    assert near.sum() == 32
