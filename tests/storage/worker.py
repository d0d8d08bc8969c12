"""What the tests of several processes run in each of them: `python worker.py TASK URL NAME ...`."""

from __future__ import annotations

import os
import resource
import sys
import threading

from fidelium.errors import StorageError
from fidelium.history import TrialState
from fidelium.storage import Result, StudyStore, open_storage
from fidelium.testing.storage_cases import make_definition, make_trial


def value_of(number: int) -> float:
    return number / 7


def share(store: StudyStore, worker: str, total: int, log: int) -> None:
    """Add until there are `total` trials, finish until none is queued; log every call after it has returned."""
    while True:
        number = len(store.trials())
        if number < total and store.add(make_trial(number)) is not None:
            os.write(log, f"add {number}\n".encode())
        trial = store.claim(worker)
        if trial is not None:
            os.write(log, f"claim {trial.number} {trial.attempt}\n".encode())
            store.finish(trial.number, trial.attempt, Result(TrialState.DONE, value_of(trial.number)))
            os.write(log, f"finish {trial.number} {trial.attempt}\n".encode())
        elif number >= total:
            return


def fork(store: StudyStore, children: int, each: int) -> None:
    """Fork while a thread writes and the connection is in use; parent and children add trials of their own."""
    stop = threading.Event()
    beating = threading.Thread(target=lambda: [store.beat("parent") for _ in iter(stop.is_set, True)])
    add_some(store, 1)
    beating.start()
    pids = []
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            add_some(store, each)
            os._exit(0)
        pids.append(pid)
        add_some(store, each)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    stop.set()
    beating.join()
    assert codes == [0] * children, codes


def add_some(store: StudyStore, count: int) -> None:
    while count:
        count -= store.add(make_trial(len(store.trials()))) is not None


def fill_disk(store: StudyStore, limit: int) -> None:
    """Let no file grow beyond `limit`, add until the storage complains; then lift the limit and go on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    added = 0
    try:
        while True:
            added += store.add(make_trial(added)) is not None
    except StorageError as error:
        sys.stdout.write(f"{error}\n")
    assert len(store.trials()) == added
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.add(make_trial(added))
    sys.stdout.write(f"{added}\n")


if __name__ == "__main__":
    task, url, name, *rest = sys.argv[1:]
    storage = open_storage(url)
    store = storage.open(name) if name in storage.names() else storage.create(make_definition(name))
    if task == "share":
        share(store, rest[0], int(rest[1]), os.open(rest[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    elif task == "fork":
        fork(store, int(rest[0]), int(rest[1]))
    else:
        fill_disk(store, int(rest[0]))
    storage.close()
