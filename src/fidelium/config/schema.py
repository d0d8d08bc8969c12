"""What a study's file may say: its keys, their kinds and defaults. The descriptions are those of the schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from fidelium.strategies.registry import DEFAULT

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


class RealSection(Section):
    """A real number between two bounds."""

    type: Literal["real"]
    low: Number = Field(description="smallest value")
    high: Number = Field(description="largest value")
    log: bool = Field(default=False, description="search on a logarithmic scale; needs low > 0")


class IntegerSection(Section):
    """A whole number between two bounds, both included."""

    type: Literal["integer"]
    low: Whole = Field(description="smallest value")
    high: Whole = Field(description="largest value")
    log: bool = Field(default=False, description="search on a logarithmic scale; needs low >= 1")


class CategoricalSection(Section):
    """One of a few choices without an order."""

    type: Literal["categorical"]
    choices: Choices = Field(description="the choices, at least two: texts, numbers or truth values")


ParameterSection = Annotated[RealSection | IntegerSection | CategoricalSection, Field(discriminator="type")]


class ResultSection(Section):
    """Where the value is found; without any key in result.json as {"value": 1.2, "cost": 3.4} or {"failed": "why"}."""

    file: str | None = Field(default=None, description="the file, in the trial's folder, that holds the value")
    json_path: str | None = Field(default=None, alias="json", description="path in a JSON file: results.mass[0]")
    column: Column | None = Field(default=None, description="column of a table: its name, or its position from 0")
    row: Row = Field(default=-1, description="row of the table from 0 (without names), or last")
    delimiter: str = Field(default=",", description="between columns: one character, or space for blanks")
    regex: str | None = Field(default=None, description="regular expression with a group; without a file on stdout")
    python: str | None = Field(default=None, description="file.py:function, called with the trial's folder")

    @model_validator(mode="after")
    def _check(self) -> ResultSection:
        rules = {"json": self.json_path, "column": self.column, "regex": self.regex, "python": self.python}
        said = [name for name, rule in rules.items() if rule is not None]
        if len(said) > 1:
            raise ValueError(f"says {' and '.join(said)}, but a value is found by one rule; remove all but one")
        if said in (["json"], ["column"]) and self.file is None:
            raise ValueError(f"{said[0]} needs a file to look in; add file: NAME")
        if said == ["python"] and self.file is not None:
            raise ValueError("a Python function reads what it wants; remove file")
        if said != ["column"] and {"row", "delimiter"} & self.model_fields_set:
            raise ValueError("row and delimiter are for a table; add column: NAME")
        if self.delimiter != "space" and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one character, or space, got {self.delimiter!r}")
        return self


class ProgramSection(Section):
    """How a program is run. Said at the top it holds for all fidelities; a fidelity may say it for itself."""

    command: CommandLine | None = Field(default=None, description="program and arguments, with {name} for values")
    shell: bool | None = Field(default=None, description="run the command, a line of text, by /bin/sh")
    timeout: Duration | None = Field(default=None, description="the longest it may take: 90, 90 s, 10 min, 8 h")
    grace: Duration = Field(default=5.0, description="time to clean up when it has to end: SIGTERM, then SIGKILL")
    output_limit: Count = Field(default=1_000_000, description="bytes kept of the beginning and the end of its output")
    templates: dict[str, str] = Field(default={}, description="file in the trial's folder: its Jinja template")
    environment: dict[str, Text] = Field(default={}, description="environment variables, with {name} for values")
    result: ResultSection | None = Field(default=None, description="where the value is found")


class FidelitySection(ProgramSection):
    """One way to evaluate the objective."""

    name: str = Field(description="what it is called", min_length=1)
    cost: PositiveNumber = Field(description="what one evaluation costs, in any unit")


class FailuresSection(Section):
    """What happens when an evaluation fails."""

    retries: Count = Field(default=0, description="how many times a failed trial is tried again")
    then: Literal["continue", "stop"] = Field(
        default="continue", description="what the study does when that did not help"
    )


class StopSection(Section):
    """When to stop before the budget is spent."""

    wall_time: Duration | None = Field(default=None, description="after this time: 90, 90 s, 10 min, 8 h")
    trials: PositiveCount | None = Field(default=None, description="after so many trials")
    no_improvement: PositiveNumber | None = Field(default=None, description="after this cost without a better value")
    gain_per_cost: PositiveNumber | None = Field(default=None, description="when the next query is worth less per cost")


@dataclass(frozen=True)
class StrategySection:
    """A strategy by name, with its options."""

    name: str
    options: dict[str, Any]


def _strategy(given: object) -> StrategySection:
    options = dict(given) if isinstance(given, dict) else {"name": given}
    name = options.pop("name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"expected the name of a strategy, or {{name: ..., option: value}}, got {given!r}")
    return StrategySection(name, options)


Strategy = Annotated[
    StrategySection,
    PlainValidator(_strategy),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "string"},
                {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            ]
        }
    ),
]


class StudySection(ProgramSection):
    """A study of fidelium with an external program."""

    name: str = Field(description="what the study is called, unique in its storage", min_length=1)
    direction: Literal["maximize", "minimize"] = Field(description="whether large or small values are wanted")
    storage: str | None = Field(
        default=None, description="sqlite:///file.db or postgresql+psycopg://user@host/database"
    )
    strategy: Strategy = Field(
        default=DEFAULT,
        validate_default=True,
        description="how to choose what to evaluate: a name, or {name: ..., option: value, ...}",
    )
    seed: Count = Field(default=0, description="where all randomness comes from")
    budget: PositiveNumber = Field(description="what the study may spend in total, in the unit of the costs")
    workers: PositiveCount = Field(default=1, description="evaluations at the same time")
    initial: dict[str, Count] | None = Field(default=None, description="random points to begin with, by fidelity")
    parameters: dict[str, ParameterSection] = Field(description="the parameters by name")
    fidelities: list[FidelitySection] = Field(description="from low to high; the last is the target", min_length=1)
    failures: FailuresSection = Field(default=FailuresSection(), description="what happens when an evaluation fails")
    stop: StopSection = Field(default=StopSection(), description="when to stop before the budget is spent")
    runs: str = Field(default="runs", description="the folder of the trials' folders", min_length=1)


def study_schema() -> dict[str, Any]:
    """The JSON schema of a study's file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **StudySection.model_json_schema()}
