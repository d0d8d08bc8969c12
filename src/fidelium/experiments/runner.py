"""Runs the cells of an experiment, each in a process with one thread, and survives being killed.

Nothing is kept in memory that a restart needs: a cell whose file is there is complete, every other one is run from its
beginning. Workers end when the runner does, even if it was killed: a cell is never written by two processes. One folder
has one runner at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from pathlib import Path

from fidelium.errors import FideliumError
from fidelium.experiments.cell import run_cell
from fidelium.experiments.one_core import use_one_thread
from fidelium.experiments.records import Cell, is_complete, load

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
                load(cell, folder)  # refuses what was run with other settings, before anything is spent
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
