"""Runs the cells of an experiment, each in a process with one thread; resumable after a kill.

Nothing that a restart needs is kept in memory: a cell whose file exists is complete, every other one is run from its
beginning. Workers end with the runner, even if it was killed: a cell is never written by two processes. One folder has
one runner at a time. All strategies start from the same observations (uniformly random designs, free, as in the paper),
keyed by problem and seed; or, if the cell says so, each with its own initial design, paid from the budget.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from statistics import mean
from typing import IO, Any

import numpy as np

from fidelium import problems
from fidelium.definition import DECLARED, MEASURED
from fidelium.errors import BudgetError, EvaluationError, FideliumError, NotWorthwhileError
from fidelium.experiments import methods
from fidelium.experiments.machine import machine, package_versions, use_one_thread
from fidelium.experiments.records import Cell, is_complete, load_run, spent, write_line, writing
from fidelium.history import Trial, TrialState
from fidelium.problems import Problem, value_and_outcomes
from fidelium.space import Params
from fidelium.study import Study, create_study
from fidelium.study.trial import LiveTrial
from fidelium.timing import record

try:
    import fcntl
except ImportError:  # on Windows the user has to avoid two runners in one folder
    fcntl = None


_MINUTES = 2.0
"""Minutes of a study, where the spec has no estimate."""


class BusyFolderError(FideliumError, RuntimeError):
    """Another runner uses the folder."""


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    workers: int,
    finished: Callable[[Cell, BaseException | None], None],
    tick: Callable[[], None],
) -> None:
    """Run every cell that is not complete.

    Args:
        cells: what to run.
        folder: where the files go; it must exist.
        workers: number of parallel processes.
        finished: called with each cell as it ends, and with its error, if any.
        tick: called about every second.

    Raises:
        BusyFolderError: if another runner uses the folder.
        SettingError: if the folder holds a cell that was run with other settings.
    """
    with _alone_in(folder):
        left = [cell for cell in cells if not is_complete(cell, folder)]
        for cell in cells:
            if cell not in left:
                load_run(cell, folder)  # fails if it was run with other settings, before any time is spent
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin_worker, max_tasks_per_child=1) as pool:
            running: dict[Future[None], Cell] = {pool.submit(run_cell, cell, folder): cell for cell in left}
            try:
                while running:
                    for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                        finished(running.pop(future), future.exception())
                    tick()
            finally:  # after an interruption, start nothing new
                pool.shutdown(wait=False, cancel_futures=True)


def _begin_worker() -> None:
    use_one_thread()
    threading.Thread(target=_end_with_the_runner, daemon=True).start()


def _end_with_the_runner() -> None:
    runner = parent_process()
    assert runner is not None
    connection.wait([runner.sentinel])
    os._exit(1)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system releases it when this process ends, even if it is killed."""
    with (folder / ".lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyFolderError(
                    f"another run is using {folder}; wait for it or choose another folder with --out"
                ) from None
        yield


@dataclass
class Clock:
    """Estimates the time left; seconds of complete cells are read once.

    Args:
        cells: the experiment.
        folder: where its records are.
        workers: number of cells that run in parallel.
        minutes: strategy -> rough minutes of a study with its whole budget.
    """

    cells: Sequence[Cell]
    folder: Path
    workers: int
    minutes: Mapping[str, float]
    _seconds: dict[Cell, float] = field(default_factory=dict)

    def seconds_left(self) -> float:
        """The remaining time divided among the workers; at least that of the longest cell."""
        self._seconds |= {cell: self._measured(cell) for cell in self.cells if self._is_new(cell)}
        left = [(1 - self.share(cell)) * self._expected(cell) for cell in self.cells if cell not in self._seconds]
        return max(sum(left) / self.workers, max(left, default=0.0))

    def share(self, cell: Cell) -> float:
        """The completed share of a cell, from 0 to 1."""
        return 1.0 if cell in self._seconds else spent(cell, self.folder) / cell.budget

    def _is_new(self, cell: Cell) -> bool:
        return cell not in self._seconds and is_complete(cell, self.folder)

    def _measured(self, cell: Cell) -> float:
        return load_run(cell, self.folder).end["seconds"]

    def _expected(self, cell: Cell) -> float:
        """Seconds of a cell: the mean of its strategy on its problem, or of its strategy, or a guess."""
        same = [took for each, took in self._seconds.items() if each.strategy == cell.strategy]
        alike = [took for each, took in self._seconds.items() if _alike(each, cell)]
        return mean(alike or same or [60 * self.minutes.get(cell.strategy, _MINUTES)])


def _alike(one: Cell, other: Cell) -> bool:
    return (one.strategy, one.problem) == (other.strategy, other.problem)


def initial_observations(
    problem: Problem, seed: int, sizes: Mapping[str, int] | None = None
) -> Iterator[tuple[Params, str, float]]:
    """The observations every strategy starts from: uniformly random designs at each fidelity.

    Args:
        problem: the problem.
        seed: of the designs, together with the problem's name.
        sizes: name of fidelity -> number of designs, the problem's default if None.
    """
    generator = np.random.default_rng([seed, zlib.crc32(problem.name.encode())])
    for fidelity, size in (problem.initial if sizes is None else sizes).items():
        for unit_x in problem.space.sample(generator, size):
            params = problem.space.decode(unit_x)
            yield params, fidelity, value_and_outcomes(problem.observe(params, fidelity))[0]


