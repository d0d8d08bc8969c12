"""A program's output in a file of bounded size: its beginning and its end."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from fidelium.execution.run_folder import open_regular


class BoundedLog:
    """Keeps the first and the last `limit` bytes written, and the number of bytes dropped in between.

    The beginning is written to the file immediately, the end on `close`. At most `2 limit` bytes are in memory.

    Args:
        path: the file to create.
        limit: bytes to keep of the beginning and of the end.

    Raises:
        OSError: if the file cannot be created; `write` and `close` raise it if the disk is full.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._file = path.open("wb", buffering=0)
        self._limit = limit
        self._head_room = limit
        self._tail = bytearray()
        self._tail_size = 0

    @property
    def left_out(self) -> int:
        """Number of bytes dropped in the middle."""
        return max(self._tail_size - self._limit, 0)

    def write(self, data: bytes) -> None:
        """Append output."""
        head, tail = data[: self._head_room], data[self._head_room :]
        if head:
            _write_all(self._file.fileno(), head)
            self._head_room -= len(head)
        self._tail_size += len(tail)
        self._tail += tail
        if len(self._tail) > 2 * self._limit:
            del self._tail[: -self._limit or None]

    def close(self) -> None:
        """Write the end of the output and close the file."""
        with self._file:
            if self.left_out:
                _write_all(self._file.fileno(), f"\n[fidelium left out {self.left_out} bytes]\n".encode())
            _write_all(self._file.fileno(), self._tail[-self._limit :] if self._limit else b"")

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
    """The last lines of a file joined into one, at most `limit` characters; empty if there are none."""
    try:
        with open_regular(path) as file:  # the program may have put something else in its place
            file.seek(max(os.fstat(file.fileno()).st_size - 4 * limit, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    joined = " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())
    return joined if len(joined) <= limit else f"...{joined[-limit:]}"


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    """Write all bytes: `os.write` may write only a part, for instance when the disk is almost full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
