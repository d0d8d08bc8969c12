"""Who a worker is: machines with the same hostname, containers, recycled process numbers, names of older versions."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

import fidelium as fd
from fidelium.history import TrialState
from fidelium.storage.serialise import checked_name
from fidelium.study import identity
from fidelium.study.identity import has_ended, worker_name
from fidelium.study.resume import recover

NAME = "from fidelium.study.identity import worker_name; print(worker_name(), flush=True)"


def dead_name() -> str:
    """The name of a worker of this machine that has ended."""
    run = subprocess.run([sys.executable, "-c", NAME], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def other_boot(tmp_path, monkeypatch):
    """As on another machine with the same name, image and process numbers, while inside."""
    with monkeypatch.context() as patch:
        (tmp_path / "boot_id").write_text("0a1b2c3d-0000-4000-8000-000000000000\n")
        patch.setattr(identity, "_BOOT_ID", tmp_path / "boot_id")
        yield patch


def study_run_by(worker: str, url: str | None = None) -> fd.Study:
    study = fd.create_study({"x": fd.Real(0, 1)}, [fd.Fidelity("f", 1)], direction="minimize", storage=url)
    study.start(10, worker)
    return study


def test_an_ended_process_of_this_machine_is_known_to_be_dead():
    assert has_ended(dead_name())
    assert not has_ended(worker_name())
    study = study_run_by(dead_name())
    assert [trial.state for trial in recover(study.store)] == [TrialState.QUEUED]


def test_a_worker_of_another_machine_with_the_same_hostname_keeps_its_trial(other_boot, tmp_path):
    worker = dead_name()
    process = worker.split("/")[1]
    other = worker_name().replace(f"/{os.getpid()}/", f"/{process}/")  # made on the other machine, running there
    assert other.split("/")[:2] == worker.split("/")[:2]
    study = study_run_by(other, f"sqlite:///{tmp_path}/s.db")
    other_boot.undo()
    assert has_ended(worker)
    assert not has_ended(other)
    assert recover(study.store) == ()
    assert study.trials[0].state is TrialState.RUNNING
    study.close()


def test_a_worker_in_another_container_of_this_machine_is_not_judged():
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a namespace of processes")
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", NAME]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"may not make a namespace of processes here: {run.stderr.strip()}")
    name = run.stdout.strip()
    assert name.startswith(f"{socket.gethostname()}/")
    assert not has_ended(name)
    assert not has_ended(name.replace("/1/", "/4194303/"))  # the largest process number: nobody has it


@pytest.mark.parametrize("file", ["_BOOT_ID", "_NAMESPACE"])
def test_without_an_identity_nobody_is_judged(file, tmp_path, monkeypatch):
    monkeypatch.setattr(identity, file, tmp_path / "missing")
    name = dead_name()
    assert not has_ended(name)
    process = name.split("/")[1]
    unknown = worker_name()
    assert "/unknown-" in unknown
    assert not has_ended(unknown.replace(f"/{os.getpid()}/", f"/{process}/"))


def test_a_machine_without_an_id_is_known_by_its_boot(tmp_path, monkeypatch):
    known = worker_name()
    monkeypatch.setattr(identity, "_MACHINE_IDS", (tmp_path / "missing",))
    assert "/unknown-" not in worker_name()
    assert worker_name().split("-")[0] != known.split("-")[0]


def test_names_of_older_versions_and_of_people_are_not_judged():
    dead = dead_name().split("/")[1]
    inode = os.stat("/proc/self/ns/pid").st_ino
    for name in (
        f"{socket.gethostname()}-{inode}/{dead}/4534f6af",
        "elsewhere/1/abc",
        "",
        "ada",
        "a/b/c",
        "//",
        "1/2/3",
    ):
        assert not has_ended(name)
    assert not has_ended(worker_name().replace(str(os.getpid()), "9" * 400))


def test_a_recycled_process_number_is_not_taken_for_the_dead_worker():
    host, process, rest = worker_name().split("/")
    machine, start, token = rest.split("-")
    assert not has_ended(f"{host}/{process}/{machine}-{start}-{token}")
    assert has_ended(f"{host}/{process}/{machine}-{int(start) - 1}-{token}")  # started before us, with our number


def test_a_killed_process_that_nobody_has_waited_for_is_dead():
    child = subprocess.Popen([sys.executable, "-c", f"{NAME}; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    name = child.stdout.readline().decode().strip()
    assert not has_ended(name)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert has_ended(name)
    child.stdin.close()
    child.stdout.close()
    child.wait()
    assert has_ended(name)


@pytest.mark.parametrize("host", ["x" * 300, "a/b/c", "\ud800\0", "", "漢字 host"])
def test_any_hostname_gives_a_name_that_can_be_stored(host, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    name = worker_name()
    assert checked_name(name) == name
    assert name.count("/") == 2
    assert not has_ended(name)
    assert identity._NAME.fullmatch(name) is not None
