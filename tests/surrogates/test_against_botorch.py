"""The exact posterior against GPyTorch's, for the same data and hyper-parameters (tests/reference)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fidelium.numerics.kernels import Kernel
from fidelium.surrogates.gp.covariances import MixedProcesses
from fidelium.surrogates.gp.exact import ExactGP, Rows

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "botorch.json").read_text())
same = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)  # the same formulas: only rounding differs


def process(case: dict[str, Any], kernel: str, prior_cov: Any, fidelity: list[int]) -> ExactGP:
    """The process with B[m, m'] kappa(x, x') and mean zero, given the case's data."""
    root = jnp.linalg.cholesky(jnp.asarray(prior_cov, dtype=float))[None]
    covariance = MixedProcesses(root, (Kernel(jnp.log(jnp.asarray(case["lengths"])), kernel),), bias=0.0)
    y = jnp.asarray(case["y"])
    at = (jnp.asarray(case["x"]), jnp.asarray(fidelity))
    return ExactGP.of(
        covariance, jnp.zeros((1, 1, 2)), Rows(at, y, jnp.full(y.shape, case["noise_var"]), jnp.ones(y.shape))
    )


@pytest.mark.parametrize("case", REFERENCE["posterior"], ids=lambda case: case["kernel"])
def test_mean_and_variance_are_gpytorchs(case):
    gp = process(case, case["kernel"], [[case["variance"]]], [0] * len(case["y"]))
    mean, var = jax.jit(jax.vmap(lambda x: gp.moments((x, jnp.asarray(0)))))(jnp.asarray(case["at"]))
    same(mean, case["mean"])
    same(var, case["var"])
    assert float(gp.jitter) == 0.0


def test_two_fidelities_together_are_gpytorchs_multi_task_process():
    case = REFERENCE["multitask"]
    gp = process(case, "rbf", case["task_cov"], case["fidelity"])
    at = jnp.asarray([each["at"] for each in case["cases"]])
    mean, cov = jax.jit(jax.vmap(lambda x: gp.joint((x, jnp.asarray(0)), (x, jnp.asarray(1)))))(at)
    same(mean, [each["mean"] for each in case["cases"]])
    same(cov, [each["cov"] for each in case["cases"]])
    assert float(gp.jitter) == 0.0
