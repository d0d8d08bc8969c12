"""Writes botorch.json beside this file: what BoTorch and GPyTorch make of the same fixed numbers.

The tests compare with the stored numbers, so that they need no PyTorch. To make them again, in an environment with the
extra `peers` (`pip install 'fidelium[peers]'`):

    python tests/reference/make_botorch_reference.py

Everything is fixed (data, hyper-parameters, samples of the maximum; float64), nothing is learned.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import botorch
import gpytorch
import numpy as np
import torch
from botorch.acquisition.analytic import ExpectedImprovement, LogExpectedImprovement
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.max_value_entropy_search import (
    qLowerBoundMaxValueEntropy,
    qMaxValueEntropy,
    qMultiFidelityLowerBoundMaxValueEntropy,
    qMultiFidelityMaxValueEntropy,
)
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import IndexKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean

FILE = Path(__file__).with_name("botorch.json")
SAMPLES = 2**15
"""Quasi-random samples of y_m in BoTorch's entropies: their error is then below 1e-3."""

LENGTHS, VARIANCE, NOISE_VAR = (0.35, 0.8), 1.7, 0.02
TASK_COV = ((1.2, 1.2), (1.2, 1.5))
F_STAR_BETAS = (-1.5, -0.4, 0.3, 1.0, 2.2)
"""Samples of f* of each case, in standard deviations of f_M(x) above its mean."""


def main() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")  # about inputs and outputs that are not scaled: they are what they are
    reference = {
        "versions": {module.__name__: module.__version__ for module in (torch, gpytorch, botorch)},
        "posterior": [posterior("rbf"), posterior("matern52")],
        "multitask": multitask(),
        "improvement": improvement(),
        "entropy": [entropy(noise_var) for noise_var in (1e-8, 0.02, 0.5)],
    }
    FILE.write_text(json.dumps(reference, indent=1) + "\n")


