"""How commands print: tables and lines for people, JSON for programs, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fidelium.errors import SettingError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


LONGEST = 100
"""Characters of a reason that a table shows."""


def examples(*commands: str) -> str:
    """What `--help` ends with: a line for each command."""
    return "\n\n".join(["Example:" if len(commands) == 1 else "Examples:", *commands])


def print_json(content: object) -> None:
    """Print strict JSON and nothing else."""
    print(json.dumps(content, allow_nan=False, indent=2))


def console(*, error: bool = False) -> Console:
    """Where people read: colours on a terminal, plain text elsewhere; square brackets mean nothing."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, markup=False, soft_wrap=True)


def say(text: str) -> None:
    """A line for people, beside the results: on stderr."""
    print(text, file=sys.stderr, flush=True)


def grid(*headers: str, title: str | None = None) -> Table:
    """A table whose first column is text, and the others too unless their header starts with ">"."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for header in headers:
        table.add_column(header.removeprefix(">"), justify="right" if header.startswith(">") else "left")
    return table


def visible(text: object) -> str:
    """Text with everything unprintable spelled out: a value may come from anywhere, and hold escape sequences."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text))


def number(value: float | None) -> str:
    """A number as people read it."""
    return "–" if value is None else f"{value:.6g}"


def design(params: Mapping[str, Any]) -> str:
    """A design in a line: `x1 = 3.14, kind = steel`."""
    values = (f"{value:.6g}" if isinstance(value, float) else visible(value) for value in params.values())
    return ", ".join(f"{visible(name)} = {value}" for name, value in zip(params, values, strict=True))


def first_line(reason: str | None) -> str:
    """What a reason says, in one bounded line: the first, or the last of a traceback."""
    lines = (reason or "").strip().splitlines() or ["unknown"]
    line = visible(lines[-1] if lines[0].startswith("Traceback") else lines[0])
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def duration(seconds: float) -> str:
    """An age: `42 s`, `7 min`, `3.2 h`."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def command(*parts: str) -> str:
    """A command as it can be pasted into a shell."""
    return shlex.join(["fidelium", *parts])


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 trial`, `2 trials`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(lines: Sequence[str], most: int) -> list[str]:
    """The lines, or the first of them and how many more there are."""
    return list(lines) if len(lines) <= most else [*lines[:most], f"... and {len(lines) - most} more"]


def make_folder(path: Path) -> Path:
    """The folder, made if it is not there.

    Raises:
        SettingError: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot make the folder {str(path)!r}: {error.strerror}") from None
    return path
