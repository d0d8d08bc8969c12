"""One cell of an experiment, run from its beginning to its end in this process.

All strategies start from the same observations (uniformly random designs, free, as in the paper), keyed by problem and
seed.
"""

from __future__ import annotations

import logging
import math
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from fidelium import problems
from fidelium.errors import BudgetError
from fidelium.experiments import methods
from fidelium.experiments.machine import machine, versions
from fidelium.experiments.records import Cell, write, writing
from fidelium.history import TrialState
from fidelium.problems import Problem
from fidelium.space import Params
from fidelium.study import Study, create_study
from fidelium.study.trial import LiveTrial
from fidelium.timing import record


def initial_observations(
    problem: Problem, seed: int, sizes: Mapping[str, int] | None = None
) -> Iterator[tuple[Params, str, float]]:
    """The observations every strategy starts from: uniformly random designs at each fidelity.

    Args:
        problem: what is observed.
        seed: of the designs, together with the problem's name.
        sizes: name of fidelity -> number of designs, the problem's own if None.
    """
    generator = np.random.default_rng([seed, zlib.crc32(problem.name.encode())])
    for fidelity, size in (problem.initial if sizes is None else sizes).items():
        for unit_x in problem.space.sample(generator, size):
            params = problem.space.decode(unit_x)
            yield params, fidelity, problem.observe(params, fidelity)


def run_cell(cell: Cell, folder: Path) -> None:
    """Run one cell from its beginning, writing to its file."""
    problem = problems.get(cell.problem)
    start = time.perf_counter()
    with writing(cell, folder) as file, _logged_warnings() as warned:
        study = _new_study(problem, cell)
        about = {"cell": asdict(cell), "versions": versions(peers=True), "machine": machine()}
        write(file, "start", about | _seen(problem, study) | _recommendation(problem, study))
        stopped_at = _spend(problem, study, cell, file)
        write(file, "end", {"seconds": time.perf_counter() - start, "warnings": warned, "stopped_at": stopped_at})


def _new_study(problem: Problem, cell: Cell) -> Study:
    study = create_study(
        problem.space,
        problem.ladder,
        direction=problem.direction,
        strategy=methods.resolve(cell.strategy),
        seed=cell.seed,
        initial={},
    )
    for params, fidelity, value in initial_observations(problem, cell.seed, dict(cell.initial)):
        study.add_observation(params, fidelity, value)
    return study


def _spend(problem: Problem, study: Study, cell: Cell, file: IO[str]) -> float | None:
    """Query until the budget buys nothing more, with a recommendation before each of its costs is passed.

    Returns:
        What was spent when the cell's time was up, None if it was not.
    """
    due = list(cell.recommendation_costs)
    seconds_left = math.inf if cell.longest is None else 60 * cell.longest
    while seconds_left > 0:
        before = study.spent
        try:
            trial, seconds = _timed_ask(study, cell.budget)
        except BudgetError:  # nothing left to buy, or nothing that this strategy wants
            break
        _recommend_at([cost for cost in due if before <= cost < study.spent], problem, study, file)
        due = [cost for cost in due if cost >= study.spent]
        seconds_left -= seconds["cpu"]
        study.tell(trial, problem.observe(trial.params, trial.fidelity.name))
        write(file, "query", _query(trial, study, seconds) | _seen(problem, study))
    _recommend_at(due, problem, study, file)
    return None if seconds_left > 0 else study.spent


def _timed_ask(study: Study, budget: float) -> tuple[LiveTrial, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    with record() as seconds:
        trial = study.ask(budget)
    return trial, {**seconds, "total": time.perf_counter() - wall, "cpu": time.process_time() - processor}


def _query(trial: LiveTrial, study: Study, seconds: Mapping[str, float]) -> dict[str, Any]:
    return {
        "number": trial.number,
        "fidelity": trial.fidelity.name,
        "cost": trial.fidelity.cost,
        "spent": study.spent,
        "params": trial.params,
        "value": trial.value,
        "seconds": seconds,
    }


def _seen(problem: Problem, study: Study) -> dict[str, float]:
    target = problem.ladder.target
    done = [t for t in study.trials if t.state is TrialState.DONE and t.fidelity == target]
    if problem.noise is None:  # as told: a simulation need not be repeated
        values = [t.value for t in done if t.value is not None]
    else:
        values = [problem.evaluate(t.params, target.name) for t in done]
    return {"simple_regret": problems.simple_regret(problem, values)}


def _recommend_at(costs: list[float], problem: Problem, study: Study, file: IO[str]) -> None:
    """Ask once what the strategy recommends from all finished trials, and write it down for each of the costs."""
    if costs:
        made = _recommendation(problem, study)
        for cost in costs:
            write(file, "recommendation", {"cost": cost} | made)


def _recommendation(problem: Problem, study: Study) -> dict[str, Any]:
    """What is recommended: by the strategy's model, or, if it has none, the best design observed at the target."""
    if study.has_model:
        design = study.recommend()
        params, mean, std = design.params, design.mean, design.std
    elif study.best is not None:
        params, mean, std = study.best.params, study.best.value, 0.0
    else:
        return {"inference_regret": float("inf"), "recommendation_regret": float("inf")}
    assert mean is not None
    return {
        "recommended": params,
        "mean": mean,
        "std": std,
        "recommendation_regret": problems.recommendation_regret(problem, params),
        "inference_regret": problems.inference_regret(problem, mean),
    }


class _logged_warnings(logging.Handler):  # noqa: N801 - used like contextlib's functions
    """Collects all warnings, Python's and the log's, as texts."""

    def __enter__(self) -> list[str]:
        self.texts: list[str] = []
        logging.captureWarnings(True)
        logging.getLogger().addHandler(self)
        return self.texts

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        logging.captureWarnings(False)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.texts.append(record.getMessage())
