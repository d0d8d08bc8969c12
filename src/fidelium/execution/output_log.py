"""The output of a program, kept in a file of bounded size: its beginning and its end."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType


class BoundedLog:
    """Keeps the first and the last `limit` bytes of what is written; what lies between is counted and left out.

    The beginning goes to the file at once, the end when the log is closed. At most `2 limit` bytes are in memory.

    Args:
        path: the file, which is made.
        limit: bytes of the beginning and of the end.

    Raises:
        OSError: if the file cannot be made; `write` and `close` raise it if the disk is full.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._file = path.open("wb", buffering=0)
        self._limit = limit
        self._free = limit
        self._tail = bytearray()
        self._after = 0

    @property
    def left_out(self) -> int:
        """How many bytes of the middle are not kept."""
        return max(self._after - self._limit, 0)

    def write(self, data: bytes) -> None:
        """Take some more output."""
        head, tail = data[: self._free], data[self._free :]
        if head:
            _write_whole(self._file.fileno(), head)
            self._free -= len(head)
        self._after += len(tail)
        self._tail += tail
        if len(self._tail) > 2 * self._limit:
            del self._tail[: -self._limit or None]

    def close(self) -> None:
        """Write the end of the output."""
        with self._file:
            if self.left_out:
                _write_whole(self._file.fileno(), f"\n[fidelium left out {self.left_out} bytes]\n".encode())
            _write_whole(self._file.fileno(), self._tail[-self._limit :] if self._limit else b"")

    def __enter__(self) -> BoundedLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._file.close()


def last_lines(path: Path, lines: int = 5, limit: int = 600) -> str:
    """The last lines of a file on one line, at most `limit` characters; empty if there is nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 4 * limit, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    kept = " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())
    return kept if len(kept) <= limit else f"...{kept[-limit:]}"


def _write_whole(descriptor: int, data: bytes | bytearray) -> None:
    """Write all of it: the system may take a part only, for instance the last bytes that fit on a disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
