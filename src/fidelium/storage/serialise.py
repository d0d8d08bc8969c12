"""Definitions and parameters as text: what a storage stores exactly, and what it refuses or trims.

Everything structured is JSON in ASCII: any text survives in any database and encoding, numbers come back as the same
bits and the same type, and `True`, `1` and `1.0` stay distinct.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fidelium.catalogue import Catalogue
from fidelium.constraints import OutcomeConstraint
from fidelium.costs.declared import StoredCost, formula_text
from fidelium.definition import DECLARED, StudyDefinition
from fidelium.errors import FideliumError, StorageError, UnknownNameError
from fidelium.fidelity import Fidelity, FidelityLadder
from fidelium.history import Direction
from fidelium.space import Categorical, Integer, Parameter, Params, Real, SearchSpace
from fidelium.strategies import registry

LONGEST_NAME = 255
"""Characters of the name of a study or a worker."""

LONGEST_REASON = 10_000
"""Characters of a reason; a longer one keeps its head and, as errors end with what matters, more of its tail."""

_HEAD = LONGEST_REASON // 4

_LISTED = 20
"""Most names that an error lists."""


def checked_name(name: str, what: str = "a study's name") -> str:
    """The name, if it can be stored.

    Raises:
        StorageError: if it is blank, too long, or contains characters that databases refuse.
    """
    if not isinstance(name, str) or not name.strip():
        raise StorageError(f"{what} must be a string that is not blank, got {name!r}")
    if len(name) > LONGEST_NAME:
        raise StorageError(f"{what} has at most {LONGEST_NAME} characters, got {len(name)}: {name[:40]!r}...")
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise StorageError(f"{what} must not contain NUL or a lone surrogate, got {name!r}")
    return name


def unknown_study(name: object, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that no study has."""
    names = [repr(each) for each in known]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    return UnknownNameError(
        f"there is no study {str(name)[:LONGEST_NAME]!r} in this storage; it has {listed or 'none'}"
    )


def bounded_reason(reason: str | None) -> str | None:
    """A reason as any database accepts it: NUL and lone surrogates escaped, the middle of a long one cut."""
    if reason is None:
        return None
    if len(reason) > LONGEST_REASON:
        cut = len(reason) - LONGEST_REASON
        reason = f"{reason[:_HEAD]}\n[... {cut} characters cut ...]\n{reason[_HEAD + cut :]}"
    return reason.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def params_text(params: Mapping[str, Any]) -> str:
    """The values of a trial's parameters as JSON.

    Raises:
        StorageError: if a value is not a string, number, boolean or None.
    """
    return _exact_json({name: _checked_choice(name, value) for name, value in params.items()})


def params_of(text: str) -> Params:
    """The inverse of `params_text`."""
    return json.loads(text)


def outcomes_text(outcomes: Mapping[str, float]) -> str | None:
    """The outcomes of a trial as JSON; None if there are none."""
    return _exact_json({name: float(value) for name, value in outcomes.items()}) if outcomes else None


def outcomes_of(text: str | None) -> dict[str, float]:
    """The inverse of `outcomes_text`."""
    return {} if text is None else json.loads(text)


def tags_text(tags: Sequence[str]) -> str | None:
    """The labels of a trial as JSON; None if there are none."""
    return json.dumps(list(tags)) if tags else None


def tags_of(text: str | None) -> tuple[str, ...]:
    """The inverse of `tags_text`.

    Raises:
        ValueError: if it is not a list of texts.
    """
    found = [] if text is None else json.loads(text)
    if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
        raise ValueError(f"expected a list of texts, got {text!r}")
    return tuple(found)


def definition_text(definition: StudyDefinition) -> str:
    """Everything of a study's definition but its name, as JSON: equal texts mean equal studies.

    Raises:
        StorageError: if a parameter or a choice cannot be stored.
    """
    return _exact_json(
        {
            "parameters": [[name, _described(name, each)] for name, each in definition.space.parameters.items()],
            "fidelities": [[rung.name, _stored_cost(rung)] for rung in definition.ladder],
            "direction": str(definition.direction),
            "strategy": definition.strategy_name,
            "seed": int(definition.seed),
            "initial": {name: int(count) for name, count in definition.initial.items()},
            **_inputs(definition.ladder),
            **_options(definition.strategy_options),
            **({"parameter_constraints": list(definition.space.constraints)} if definition.space.constraints else {}),
            **({"default_initial": True} if definition.default_initial else {}),
            **({"limits": dict(definition.limits)} if definition.limits else {}),
            **({"constraints": [_limits(each) for each in definition.constraints]} if definition.constraints else {}),
            **({} if definition.failures_teach else {"failures_teach": False}),
            **({} if definition.timeouts_teach else {"timeouts_teach": False}),
            **({"cost": definition.cost} if definition.measures_costs else {}),
        }
    )


