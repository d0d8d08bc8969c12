"""Runs made up by hand, and one real experiment that is quick."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fidelium.experiments.records import Cell, Run

MakeRun = Callable[..., Run]


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """A run of park1 whose target queries, each at cost 10, found these simple regrets."""

    def make(strategy: str, seed: int, regrets: Sequence[float], problem: str = "park1", seconds: float = 0.1) -> Run:
        budget = 10.0 * len(regrets)
        cell = Cell(problem, strategy, seed, budget, (budget / 2, budget), (("low", 5), ("high", 2)))
        queries = tuple(
            {
                "fidelity": "high",
                "cost": 10,
                "spent": 10.0 * (i + 1),
                "simple_regret": regret,
                "seconds": {"cpu": 100.0 if i == 0 else seconds},
            }
            for i, regret in enumerate(regrets)
        )
        recommendations = tuple(
            {"cost": cost, "inference_regret": -regrets[-1], "recommendation_regret": 2 * regrets[-1]}
            for cost in cell.recommendation_costs
        )
        start = {
            "simple_regret": 50.0,
            "inference_regret": 60.0,
            "recommendation_regret": 70.0,
            "versions": {"fidelium": "0"},
            "machine": {"cpu": "abacus", "cores": 1},
        }
        return Run(cell, start, queries, recommendations, {"seconds": 60.0, "warnings": ["one"]})

    return make