def data(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of the unit square and values of a wavy function there."""
    x = torch.as_tensor(np.random.default_rng(seed).random((count, 2)))
    return x, torch.sin(5 * x[:, 0]) + x[:, 1] ** 2 - 0.5 * torch.cos(7 * x[:, 0] * x[:, 1])


def single_task(kernel: str, x: torch.Tensor, y: torch.Tensor, noise_var: float) -> SingleTaskGP:
    """A Gaussian process of mean zero with the fixed lengths and variance."""
    base = RBFKernel(ard_num_dims=2) if kernel == "rbf" else MaternKernel(nu=2.5, ard_num_dims=2)
    base.lengthscale = torch.tensor([LENGTHS])
    scaled = ScaleKernel(base)
    scaled.outputscale = VARIANCE
    model = SingleTaskGP(
        x,
        y[:, None],
        likelihood=likelihood(noise_var),
        covar_module=scaled,
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    return model.eval()


def likelihood(noise_var: float) -> GaussianLikelihood:
    made = GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-12))
    made.noise = noise_var
    return made


def posterior(kernel: str) -> dict[str, Any]:
    """Mean and variance of the exact posterior at ten points."""
    (x, y), (at, _) = data(0, 14), data(1, 10)
    with torch.no_grad():
        found = single_task(kernel, x, y, NOISE_VAR).posterior(at)
    return {
        "kernel": kernel,
        "lengths": LENGTHS,
        "variance": VARIANCE,
        "noise_var": NOISE_VAR,
        "x": x.tolist(),
        "y": y.tolist(),
        "at": at.tolist(),
        "mean": found.mean[:, 0].tolist(),
        "var": found.variance[:, 0].tolist(),
    }


def multitask() -> dict[str, Any]:
    """Two coregionalised fidelities: moments of (f_m(x), f_M(x)), and the gain of y_m(x)."""
    (x, y), (at, _) = data(2, 7), data(3, 8)
    which = torch.tensor([0.0] * 5 + [1.0] * 2)
    y = torch.where(which == 0, 0.8 * y + 0.3 * torch.cos(4 * x[:, 0]), y)
    noise_var = 0.02
    inputs = torch.cat([x, which[:, None]], dim=1)
    model = MultiTaskGP(
        inputs,
        y[:, None],
        task_feature=2,
        output_tasks=[1],
        likelihood=likelihood(noise_var),
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    model.covar_module = coregionalised()
    model.eval()

    def at_fidelity(points: torch.Tensor, fidelity: int) -> torch.Tensor:
        return torch.cat([points[..., :2], torch.full_like(points[..., :1], fidelity)], dim=-1)

    cases = []
    for point in at:
        both = torch.stack([at_fidelity(point, 0), at_fidelity(point, 1)])
        with torch.no_grad():
            found = model.posterior(both).distribution
        mean, cov = found.mean, found.covariance_matrix
        f_star = mean[1] + torch.tensor(F_STAR_BETAS) * cov[1, 1].sqrt()
        options: dict[str, Any] = {"project": lambda points: at_fidelity(points, 1), "cost_aware_utility": free()}
        exact = qMultiFidelityMaxValueEntropy(model, at_fidelity(at, 1), num_y_samples=SAMPLES, **options)
        bound = qMultiFidelityLowerBoundMaxValueEntropy(model, at_fidelity(at, 1), **options)
        gains = {
            name: each_gain(acquisition, f_star, at_fidelity(point[None], 0))
            for name, acquisition in (("exact", exact), ("bound", bound))
        }
        cases.append(
            {"at": point.tolist(), "mean": mean.tolist(), "cov": cov.tolist(), "f_star": f_star.tolist(), **gains}
        )
    return {
        "lengths": LENGTHS,
        "task_cov": TASK_COV,
        "noise_var": noise_var,
        "x": x.tolist(),
        "fidelity": [int(m) for m in which.tolist()],
        "y": y.tolist(),
        "cases": cases,
    }


def coregionalised() -> gpytorch.kernels.Kernel:
    """B[m, m'] kappa(x, x') with the fixed B and lengths."""
    of_x = RBFKernel(ard_num_dims=2, active_dims=[0, 1])
    of_x.lengthscale = torch.tensor([LENGTHS])
    of_task = IndexKernel(num_tasks=2, rank=2, active_dims=[2])
    own = 1e-9  # on the diagonal of B, where GPyTorch wants something positive
    of_task.var = torch.full((2,), own)
    of_task.covar_factor.data = torch.linalg.cholesky(torch.tensor(TASK_COV) - own * torch.eye(2))
    return of_x * of_task


def entropy(noise_var: float) -> dict[str, Any]:
    """One fidelity: moments of f(x), and the gain of y(x) for samples of f* about them."""
    (x, y), (at, _) = data(4, 8), data(5, 6)
    model = single_task("matern52", x, y, noise_var)
    cases = []
    for point in at:
        with torch.no_grad():
            found = model.posterior(point[None])
        mean, var = found.mean.item(), found.variance.item()
        f_star = mean + torch.tensor(F_STAR_BETAS) * math.sqrt(var)
        exact = each_gain(qMaxValueEntropy(model, at, num_y_samples=SAMPLES), f_star, point[None])
        bound = each_gain(qLowerBoundMaxValueEntropy(model, at), f_star, point[None])
        cases.append({"mean": mean, "var": var, "f_star": f_star.tolist(), "exact": exact, "bound": bound})
    return {"noise_var": noise_var, "cases": cases}


def each_gain(acquisition: Any, f_star: torch.Tensor, x: torch.Tensor) -> list[float]:
    """The gain for every sample of f* alone."""
    gains = []
    for value in f_star:
        acquisition.posterior_max_values = value.reshape(1, 1)
        with torch.no_grad():
            gains.append(acquisition(x[None]).item())
    return gains


def free() -> Any:
    """A cost of one everywhere."""
    return InverseCostWeightedUtility(GenericDeterministicModel(lambda x: torch.ones_like(x[..., :1])))


class Given(Model):
    """A model of mean x_1 and standard deviation x_2."""

    num_outputs = 1

    def posterior(self, X: torch.Tensor, *args: Any, **options: Any) -> GPyTorchPosterior:
        return GPyTorchPosterior(MultivariateNormal(X[..., 0], torch.diag_embed(X[..., 1] ** 2)))


def improvement() -> list[dict[str, float]]:
    """Expected improvement and its logarithm, from well above the best to a million standard deviations below."""
    z = [8.0, 3.0, 1.0, 0.0, -0.5, -1.0, -2.5, -5.0, -8.0, -20.0, -38.0, -100.0, -1e3, -1e4, -1e5, -1e6]
    table = []
    for best, std in ((0.0, 1.0), (1.3, 0.2), (-40.0, 25.0), (0.5, 1e-5)):
        for each in z:
            given = torch.tensor([[best + each * std, std]])
            ei, log_ei = (make(Given(), best)(given).item() for make in (ExpectedImprovement, LogExpectedImprovement))
            table.append({"mean": given[0, 0].item(), "std": std, "best": best, "ei": ei, "log_ei": log_ei})
    return table


if __name__ == "__main__":
    main()