def definition_of(name: str, text: str) -> StudyDefinition:
    """The inverse of `definition_text`; choices come back as a tuple, an unknown strategy as a `StoredStrategy`."""
    fields = json.loads(text)
    strategy, options = _strategy(fields["strategy"], fields.get("strategy_options", {}))
    parameters = {key: _parameter(each) for key, each in fields["parameters"]}
    space = SearchSpace(parameters, tuple(fields.get("parameter_constraints", ())))
    inputs = fields.get("inputs", {})
    rungs = tuple(Fidelity(key, _cost(cost), inputs.get(key)) for key, cost in fields["fidelities"])
    return StudyDefinition(
        space=space,
        ladder=FidelityLadder(rungs).priced(space),
        direction=Direction(fields["direction"]),
        strategy=strategy,
        strategy_options=options,
        seed=fields["seed"],
        initial=fields["initial"],
        name=name,
        default_initial=fields.get("default_initial", False),
        limits={str(key): float(limit) for key, limit in dict(fields.get("limits", {})).items()},
        constraints=tuple(
            OutcomeConstraint(str(each), *_bounds(lower, upper)) for each, lower, upper in fields.get("constraints", ())
        ),
        failures_teach=bool(fields.get("failures_teach", True)),
        timeouts_teach=bool(fields.get("timeouts_teach", True)),
        cost=str(fields.get("cost", DECLARED)),
    )


def _inputs(ladder: FidelityLadder) -> dict[str, Any]:
    """The inputs of fidelities that ignore parameters, by name, if there are any."""
    found = {rung.name: list(rung.inputs) for rung in ladder if rung.inputs is not None}
    return {"inputs": found} if found else {}


def _stored_cost(rung: Fidelity) -> Any:
    """The declared cost: a number, an expression, or a function's name and typical value."""
    if isinstance(rung.cost, (int, float, str)):
        return rung.cost
    return {"function": formula_text(rung.cost), "typical": rung.typical_cost}


def _cost(stored: Any) -> Any:
    return StoredCost(str(stored["function"]), float(stored["typical"])) if isinstance(stored, dict) else stored


def _limits(constraint: OutcomeConstraint) -> list[Any]:
    """The outcome's name, its lower and its upper limit, None where there is none."""
    finite = [None if math.isinf(limit) else float(limit) for limit in (constraint.lower, constraint.upper)]
    return [constraint.name, *finite]


def _bounds(lower: float | None, upper: float | None) -> tuple[float, float]:
    return -math.inf if lower is None else float(lower), math.inf if upper is None else float(upper)


def _strategy(name: str, options: dict[str, Any]) -> tuple[str | registry.StoredStrategy, dict[str, Any]]:
    """A strategy that this version knows, with its options; any other (an object's, a newer version's) as text."""
    try:
        registry.check(name, options)
    except FideliumError:
        return registry.StoredStrategy(f"{name} with {options}" if options else name), {}
    return name, options


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the strategy, if there are any: without them the text is that of versions that knew none."""
    try:
        return {"strategy_options": json.loads(json.dumps(dict(options), allow_nan=False))} if options else {}
    except (TypeError, ValueError) as error:
        raise StorageError(f"strategy_options must be plain JSON values to be stored: {error}") from None


def _described(name: str, parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter, Categorical):
        return {"kind": "categorical", "choices": [_checked_choice(name, choice) for choice in parameter.choices]}
    if isinstance(parameter, Catalogue):
        items = [[item, *descriptors.values()] for item, descriptors in parameter.table.items()]
        scales = {} if parameter.log is None else {"log": [str(each) for each in parameter.log]}
        return {"kind": "catalogue", "descriptors": list(parameter.descriptors), "items": items, **scales}
    if isinstance(parameter, Real | Integer):
        kind = "real" if isinstance(parameter, Real) else "integer"
        return {"kind": kind, "low": _plain(parameter.low), "high": _plain(parameter.high), "log": bool(parameter.log)}
    raise StorageError(
        f"parameter {name!r} must be Real, Integer, Categorical or Catalogue to be stored, got {parameter!r}"
    )


def _parameter(fields: Mapping[str, Any]) -> Parameter:
    if fields["kind"] == "categorical":
        return Categorical(tuple(fields["choices"]))
    if fields["kind"] == "catalogue":
        names = fields["descriptors"]
        items = {item: dict(zip(names, values, strict=True)) for item, *values in fields["items"]}
        return Catalogue(items, fields.get("log"))
    kind = Real if fields["kind"] == "real" else Integer
    return kind(fields["low"], fields["high"], fields["log"])


def _plain(bound: Any) -> float | int:
    return bound.item() if isinstance(bound, np.generic) else bound


def _checked_choice(name: str, value: Any) -> Any:
    """The value, if JSON preserves it: only these exact types, since a subclass would come back as its base."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise StorageError(
        f"parameter {name!r}: a database stores strings, numbers, booleans and None, got {value!r} of type "
        f"{type(value).__name__}; use a string for it and look the object up in the objective"
    )


def _exact_json(data: dict[str, Any]) -> str:
    try:
        text = json.dumps(data)
    except ValueError as error:  # an integer with thousands of digits
        raise StorageError(f"a value is too large to be stored: {error}") from None
    if json.loads(text) != data:
        raise StorageError("a string contains two surrogates that would come back joined; use plain text")
    return text
