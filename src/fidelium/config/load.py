"""Loading a study file: every error in it is found here, before anything is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

import fidelium.config.schema as schema
from fidelium.catalogue import Catalogue
from fidelium.config.peek import storage_url
from fidelium.config.programs import program_of
from fidelium.config.schema import Section
from fidelium.config.yaml_document import Document, KeyPath, read_document
from fidelium.constraints import outcome_constraints
from fidelium.definition import StudyDefinition, checked_budget
from fidelium.errors import ConfigError, FideliumError, SpaceError
from fidelium.execution.program import ExternalProgram
from fidelium.execution.python_function import PythonFunction
from fidelium.execution.result_rules import ResultFile
from fidelium.execution.substitution import check_parameter_names
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.space import Categorical, Integer, Parameter, Real, SearchSpace
from fidelium.study.stopping import Stop


@dataclass(frozen=True)
class Failures:
    """What happens when an evaluation fails.

    Args:
        retries: how many times a failed trial is retried.
        stops: whether the study stops if all retries fail; it continues otherwise.
    """

    retries: int = 0
    stops: bool = False


@dataclass(frozen=True)
class StudyFile:
    """Everything a study file says, with absolute paths.

    Args:
        definition: what the study is made from.
        storage: URL of the storage.
        budget: what the study may spend in total.
        workers: evaluations at the same time.
        failures: what happens when an evaluation fails.
        stop: when to stop before the budget is spent.
        program: evaluates the trials.
        document: the file with its lines.

    Raises:
        BudgetError: if the budget is not a positive finite number, or below the cost of the cheapest run.
    """

    definition: StudyDefinition
    storage: str
    budget: float
    workers: int
    failures: Failures
    stop: Stop
    program: ExternalProgram
    document: Document

    def __post_init__(self) -> None:
        checked_budget(self.definition.ladder, self.budget)

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.document.path


MOST_ERRORS = 1000
"""Errors of a file that are compared at most, to find the first one."""

_EXPECTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "string_too_short": "a string that is not empty",
    "too_short": "a list that is not empty",
}
_SECTIONS: dict[str, type[Section]] = {
    "fidelities": schema.FidelitySection,
    "result": schema.ResultSection,
    "outcomes": schema.ResultSection,
    "failures": schema.FailuresSection,
    "stop": schema.StopSection,
    "real": schema.RealSection,
    "integer": schema.IntegerSection,
    "categorical": schema.CategoricalSection,
    "catalogue": schema.CatalogueSection,
}


def first_error(error: ValidationError, document: Document) -> ConfigError:
    """The first error in the file; unknown keys come first, since they are often why another key is missing."""
    details = min(
        error.errors()[:MOST_ERRORS],
        key=lambda one: (one["type"] != "extra_forbidden", document.line(_key_path(one)), one["type"] == "missing"),
    )
    return document.error_at(_key_path(details), _message(details))


def _key_path(details: ErrorDetails) -> KeyPath:
    """Where pydantic found the error, without the type of parameter that pydantic adds."""
    place = details["loc"]
    return (*place[:2], *place[3:]) if place[:1] == ("parameters",) else place


def _message(details: ErrorDetails) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    special: dict[str, Callable[[], str]] = {
        "missing": lambda: f"is missing; add it{_example(details['loc'])}",
        "extra_forbidden": lambda: _unknown(details["loc"]),
        "literal_error": lambda: f"expected {context['expected']}, got {given!r}",
        "union_tag_not_found": lambda: (
            "type is missing; add type: real, type: integer or type: categorical, or catalogue: FILE.csv"
        ),
        "union_tag_invalid": lambda: f"expected type real, integer, categorical or catalogue, got {context['tag']!r}",
        "greater_than": lambda: f"must be above {context['gt']:g}, got {given!r}",
        "greater_than_equal": lambda: f"must be at least {context['ge']:g}, got {given!r}",
        "value_error": lambda: str(context["error"]),
    }
    if kind in special:
        return special[kind]()
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {given!r}{_advice(kind, given)}"
    return f"{details['msg']}, got {given!r}"


def _advice(kind: str, given: Any) -> str:
    if kind == "string_type" and not isinstance(given, (list, dict)) and given is not None:
        return "; put it in quotes"
    return "; remove the quotes" if kind in ("float_type", "int_type") and _is_number(given) else ""


def _is_number(given: Any) -> bool:
    try:
        return isinstance(given, str) and float(given) is not None
    except ValueError:
        return False


def _example(place: KeyPath) -> str:
    """An example for a missing key."""
    examples = {"direction": "maximize", "budget": "200", "cost": "1", "low": "0", "high": "1", "name": "plate"}
    key = str(place[-1])
    return f", for instance {key}: {examples[key]}" if key in examples else ""


def _unknown(place: KeyPath) -> str:
    """An unknown key, with the most similar known one."""
    section = next((_SECTIONS[part] for part in reversed(place[:-1]) if part in _SECTIONS), schema.StudySection)
    known = [field.alias or name for name, field in section.model_fields.items()]
    near = get_close_matches(str(place[-1]), known, 1)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; known are {', '.join(known)}"


def load_study_file(path: Path | str) -> StudyFile:
    """The study that a YAML file describes. Relative paths in it start at the file's folder.

    Raises:
        ConfigError: for the first error, with file, line and key.
    """
    document = read_document(Path(path))
    section = _section(document)
    definition = _definition(document, section)
    storage = storage_url(document, section.name, section.storage)
    program = program_of(document, section, definition.space, storage)
    _check_outcomes_are_read(document, definition, program)
    with document.errors_at("budget"):
        return StudyFile(
            replace(definition, limits={"budget": section.budget, **_timeouts(program)}),
            storage=storage,
            budget=section.budget,
            workers=section.workers,
            failures=Failures(section.failures.retries, section.failures.then == "stop"),
            stop=Stop(**section.stop.model_dump()),
            program=program,
            document=document,
        )


def _check_outcomes_are_read(document: Document, definition: StudyDefinition, program: ExternalProgram) -> None:
    """Refuse a constraint on an outcome that no rule can find: every run would fail.

    Raises:
        ConfigError: for the first one.
    """
    for limit in definition.constraints:
        for fidelity, command in program.commands.items():
            if limit.name not in command.outcomes and not isinstance(command.result, (ResultFile, PythonFunction)):
                raise document.error_at(
                    ("constraints",),
                    f"nothing reads the outcome {limit.name!r} at {fidelity!r}, where result gives only the value; add "
                    f"outcomes: {{{limit.name}: {{file: ..., regex: ...}}}}",
                )


def _timeouts(program: ExternalProgram) -> dict[str, float]:
    timeouts = {name: command.timeout for name, command in program.commands.items()}
    return {f"timeout of {name}": timeout for name, timeout in timeouts.items() if timeout is not None}


def _section(document: Document) -> schema.StudySection:
    data = document.data
    if not isinstance(data, dict):
        raise document.error_at((), "expected keys such as name, parameters and fidelities")
    try:
        return schema.StudySection.model_validate(data)
    except ValidationError as error:
        raise first_error(error, document) from None


def _space(document: Document, section: schema.StudySection) -> SearchSpace:
    parameters: dict[str, Parameter] = {}
    for name, parameter in section.parameters.items():
        with document.errors_at("parameters", name):
            check_parameter_names([name])
            parameters[name] = _parameter(parameter, document.path.absolute().parent)
    with document.errors_at("parameters"):
        space = SearchSpace(parameters)
    for position, text in enumerate(section.parameter_constraints):
        with document.errors_at("parameter_constraints", position):
            space.parse(text)
    with document.errors_at("parameter_constraints"):
        return SearchSpace(parameters, tuple(section.parameter_constraints))


def _parameter(section: schema.AnyParameterSection, here: Path) -> Parameter:
    match section:
        case schema.CatalogueSection():
            return _catalogue(section, here)
        case schema.RealSection():
            return Real(section.low, section.high, section.log)
        case schema.IntegerSection():
            return Integer(section.low, section.high, section.log)
        case schema.CategoricalSection():
            return Categorical(tuple(section.choices))


def _catalogue(section: schema.CatalogueSection, here: Path) -> Catalogue:
    """A catalogue from a file, whose path starts at the folder of the study file, or from the study file itself."""
    if isinstance(section.catalogue, str):
        return Catalogue.from_csv(here / section.catalogue, section.item, section.descriptors, section.log)
    if section.item is not None:
        raise SpaceError("item names a column of a CSV file; remove it, the items have their names here")
    items = {
        item: own if section.descriptors is None else {each: own.get(each) for each in section.descriptors}
        for item, own in section.catalogue.items()
    }
    return Catalogue(items, section.log)  # type: ignore[arg-type]  # None, a missing descriptor, is refused there


def _ladder(document: Document, section: schema.StudySection, space: SearchSpace) -> FidelityLadder:
    """The fidelities; an error is reported for the first one that does not fit those before it."""
    rungs: tuple[Fidelity, ...] = ()
    for position, fidelity in enumerate(section.fidelities):
        with document.errors_at("fidelities", position):
            inputs = None if fidelity.inputs is None else tuple(fidelity.inputs)
            new = Fidelity(fidelity.name, fidelity.cost, inputs)
            rungs = FidelityLadder((*rungs, new)).priced(space).fidelities
    return FidelityLadder(rungs)


def _definition(document: Document, section: schema.StudySection) -> StudyDefinition:
    """What the study is made from; an error is reported for the key that causes it."""
    space = _space(document, section)
    ladder = _ladder(document, section, space)
    for position in range(len(section.constraints)):
        with document.errors_at("constraints", position):
            outcome_constraints(section.constraints[: position + 1], space.names)
    try:
        definition = StudyDefinition.of(
            space,
            ladder,
            section.direction,
            strategy=section.strategy.name,
            strategy_options=section.strategy.options,
            seed=section.seed,
            initial=section.initial,
            name=section.name,
            constraints=section.constraints,
            failures_teach=section.failures.model,
            cost=section.cost,
        )
        return replace(definition, timeouts_teach=section.failures.timeouts == "count")
    except FideliumError as error:
        raise document.error_at((error.setting or "name",), str(error)) from None
