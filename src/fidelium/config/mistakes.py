"""What is wrong with a study's file, said in one sentence with file, line and key."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fidelium.config import model
from fidelium.config.kinds import Section
from fidelium.config.nodes import Document, Place
from fidelium.errors import ConfigError

_EXPECTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "string_too_short": "a text that is not empty",
    "too_short": "a list that is not empty",
}
_SECTIONS: dict[str, type[Section]] = {
    "fidelities": model.FidelitySection,
    "result": model.ResultSection,
    "failures": model.FailuresSection,
    "stop": model.StopSection,
    "real": model.RealSection,
    "integer": model.IntegerSection,
    "categorical": model.CategoricalSection,
}


def first_mistake(error: ValidationError, document: Document) -> ConfigError:
    """The mistake that stands first in the file; an unknown key before all, since another is missing because of it."""
    details = min(
        error.errors(),
        key=lambda one: (one["type"] != "extra_forbidden", document.line(_place(one)), one["type"] == "missing"),
    )
    return document.mistake(_place(details), _sentence(details))


def _place(details: ErrorDetails) -> Place:
    """Where pydantic found it, without the kind of parameter that pydantic adds."""
    place = details["loc"]
    return (*place[:2], *place[3:]) if place[:1] == ("parameters",) else place


def _sentence(details: ErrorDetails) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    special: dict[str, Callable[[], str]] = {
        "missing": lambda: f"is missing; add it{_like(details['loc'])}",
        "extra_forbidden": lambda: _unknown(details["loc"]),
        "literal_error": lambda: f"expected {context['expected']}, got {given!r}",
        "union_tag_not_found": lambda: "type is missing; add type: real, type: integer or type: categorical",
        "union_tag_invalid": lambda: f"expected type real, integer or categorical, got {context['tag']!r}",
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
        return "; write it between quotes"
    return "; remove the quotes" if kind in ("float_type", "int_type") and _is_number(given) else ""


def _is_number(given: Any) -> bool:
    try:
        return isinstance(given, str) and float(given) is not None
    except ValueError:
        return False


def _like(place: Place) -> str:
    """An example of a key that is missing."""
    examples = {"direction": "maximize", "budget": "200", "cost": "1", "low": "0", "high": "1", "name": "plate"}
    key = str(place[-1])
    return f", for instance {key}: {examples[key]}" if key in examples else ""


def _unknown(place: Place) -> str:
    """An unknown key, with the nearest of those that may stand there."""
    section = next((_SECTIONS[part] for part in reversed(place[:-1]) if part in _SECTIONS), model.StudySection)
    known = [field.alias or name for name, field in section.model_fields.items()]
    near = get_close_matches(str(place[-1]), known, 1)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; known are {', '.join(known)}"
