"""Text for people: in one line, and with nothing in it that a terminal obeys."""

from __future__ import annotations

LONGEST_REASON_LINE = 300
"""Characters of a reason in the line of a trial."""


def visible(text: object) -> str:
    """Text with unprintable characters escaped: values may contain terminal escape sequences."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))


def reason_line(reason: str | None, longest: int = LONGEST_REASON_LINE) -> str:
    """One bounded line of a failure reason: the first, or the last of a traceback, which names the error."""
    lines = (reason or "").strip().splitlines() or ["unknown"]
    line = visible(lines[-1] if lines[0].startswith("Traceback") else lines[0])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def duration(seconds: float) -> str:
    """A duration: `42 s`, `7 min`, `3.2 h`."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
