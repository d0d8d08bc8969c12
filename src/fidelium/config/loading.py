"""From a study's file to what it means: every mistake is found here, before anything is run."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from fidelium.config import model
from fidelium.config.glancing import storage_url
from fidelium.config.mistakes import first_mistake
from fidelium.config.nodes import Document, read_document
from fidelium.config.programs import program_of
from fidelium.config.study_file import Failures, StudyFile
from fidelium.errors import FideliumError, UnknownNameError
from fidelium.execution.values import check_parameters
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.space import Categorical, Integer, Parameter, Real, SearchSpace
from fidelium.study import Stop, create_study


def load(path: Path | str) -> StudyFile:
    """The study that a YAML file describes. Relative paths in it are meant from the file's folder.

    Raises:
        ConfigError: for the first mistake, with file, line and key.
    """
    document = read_document(Path(path))
    section = _section(document)
    space = _space(document, section)
    ladder = _ladder(document, section)
    file = StudyFile(
        name=section.name,
        space=space,
        ladder=ladder,
        direction=Direction.of(section.direction),
        strategy=section.strategy,
        seed=section.seed,
        initial=section.initial,
        storage=storage_url(document, section.name, section.storage),
        budget=section.budget,
        workers=section.workers,
        failures=Failures(section.failures.retries, section.failures.then == "stop"),
        stop=Stop(**section.stop.model_dump()),
        program=program_of(document, section, space.names),
        document=document,
    )
    _check(file)
    return file


def _section(document: Document) -> model.StudySection:
    data = document.data
    if not isinstance(data, dict):
        raise document.mistake((), "expected keys such as name, parameters and fidelities")
    try:
        return model.StudySection.model_validate(data)
    except ValidationError as error:
        raise first_mistake(error, document) from None


def _space(document: Document, section: model.StudySection) -> SearchSpace:
    parameters: dict[str, Parameter] = {}
    for name, parameter in section.parameters.items():
        with document.blamed("parameters", name):
            check_parameters([name])
            parameters[name] = _parameter(parameter)
    with document.blamed("parameters"):
        return SearchSpace(parameters)


def _parameter(section: model.RealSection | model.IntegerSection | model.CategoricalSection) -> Parameter:
    match section:
        case model.RealSection():
            return Real(section.low, section.high, section.log)
        case model.IntegerSection():
            return Integer(section.low, section.high, section.log)
        case model.CategoricalSection():
            return Categorical(tuple(section.choices))


def _ladder(document: Document, section: model.StudySection) -> FidelityLadder:
    """The fidelities; a mistake is that of the first one that does not go with those before it."""
    rungs: tuple[Fidelity, ...] = ()
    for position, fidelity in enumerate(section.fidelities):
        with document.blamed("fidelities", position):
            rungs = FidelityLadder((*rungs, Fidelity(fidelity.name, fidelity.cost))).fidelities
    return FidelityLadder(rungs)


def _check(file: StudyFile) -> None:
    """What only a study knows: strategies, sizes of the initial design, and whether the budget buys anything."""
    try:
        create_study(
            file.space,
            file.ladder,
            direction=file.direction,
            strategy=file.strategy,
            seed=file.seed,
            initial=file.initial,
        )
    except UnknownNameError as error:
        raise file.mistake("strategy", error) from None
    except FideliumError as error:
        raise file.mistake("initial", error) from None
    cheapest = file.ladder.costs[0]
    if file.budget < cheapest:
        raise file.mistake("budget", f"{file.budget:g} buys nothing: the cheapest query costs {cheapest:g}")
