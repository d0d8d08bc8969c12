"""Regret against cost: strategies on the built-in problems, several seeds each, every query kept.

One *cell* is one study: a problem, a strategy, a seed and a budget. All strategies start from the same observations
(uniformly random designs, free, as in the paper), keyed by problem and seed. A cell writes one JSON line per query to
a file of its own while it runs, and a last line when it is complete; a complete cell is not run again.
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fidelium import __version__, problems
from fidelium.experiments import peers
from fidelium.experiments.one_core import use_one_thread
from fidelium.history import TrialState
from fidelium.problems import Problem
from fidelium.space import Params
from fidelium.study import Study, create_study
from fidelium.timing import record

BUDGETS = {"branin": 1500.0, "levy": 1500.0, "park1": 300.0}
"""What a study of each problem spends unless told otherwise: about what the paper's figures show."""


@dataclass(frozen=True)
class Cell:
    """One study of the experiment.

    Args:
        problem: a problem's name.
        strategy: a strategy's name, or that of a peer from outside (`peers`).
        seed: of the initial designs and of the study.
        budget: what it may spend.
    """

    problem: str
    strategy: str
    seed: int
    budget: float

    def path(self, folder: Path) -> Path:
        """The file of this cell."""
        return folder / f"{self.problem}_{self.strategy}_{self.budget:g}_seed{self.seed}.jsonl"


def initial_observations(problem: Problem, seed: int) -> Iterator[tuple[Params, str, float]]:
    """The observations every strategy starts from: uniformly random designs at each fidelity."""
    generator = np.random.default_rng([seed, zlib.crc32(problem.name.encode())])
    for fidelity, size in problem.initial.items():
        for unit_x in problem.space.sample(generator, size):
            params = problem.space.decode(unit_x)
            yield params, fidelity, problem.evaluate(params, fidelity)


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    workers: int,
    finished: Callable[[Cell, BaseException | None], None],
    tick: Callable[[], None],
) -> None:
    """Run every cell that is not complete, each in a process with one thread.

    Args:
        cells: what to run.
        folder: where the files go.
        workers: how many processes at once.
        finished: called with each cell as it ends, and with what went wrong, if anything did.
        tick: called about every second.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left = [cell for cell in cells if not is_complete(cell, folder)]
    with ProcessPoolExecutor(workers, get_context("spawn"), use_one_thread, max_tasks_per_child=1) as pool:
        running: dict[Future[None], Cell] = {pool.submit(run_cell, cell, folder): cell for cell in left}
        try:
            while running:
                for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                    finished(running.pop(future), future.exception())
                tick()
        finally:  # after an interruption nothing new is started
            pool.shutdown(wait=False, cancel_futures=True)


def run_cell(cell: Cell, folder: Path) -> None:
    """Run one cell from its beginning, writing to its file."""
    problem = problems.get(cell.problem)
    start = time.perf_counter()
    with cell.path(folder).open("w") as file, _logged_warnings() as warned:
        study = _new_study(problem, cell)
        _write(file, asdict(cell) | {"version": __version__, "simple_regret": _simple_regret(problem, study)})
        while study.history(study.remaining(cell.budget)).affordable:
            _write(file, _one_query(problem, study, cell.budget))
        seconds = time.perf_counter() - start
        _write(file, {"complete": True, **_recommendation(problem, study), "seconds": seconds, "warnings": warned})


def spent(cell: Cell, folder: Path) -> float:
    """What this cell has spent so far, its whole budget if it is complete."""
    path = cell.path(folder)
    last = path.read_text().rpartition("}\n")[0].rpartition("\n")[2] if path.exists() else ""
    if not last:
        return 0.0
    line = json.loads(last + "}")
    return cell.budget if "complete" in line else line.get("spent", 0.0)


def is_complete(cell: Cell, folder: Path) -> bool:
    """Whether this cell has run to its end."""
    path = cell.path(folder)
    return path.exists() and '\n{"complete": true' in path.read_text()


@dataclass(frozen=True)
class Run:
    """A complete cell, read from its file.

    Args:
        cell: what was run.
        initial_regret: simple regret of the initial observations.
        queries: one record per query, as `run_cell` wrote it.
        final: the last record: the recommendation, seconds and warnings.
    """

    cell: Cell
    initial_regret: float
    queries: tuple[dict[str, Any], ...]
    final: dict[str, Any]

    def simple_regret(self, cost: float) -> float:
        """The simple regret when `cost` was spent."""
        reached = [query["simple_regret"] for query in self.queries if query["spent"] <= cost]
        return reached[-1] if reached else self.initial_regret


def load(cell: Cell, folder: Path) -> Run:
    """The complete run of a cell."""
    first, *queries, final = _lines(cell.path(folder))
    return Run(cell, first["simple_regret"], tuple(queries), final)


def _new_study(problem: Problem, cell: Cell) -> Study:
    study = create_study(
        problem.space,
        problem.ladder,
        direction=problem.direction,
        strategy=peers.resolve(cell.strategy),
        seed=cell.seed,
        initial={},
    )
    for params, fidelity, value in initial_observations(problem, cell.seed):
        study.add_observation(params, fidelity, value)
    return study


def _one_query(problem: Problem, study: Study, budget: float) -> dict[str, Any]:
    start = time.perf_counter()
    with record() as seconds:
        trial = study.ask(budget)
    total = time.perf_counter() - start
    study.tell(trial, problem.evaluate(trial.params, trial.fidelity.name))
    return {
        "number": trial.number,
        "fidelity": trial.fidelity.name,
        "cost": trial.fidelity.cost,
        "spent": study.spent,
        "params": trial.params,
        "value": trial.value,
        "simple_regret": _simple_regret(problem, study),
        "seconds": {**seconds, "total": total},
    }


def _simple_regret(problem: Problem, study: Study) -> float:
    done = [t for t in study.trials if t.state is TrialState.DONE and t.fidelity == problem.ladder.target]
    return problems.simple_regret(problem, [t.value for t in done if t.value is not None])


def _recommendation(problem: Problem, study: Study) -> dict[str, Any]:
    design = study.recommend()
    return {
        "recommended": design.params,
        "mean": design.mean,
        "std": design.std,
        "recommendation_regret": problems.recommendation_regret(problem, design.params),
        "inference_regret": problems.inference_regret(problem, design.mean),
    }


def _write(file: Any, line: dict[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


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
