"""The schema of study.yaml: keys, types, defaults, and the descriptions that `fidelium schema` prints."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from fidelium.numbers import parse_decimal
from fidelium.strategies.registry import DEFAULT

_UNIT_SECONDS = {
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
_LONGEST_DURATION = 100  # characters; on many blanks the expression would take for ever
_DURATION = re.compile(r"\s*([\d.]+(?:[eE][-+]?\d+)?)\s*([a-z]*?)s?\s*")


def parse_duration(value: object) -> object:
    """A string such as "90 s", "10 min", "8 h" or "2 d" in seconds; other values unchanged.

    Raises:
        ValueError: if the string is not a duration.
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.lower()) if len(value) <= _LONGEST_DURATION else None
    try:
        return float(match[1]) * _UNIT_SECONDS[match[2]] if match else float("")
    except (ValueError, KeyError):
        raise ValueError("expected a duration such as 90, 90 s, 10 min or 8 h") from None


def _integer(value: object) -> object:
    """Accept whole floats such as 1e3 as integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: object) -> object:
    """Accept integers as text, but not 1e5 or true, whose spelling is lost."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True)
class StepSection:
    """One of several commands that are run one after another."""

    argv: list[str]
    stdin: str | None = None


def _command(value: object) -> list[StepSection] | str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise ValueError(f"expected a list such as [program, argument], got {value!r}")
    if all(isinstance(step, (list, dict)) for step in value):
        return [_step(step) for step in value]
    return [StepSection(_argv(value))]


def _step(value: list[object] | dict[str, object]) -> StepSection:
    if isinstance(value, list):
        return StepSection(_argv(value))
    stdin = value.get("stdin")
    if "command" not in value or not set(value) <= {"command", "stdin"} or not isinstance(stdin, str | None):
        raise ValueError(f"expected {{command: [program, argument], stdin: file}}, got {value!r}")
    return StepSection(_argv(value["command"]), stdin)


def _argv(value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"expected a list such as [program, argument], got {value!r}")
    for argument in map(_text, value):
        if not isinstance(argument, str):
            raise ValueError(f"an argument must be text, got {argument!r}; put it in quotes")
    return [str(argument) for argument in value]


def _column(value: object) -> str | int:
    column = _integer(value)
    if isinstance(column, bool) or not isinstance(column, (str, int)):
        raise ValueError(f"expected a column's name, or its position from 0, got {value!r}")
    return column


def _row(value: object) -> int:
    row = -1 if value == "last" else _integer(value)
    if isinstance(row, bool) or not isinstance(row, int):
        raise ValueError(f"expected a row's position from 0, or last, got {value!r}")
    return row


def _cost(value: object) -> float | str:
    if isinstance(value, str):
        if parse_decimal(value) is not None:
            raise ValueError(f"expected a number, got {value!r}; remove the quotes")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, or an expression of the parameters, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    if value <= 0:
        raise ValueError(f"must be above 0, got {value!r}")
    return float(value)


def _choices(value: list[Any]) -> list[Any]:
    for choice in value:
        if isinstance(choice, (list, dict)):
            raise ValueError(f"a choice must be text, a number, true, false or null, got {choice!r}")
    return value


Number = Annotated[float, Field(allow_inf_nan=False)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
WholeNumber = Annotated[int, BeforeValidator(_integer)]
Count = Annotated[int, Field(ge=0), BeforeValidator(_integer)]
PositiveCount = Annotated[int, Field(ge=1), BeforeValidator(_integer)]
Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "integer"]})]
_ARGV_SCHEMA = {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1}
_STEP_SCHEMA = {
    "type": "object",
    "properties": {"command": _ARGV_SCHEMA, "stdin": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}
CommandLine = Annotated[
    list[StepSection] | str,
    PlainValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                _ARGV_SCHEMA,
                {"type": "array", "items": {"anyOf": [_ARGV_SCHEMA, _STEP_SCHEMA]}, "minItems": 1},
                {"type": "string"},
            ]
        }
    ),
]
Column = Annotated[str | int, PlainValidator(_column), WithJsonSchema({"type": ["string", "integer"]})]
Row = Annotated[int, PlainValidator(_row), WithJsonSchema({"oneOf": [{"const": "last"}, {"type": "integer"}]})]
Cost = Annotated[
    float | str,
    PlainValidator(_cost),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}),
]
Choices = Annotated[list[Any], AfterValidator(_choices)]
Duration = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["number", "string"], "examples": [90, "90 s", "10 min", "8 h"]}),
]


class Section(BaseModel):
    """A mapping with strict types; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RealSection(Section):
    """A real number between two bounds."""

    type: Literal["real"]
    low: Number = Field(description="smallest value")
    high: Number = Field(description="largest value")
    log: bool = Field(default=False, description="search on a logarithmic scale; needs low > 0")


class IntegerSection(Section):
    """A whole number between two bounds, both included."""

    type: Literal["integer"]
    low: WholeNumber = Field(description="smallest value")
    high: WholeNumber = Field(description="largest value")
    log: bool = Field(default=False, description="search on a logarithmic scale; needs low >= 1")


class CategoricalSection(Section):
    """One of a few choices without an order."""

    type: Literal["categorical"]
    choices: Choices = Field(description="at least two choices: text, numbers, true, false or null")


class CatalogueSection(Section):
    """One of many items with numeric descriptors: a CSV file with a row per item, or the items themselves."""

    type: Literal["catalogue"] = "catalogue"
    catalogue: str | dict[Text, dict[str, int | float | None]] = Field(
        description="CSV file with a header, next to the study file; or item: {descriptor: number}",
        examples=["profiles.csv", {"IPE100": {"area": 10.3}, "IPE120": {"area": 13.2}}],
    )
    item: str | None = Field(default=None, description="column of the items' names; the first one by default")
    descriptors: list[str] | None = Field(
        default=None, description="the descriptors to use; by default all columns of numbers", min_length=1
    )
    log: list[str] | None = Field(
        default=None, description="descriptors on a logarithmic scale; decided by their values by default"
    )


def _kind(value: object) -> str | None:
    """The type of a parameter; a catalogue is known by its key."""
    if isinstance(value, dict):
        return value.get("type", "catalogue" if "catalogue" in value else None)
    return getattr(value, "type", None)


AnyParameterSection = RealSection | IntegerSection | CategoricalSection | CatalogueSection
ParameterSection = Annotated[
    Annotated[RealSection, Tag("real")]
    | Annotated[IntegerSection, Tag("integer")]
    | Annotated[CategoricalSection, Tag("categorical")]
    | Annotated[CatalogueSection, Tag("catalogue")],
    Discriminator(_kind),
]


class ResultSection(Section):
    """How to read a number; the value by default from result.json: {"value": 1.2, "cost": 3.4} or {"failed": "why"}.

    result.json may also hold "std", the standard error of the value.
    """

    file: str | None = Field(default=None, description="the result file, in the trial's folder")
    json_path: str | None = Field(
        default=None, alias="json", description="path in a JSON file, such as results.mass[0]"
    )
    column: Column | None = Field(default=None, description="column of a table: a name, or a position from 0")
    row: Row = Field(default=-1, description="row of the table: a position from 0 (without the header), or last")
    delimiter: str = Field(default=",", description="column separator: one character, or space for any whitespace")
    regex: str | None = Field(
        default=None, description="regular expression with a group; without file, it is searched in stdout"
    )
    python: str | None = Field(default=None, description="file.py:function, called with the trial's folder")

    @model_validator(mode="after")
    def _check(self) -> ResultSection:
        rules = {"json": self.json_path, "column": self.column, "regex": self.regex, "python": self.python}
        chosen = [name for name, rule in rules.items() if rule is not None]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} are alternatives; keep one and remove the rest")
        if chosen in (["json"], ["column"]) and self.file is None:
            raise ValueError(f"{chosen[0]} needs a file to read; add file: NAME")
        if chosen == ["python"] and self.file is not None:
            raise ValueError("file is not used with python; remove it")
        if chosen != ["column"] and {"row", "delimiter"} & self.model_fields_set:
            raise ValueError("row and delimiter need a column; add column: NAME")
        if self.delimiter != "space" and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one character, or space, got {self.delimiter!r}")
        return self


class ProgramSection(Section):
    """How to run the program. Top-level keys apply to all fidelities; a fidelity can override them.

    Templates and environment variables of a fidelity are added to those at the top level.
    """

    command: CommandLine | None = Field(
        default=None,
        description="program and arguments, with {name} for values; or several commands, run one after another",
    )
    shell: bool | None = Field(default=None, description="run the command, one line of text, with /bin/sh")
    stdin: str | None = Field(
        default=None,
        description="the program's standard input: a file in the trial's folder, made from a template",
    )
    timeout: Duration | None = Field(
        default=None, description="maximal run time of all commands together: 90, 90 s, 10 min, 8 h"
    )
    grace: Duration = Field(default=5.0, description="time to clean up between SIGTERM and SIGKILL")
    output_limit: Count = Field(
        default=1_000_000, description="bytes kept of the beginning and of the end of each output"
    )
    templates: dict[str, str] = Field(
        default={}, description="file in the trial's folder: Jinja template it is rendered from"
    )
    environment: dict[str, Text] = Field(default={}, description="environment variables, with {name} for values")
    result: ResultSection | None = Field(default=None, description="how to read the value")
    outcomes: dict[str, ResultSection] = Field(
        default={},
        description="how to read outcomes that result.json does not hold: name: {file: ..., regex: ...}; std is the "
        "standard error of the value",
    )


class FidelitySection(ProgramSection):
    """One way to evaluate the objective."""

    name: str = Field(description="name of the fidelity", min_length=1)
    cost: Cost = Field(
        description="cost of one evaluation, in any unit: a number, or an expression of the parameters",
        examples=[1, "1 + 0.01 * cells"],
    )
    inputs: list[str] | None = Field(
        default=None, description="names of the parameters that its values depend on, if it ignores others"
    )


class FailuresSection(Section):
    """What happens when an evaluation fails."""

    retries: Count = Field(default=0, description="maximal number of retries of a failed trial")
    then: Literal["continue", "stop"] = Field(
        default="continue", description="what to do when a trial has failed after all retries"
    )
    model: bool = Field(default=True, description="whether a model of success learns where runs fail, to avoid it")
    timeouts: Literal["count", "ignore"] = Field(
        default="count", description="whether that model counts a run that timed out as a failure of its design"
    )


class StopSection(Section):
    """When to stop before the budget is spent."""

    wall_time: Duration | None = Field(default=None, description="after this time: 90, 90 s, 10 min, 8 h")
    trials: PositiveCount | None = Field(default=None, description="after this number of trials")
    no_improvement: PositiveNumber | None = Field(default=None, description="after this cost without a better value")
    gain_per_cost: PositiveNumber | None = Field(
        default=None, description="when the expected gain per cost of the next query is lower"
    )
    goal: Number | None = Field(default=None, description="when the best value at the target reaches this")
    worth: PositiveNumber | None = Field(
        default=None,
        description="when no design promises more than its run costs: what a unit of the objective is worth, in cost",
    )


@dataclass(frozen=True)
class StrategySection:
    """A strategy by name, with its options."""

    name: str
    options: dict[str, Any]


def _strategy(value: object) -> StrategySection:
    options = dict(value) if isinstance(value, dict) else {"name": value}
    name = options.pop("name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"expected the name of a strategy, or {{name: ..., option: value}}, got {value!r}")
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
    """A fidelium study with an external program."""

    name: str = Field(description="name of the study, unique in its storage", min_length=1)
    cost: Literal["declared", "measured"] = Field(
        default="declared",
        description="which costs count: those of the fidelities, or what runs report or else their seconds; the former "
        "are then a first guess",
    )
    direction: Literal["maximize", "minimize"] = Field(description="whether to find the largest or the smallest value")
    storage: str | None = Field(
        default=None, description="sqlite:///file.db or postgresql+psycopg://user@host/database"
    )
    strategy: Strategy = Field(
        default=DEFAULT,
        validate_default=True,
        description="how to choose what to evaluate: a name, or {name: ..., option: value, ...}",
    )
    seed: Count = Field(default=0, description="random seed")
    budget: PositiveNumber = Field(description="total cost to spend, in the unit of the costs")
    workers: PositiveCount = Field(default=1, description="number of parallel evaluations")
    initial: dict[str, Count] | None = Field(
        default=None, description="number of random points to start with, by fidelity"
    )
    parameters: dict[str, ParameterSection] = Field(description="the parameters by name")
    parameter_constraints: list[str] = Field(
        default=[], description="comparisons that every design must meet, such as inner < outer"
    )
    fidelities: list[FidelitySection] = Field(description="from low to high; the last is the target", min_length=1)
    constraints: list[str] = Field(
        default=[],
        description="limits of outcomes at the target, such as stress <= 150e6 or 10 <= frequency <= 20",
        examples=[["stress <= 150e6", "10 <= frequency <= 20"]],
    )
    failures: FailuresSection = Field(default=FailuresSection(), description="what happens when an evaluation fails")
    stop: StopSection = Field(default=StopSection(), description="when to stop before the budget is spent")
    runs: str = Field(default="runs", description="parent folder of the trials' folders", min_length=1)


def study_schema() -> dict[str, Any]:
    """The JSON schema of study.yaml, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **StudySection.model_json_schema()}
