"""Runs one program and leaves nothing of it behind; a program of its own, with the standard library alone.

    python -I -S guard.py PARENT REPORT GRACE PROGRAM [ARGUMENT ...]

fidelium (process PARENT) holds the other end of this process's standard input and writes nothing to it. When that end
closes, because fidelium wants the program to stop or because fidelium was killed, the program and everything it has
started gets SIGTERM and, after GRACE seconds, SIGKILL. The same happens to what is left when the program has ended by
itself. On Linux this process adopts orphans, so even daemons are found; elsewhere the program's process group is ended.

What happened is written to the file descriptor REPORT, a line each:

    started PID | unable ERRNO        the program runs, or could not be started
    ended CODE SECONDS                its exit code, or minus the signal that ended it
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

_KILL_PATIENCE = 5.0
"""Seconds after SIGKILL until a process that hangs in the kernel is given up."""

_LOOK_EVERY = 1.0
"""Seconds between looks whether the parent is still there: a fork of it may hold our standard input open."""


def main(arguments: list[str]) -> None:
    """Run the program to its end and report it."""
    parent, report, grace = int(arguments[0]), int(arguments[1]), float(arguments[2])
    os.set_inheritable(report, False)
    _adopt_orphans()
    wakeup = _wake_on_signals()
    started = time.monotonic()
    try:
        child = _start(arguments[3:])
    except OSError as error:
        _say(report, f"unable {error.errno}")
        return
    _say(report, f"started {child}")
    ended: dict[int, int] = {}
    _wait(child, ended, parent, wakeup)
    seconds = time.monotonic() - started
    _end_all(child, ended, grace)
    _say(report, f"ended {ended.get(child, -signal.SIGKILL)} {seconds}")


def _start(argv: list[str]) -> int:
    """Start the program in a process group of its own, with nothing to read and Python's ignored signals restored."""
    nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    restored = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD]
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=nothing, setpgroup=0, setsigdef=restored)


def _adopt_orphans() -> None:
    """Become the parent of every orphan below this process, where the system can do that (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    pr_set_child_subreaper = 36  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def _wake_on_signals() -> int:
    """A descriptor that gets a byte, the signal's number, when a child ends or somebody wants this process to end."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return read_end


def _wait(child: int, ended: dict[int, int], parent: int, wakeup: int) -> None:
    """Return when the child has ended, or when it has to."""
    while child not in ended and os.getppid() == parent:
        readable, _, _ = select.select([0, wakeup], [], [], _LOOK_EVERY)
        if 0 in readable:  # nobody ever writes: this is its end
            return
        if wakeup in readable and set(os.read(wakeup, 512)) - {signal.SIGCHLD}:
            return
        _reap(ended)


def _end_all(child: int, ended: dict[int, int], grace: float) -> None:
    """End the child and everything below this process: SIGTERM once, SIGKILL until nothing is left."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_PATIENCE)):
        if not _reap(ended):
            return
        until = time.monotonic() + patience
        pause = 0.001
        _signal_all(child, number)
        while _reap(ended) and _signal_all(child, number if number == signal.SIGKILL else 0):
            if time.monotonic() > until:
                break
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


def _reap(ended: dict[int, int]) -> bool:
    """Take note of all children that have ended; whether there may be processes left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return sys.platform != "linux"  # there, orphans would be children
        if not pid:
            return True
        ended[pid] = os.waitstatus_to_exitcode(status)


def _signal_all(group: int, number: int) -> bool:
    """Send a signal (0: none) to all that is left; whether there was anything."""
    if sys.platform != "linux":
        return _signal(-group, number)
    reached = [_signal(pid, number) for pid in _below(os.getpid())]
    return any(reached)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # gone, or another user's by now
        return False
    return True


def _below(root: int) -> list[int]:
    """All living processes below one, however deep, from /proc."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        if state not in (b"Z", b"X"):
            parents[int(name)] = int(parent)
    found, wave = [], {root}
    while wave := {pid for pid, parent in parents.items() if parent in wave}:
        found.extend(wave)
    return found


def _say(report: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # fidelium is gone: there is nobody to tell
        os.write(report, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
