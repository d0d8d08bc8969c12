"""What a study's file may say: its keys, their kinds and defaults. The descriptions are those of the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fidelium.config.kinds import (
    Choices,
    Column,
    CommandLine,
    Count,
    Duration,
    Number,
    PositiveCount,
    PositiveNumber,
    Row,
    Section,
    Text,
    Whole,
)


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


class StudySection(ProgramSection):
    """A study of fidelium with an external program."""

    name: str = Field(description="what the study is called, unique in its storage", min_length=1)
    direction: Literal["maximize", "minimize"] = Field(description="whether large or small values are wanted")
    storage: str | None = Field(
        default=None, description="sqlite:///file.db or postgresql+psycopg://user@host/database"
    )
    strategy: str = Field(
        default="dnn-mfbo", description="how to choose what to evaluate; fidelium strategies lists them"
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


def schema() -> dict[str, Any]:
    """The JSON schema of a study's file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **StudySection.model_json_schema()}
