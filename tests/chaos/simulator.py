"""The simulator of `make chaos`: a program that notes every start and end in a ledger outside of the study.

It is run by fidelium as `simulator.py NUMBER ATTEMPT X COUNT KIND FIDELITY RESULT`, without any package. What it
computes follows from the parameters alone, so whoever knows these knows what must be stored. Some designs fail, some
leave a child, a deaf child or a daemon behind.
"""

from __future__ import annotations

import os
import signal
import sys
import time

LEDGER, CREW = "CHAOS_LEDGER", "CHAOS_CREW"
"""Variables: the path of the ledger; which process of the harness has started us."""

FAILURE = 3
"""The exit code for a design that fails."""

_LONGEST = 120.0
"""Seconds that what is left behind lives if nobody ends it."""


def value_of(x: float, count: int, kind: str, fidelity: str) -> float | None:
    """The value of a design, None if it fails."""
    if 0.40 <= x < 0.44:
        return None
    return (x - 0.3) * (x - 0.3) * count + len(kind) + (0.0 if fidelity == "fine" else 0.125)


def main(arguments: list[str]) -> int:
    """Evaluate one design; the exit code."""
    number, attempt, x, count, kind, fidelity, result = arguments
    note = f"{number}\t{attempt}\t{os.environ.get(CREW, '')}"
    _write("start", note)
    _leave_behind(int(number) % 7)
    time.sleep((int(number) * 37 + int(attempt) * 61) % 200 / 1000)
    value = value_of(float(x), int(count), kind, fidelity)
    if value is None:
        _write("fail", note)
        sys.stderr.write("no such mesh\n")
        return FAILURE
    with open(result, "w") as file:
        file.write(f'{{"value": {value!r}, "cost": 1.5}}' if result.endswith(".json") else f"run,mass\n1,{value!r}\n")
    sys.stdout.write(f"solved\nmass = {value!r}\n")
    sys.stdout.flush()
    _write("finish", f"{note}\t{value!r}")
    return 0


def _write(event: str, note: str) -> None:
    """Append a line in one piece: other simulators write at the same time, and this one may be killed."""
    ledger = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(ledger, f"{event}\t{time.time()!r}\t{note}\n".encode())
    os.close(ledger)


def _leave_behind(choice: int) -> None:
    """Start something that outlives this program: nothing, a child, a child deaf to SIGTERM, or a daemon."""
    if choice > 2 or os.fork():
        return
    if choice == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if choice == 2:
        os.setsid()
        if os.fork():
            os._exit(0)
    time.sleep(_LONGEST)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
