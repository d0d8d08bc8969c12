"""The compilation cache: files that a killed process has left half-written are removed, and warn nobody."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from fidelium.numerics.compilation_cache import CHECKED, remove_unreadable

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
logging.getLogger("jax").setLevel(logging.WARNING)
import jax.numpy as jnp
from fidelium.numerics.backend import jax_session, quick_jit
with jax_session():
    print(float(quick_jit(lambda x: jnp.sin(x) @ x)(jnp.arange(8.0))))
"""


def start(folder: Path) -> tuple[str, list[str]]:
    """What a new process computes, and what it says besides."""
    environment = os.environ | {"FIDELIUM_CACHE_DIR": str(folder)}
    process = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return process.stdout, process.stderr.splitlines()


def entries(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*-cache")}


def test_truncated_files_are_replaced_at_the_next_start_without_a_warning(tmp_path):
    value, said = start(tmp_path)
    assert said == []
    good = entries(tmp_path)
    assert len(good) > 2
    for part, name in enumerate(sorted(good)):  # emptied, cut at several places, and with a byte changed
        cut = len(good[name]) * (part % 4) // 4
        damaged = good[name][:cut] if part % 5 else bytes([good[name][0] ^ 255]) + good[name][1:]
        (tmp_path / name).write_bytes(damaged)
    again, said = start(tmp_path)
    assert again == value
    assert said == [f"removed {len(good)} unreadable files of the compilation cache in {tmp_path}"]
    assert entries(tmp_path).keys() == good.keys()
    assert start(tmp_path) == (value, [])


def compressed(content: bytes) -> bytes:
    """As JAX does it here."""
    for name in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            return import_module(name).compress(content)
    return zlib.compress(content)


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in "abc":
        (tmp_path / f"{name}-cache").write_bytes(compressed(name.encode() * 1000))
    (tmp_path / "mine.txt").write_text("not an entry")
    return tmp_path


def test_only_what_cannot_be_read_is_removed(folder):
    assert remove_unreadable(folder) == 0
    (folder / "b-cache").write_bytes((folder / "b-cache").read_bytes()[:-3])
    assert remove_unreadable(folder) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["a-cache", "c-cache", CHECKED, "mine.txt"]
    assert (folder / CHECKED).read_text().count("\n") == 2


def test_files_that_were_found_good_are_not_read_again(folder, monkeypatch):
    remove_unreadable(folder)
    (folder / "d-cache").write_bytes(compressed(b"new"))
    read: list[str] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or real(path))
    remove_unreadable(folder)
    remove_unreadable(folder)
    assert read == ["d-cache"]


def test_a_damaged_list_and_a_missing_folder_are_no_obstacle(folder):
    (folder / CHECKED).write_bytes(b"\xff\xfe\x00 nonsense")
    assert remove_unreadable(folder) == 0
    assert remove_unreadable(folder / "nowhere") == 0
