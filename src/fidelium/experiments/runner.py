"""Runs the cells of an experiment, each in a process with one thread, and survives being killed.

Nothing is kept in memory that a restart needs: a cell whose file is there is complete, every other one is run from its
beginning. Workers end when the runner does, even if it was killed: a cell is never written by two processes. One folder
has one runner at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from statistics import mean

from fidelium.errors import FideliumError
from fidelium.experiments.cell import run_cell
from fidelium.experiments.machine import use_one_thread
from fidelium.experiments.records import Cell, is_complete, load_run, spent

_MINUTES = 2.0
"""Of a study, where nobody says better."""


@dataclass
class Clock:
    """Estimates the time left; seconds of complete cells are read once.

    Args:
        cells: the experiment.
        folder: where its records are.
        workers: how many cells run at once.
        minutes: strategy -> minutes of a study with a whole budget, roughly.
    """

    cells: Sequence[Cell]
    folder: Path
    workers: int
    minutes: Mapping[str, float]
    _seconds: dict[Cell, float] = field(default_factory=dict)

    def seconds_left(self) -> float:
        """What is left to do, divided among the workers; at least what the longest cell needs."""
        self._seconds |= {cell: self._measured(cell) for cell in self.cells if self._is_new(cell)}
        left = [(1 - self.share(cell)) * self._expected(cell) for cell in self.cells if cell not in self._seconds]
        return max(sum(left) / self.workers, max(left, default=0.0))

    def share(self, cell: Cell) -> float:
        """How much of a cell is done, from 0 to 1."""
        return 1.0 if cell in self._seconds else spent(cell, self.folder) / cell.budget

    def _is_new(self, cell: Cell) -> bool:
        return cell not in self._seconds and is_complete(cell, self.folder)

    def _measured(self, cell: Cell) -> float:
        return load_run(cell, self.folder).end["seconds"]

    def _expected(self, cell: Cell) -> float:
        """Seconds of a cell: what others of its strategy and problem took, or others of its strategy, or a guess."""
        same = [took for each, took in self._seconds.items() if each.strategy == cell.strategy]
        alike = [took for each, took in self._seconds.items() if _alike(each, cell)]
        return mean(alike or same or [60 * self.minutes.get(cell.strategy, _MINUTES)])


def _alike(one: Cell, other: Cell) -> bool:
    return (one.strategy, one.problem) == (other.strategy, other.problem)


try:
    import fcntl
except ImportError:  # not on Windows, where two runners of one folder are the user's to avoid
    fcntl = None


class BusyFolderError(FideliumError, RuntimeError):
    """Another runner is at work in the folder."""


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
        folder: where the files go; it must be there.
        workers: how many processes at once.
        finished: called with each cell as it ends, and with what went wrong, if anything did.
        tick: called about every second.

    Raises:
        BusyFolderError: if another runner is at work in the folder.
        SettingError: if the folder holds a cell that was run with other settings.
    """
    with _alone_in(folder):
        left = [cell for cell in cells if not is_complete(cell, folder)]
        for cell in cells:
            if cell not in left:
                load_run(cell, folder)  # refuses what was run with other settings, before anything is spent
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin_worker, max_tasks_per_child=1) as pool:
            running: dict[Future[None], Cell] = {pool.submit(run_cell, cell, folder): cell for cell in left}
            try:
                while running:
                    for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                        finished(running.pop(future), future.exception())
                    tick()
            finally:  # after an interruption nothing new is started
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
    """Hold the folder's lock, which the system takes back when this process ends, however it does."""
    with (folder / ".lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyFolderError(
                    f"another run is at work in {folder}; wait for it or choose another folder with --out"
                ) from None
        yield
