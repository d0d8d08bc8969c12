"""How many asks and tells per second a storage handles, from one or several parallel processes on one study.

An ask is its storage operations: read all trials, add a queued one, claim one. A tell is `finish`. Choosing and
evaluating take no time here. A storage in memory is used by threads, since it lives in one process.
"""

from __future__ import annotations

import multiprocessing
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from fidelium.definition import StudyDefinition
from fidelium.errors import SettingError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction, Trial, TrialState
from fidelium.space import Real, SearchSpace
from fidelium.storage import Result, Storage, StudyStore, open_storage

_LADDER = FidelityLadder((Fidelity("low", cost=1), Fidelity("high", cost=10)))
_SPACE = SearchSpace({f"x{position}": Real(0, 1) for position in range(6)})

Answer = TypeVar("Answer")

Claimed = tuple[int, int]
"""Number and attempt of a trial."""


@dataclass(frozen=True)
class StorageSpeed:
    """Speed of one storage.

    Args:
        processes: number of parallel processes.
        trials: number of trials asked and told, in total.
        ask_seconds: wall-clock time from the first ask to the last.
        tell_seconds: the same for the tells.
        load_seconds: time for a new storage object to open the study and read all trials.
    """

    processes: int
    trials: int
    ask_seconds: float
    tell_seconds: float
    load_seconds: float

    @property
    def asks_per_second(self) -> float:
        """Of all processes together."""
        return self.trials / self.ask_seconds

    @property
    def tells_per_second(self) -> float:
        """Of all processes together."""
        return self.trials / self.tell_seconds


def measure_storage(url: str | None, processes: int, trials: int) -> StorageSpeed:
    """Measure one storage with a temporary study, which is deleted at the end.

    Args:
        url: the storage, None for memory.
        processes: number of parallel processes.
        trials: number of trials they ask and tell, in total.

    Raises:
        SettingError: if there is not at least one trial per process.
        StorageError: if the storage cannot be used.
    """
    if not 1 <= processes <= trials:
        raise SettingError(f"at least one process and one trial per process are needed, got {processes} and {trials}")
    storage = open_storage(url)
    name = f"speed {uuid.uuid4()}"
    try:
        store = storage.create(StudyDefinition(_SPACE, _LADDER, Direction.MAXIMIZE, "random", name=name))
        with _workers(url, name, processes, store) as workers:
            return _measured(workers, storage if url is None else open_storage(url), name, processes, trials)
    finally:
        if name in storage.names():
            storage.delete(name)
        storage.close()


def _measured(workers: Executor, reader: Storage, name: str, processes: int, trials: int) -> StorageSpeed:
    list(workers.map(_look, range(4 * processes)))  # until every worker has started and connected
    shares = [trials // processes + (worker < trials % processes) for worker in range(processes)]
    claimed, ask_seconds = _timed(lambda: list(workers.map(_ask, shares)))
    _, tell_seconds = _timed(lambda: list(workers.map(_tell, claimed)))
    loaded, load_seconds = _timed(lambda: reader.open(name).trials())
    assert len(loaded) == trials
    reader.close()
    return StorageSpeed(processes, trials, ask_seconds, tell_seconds, load_seconds)


def _timed(call: Callable[[], Answer]) -> tuple[Answer, float]:
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def _workers(url: str | None, name: str, processes: int, store: StudyStore) -> Executor:
    if url is None:
        return ThreadPoolExecutor(processes, initializer=_use, initargs=(store,))
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_connect, initargs=(url, name))


_in_use: list[StudyStore] = []
"""The study of this process."""


def _use(store: StudyStore) -> None:
    _in_use[:] = [store]


def _connect(url: str, name: str) -> None:
    _use(open_storage(url).open(name))


def _look(_: int) -> int:
    time.sleep(0.05)  # long enough for the next process to take the next task
    return len(_in_use[0].trials())


def _ask(count: int) -> list[Claimed]:
    """Ask for `count` trials; read again, as a study does, if another process has added the number meanwhile."""
    store = _in_use[0]
    claimed: list[Claimed] = []
    while len(claimed) < count:
        number = len(store.trials())
        params = dict.fromkeys(_SPACE.names, (number * 0.1 + 0.01) % 1.0)
        if store.add(Trial(number, params, _LADDER[number % 2], TrialState.QUEUED)) is None:
            continue
        while (trial := store.claim("speed")) is None:
            pass
        claimed.append((trial.number, trial.attempt))
    return claimed


def _tell(claimed: Sequence[Claimed]) -> None:
    for number, attempt in claimed:
        _in_use[0].finish(number, attempt, Result(TrialState.DONE, value=number / 3))
