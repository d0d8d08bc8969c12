"""Runs one program and ends every process it has started. A standalone script that uses only the standard library.

    python -I -S guard.py PARENT REPORT GRACE INPUT PROGRAM [ARGUMENT ...]

fidelium (process PARENT) holds the other end of this process's standard input and never writes to it. When that end
closes, because fidelium stops the program or was killed itself, the program and all its descendants get SIGTERM and,
after GRACE seconds, SIGKILL. The same happens to descendants that are still running when the program has exited. On
Linux this process adopts orphans, so daemons are found too; on other systems the program's process group is ended.
INPUT is the file descriptor of the program's standard input, or -1 for an empty one.

Events are written to the file descriptor REPORT, one per line:

    started PID | error ERRNO         the program was started, or could not be
    exited CODE SECONDS               its exit code, or minus the number of the signal that ended it
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

_KILL_TIMEOUT = 5.0
"""Seconds to wait after SIGKILL for a process that hangs in the kernel."""

_PARENT_CHECK_INTERVAL = 1.0
"""Seconds between checks that the parent is alive: a fork of the parent may hold our standard input open."""


def main(arguments: list[str]) -> None:
    """Run the program to its end and report."""
    parent, report, grace, stdin = int(arguments[0]), int(arguments[1]), float(arguments[2]), int(arguments[3])
    os.set_inheritable(report, False)
    _adopt_orphans()
    wakeup = _wake_on_signals()
    start_time = time.monotonic()
    try:
        child = _start(arguments[4:], stdin)
    except OSError as error:
        _report(report, f"error {error.errno}")
        return
    _report(report, f"started {child}")
    exit_codes: dict[int, int] = {}
    _wait(child, exit_codes, parent, wakeup)
    seconds = time.monotonic() - start_time
    _end_all(child, exit_codes, grace)
    _report(report, f"exited {exit_codes.get(child, -signal.SIGKILL)} {seconds}")


def _start(argv: list[str], stdin: int) -> int:
    """Start the program in its own process group, with default signal handlers."""
    if stdin < 0:
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    else:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_CLOSE, stdin)]
    defaults = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD]
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setpgroup=0, setsigdef=defaults)


def _adopt_orphans() -> None:
    """Become the parent of all orphaned descendants, where the system supports it (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    pr_set_child_subreaper = 36  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def _wake_on_signals() -> int:
    """A descriptor that receives the number of each signal: a child has exited, or this process was asked to end."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return read_end


def _wait(child: int, exit_codes: dict[int, int], parent: int, wakeup: int) -> None:
    """Return when the child has exited or must be ended."""
    while child not in exit_codes and os.getppid() == parent:
        readable, _, _ = select.select([0, wakeup], [], [], _PARENT_CHECK_INTERVAL)
        if 0 in readable:  # nothing is ever written, so this is end of file
            return
        if wakeup in readable and set(os.read(wakeup, 512)) - {signal.SIGCHLD}:
            return
        _reap(exit_codes)


def _end_all(child: int, exit_codes: dict[int, int], grace: float) -> None:
    """End the child and all descendants: SIGTERM once, then SIGKILL until none is left."""
    for number, timeout in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_TIMEOUT)):
        if not _reap(exit_codes):
            return
        deadline = time.monotonic() + timeout
        pause = 0.001
        _signal_all(child, number)
        while _reap(exit_codes) and _signal_all(child, number if number == signal.SIGKILL else 0):
            if time.monotonic() > deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


def _reap(exit_codes: dict[int, int]) -> bool:
    """Collect the exit codes of children that have exited; returns whether processes may be left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return sys.platform != "linux"  # on Linux orphans are children, so none is left
        if not pid:
            return True
        exit_codes[pid] = os.waitstatus_to_exitcode(status)


def _signal_all(group: int, number: int) -> bool:
    """Send a signal (0: only check) to all remaining processes; returns whether there were any."""
    if sys.platform != "linux":
        return _signal(-group, number)
    reached = [_signal(pid, number) for pid in _descendants(os.getpid())]
    return any(reached)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it has exited, or the pid now belongs to another user
        return False
    return True


def _descendants(root: int) -> list[int]:
    """All living descendants of a process, from /proc."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):  # it has exited in the meantime
            continue
        if state not in (b"Z", b"X"):
            parents[int(name)] = int(parent)
    found, generation = [], {root}
    while generation := {pid for pid, parent in parents.items() if parent in generation}:
        found.extend(generation)
    return found


def _report(descriptor: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # fidelium is gone
        os.write(descriptor, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
