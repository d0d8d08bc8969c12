"""Unreadable files of the compilation cache are found and removed.

JAX writes an entry of its cache in place. A process killed meanwhile leaves half a file, which JAX can neither read nor
replace: it would warn about it at every start. So each process looks, once, at the files that have appeared or changed
since they were looked at last. Their names, sizes and times are in a small file beside them.
"""

from __future__ import annotations

import logging
import os
import tempfile
import zlib
from contextlib import suppress
from importlib import import_module
from pathlib import Path

CHECKED = "fidelium-checked.txt"
"""Name of the file with the entries found readable: size, time of the last change and name in each line."""

_SUFFIX = "-cache"

_log = logging.getLogger("fidelium")


def remove_unreadable(folder: Path) -> int:
    """Remove the entries that JAX could not read; their number. What cannot be looked at or removed stays as it is."""
    removed = 0
    with suppress(OSError):
        entries = {_line(entry): Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(_SUFFIX)}
        before = _checked(folder)
        for line in sorted(entries.keys() - before):
            if not _readable(entries[line]):
                with suppress(OSError):
                    entries[line].unlink()
                    removed += 1
                del entries[line]
        if entries.keys() != before:
            _write(folder / CHECKED, "".join(f"{line}\n" for line in sorted(entries)))
    if removed:
        _log.info("removed %d unreadable files of the compilation cache in %s", removed, folder)
    return removed


def _line(entry: os.DirEntry[str]) -> str:
    found = entry.stat()
    return f"{found.st_size} {found.st_mtime_ns} {entry.name}"


def _checked(folder: Path) -> set[str]:
    try:
        return set((folder / CHECKED).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return set()


def _readable(path: Path) -> bool:
    """Whether the whole entry can be decompressed, in the way JAX does it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # another process was faster
        return False
    for name in ("compression.zstd", "zstandard"):  # JAX takes the first that is installed, else zlib
        with suppress(ImportError):
            zstd = import_module(name)
            decompress = zstd.decompress
            try:
                decompress(content)
            except (zstd.ZstdError, EOFError):
                return False
            return True
    try:
        zlib.decompress(content)
    except zlib.error:
        return False
    return True


def _write(path: Path, text: str) -> None:
    """Write the whole file or nothing: other processes may be doing the same."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=CHECKED, delete=False, encoding="utf-8") as file:
        try:
            file.write(text)
            file.close()
            os.replace(file.name, path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise
