"""An SQLite file that cannot be written can be looked at: on a read-only disk, and as another user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fidelium.errors import StorageError
from fidelium.storage import open_storage
from fidelium.storage.sql import schema
from fidelium.testing.storage_cases import DONE, add, make_definition

NOBODY = 65534

LOOK = """
import json, os, sys, tempfile
from fidelium.errors import StorageError
from fidelium.storage import open_storage, schema_version
from fidelium.testing.storage_cases import make_definition, make_trial
url = f"sqlite:///{sys.argv[1]}/study.db"
if len(sys.argv) > 2:  # another user, who may be unable to read Python's files: everything is imported before
    with tempfile.TemporaryDirectory() as folder:
        open_storage(f"sqlite:///{folder}/other.db").create(make_definition("s")).trials()
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
storage = open_storage(url)
store = storage.open("s")
seen = [len(store.trials()), schema_version(url), len(store.changes())]
sys.stdout.write(json.dumps(seen) + "\\n")
sys.stdout.flush()
sys.stdin.readline()  # others write meanwhile
sys.stdout.write(json.dumps(len(store.trials())) + "\\n")
for write in (lambda: store.add(make_trial(len(store.trials()))), lambda: storage.create(make_definition("t"))):
    try:
        write()
    except StorageError as error:
        sys.stdout.write(f"{error}\\n")
try:
    storage.create(make_definition("s"))
except StorageError as error:
    sys.stdout.write(f"{error}\\n")
"""


def start_looking(folder: Path, user: int | None = None) -> subprocess.Popen[str]:
    pipe, arguments = subprocess.PIPE, [str(folder)] if user is None else [str(folder), str(user)]
    command = [sys.executable, "-c", LOOK, *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def check_look(looker: subprocess.Popen[str], before: int, write=None) -> None:
    """It sees the trials there are, those that are added meanwhile, and may write nothing."""
    assert looker.stdout is not None
    first = looker.stdout.readline()
    if not first:
        raise AssertionError(looker.communicate()[1])
    assert json.loads(first) == [before, schema.CURRENT, 0]
    if write is not None:
        write()
    out, err = looker.communicate("\n")
    assert err == ""
    after, *refusals = out.splitlines()
    assert json.loads(after) == before + (write is not None)
    assert len(refusals) == 3
    assert all("the file is not writable; change its permissions" in each for each in refusals[:2])
    assert "study 's' exists already" in refusals[2]


def make_study(folder: Path):
    storage = open_storage(f"sqlite:///{folder}/study.db")
    store = storage.create(make_definition("s"))
    for number in range(3):
        add(store, number)
    store.claim("w")
    store.finish(0, 1, DONE)
    return storage, store


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder that others may read."""
    made = tmp_path / "studies"
    made.mkdir(mode=0o755)
    for each in (made, *made.parents):
        if each.stat().st_uid == os.getuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o055)
    return made


@pytest.fixture
def other_user() -> int:
    """A user who may read, not write."""
    if os.getuid() != 0:
        pytest.skip("needs root, to look as another user")
    return NOBODY


@pytest.fixture
def read_only(folder, tmp_path):
    """The same folder on a read-only disk."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    bind = subprocess.run(["mount", "--bind", folder, mirror], capture_output=True, text=True, check=False)
    if bind.returncode:
        pytest.skip(f"needs the right to mount: {bind.stderr.strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", mirror], check=True)
        yield mirror
    finally:
        subprocess.run(["umount", "-l", mirror], check=True)


def test_a_read_only_disk(folder, read_only):
    storage, _ = make_study(folder)
    storage.close()
    check_look(start_looking(read_only), 3)


def test_a_read_only_disk_that_somebody_writes_from_elsewhere(folder, read_only):
    storage, store = make_study(folder)
    check_look(start_looking(read_only), 3, lambda: add(store, 3))
    storage.close()


def test_a_read_only_disk_that_somebody_begins_to_write_later(folder, read_only):
    storage, _ = make_study(folder)
    storage.close()

    def write():
        again = open_storage(f"sqlite:///{folder}/study.db")
        add(again.open("s"), 3)
        again.close()

    check_look(start_looking(read_only), 3, write)


def test_the_folder_of_somebody_else(folder, other_user):
    storage, store = make_study(folder)
    check_look(start_looking(folder, other_user), 3, lambda: add(store, 3))
    storage.close()
    check_look(start_looking(folder, other_user), 4)


def test_what_a_killed_process_left(folder, read_only, tmp_path):
    """The newest changes are in a journal that nobody has read back yet."""
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; import test_read_only as t\n"
        "kept = t.make_study(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    here = str(Path(__file__).parent)
    run = subprocess.run([sys.executable, "-c", program, folder, here], capture_output=True, text=True, check=False)
    assert run.returncode == -9, run.stderr
    assert (folder / "study.db-wal").stat().st_size > 0
    check_look(start_looking(read_only), 3)
    (folder / "study.db-shm").unlink()  # as after a copy of the other two
    with pytest.raises(StorageError, match=r"newest changes of .* are in 'study.db-wal' .*; copy both files"):
        open_storage(f"sqlite:///{read_only}/study.db")
    for file in folder.iterdir():
        shutil.copy(file, tmp_path)
    storage = open_storage(f"sqlite:///{tmp_path}/study.db")
    assert len(storage.open("s").trials()) == 3
    storage.close()


STUDY = """\
name: parabola
direction: minimize
budget: 10
strategy: random
parameters:
  x: {type: real, low: 0, high: 1}
fidelities:
  - {name: fine, cost: 1, command: [echo]}
"""


def test_commands_that_only_look_work_on_a_read_only_disk(folder, read_only, tmp_path):
    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from fidelium.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    (folder / "study.yaml").write_text(STUDY)
    path = read_only / "study.yaml"
    assert json.loads(call("ask", folder / "study.yaml").stdout)["number"] == 0
    assert call("tell", folder / "study.yaml", "0", "0.5").returncode == 0
    assert json.loads(call("status", path, "--json").stdout)["trials"] == 1
    assert json.loads(call("best", path, "--json").stdout)["value"] == 0.5
    assert call("export", path, tmp_path / "trials.csv").returncode == 0
    assert "parabola" in call("storage", "info", f"sqlite:///{read_only}/parabola.db").stdout
    answer = call("ask", path)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "the file is not writable" in answer.stderr
