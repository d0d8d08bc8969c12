"""The kinds of values that stand in a study's file, each with its check and its schema."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

_UNITS = {
    "": 1,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
}
_DURATION = re.compile(r"\s*([\d.]+(?:[eE][-+]?\d+)?)\s*([a-z]*?)s?\s*")


class Section(BaseModel):
    """A mapping whose keys are all known, and whose values are of the kinds they should be, without guessing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def seconds(given: object) -> object:
    """A duration in seconds: 90, "90 s", "10 min", "8 h" or "2 d".

    Raises:
        ValueError: if a text is none.
    """
    if not isinstance(given, str):
        return given
    found = _DURATION.fullmatch(given.lower())
    try:
        return float(found[1]) * _UNITS[found[2]] if found else float("")
    except (ValueError, KeyError):
        raise ValueError("expected a duration such as 90, 90 s, 10 min or 8 h") from None


def _whole(given: object) -> object:
    """1e3 is a whole number too."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


def _text(given: object) -> object:
    """A whole number is as good as its text; 1e5 or true are not: nobody knows how they should be written."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


def _command(given: object) -> list[str] | str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not given:
        raise ValueError(f"expected a list such as [program, argument], got {given!r}")
    for argument in map(_text, given):
        if not isinstance(argument, str):
            raise ValueError(f"an argument is a text, got {argument!r}; write it between quotes")
    return [str(argument) for argument in given]


def _column(given: object) -> str | int:
    column = _whole(given)
    if isinstance(column, bool) or not isinstance(column, (str, int)):
        raise ValueError(f"expected a column's name, or its position from 0, got {given!r}")
    return column


def _row(given: object) -> int:
    row = -1 if given == "last" else _whole(given)
    if isinstance(row, bool) or not isinstance(row, int):
        raise ValueError(f"expected a row's position from 0, or last, got {given!r}")
    return row


def _choices(given: list[Any]) -> list[Any]:
    for choice in given:
        if isinstance(choice, (list, dict)):
            raise ValueError(f"a choice is a text, a number or a truth value, got {choice!r}")
    return given


Number = Annotated[float, Field(allow_inf_nan=False)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
PositiveCount = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "integer"]})]
CommandLine = Annotated[
    list[str] | str,
    PlainValidator(_command),
    WithJsonSchema({"oneOf": [{"type": "array", "items": {"type": ["string", "integer"]}}, {"type": "string"}]}),
]
Column = Annotated[str | int, PlainValidator(_column), WithJsonSchema({"type": ["string", "integer"]})]
Row = Annotated[int, PlainValidator(_row), WithJsonSchema({"oneOf": [{"const": "last"}, {"type": "integer"}]})]
Choices = Annotated[list[Any], AfterValidator(_choices)]
Duration = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(seconds),
    WithJsonSchema({"type": ["number", "string"], "examples": [90, "90 s", "10 min", "8 h"]}),
]
