"""Output of the commands: tables and text for people, JSON for programs; control characters are escaped."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fidelium.errors import SettingError
from fidelium.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fidelium.history import Trial
    from fidelium.study import RecommendedDesign


def examples(*commands: str) -> str:
    """The examples at the end of `--help`, one line per command."""
    return "\n\n".join(["Example:" if len(commands) == 1 else "Examples:", *commands])


def print_json(content: object) -> None:
    """Print strict JSON."""
    print(json.dumps(content, allow_nan=False, indent=2))


def console(*, error: bool = False) -> Console:
    """A console for people: colours on a terminal, plain text elsewhere, no markup in square brackets."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, markup=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a message for people to stderr; results go to stdout."""
    print(text, file=sys.stderr, flush=True)


def logged(*, quiet: bool = False) -> AbstractContextManager[None]:
    """Print what fidelium logs: with times and a line per trial if no bar is shown, unless quiet."""
    from fidelium.study.progress import ENDING, log_to_stderr

    lines = not quiet and not sys.stderr.isatty()
    style = "%(asctime)s %(message)s" if lines else "%(message)s"
    return log_to_stderr(logging.INFO if lines else logging.WARNING, style, hidden=ENDING)


def grid(*headers: str, title: str | None = None) -> Table:
    """A table; a column whose header starts with ">" is right-aligned, the others left-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for header in headers:
        table.add_column(header.removeprefix(">"), justify="right" if header.startswith(">") else "left")
    return table


def expectation(choice: RecommendedDesign) -> str:
    """What to expect of a recommended design: the value it had, or what the model says."""
    chance = choice.feasible_probability
    likely = "" if chance is None or chance == 1 else f", feasible with probability {chance:.2f}"
    if choice.trial is not None and choice.std == 0:
        return f"{number(choice.mean)} observed in trial {choice.trial}{likely}"
    seen = "not run yet" if choice.trial is None else f"observed in trial {choice.trial}"
    return f"{number(choice.mean)} ± {choice.std:.2g} expected at the target, {seen}{likely}"


def number(value: float | None) -> str:
    """A number with six digits, or a dash for None."""
    return "–" if value is None else f"{value:.6g}"


def design(params: Mapping[str, Any]) -> str:
    """A design in one line: `x1 = 3.14, kind = steel`."""
    values = (f"{value:.6g}" if isinstance(value, float) else visible(value) for value in params.values())
    return ", ".join(f"{visible(name)} = {value}" for name, value in zip(params, values, strict=True))


def outcome_lines(trial: Trial) -> list[str]:
    """A line for each outcome of a trial: against its limit, if it has one."""
    from fidelium.feasibility import judged

    limits = {each.name: each.text for each in judged(trial)}
    return [limits.get(name) or f"{name} {outcome:.6g}" for name, outcome in trial.outcomes.items()]


def command(*parts: str) -> str:
    """A fidelium command, quoted for a shell."""
    return shlex.join(["fidelium", *parts])


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 trial`, `2 trials`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def truncated(lines: Sequence[str], limit: int) -> list[str]:
    """The first `limit` lines, and a line with the number of those left out."""
    return list(lines) if len(lines) <= limit else [*lines[:limit], f"... and {len(lines) - limit} more"]


def make_folder(path: Path) -> Path:
    """Create the folder if it does not exist, and return it.

    Raises:
        SettingError: if it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot create the folder {str(path)!r}: {error.strerror}") from None
    return path
