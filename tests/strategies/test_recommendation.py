"""What is recommended: a new design only if it is better with good probability, and observed ones with their values."""

from __future__ import annotations

import numpy as np
import pytest

from fidelium.history import Observations
from fidelium.strategies.recommendation import Expected, observed_designs, recommended


def designs(*known: tuple[float, float, float]) -> Expected:
    x, mean, std = np.array(known, dtype=float).reshape(-1, 3).T
    return Expected(x[:, None], mean, std)


def seen(*known: tuple[float, float]) -> Observations:
    x, y = np.array(known, dtype=float).T
    return Observations(x[:, None], y)


@pytest.mark.parametrize(
    ("mean", "std", "expected_x"),
    [(1.5, 0.4, 0.7), (1.5, 0.6, 0.2), (1.01, 1e-3, 0.7), (1.0, 0.0, 0.2), (0.5, 1e-6, 0.2), (9.0, 9.0, 0.2)],
)
def test_a_new_design_must_be_better_by_more_than_its_uncertainty(mean, std, expected_x):
    choice, was_run = recommended(designs((0.7, mean, std)), designs((0.1, 0.3, 0.0), (0.2, 1.0, 0.0)))
    assert choice.unit_x[0, 0] == expected_x
    assert was_run is (expected_x == 0.2)


def test_the_uncertainty_of_the_best_observed_one_counts_too():
    new = designs((0.7, 1.5, 0.4))
    assert not recommended(new, designs((0.2, 1.0, 0.2)))[1]
    assert recommended(new, designs((0.2, 1.0, 0.4)))[1]


def test_without_observations_the_surest_design_is_recommended():
    choice, was_run = recommended(designs((0.1, 3.0, 2.5), (0.6, 1.0, 0.1)), designs())
    assert (choice.unit_x[0, 0], was_run) == (0.6, False)


def test_without_a_new_design_the_best_observed_one_is_recommended():
    choice, was_run = recommended(designs(), designs((0.1, 3.0, 0.0), (0.6, 4.0, 0.0)))
    assert (choice.unit_x[0, 0], was_run) == (0.6, True)


def test_an_observed_design_has_its_own_value_where_runs_repeat():
    posterior = designs((0.1, 0.8, 0.1), (0.5, 2.2, 0.1), (0.9, 2.8, 0.2))
    known = observed_designs(seen((0.1, 1.0), (0.5, 2.0), (0.9, 3.0)), posterior, np.array([0.01, 0.01, 0.2]), 0.05)
    assert known.unit_x[:, 0].tolist() == [0.1, 0.5, 0.9]
    assert known.mean.tolist() == [1.0, 2.0, 2.8]  # the last one is too noisy
    assert known.std.tolist() == [0.0, 0.0, 0.2]


def test_runs_of_one_design_that_differ_are_noise_whatever_the_model_says():
    posterior = designs((0.1, 1.5, 0.3), (0.1, 1.5, 0.3), (0.5, 1.9, 0.1), (0.5, 1.9, 0.1))
    observations = seen((0.1, 1.0), (0.1, 2.0), (0.5, 2.0), (0.5, 2.0))
    known = observed_designs(observations, posterior, np.full(4, 1e-3), 0.05)
    assert known.mean.tolist() == [1.5, 2.0]
    assert known.std.tolist() == [0.3, 0.0]


def test_a_model_that_is_too_hopeful_of_the_best_observed_design_is_not_trusted_beside_it():
    observed = Expected(np.array([[0.2]]), np.array([-225.653]), np.array([0.0]), believed=np.array([-223.0]))
    near = Expected(np.array([[0.21]]), np.array([-222.9]), np.array([1.2]))
    assert recommended(near, observed)[1]  # it leads the observed value by 2.3 deviations, but not what was believed
    better = Expected(np.array([[0.5]]), np.array([-221.0]), np.array([1.2]))
    assert not recommended(better, observed)[1]
