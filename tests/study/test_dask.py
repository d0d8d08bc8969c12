"""A study on a real Dask cluster: a scheduler and two worker processes, one of them killed half-way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

import fidelium as fd
from fidelium.errors import SetupError


@pytest.fixture
def client(tmp_path) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any free port: another cluster may have the usual one
            local_directory=str(tmp_path),
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_study_survives_the_end_of_a_dask_worker(client, tmp_path):
    log = tmp_path / "evaluated"
    log.mkdir()

    def objective(params, fidelity):
        if not list(log.glob("killed-*")) and list(log.glob("done-*")):
            (log / f"killed-{params['x']}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        (log / f"done-{params['x']}-{os.getpid()}").touch()
        return params["x"]

    study = fd.create_study(
        {"x": fd.Real(0, 1)},
        [fd.Fidelity("coarse", 1), fd.Fidelity("fine", 5)],
        direction="maximize",
        strategy="random",
        storage=f"sqlite:///{tmp_path}/study.db",
        initial={"coarse": 20, "fine": 2},
    )
    best = study.optimize(objective, 40, executor=client.get_executor())
    assert best is not None
    assert study.spent == 40
    assert {trial.state for trial in study.trials} == {"done"}
    assert all(trial.value == trial.params["x"] for trial in study.trials)
    (killed,) = (path.name.removeprefix("killed-") for path in log.glob("killed-*"))
    assert any(path.name.startswith(f"done-{killed}-") for path in log.glob("done-*"))  # run again, elsewhere
    assert len(_processes(log)) >= 2


@pytest.mark.slow
def test_a_fault_of_the_set_up_comes_from_a_dask_worker_and_fails_no_trial(client):
    def objective(params, fidelity):
        raise SetupError("the disk is full: free some space and run again")

    study = fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("fine", 1)], direction="maximize", strategy="random")
    with pytest.raises(SetupError, match="the disk is full: free some space and run again"):
        study.optimize(objective, 9, executor=client.get_executor(), progress=False)
    assert {(trial.state, trial.attempt) for trial in study.trials} == {("queued", 1)}


def _processes(log: Path) -> set[str]:
    return {path.name.rpartition("-")[2] for path in log.glob("done-*")}
