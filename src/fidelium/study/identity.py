"""The identity of a worker: which process of which machine it is, so that others can tell that it has ended.

A name is `host/process/machine-start-token`. The host is for people: cloned machines and containers share it. Where a
process number means something is said by `machine`: the machine's id, the boot, and the namespace of process numbers.
The process's start time tells it from a later one with the same number. Where one of these cannot be known (no Linux,
or a name of an older fidelium), nobody is judged by the process number: heartbeats alone tell.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from pathlib import Path

from fidelium.storage.serialise import bounded_reason

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_PROCESSES = Path("/proc")

_NAME = re.compile(r".*/(?P<process>\d{1,10})/(?P<machine>[0-9a-f]{16})-(?P<start>\d{1,20})-[0-9a-f]{8}", re.DOTALL)
_UNKNOWN = "unknown"
_LONGEST_HOST = 100


def worker_name() -> str:
    """A new name that says which process of which machine this is."""
    host = (bounded_reason(socket.gethostname()) or "").replace("/", "-")[:_LONGEST_HOST]
    process = os.getpid()
    start = _start_and_end(process)[0]
    return f"{host or _UNKNOWN}/{process}/{_machine() or _UNKNOWN}-{start}-{secrets.token_hex(4)}"


def has_ended(worker: str) -> bool:
    """Whether a worker is known to be a process of this machine that has ended; False if that cannot be known."""
    name = _NAME.fullmatch(worker)
    if name is None or name["machine"] != _machine():
        return False
    process, start = int(name["process"]), int(name["start"])
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or not a process number
        pass
    found, is_over = _start_and_end(process)
    return is_over or bool(start and found and start != found)


def _machine() -> str | None:
    """Where a process number means something: this container of this boot of this machine; None if unknown."""
    boot = _text(_BOOT_ID)
    try:
        namespace = _NAMESPACE.stat().st_ino
    except OSError:
        return None
    if not boot:
        return None
    machine = next((text for text in map(_text, _MACHINE_IDS) if text), "")
    return hashlib.sha256(f"{machine}\n{boot}\n{namespace}".encode()).hexdigest()[:16]


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""


def _start_and_end(process: int) -> tuple[int, bool]:
    """When a process was started, in ticks since the boot, 0 if unknown; and whether it has ended, but is kept."""
    fields = _text(_PROCESSES / str(process) / "stat").rpartition(")")[2].split()  # the name before may hold anything
    if len(fields) < 20:
        return 0, False
    state, threads, start = fields[0], fields[17], fields[19]
    is_over = state in ("Z", "X") and threads in ("0", "1")
    return int(start), is_over
