"""The careful reading of files that a program wrote: whatever is in them, the answer is a number or a reason."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any

from fidelium.errors import EvaluationError

_LARGEST = 64_000_000
"""Bytes of a file that are read at most."""


def read_text(path: Path) -> str:
    """The text of a file that a program wrote: a plain file of bounded size, whatever its bytes.

    Raises:
        EvaluationError: if there is none.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a named pipe must not block us
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise EvaluationError(f"{path.name} is no plain file")
            if status.st_size > _LARGEST:
                raise EvaluationError(f"{path.name} has {status.st_size} bytes, more than {_LARGEST}")
            return file.read(_LARGEST).decode("utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise EvaluationError(f"the program wrote no {path.name}") from None
    except OSError as error:
        raise EvaluationError(f"cannot read {path.name}: {error.strerror}") from None


def finite(what: str, value: Any) -> float:
    """The value as a finite float; text may have Fortran's exponent (1.5D+03).

    Raises:
        EvaluationError: if it is none.
    """
    if isinstance(value, str):
        value = re.sub(r"(?<=[\d.])[dD](?=[+-]?\d+\s*$)", "e", value)
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None:
        raise EvaluationError(f"{what} is {short(value)}, not a number")
    if not math.isfinite(number):
        raise EvaluationError(f"{what} is {number}, not a finite number")
    return number


def parse_json(name: str, text: str) -> Any:
    """The content of a JSON file.

    Raises:
        EvaluationError: if it is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{name} is not JSON: {error}; it starts with {short(text)}") from None


def short(value: Any) -> str:
    """How a value prints, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