def run_cell(cell: Cell, folder: Path) -> None:
    """Run one cell from its beginning, writing to its file."""
    problem = problems.get(cell.problem)
    start = time.perf_counter()
    with writing(cell, folder) as file, _logged_warnings() as warned:
        study = _new_study(problem, cell)
        about = {"cell": asdict(cell), "versions": package_versions(peers=True), "machine": machine()}
        write_line(file, "start", about | _seen(problem, study) | _recommendation(problem, study))
        stopped_at = _spend(problem, study, cell, file)
        write_line(file, "end", {"seconds": time.perf_counter() - start, "warnings": warned, "stopped_at": stopped_at})


def _new_study(problem: Problem, cell: Cell) -> Study:
    method = methods.resolve_method(methods.without_suffix(cell.strategy))
    ours = isinstance(method, str)  # a peer proposes its initial design itself
    study = create_study(
        problem.space,
        problem.ladder,
        direction=problem.direction,
        strategy=method,
        seed=cell.seed,
        initial=None if cell.own_start and ours else {},
        constraints=problem.constraints,
        failure_model=methods.learns_failures(cell.strategy),
        cost=MEASURED if methods.measures_costs(cell.strategy) else DECLARED,
    )
    if cell.own_start:
        return study
    for params, fidelity, value in initial_observations(problem, cell.seed, dict(cell.initial)):
        study.add_observation(params, fidelity, value)
    return study


def _spend(problem: Problem, study: Study, cell: Cell, file: IO[str]) -> float | None:
    """Query until the remaining budget is too small, recording a recommendation at each of the cell's costs.

    Returns:
        The cost spent when the time limit was reached, None if it was not.
    """
    due = list(cell.recommendation_costs)
    seconds_left = math.inf if cell.longest is None else 60 * cell.longest
    while seconds_left > 0 and not _found_best(problem, study):
        before = _true_spent(problem, study)
        try:
            # a study that counts declared costs is told what is really left, like by someone who looks at the clock
            trial, seconds = _timed_ask(
                study, cell.budget if before == study.spent else study.spent + cell.budget - before
            )
        except (BudgetError, NotWorthwhileError):
            break  # too little is left for any query, or for one of this strategy, or every listed design was run
        now = _true_spent(problem, study)
        _recommend_at([cost for cost in due if before <= cost < now], problem, study, file)
        due = [cost for cost in due if cost >= now]
        seconds_left -= seconds["cpu"]
        told = _run(problem, study, trial)
        write_line(file, "query", _query(told, problem, study, seconds) | _seen(problem, study))
    _recommend_at(due, problem, study, file)
    return None if seconds_left > 0 else _true_spent(problem, study)


def _true_spent(problem: Problem, study: Study) -> float:
    """What the runs of a study really cost, whatever it counts."""
    if problem.cost_factor is None:
        return study.spent
    return math.fsum(trial.cost if trial.measured_cost is None else trial.measured_cost for trial in study.trials)


def _found_best(problem: Problem, study: Study) -> bool:
    """Whether the best of listed designs has been run at the target: nothing is left to measure."""
    return problem.space.table is not None and _seen(problem, study)["simple_regret"] <= 0


def _run(problem: Problem, study: Study, trial: LiveTrial) -> Trial:
    cost = None if problem.cost_factor is None else problem.cost(trial.params, trial.fidelity.name)
    try:
        value, outcomes = value_and_outcomes(problem.observe(trial.params, trial.fidelity.name))
    except EvaluationError as error:
        return study.tell(trial, failed=str(error), measured_cost=cost)
    return study.tell(trial, value, outcomes=outcomes, measured_cost=cost)


def _timed_ask(study: Study, budget: float) -> tuple[LiveTrial, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    with record() as seconds:
        trial = study.ask(budget)
    return trial, {**seconds, "total": time.perf_counter() - wall, "cpu": time.process_time() - processor}


def _query(trial: Trial, problem: Problem, study: Study, seconds: Mapping[str, float]) -> dict[str, Any]:
    return {
        "number": trial.number,
        "fidelity": trial.fidelity.name,
        "cost": trial.cost if problem.cost_factor is None else trial.measured_cost,
        "spent": _true_spent(problem, study),
        "params": trial.params,
        "value": trial.value,
        "outcomes": dict(trial.outcomes),
        "feasible": trial.feasible,
        "failed": trial.reason if trial.state is TrialState.FAILED else None,
        "seconds": seconds,
    }


def _seen(problem: Problem, study: Study) -> dict[str, float]:
    target = problem.ladder.target
    done = [t for t in study.trials if t.state is TrialState.DONE and t.fidelity == target and t.feasible]
    if problem.noise is None:  # recorded values are exact: do not repeat a simulation
        values = [t.value for t in done if t.value is not None]
    else:
        values = [problem.value(t.params, target.name) for t in done]
    return {"simple_regret": problems.simple_regret(problem, values)}


def _recommend_at(costs: list[float], problem: Problem, study: Study, file: IO[str]) -> None:
    """Compute the recommendation from all finished trials once, and record it for each of the costs."""
    if costs:
        made = _recommendation(problem, study)
        for cost in costs:
            write_line(file, "recommendation", {"cost": cost} | made)


def _recommendation(problem: Problem, study: Study) -> dict[str, Any]:
    """The recommendation of the strategy's model, or, without a model, the best design observed at the target."""
    if study.has_model and any(trial.state is TrialState.DONE for trial in study.trials):
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
